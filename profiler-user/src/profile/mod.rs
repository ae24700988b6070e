//! The domain: what was sampled, by whom, and how sure we are. No I/O, no formats, no terminal.
//!
//! Everything before this room produces a [`Profile`]; everything after it reads one. Text is interned
//! ([`Strings`]), frames and stacks are stored once, and samples are kept as counts per distinct
//! (thread, stack, GIL state, truncation): memory grows with distinct stacks, not with time.

mod accounting;
mod call;
mod frame;
mod merge;
mod sample;
mod session;
mod strings;
mod task;

pub use accounting::{Accounting, Loss, Truncation};
pub use call::{CallClass, CallStat, LatencyHistogram};
pub use frame::{Frame, FrameId, FrameKind, Stack, StackId};
pub use merge::merge;
pub use sample::{GilState, Sample, SampleKey};
pub use session::{Clock, Session};
pub use strings::{StringId, Strings};
pub use task::{Process, ProcessId, Thread, ThreadId};

use indexmap::{IndexMap, IndexSet};

/// Distinct stacks a profile holds; samples of further ones go to one marked stack and are counted.
pub const MAX_STACKS: usize = 1 << 20;

/// Distinct frames a profile holds; further ones become one marked frame and are counted.
pub const MAX_FRAMES: usize = 1 << 21;

/// A finished or growing profile.
#[derive(Debug, Default, Clone)]
pub struct Profile {
    /// How the recording was made.
    pub session: Session,
    /// All text, interned.
    pub strings: Strings,
    /// Distinct frames, addressed by [`FrameId`].
    pub frames: IndexSet<Frame>,
    /// Distinct stacks, addressed by [`StackId`].
    pub stacks: IndexSet<Stack>,
    /// Processes seen, addressed by [`ProcessId`].
    pub processes: Vec<Process>,
    /// Threads seen, addressed by [`ThreadId`]; also those that ran but were never sampled.
    pub threads: Vec<Thread>,
    /// Samples as counts per distinct key, in order of first appearance.
    pub samples: IndexMap<SampleKey, u64>,
    /// Driver calls, one row per thread and function.
    pub calls: Vec<CallStat>,
    /// Where every sample went.
    pub accounting: Accounting,
    /// What the reader has to know to judge the figures; one sentence each.
    pub notes: Vec<String>,
}

impl Profile {
    /// Interns a frame. At [`MAX_FRAMES`] a marker takes its place.
    pub fn intern_frame(&mut self, frame: Frame) -> FrameId {
        if self.frames.len() >= MAX_FRAMES && !self.frames.contains(&frame) {
            self.accounting.hit_limit("distinct frames not kept", 1);
            let text = self.strings.intern("[more distinct frames than are kept]");
            return FrameId(index_u32(self.frames.insert_full(Frame::marker(text)).0));
        }
        FrameId(index_u32(self.frames.insert_full(frame).0))
    }

    /// Interns a stack, leaf first. At [`MAX_STACKS`] a marker stack takes its place.
    pub fn intern_stack(&mut self, frames: &[FrameId]) -> StackId {
        if let Some(known) = self.stacks.get_index_of(frames) {
            return StackId(index_u32(known));
        }
        if self.stacks.len() >= MAX_STACKS {
            self.accounting.stacks_over_limit += 1;
            let function = self.strings.intern("[more distinct stacks than are kept]");
            let marker = self.intern_frame(Frame::marker(function));
            return StackId(index_u32(
                self.stacks.insert_full(Stack(Box::new([marker]))).0,
            ));
        }
        StackId(index_u32(self.stacks.insert_full(Stack(frames.into())).0))
    }

    /// Adds one kept sample: counts it as complete or truncated, and under its key.
    pub fn add_sample(&mut self, sample: &Sample) {
        self.accounting.keep(sample.truncation);
        *self.samples.entry(sample.key()).or_insert(0) += 1;
    }

    /// Samples kept: the base of every share in the report.
    pub fn kept(&self) -> u64 {
        self.accounting.kept()
    }

    /// The frame behind an id.
    pub fn frame(&self, id: FrameId) -> &Frame {
        &self.frames[id.0 as usize]
    }

    /// The frames of a stack, leaf first.
    pub fn stack(&self, id: StackId) -> &[FrameId] {
        &self.stacks[id.0 as usize].0
    }

    /// The thread behind an id.
    pub fn thread(&self, id: ThreadId) -> &Thread {
        &self.threads[id.0 as usize]
    }

    /// The process behind an id.
    pub fn process(&self, id: ProcessId) -> &Process {
        &self.processes[id.0 as usize]
    }

    /// The text behind an id.
    pub fn text(&self, id: StringId) -> &str {
        self.strings.get(id)
    }

    /// CPU time one sample stands for, in nanoseconds.
    pub fn ns_per_sample(&self) -> f64 {
        1e9 / f64::from(self.session.frequency_hz.max(1))
    }

    /// A frame as the report shows it; see `docs/report.md`.
    pub fn label(&self, id: FrameId) -> String {
        self.frame(id).label(&self.strings)
    }
}

fn index_u32(index: usize) -> u32 {
    u32::try_from(index).expect("tables are capped far below 2^32 entries")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn profile_with(function: &str) -> (Profile, StackId) {
        let mut profile = Profile::default();
        let function = profile.strings.intern(function);
        let frame = profile.intern_frame(Frame::marker(function));
        let stack = profile.intern_stack(&[frame]);
        (profile, stack)
    }

    /// Equal samples merge into one count, and the accounting sees each of them.
    #[test]
    fn equal_samples_merge() {
        let (mut profile, stack) = profile_with("f");
        let sample = Sample {
            time_ns: 1,
            cpu: 0,
            thread: ThreadId(0),
            stack,
            gil: GilState::Held,
            truncation: None,
        };
        profile.add_sample(&sample);
        profile.add_sample(&Sample {
            time_ns: 2,
            cpu: 1,
            ..sample
        });
        profile.add_sample(&Sample {
            truncation: Some(Truncation::NoFramePointers),
            ..sample
        });
        assert_eq!(
            profile.samples.values().copied().collect::<Vec<_>>(),
            [2, 1]
        );
        assert_eq!(profile.accounting.complete, 2);
        assert_eq!(profile.kept(), 3);
    }

    /// A stack seen before keeps its id.
    #[test]
    fn stacks_are_interned() {
        let (mut profile, stack) = profile_with("f");
        let frames = profile.stack(stack).to_vec();
        assert_eq!(profile.intern_stack(&frames), stack);
        assert_eq!(profile.stacks.len(), 1);
    }
}
