//! What can go wrong while a profile is written.

use std::io;
use std::path::PathBuf;

/// Why a profile could not be written, or a written name not be read back.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file's name does not say a format that is known.
    #[error("{path}: no format is known for this name; expected one ending in {supported}")]
    UnknownExtension {
        /// The file asked for.
        path: PathBuf,
        /// The endings there are.
        supported: String,
    },
    /// The output did not take the bytes.
    #[error("writing failed")]
    Write(#[from] io::Error),
    /// The report could not be turned into JSON.
    #[error("writing the report as JSON failed")]
    Json(#[from] serde_json::Error),
    /// A name in a folded file is not one that was escaped.
    #[error("{name:?}: expected `\\\\` or `\\u{{HEX}}` at byte {at}")]
    Escape {
        /// The name as it stands in the file.
        name: String,
        /// Where the backslash is that begins no escape.
        at: usize,
    },
}
