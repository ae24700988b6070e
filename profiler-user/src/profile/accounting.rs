//! Where every sample went: complete, truncated (why), or lost (why). Kept + lost = taken.

use std::collections::BTreeMap;

/// Why a kept sample's stack is not whole. Ids are persisted: never reused, never renumbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Truncation {
    /// The native walk met code without frame pointers.
    NoFramePointers = 1,
    /// More native frames than are walked.
    NativeDepth = 2,
    /// The thread's own stack could not be read (not present, or being changed).
    StackUnreadable = 3,
    /// More Python frames than are walked.
    PythonDepth = 4,
    /// The interpreter's frames could not be read.
    PythonUnreadable = 5,
    /// The process runs Python, but that was not known yet when the sample was taken.
    PythonLate = 6,
    /// A 32-bit program: its user stack is not walked.
    ThirtyTwoBit = 7,
    /// The kernel's part of the stack could not be taken.
    KernelStack = 8,
    /// The native walk met code whose unwind data says nothing of that place.
    NoUnwindData = 9,
    /// The native walk met code whose unwind table was not there (yet).
    NoTable = 10,
    /// The walk was given up for a reason of wholestack's own.
    Abandoned = 11,
}

impl Truncation {
    /// Every reason there is.
    pub const ALL: [Self; 11] = [
        Self::NoFramePointers,
        Self::NativeDepth,
        Self::StackUnreadable,
        Self::PythonDepth,
        Self::PythonUnreadable,
        Self::PythonLate,
        Self::ThirtyTwoBit,
        Self::KernelStack,
        Self::NoUnwindData,
        Self::NoTable,
        Self::Abandoned,
    ];

    /// The reason in the reader's words.
    pub fn text(self) -> &'static str {
        match self {
            Self::NoFramePointers => "code without frame pointers",
            Self::NativeDepth => "more native frames than are walked",
            Self::StackUnreadable => "stack memory not readable",
            Self::PythonDepth => "more Python frames than are walked",
            Self::PythonUnreadable => "Python frames not readable",
            Self::PythonLate => "Python not known yet",
            Self::ThirtyTwoBit => "32-bit program",
            Self::KernelStack => "kernel stack not taken",
            Self::NoUnwindData => "code without unwind data",
            Self::NoTable => "unwind table not ready",
            Self::Abandoned => "walk given up",
        }
    }

    /// The reason with this persisted id.
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| *reason as u8 == id)
    }
}

/// Why a sample that was taken is not in the profile. Ids are persisted: never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Loss {
    /// The ring to user space was full.
    RingFull = 1,
    /// The kernel side was already busy with a sample on that CPU.
    Nested = 2,
    /// A record that user space could not read.
    Malformed = 3,
    /// Taken, but the recording is cut or damaged before it; booked by the reader, never by the recorder.
    Cut = 4,
}

impl Loss {
    /// Every reason there is.
    pub const ALL: [Self; 4] = [Self::RingFull, Self::Nested, Self::Malformed, Self::Cut];

    /// The reason in the reader's words.
    pub fn text(self) -> &'static str {
        match self {
            Self::RingFull => "ring buffer full",
            Self::Nested => "sampler busy",
            Self::Malformed => "record not readable",
            Self::Cut => "recording cut",
        }
    }

    /// The reason with this persisted id.
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| *reason as u8 == id)
    }
}

/// The books of one recording.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accounting {
    /// Samples the kernel took on a busy CPU for a watched process; counted there, before anything can fail.
    pub taken: u64,
    /// Kept with the whole stack.
    pub complete: u64,
    /// Kept with a part of the stack, by reason.
    pub truncated: BTreeMap<Truncation, u64>,
    /// Kept with a frame that was found without unwind data: a guess, checked.
    pub guessed: u64,
    /// Not kept, by reason.
    pub lost: BTreeMap<Loss, u64>,
    /// Frames in all kept samples.
    pub frames: u64,
    /// Those of them without a name.
    pub unnamed_frames: u64,
    /// Samples whose stack did not fit the profile's table.
    pub stacks_over_limit: u64,
    /// CPU time wholestack itself used while recording.
    pub own_cpu_ns: u64,
    /// Unwind tables that were in the kernel at a time, at most.
    pub unwind_tables: u64,
    /// Memory that they took, at most, in bytes.
    pub unwind_table_bytes: u64,
    /// Limits that were hit: name of the limit and how often.
    pub limits: BTreeMap<String, u64>,
}

impl Accounting {
    /// Books one kept sample.
    pub fn keep(&mut self, truncation: Option<Truncation>) {
        match truncation {
            None => self.complete += 1,
            Some(reason) => *self.truncated.entry(reason).or_insert(0) += 1,
        }
    }

    /// Books samples that are not kept.
    pub fn lose(&mut self, reason: Loss, count: u64) {
        if count > 0 {
            *self.lost.entry(reason).or_insert(0) += count;
        }
    }

    /// Counts that a limit was hit.
    pub fn hit_limit(&mut self, name: &str, times: u64) {
        match self.limits.get_mut(name) {
            Some(count) => *count += times,
            None => {
                self.limits.insert(name.to_owned(), times);
            }
        }
    }

    /// Samples in the profile.
    pub fn kept(&self) -> u64 {
        self.complete + self.truncated_total()
    }

    /// Samples in the profile whose stack is not whole.
    pub fn truncated_total(&self) -> u64 {
        self.truncated.values().sum()
    }

    /// Samples taken but not in the profile.
    pub fn lost_total(&self) -> u64 {
        self.lost.values().sum()
    }

    /// Whether the books balance: kept + lost = taken.
    pub fn balanced(&self) -> bool {
        self.kept() + self.lost_total() == self.taken
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Ids round-trip, and an unknown one is refused.
    #[test]
    fn ids() {
        for reason in Truncation::ALL {
            assert_eq!(Truncation::from_id(reason as u8), Some(reason));
        }
        for reason in Loss::ALL {
            assert_eq!(Loss::from_id(reason as u8), Some(reason));
        }
        assert_eq!(Truncation::from_id(0), None);
        assert_eq!(Loss::from_id(200), None);
    }

    /// The books balance only when every sample taken is booked once.
    #[test]
    fn balance() {
        let mut books = Accounting {
            taken: 3,
            ..Accounting::default()
        };
        books.keep(None);
        books.keep(Some(Truncation::PythonLate));
        assert!(!books.balanced());
        books.lose(Loss::RingFull, 1);
        assert!(books.balanced());
        books.lose(Loss::RingFull, 0);
        assert_eq!(books.lost.len(), 1);
    }
}
