//! Reading a recording, chunk by chunk, as far as it can be read.
//!
//! An error means that nothing can be shown. A recording that is cut or damaged after its session gives a
//! profile of what stands before, with the loss booked and named in its notes.

use std::io::Read;

use super::chunk::{ChunkReader, Halt};
use super::format::{FILE_HEADER, MAGIC, VERSION};
use super::loader::{Loader, Step};
use super::{RecordingError, Window, books};
use crate::profile::{Profile, Sample};

/// Reads a whole recording.
pub fn read(input: impl Read) -> Result<Profile, RecordingError> {
    read_window(input, Window::ALL)
}

/// Reads the samples of a part of a recording. Times in the result count from the window's start.
pub fn read_window(input: impl Read, window: Window) -> Result<Profile, RecordingError> {
    read_samples(input, window, |_| ())
}

/// As [`read_window`], and hands out each sample with its time, in order of arrival. The ids in a sample are
/// those of the profile that is returned.
pub fn read_samples(
    mut input: impl Read,
    window: Window,
    on_sample: impl FnMut(&Sample),
) -> Result<Profile, RecordingError> {
    check_header(&mut input)?;
    let mut chunks = ChunkReader::new(input, FILE_HEADER as u64)?;
    let mut loader = Loader::new(window, on_sample);
    let mut offset = chunks.offset();
    let halt = loop {
        let step = match chunks.next() {
            Ok((kind, payload)) => loader.take(kind, payload),
            Err(halt) => break Some(halt),
        };
        match step {
            Ok(Step::Further) => offset = chunks.offset(),
            Ok(Step::Closed) => break None,
            Err(what) => break Some(Halt::Damaged(what)),
        }
    };
    match halt {
        Some(Halt::Io(error)) => return Err(error.into()),
        Some(Halt::Cut) if !loader.has_session => return Err(RecordingError::Cut { offset }),
        Some(Halt::Damaged(what)) if !loader.has_session => {
            return Err(RecordingError::Corrupt { offset, what });
        }
        _ => (),
    }
    let closed = halt.is_none();
    let mut profile = books::settle(loader, halt, offset);
    if closed && chunks.more()? {
        let end = chunks.offset();
        let note = format!("the file goes on behind the recording's end at byte {end}: not read");
        profile.notes.push(note);
    }
    Ok(profile)
}

fn check_header(input: &mut impl Read) -> Result<(), RecordingError> {
    let mut header = Vec::with_capacity(FILE_HEADER);
    input.take(FILE_HEADER as u64).read_to_end(&mut header)?;
    let magic = &header[..header.len().min(MAGIC.len())];
    if *magic != MAGIC[..magic.len()] {
        return Err(RecordingError::NotARecording);
    }
    let Some(version) = header
        .get(MAGIC.len()..)
        .and_then(|rest| rest.first_chunk())
    else {
        let offset = header.len() as u64;
        return Err(RecordingError::Cut { offset });
    };
    let found = u32::from_le_bytes(*version);
    match found {
        0 => Err(RecordingError::Corrupt {
            offset: MAGIC.len() as u64,
            what: "there is no format version 0".into(),
        }),
        1..=VERSION => Ok(()),
        _ => Err(RecordingError::NewerVersion {
            found,
            supported: VERSION,
        }),
    }
}
