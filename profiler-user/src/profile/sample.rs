//! One sample, as the rest of the program sees it.

use super::{StackId, ThreadId, Truncation};

/// What a sampled thread had to do with its interpreter's global lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum GilState {
    /// The thread has no Python thread state, or its process no Python that is understood.
    #[default]
    None,
    /// It held the lock.
    Held,
    /// It has Python frames but did not hold the lock.
    NotHeld,
    /// The lock could not be read.
    Unknown,
}

/// One kept sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Since the start of the session.
    pub time_ns: u64,
    /// CPU it was taken on.
    pub cpu: u32,
    /// Whose.
    pub thread: ThreadId,
    /// Where.
    pub stack: StackId,
    /// The lock at that moment.
    pub gil: GilState,
    /// Why the stack is not whole; `None` if it is.
    pub truncation: Option<Truncation>,
}

impl Sample {
    /// What makes two samples the same for counting.
    pub fn key(&self) -> SampleKey {
        SampleKey {
            thread: self.thread,
            stack: self.stack,
            gil: self.gil,
            truncation: self.truncation,
        }
    }
}

/// A [`Sample`] without its time and CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SampleKey {
    /// Whose.
    pub thread: ThreadId,
    /// Where.
    pub stack: StackId,
    /// The lock at that moment.
    pub gil: GilState,
    /// Why the stack is not whole.
    pub truncation: Option<Truncation>,
}
