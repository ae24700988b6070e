//! From the name of a recording to its contents, complete or not.
//!
//! A recorder that was killed leaves `NAME.partial`. Who asks for `NAME` then gets that, and is told; who asks for a
//! complete `NAME` with a later unfinished one beside it is told as well.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{RecordingError, Window, read_samples};
use crate::output;
use crate::profile::{Profile, Sample};

/// Reads a part of a recording by its name; [`Window::ALL`] for the whole.
pub fn load(path: &Path, window: Window) -> Result<Profile, RecordingError> {
    load_samples(path, window, |_| ())
}

/// As [`load`], and hands out each sample with its time, as [`read_samples`] does.
pub fn load_samples(
    path: &Path,
    window: Window,
    on_sample: impl FnMut(&Sample),
) -> Result<Profile, RecordingError> {
    let (path, file, note) = open(path)?;
    let read = read_samples(BufReader::new(file), window, on_sample);
    let mut profile = read.map_err(|error| RecordingError::InFile {
        path,
        error: Box::new(error),
    })?;
    profile.notes.extend(note);
    Ok(profile)
}

fn open(path: &Path) -> Result<(PathBuf, File, Option<String>), RecordingError> {
    let partial = latest_partial(path);
    let failed = |cause| RecordingError::Open {
        path: path.into(),
        cause,
    };
    match (File::open(path), partial) {
        (Ok(file), Some((partial, at))) if Some(at) > modified(path) => {
            let partial = partial.display();
            let note = format!("a later, unfinished recording lies beside this one: {partial}");
            Ok((path.into(), file, Some(note)))
        }
        (Ok(file), _) => Ok((path.into(), file, None)),
        (Err(error), Some((partial, _))) if error.kind() == io::ErrorKind::NotFound => {
            let file = File::open(&partial).map_err(failed)?;
            let (whole, part) = (path.display(), partial.display());
            let note = format!("{whole} is not complete: this is {part}");
            Ok((partial, file, Some(note)))
        }
        (Err(error), _) => Err(failed(error)),
    }
}

fn latest_partial(path: &Path) -> Option<(PathBuf, SystemTime)> {
    output::partials(path)
        .filter_map(|partial| Some((modified(&partial)?, partial)))
        .max()
        .map(|(at, partial)| (partial, at))
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}
