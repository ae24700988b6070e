//! Outputs on a real file system: what is there before, during and after.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::*;

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A directory with an older output in it.
fn with_older() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.svg");
    fs::write(&path, "older").unwrap();
    (directory, path)
}

/// The older file is there until the commit, then the new one is, and nothing else.
#[test]
fn commit() {
    let (directory, path) = with_older();
    let mut file = OutputFile::create(&path).unwrap();
    file.write_all(b"newer").unwrap();
    file.flush().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "older");
    file.commit().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
    assert_eq!(names(directory.path()), ["out.svg"]);
}

/// Without a commit the older file stays and no trace of the new one.
#[test]
fn drop_without_commit() {
    let (directory, path) = with_older();
    let mut file = OutputFile::create(&path).unwrap();
    file.write_all(b"newer").unwrap();
    drop(file);
    assert_eq!(fs::read_to_string(&path).unwrap(), "older");
    assert_eq!(names(directory.path()), ["out.svg"]);
}

/// A new file has the mode that any new file gets here, not a temporary file's.
#[test]
fn mode() {
    let (directory, path) = with_older();
    let plain = directory.path().join("plain");
    fs::write(&plain, "").unwrap();
    OutputFile::create(&path).unwrap().commit().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&path), mode(&plain));
    OutputFile::create_recording(&path)
        .unwrap()
        .commit()
        .unwrap();
    assert_eq!(mode(&path), mode(&plain));
}

/// A recorder that dies leaves its data under a name of its own; the next recording overwrites neither that nor,
/// before its end, the older file.
#[test]
fn killed() {
    let (directory, path) = with_older();
    let mut file = OutputFile::create_recording(&path).unwrap();
    file.write_all(b"until the kill").unwrap();
    file.flush().unwrap();
    // No destructor runs in a process that is killed.
    std::mem::forget(file);
    assert_eq!(names(directory.path()), ["out.svg", "out.svg.partial"]);

    let mut file = OutputFile::create_recording(&path).unwrap();
    assert!(file.working_path().ends_with("out.svg.partial.2"));
    file.write_all(b"newer").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "older");
    file.commit().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
    let partial: Vec<PathBuf> = partials(&path).collect();
    assert_eq!(fs::read_to_string(&partial[0]).unwrap(), "until the kill");
    assert_eq!(names(directory.path()), ["out.svg", "out.svg.partial"]);
}

/// A recording that failed keeps what it has; one that never began, or is not wanted, leaves nothing.
#[test]
fn recordings_given_up() {
    let (directory, path) = with_older();
    drop(OutputFile::create_recording(&path).unwrap());
    assert_eq!(names(directory.path()), ["out.svg"]);
    let mut file = OutputFile::create_recording(&path).unwrap();
    file.write_all(b"some").unwrap();
    file.discard();
    assert_eq!(names(directory.path()), ["out.svg"]);
    let mut file = OutputFile::create_recording(&path).unwrap();
    file.write_all(b"some").unwrap();
    drop(file);
    assert_eq!(names(directory.path()), ["out.svg", "out.svg.partial"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "older");
}

/// Unfinished recordings do not pile up without end.
#[test]
fn many_unfinished() {
    let (_directory, path) = with_older();
    for _ in 0..20 {
        let mut file = OutputFile::create_recording(&path).unwrap();
        file.write_all(b"some").unwrap();
    }
    let error = OutputFile::create_recording(&path).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("out.svg.partial and further ones")
    );
}

/// What cannot be written is refused at once, by name and with a remedy.
#[test]
fn refusals() {
    let (directory, path) = with_older();
    let text = |path: PathBuf| {
        let error = OutputFile::create(&path).unwrap_err().to_string();
        let recording = OutputFile::create_recording(&path).unwrap_err().to_string();
        assert_eq!(error, recording);
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        error
    };
    assert!(text(directory.path().into()).contains("name a file in it"));
    assert!(text(directory.path().join("none/out.svg")).contains("create it first"));
    assert!(text(path.join("out.svg")).contains("Not a directory"));
    assert!(text(directory.path().join("none/")).contains("not the name of a file"));
    assert!(text("..".into()).contains("that is a directory"));
    assert!(text("/proc/sys/kernel/core_pattern".into()).contains("no file can be created"));
    // Not even root creates files there.
    assert!(text("/sys/out.svg".into()).contains("no file can be created in /sys"));
    assert_eq!(names(directory.path()), ["out.svg"]);
}

/// A full device is written directly, and its error names it, through any writer.
#[test]
fn full_device() {
    let mut file = OutputFile::create(Path::new("/dev/full")).unwrap();
    file.write_all(b"x").unwrap();
    let error = file.flush().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert!(
        error
            .to_string()
            .starts_with("cannot write /dev/full: No space left")
    );
    assert!(matches!(file.commit(), Err(OutputError::Write { .. })));
}

/// A pipe and the names of open descriptors are written in place, not replaced: also where a plain file is behind.
#[test]
fn open_descriptors() {
    let (directory, path) = with_older();
    let file = File::options().append(true).open(&path).unwrap();
    let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let link = directory.path().join("link");
    symlink(&name, &link).unwrap();
    for path in [Path::new(&name), &link] {
        let file = OutputFile::create_recording(path).unwrap();
        assert_eq!(file.working_path(), path);
        file.commit().unwrap();
    }
    assert!(link.is_symlink());
    for name in ["/dev/stdout", "/dev/stderr", "/dev/null"] {
        let before = fs::symlink_metadata(name).unwrap().file_type();
        OutputFile::create(Path::new(name))
            .unwrap()
            .commit()
            .unwrap();
        assert_eq!(fs::symlink_metadata(name).unwrap().file_type(), before);
    }
    let (mut reader, writer) = std::io::pipe().unwrap();
    let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
    let mut file = OutputFile::create(Path::new(&name)).unwrap();
    file.write_all(b"through").unwrap();
    file.commit().unwrap();
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "through");
}

/// A symbolic link is replaced: the file behind it, perhaps placed there for root to overwrite, is not touched.
#[test]
fn links_are_not_followed() {
    let (directory, victim) = with_older();
    let path = directory.path().join("out.html");
    symlink(&victim, &path).unwrap();
    symlink(&victim, directory.path().join("out.html.partial")).unwrap();
    let mut file = OutputFile::create_recording(&path).unwrap();
    assert!(file.working_path().ends_with("out.html.partial.2"));
    file.write_all(b"newer").unwrap();
    file.commit().unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "older");
    assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
}
