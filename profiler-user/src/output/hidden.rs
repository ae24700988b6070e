//! Outputs that are worthless unless complete: a hidden temporary file in the same directory, gone when dropped.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use super::OutputError;

/// Creates `.wholestack.XXXXXX.tmp`, which is also the proof that the directory takes new files.
pub(super) fn create(path: &Path, directory: PathBuf) -> Result<(TempPath, File), OutputError> {
    // tempfile's own error would name a file that the user never heard of.
    let mut code = None;
    let created = tempfile::Builder::new()
        .prefix(".wholestack.")
        .suffix(".tmp")
        .make_in(&directory, |name| {
            let mut options = File::options();
            options.write(true).create_new(true).mode(0o666);
            options
                .open(name)
                .inspect_err(|error| code = error.raw_os_error())
        });
    match created {
        Ok(file) => {
            let (file, hidden) = file.into_parts();
            Ok((hidden, file))
        }
        Err(error) => Err(OutputError::NotCreated {
            path: path.into(),
            directory,
            cause: code.map_or(error, io::Error::from_raw_os_error),
        }),
    }
}
