//! What can go wrong with a recording. Texts stand alone: nothing has to be added from a source error.

use std::io;
use std::path::PathBuf;

/// Why a recording could not be written or read.
///
/// Reading fails only when nothing can be shown. A file that is cut or damaged after its session is read
/// up to there, and says so in the profile's notes and books.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// Other bytes than a recording's stand at the beginning.
    #[error("not a wholestack recording")]
    NotARecording,
    /// Written by a later wholestack.
    #[error(
        "the recording has format version {found}, and this wholestack reads up to version {supported}: \
         use the wholestack that wrote it, or a later one"
    )]
    NewerVersion {
        /// Version in the file.
        found: u32,
        /// Latest version that is understood.
        supported: u32,
    },
    /// The bytes are not what the format says, before anything could be read.
    #[error("the recording is damaged at byte {offset}: {what}")]
    Corrupt {
        /// Where the unreadable chunk begins.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The file ends before its session.
    #[error("the recording ends at byte {offset}, before anything that could be shown")]
    Cut {
        /// Where the file stops being whole.
        offset: u64,
    },
    /// The profile is larger than the format takes.
    #[error("the recording cannot take {found} {what}: the format's limit is {limit}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much there is.
        found: u64,
        /// How much there may be.
        limit: u64,
    },
    /// A sample handed to the writer names something that the profile does not have.
    #[error("a sample names {what} {id}, which the profile does not have")]
    Dangling {
        /// What it names.
        what: &'static str,
        /// By which id.
        id: u32,
    },
    /// A write failed before: the file ends in half a chunk, and more would not be readable.
    #[error("nothing more can be recorded after a failed write")]
    Failed,
    /// What went wrong, with the file it went wrong in.
    #[error("{}: {error}", path.display())]
    InFile {
        /// Which file.
        path: PathBuf,
        /// What went wrong.
        error: Box<RecordingError>,
    },
    /// The file could not be opened.
    #[error("cannot open {}: {cause}", path.display())]
    Open {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The bytes could not be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}
