//! Every sample of a recording, one by one, with its time.

use std::fs::File;
use std::path::Path;

use wholestack::profile::{FrameId, FrameKind, Profile, Truncation};
use wholestack::recording::{Window, read_samples};

/// One sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Nanoseconds since the recording began.
    pub time_ns: u64,
    /// The process's id.
    pub pid: u32,
    /// The name of its program.
    pub process: String,
    /// Frames, root first.
    pub frames: Vec<Frame>,
    /// Why it is not whole.
    pub truncation: Option<Truncation>,
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What kind of code.
    pub kind: FrameKind,
    /// Its function, without the file and line; for one without a name, its offset as in `+0x12`.
    pub function: String,
    /// The last part of its module's path.
    pub module: String,
}

/// All samples of a recording, in the order of arrival.
///
/// # Panics
///
/// When the recording is not whole.
pub fn read(recording: &Path) -> Vec<Sample> {
    let file = File::open(recording).expect("the recording was written");
    let mut found = Vec::new();
    let profile = read_samples(file, Window::ALL, |sample| found.push(*sample))
        .expect("the recording can be read");
    assert!(profile.session.closed, "the recording is cut");
    let named = found.iter().map(|sample| {
        let process = profile.process(profile.thread(sample.thread).process);
        let stack = profile.stack(sample.stack);
        Sample {
            time_ns: sample.time_ns,
            pid: process.pid,
            process: profile.text(process.name).to_owned(),
            frames: stack.iter().rev().map(|id| frame(&profile, *id)).collect(),
            truncation: sample.truncation,
        }
    });
    named.collect()
}

fn frame(profile: &Profile, id: FrameId) -> Frame {
    let frame = profile.frame(id);
    let path = profile.text(frame.module);
    Frame {
        kind: frame.kind,
        function: match profile.text(frame.function) {
            "" => format!("+{:#x}", frame.offset),
            name => name.to_owned(),
        },
        module: path.rsplit('/').next().unwrap_or(path).to_owned(),
    }
}

impl Frame {
    /// Whether it is code of the kernel.
    pub fn is_kernel(&self) -> bool {
        self.kind == FrameKind::Kernel
    }

    /// Whether it marks where something is missing.
    pub fn is_marker(&self) -> bool {
        self.kind == FrameKind::Marker
    }
}
