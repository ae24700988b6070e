//! The numbers of the container: magic, version, chunk kinds, limits. `docs/formats/recording.md` explains
//! them; nothing here may change for a version that has shipped.

/// First bytes of every recording. The first is no text, and a transfer that rewrites line ends breaks it.
pub const MAGIC: [u8; 8] = *b"\x89WSTK\r\n\x1a";

/// Version this wholestack writes, and the latest it reads.
pub const VERSION: u32 = 1;

/// Magic and version.
pub const FILE_HEADER: usize = 12;

/// Kind, length and checksum.
pub const CHUNK_HEADER: usize = 12;

/// Most bytes of a chunk's message. Bounds what a small hostile file can make a reader allocate.
pub const MAX_PAYLOAD: usize = 8 << 20;

/// Most bytes a chunk takes in the file: zstd's own bound for [`MAX_PAYLOAD`] lies below it.
pub const MAX_STORED: usize = MAX_PAYLOAD + (MAX_PAYLOAD >> 7);

/// Most texts.
pub const MAX_STRINGS: usize = 1 << 24;
/// Most bytes in all texts together.
pub const MAX_STRING_BYTES: usize = 1 << 30;
/// Most bytes in one text.
pub const MAX_STRING: usize = 4 << 20;
/// Most distinct frames.
pub const MAX_FRAMES: usize = 1 << 24;
/// Most distinct stacks: those of a profile, and its marker for further ones.
pub const MAX_STACKS: usize = crate::profile::MAX_STACKS + 1;
/// Most frames in all distinct stacks together.
pub const MAX_STACK_FRAMES: usize = 1 << 28;
/// Most processes, and most threads.
pub const MAX_TASKS: usize = 1 << 22;
/// Most distinct (thread, stack, GIL state, truncation).
pub const MAX_SAMPLE_KEYS: usize = 1 << 24;
/// Most rows of counted calls.
pub const MAX_CALLS: usize = 1 << 18;
/// Error codes of one row of calls: as many as the kernel side keeps in all.
pub const MAX_ERROR_CODES: usize = 1 << 14;
/// Latest time in a session, in nanoseconds: 2.2 years.
pub const MAX_TIME_NS: u64 = 1 << 56;
/// Highest count and highest sum of counts: additions of a few such numbers do not overflow.
pub const MAX_COUNT: u64 = 1 << 60;

/// What a chunk holds. Numbers are persisted: never reused, never renumbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// How the recording was made; the first chunk, and again at the end.
    Session = 1,
    /// More texts.
    Strings = 2,
    /// More frames.
    Frames = 3,
    /// More stacks.
    Stacks = 4,
    /// New and changed processes.
    Processes = 5,
    /// New and changed threads.
    Threads = 6,
    /// Samples, in order of arrival.
    Samples = 7,
    /// All counted calls so far, or a part of that table.
    Calls = 8,
    /// The accounting and notes so far.
    Books = 9,
    /// Closed properly; nothing follows.
    End = 10,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Session,
        Self::Strings,
        Self::Frames,
        Self::Stacks,
        Self::Processes,
        Self::Threads,
        Self::Samples,
        Self::Calls,
        Self::Books,
        Self::End,
    ];

    /// The kind with this number; `None` for one of a later wholestack.
    pub fn from_id(id: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u32 == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers round-trip, and the stored bound holds zstd's worst case.
    #[test]
    fn numbers() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_id(kind as u32), Some(kind));
        }
        assert_eq!(Kind::from_id(0), None);
        assert_eq!(Kind::from_id(11), None);
        assert!(zstd::zstd_safe::compress_bound(MAX_PAYLOAD) <= MAX_STORED);
    }
}
