//! From the recorder's file to `report FILE`, also when the recorder never came to its end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::live::{Live, assert_same, small};
use crate::output::{OutputFile, partials};
use crate::profile::{GilState, Sample};
use crate::recording::{RecordingError, Window, Writer, load};

/// Written to a file, committed, loaded by name.
#[test]
fn whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.wstk");
    let (expected, samples, _) = small();
    let file = OutputFile::create_recording(&path).unwrap();
    let mut writer = Writer::new(file, &expected.session).unwrap();
    writer.samples(&samples);
    writer.finish(&expected).unwrap().commit().unwrap();
    assert_same(&load(&path, Window::ALL).unwrap(), &expected);
}

/// After a kill the recording is found under its own name, up to the last flush, and says so.
#[test]
fn killed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.wstk");
    let mut live = Live::new();
    let file = OutputFile::create_recording(&path).unwrap();
    let mut writer = Writer::new(file, &live.profile.session).unwrap();
    let sample = Sample {
        time_ns: 5,
        cpu: 0,
        thread: live.thread(0),
        stack: live.stack(&["f"], 1),
        gil: GilState::None,
        truncation: None,
    };
    live.sample(sample);
    writer.push(&sample);
    writer.flush(&live.profile).unwrap();
    writer.push(&sample);
    std::mem::forget(writer);

    let found = load(&path, Window::ALL).unwrap();
    assert_eq!(found.kept(), 1);
    assert!(!found.session.closed);
    assert!(
        found
            .notes
            .last()
            .unwrap()
            .contains("is not complete: this is")
    );

    // A complete one is preferred, but a later unfinished one is not passed over in silence.
    let (_, _, bytes) = small();
    fs::write(&path, bytes).unwrap();
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    let whole = fs::File::options().write(true).open(&path).unwrap();
    whole.set_modified(long_ago).unwrap();
    let found = load(&path, Window::ALL).unwrap();
    assert_eq!(found.kept(), 9);
    assert!(
        found
            .notes
            .last()
            .unwrap()
            .contains("a later, unfinished recording")
    );
}

/// Not a test by itself: [`killed_in_earnest`] runs it as a process of its own, to kill it. It records to the path
/// in the environment as fast as it can, and ends only by an error.
#[test]
fn child_recorder() {
    let Some(path) = std::env::var_os("WHOLESTACK_TEST_RECORDER") else {
        return;
    };
    let mut live = Live::new();
    let file = OutputFile::create_recording(Path::new(&path)).unwrap();
    let mut writer = Writer::new(file, &live.profile.session).unwrap();
    for round in 0..u32::MAX {
        for line in 0..100 {
            let sample = Sample {
                time_ns: u64::from(round) * 1_000_000,
                cpu: 0,
                thread: live.thread(line % 10),
                stack: live.stack(&["f", "g"], round.wrapping_mul(100) + line),
                gil: GilState::Held,
                truncation: None,
            };
            live.sample(sample);
            writer.push(&sample);
        }
        writer.flush(&live.profile).unwrap();
    }
}

/// A recorder killed with SIGKILL at some moment leaves a recording that balances up to its last flushes.
#[test]
fn killed_in_earnest() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.wstk");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "recording::tests::partial::child_recorder"])
        .env("WHOLESTACK_TEST_RECORDER", &path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let partial = loop {
        let partial = partials(&path).next();
        let size = |partial: &PathBuf| fs::metadata(partial).unwrap().len();
        match partial.filter(|partial| size(partial) > 50_000) {
            Some(partial) => break partial,
            None => assert!(started.elapsed() < Duration::from_secs(60)),
        }
        std::thread::yield_now();
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!path.exists());
    let found = load(&path, Window::ALL).unwrap();
    assert!(!found.session.closed);
    assert!(found.kept() >= 1000, "{} samples", found.kept());
    assert!(found.accounting.balanced());
    let note = format!("is not complete: this is {}", partial.display());
    assert!(found.notes.last().unwrap().contains(&note));
}

/// Every error names the file.
#[test]
fn errors_name_the_file() {
    let error = load(Path::new("/none/run.wstk"), Window::ALL).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot open /none/run.wstk: No such file or directory (os error 2)"
    );
    let error = load(Path::new("/dev/null"), Window::ALL).unwrap_err();
    assert!(matches!(error, RecordingError::InFile { .. }));
    assert!(
        error
            .to_string()
            .starts_with("/dev/null: the recording ends at byte 0")
    );
}
