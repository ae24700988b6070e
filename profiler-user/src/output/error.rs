//! Why an output cannot be written: each text names the file and what to do about it, and stands alone.

use std::io;
use std::path::PathBuf;

/// An output file that cannot be had, or could not be written to its end.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The path ends in no file name.
    #[error("cannot write {}: that is not the name of a file", path.display())]
    NoName {
        /// As given.
        path: PathBuf,
    },
    /// A directory is there.
    #[error("cannot write {}: that is a directory; name a file in it", path.display())]
    Directory {
        /// As given.
        path: PathBuf,
    },
    /// A block device is there.
    #[error("cannot write {}: that is a block device, and would be overwritten", path.display())]
    BlockDevice {
        /// As given.
        path: PathBuf,
    },
    /// The directory is missing.
    #[error("cannot write {}: there is no directory {}; create it first", path.display(), directory.display())]
    NoDirectory {
        /// As given.
        path: PathBuf,
        /// What is missing.
        directory: PathBuf,
    },
    /// The directory takes no new file.
    #[error(
        "cannot write {}: no file can be created in {}: {cause}; choose another place with -o",
        path.display(),
        directory.display()
    )]
    NotCreated {
        /// As given.
        path: PathBuf,
        /// Where.
        directory: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Another user's file is there, and the directory lets only its owner replace it.
    #[error("cannot write {}: a file of another user is there; choose another name with -o", path.display())]
    Foreign {
        /// As given.
        path: PathBuf,
    },
    /// What is there does not open for writing.
    #[error("cannot write {}: {cause}", path.display())]
    NotOpened {
        /// As given.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Many unfinished recordings lie beside it.
    #[error(
        "cannot write {}: {limit} unfinished recordings lie beside it, {}.partial and further ones; \
         look at them with `wholestack report` and remove them",
        path.display(),
        path.display()
    )]
    Unfinished {
        /// As given.
        path: PathBuf,
        /// How many there may be.
        limit: usize,
    },
    /// Writing failed under way. A file that was under this name before is as it was.
    #[error("cannot write {}: {cause}", path.display())]
    Write {
        /// As given.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Writing a recording failed under way. A file that was under this name before is as it was.
    #[error(
        "cannot write {}: {cause}; what was recorded until then is in {}",
        path.display(),
        partial.display()
    )]
    WritePartial {
        /// As given.
        path: PathBuf,
        /// What is left of the recording.
        partial: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}
