//! Recordings under way: `NAME.partial` beside `NAME`, so that a killed recorder leaves its data under a name
//! that is found, and an older recording stays as it was until the new one is complete.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::OutputError;
use super::target::directory_of;

/// Unfinished recordings kept beside one name; none is ever overwritten.
const LIMIT: usize = 20;

/// The names an unfinished recording of `path` may have: `PATH.partial`, `PATH.partial.2` and so on.
fn names(path: &Path) -> impl Iterator<Item = PathBuf> {
    (1..=LIMIT).map(move |number| {
        let mut name = OsString::from(path);
        name.push(".partial");
        if number > 1 {
            name.push(format!(".{number}"));
        }
        name.into()
    })
}

/// The unfinished recordings that lie beside `path`.
pub fn partials(path: &Path) -> impl Iterator<Item = PathBuf> {
    names(path).filter(|name| name.is_file())
}

/// Creates the first of them that is free: neither what an earlier kill left is overwritten, nor what another
/// recorder is writing, nor a link followed that someone placed there.
pub(super) fn create(path: &Path) -> Result<(PathBuf, File), OutputError> {
    for name in names(path) {
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o666);
        match options.open(&name) {
            Ok(file) => return Ok((name, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
            Err(cause) => {
                let (path, directory) = (path.into(), directory_of(path));
                return Err(OutputError::NotCreated {
                    path,
                    directory,
                    cause,
                });
            }
        }
    }
    let path = path.into();
    Err(OutputError::Unfinished { path, limit: LIMIT })
}
