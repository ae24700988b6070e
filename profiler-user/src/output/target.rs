//! What a path given with `-o` stands for, decided before recording starts.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::OutputError;

/// Symbolic links followed while looking for one into /proc.
const MAX_LINKS: usize = 40;

/// Where the bytes go.
#[derive(Debug)]
pub(super) enum Target {
    /// Straight into something that is no file of its own: a device, a pipe, our own stdout.
    Open(File),
    /// Into a new file in this directory, renamed when it is complete.
    New { directory: PathBuf },
}

/// Finds out what `path` stands for, and refuses what cannot be written. A symbolic link to a file, or to
/// nothing, is replaced and not followed: as root, following one that another user placed would overwrite any file.
pub(super) fn examine(path: &Path) -> Result<Target, OutputError> {
    let descriptor = || names_descriptor(path).then(|| open(path));
    if let Some(open) = own_stream(path).or_else(descriptor) {
        let open = open.map_err(|cause| not_opened(path, cause))?;
        return Ok(Target::Open(open));
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(OutputError::Directory { path: path.into() }),
        Ok(found) if found.file_type().is_block_device() => {
            return Err(OutputError::BlockDevice { path: path.into() });
        }
        Ok(found) if !found.is_file() => {
            let open = open_stream(path).map_err(|cause| not_opened(path, cause))?;
            return Ok(Target::Open(open));
        }
        Ok(_) => (),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (),
        Err(cause) => return Err(not_opened(path, cause)),
    }
    let named = !path.as_os_str().as_bytes().ends_with(b"/");
    if !named || path.file_name().is_none() {
        return Err(OutputError::NoName { path: path.into() });
    }
    let directory = directory_of(path);
    let found = fs::metadata(&directory).ok().filter(Metadata::is_dir);
    let Some(found) = found else {
        let path = path.into();
        return Err(OutputError::NoDirectory { path, directory });
    };
    if let Ok(old) = fs::symlink_metadata(path)
        && !replaceable(&old, &found)
    {
        return Err(OutputError::Foreign { path: path.into() });
    }
    Ok(Target::New { directory })
}

/// Where a file of that path lies.
pub(super) fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn not_opened(path: &Path, cause: io::Error) -> OutputError {
    let path = path.into();
    OutputError::NotOpened { path, cause }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().write(true).open(path)
}

/// Opens a device or pipe, and makes sure that it still is one: the name may have changed its meaning.
fn open_stream(path: &Path) -> io::Result<File> {
    let file = open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_block_device() {
        return Err(io::Error::other("it was replaced while being opened"));
    }
    Ok(file)
}

/// Our own stdout and stderr, shared and not opened anew: that would begin at the start of a file, and fails
/// for a socket.
fn own_stream(path: &Path) -> Option<io::Result<File>> {
    let fd = match path.to_str()? {
        "/dev/stdout" => io::stdout().as_fd().try_clone_to_owned(),
        "/dev/stderr" => io::stderr().as_fd().try_clone_to_owned(),
        _ => return None,
    };
    Some(fd.map(File::from))
}

/// Whether the path, or a symbolic link behind it, names an open descriptor in /proc, as `/dev/fd/3` does: such
/// a name cannot be replaced, even where a plain file is behind it.
fn names_descriptor(path: &Path) -> bool {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let directory = directory_of(&path);
        let in_proc = rustix::fs::statfs(&directory)
            .is_ok_and(|system| system.f_type == rustix::fs::PROC_SUPER_MAGIC);
        if in_proc && directory.ends_with("fd") {
            return true;
        }
        match fs::read_link(&path) {
            Ok(target) => path = directory.join(target),
            Err(_) => return false,
        }
    }
    false
}

/// Whether a rename may take the place of an existing name: in a directory with the sticky bit, as /tmp, only
/// for the owner of either and for root.
fn replaceable(old: &Metadata, directory: &Metadata) -> bool {
    const STICKY: u32 = 0o1000;
    let me = rustix::process::geteuid();
    directory.mode() & STICKY == 0
        || me.is_root()
        || [old.uid(), directory.uid()].contains(&me.as_raw())
}
