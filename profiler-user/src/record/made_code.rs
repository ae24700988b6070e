//! Code that processes make at run time, in memory without a file: read when it is mapped, and again and again, since
//! more is made in the same memory. (oneDNN, the source of most of such code in a PyTorch process, keeps its memory
//! writable and adds to it.)

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use crate::process::{FileKey, TargetMemory};

/// Larger mappings are left alone: those of virtual machines, which reserve space and change their code all the time.
const MAX_BYTES: u64 = 1 << 20;
/// Mappings watched, of all processes together.
const MAX_MAPPINGS: usize = 4096;
/// Read at most in one look; the next one goes on from there.
const BYTES_A_LOOK: u64 = 16 << 20;
/// How often it is looked.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A mapping: process and first address.
type At = (u32, u64);

/// The mappings watched.
#[derive(Debug)]
pub(super) struct MadeCode {
    mappings: BTreeMap<At, Seen>,
    /// Where the next look goes on.
    next: At,
    looked: Instant,
    /// Mappings not watched since there are too many.
    pub over_limit: u64,
}

/// What was read last.
#[derive(Debug, Clone, Copy)]
struct Seen {
    bytes: u64,
    /// Enough to notice a change: a process that forges it fools itself.
    checksum: u32,
}

/// Code that was not there before.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Made {
    /// Stands for the same code wherever it is.
    pub key: FileKey,
    /// Its bytes.
    pub code: Vec<u8>,
}

impl MadeCode {
    pub fn new() -> Self {
        Self {
            mappings: BTreeMap::new(),
            next: (0, 0),
            looked: Instant::now(),
            over_limit: 0,
        }
    }

    /// Reads a mapping; `None` if it is not to be followed, cannot be read, or holds what it did.
    pub fn read(&mut self, pid: u32, start: u64, bytes: u64) -> Option<Made> {
        if bytes > MAX_BYTES {
            return None;
        }
        let known = self.mappings.get(&(pid, start)).copied();
        if known.is_none() && self.mappings.len() >= MAX_MAPPINGS {
            self.over_limit += 1;
            return None;
        }
        let code = TargetMemory::new(pid).read_bytes(start, bytes, MAX_BYTES as usize)?;
        let seen = Seen {
            bytes,
            checksum: crc32fast::hash(&code),
        };
        self.mappings.insert((pid, start), seen);
        let same = known.is_some_and(|known| known.checksum == seen.checksum);
        if same || code.iter().all(|byte| *byte == 0) {
            return None;
        }
        let digest = Sha256::digest(&code);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let key = FileKey {
            device: (0, 0),
            inode: 0,
            path: format!("[made {digest}]").into_bytes(),
        };
        Some(Made { key, code })
    }

    /// A mapping was made anew.
    pub fn remapped(&mut self, pid: u32, start: u64) {
        self.mappings.remove(&(pid, start));
    }

    /// Whether there is anything to look at.
    pub fn is_empty(&self) -> bool {
        self.mappings.is_empty()
    }

    /// The mappings to look at now, with their lengths: none if it was looked a moment ago.
    pub fn due(&mut self, now: Instant) -> Vec<(At, u64)> {
        if now.saturating_duration_since(self.looked) < LOOK_EVERY {
            return Vec::new();
        }
        self.looked = now;
        let rest = self.mappings.range(self.next..);
        let turn = rest.chain(self.mappings.range(..self.next));
        let (mut due, mut left) = (Vec::new(), BYTES_A_LOOK);
        for (at, seen) in turn {
            let Some(after) = left.checked_sub(seen.bytes) else {
                self.next = *at;
                break;
            };
            left = after;
            due.push((*at, seen.bytes));
        }
        due
    }

    /// A child has what its parent has.
    pub fn fork(&mut self, parent: u32, child: u32) {
        let of_parent = self.mappings.range((parent, 0)..=(parent, u64::MAX));
        let room = MAX_MAPPINGS.saturating_sub(self.mappings.len());
        let copies: Vec<(At, Seen)> = of_parent
            .map(|((_, start), seen)| ((child, *start), *seen))
            .take(room)
            .collect();
        self.mappings.extend(copies);
    }

    /// A process ended, or became another program.
    pub fn forget(&mut self, pid: u32) {
        let of_process = self.mappings.range((pid, 0)..=(pid, u64::MAX));
        let gone: Vec<At> = of_process.map(|(at, _)| *at).collect();
        for at in gone {
            self.mappings.remove(&at);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Memory is read when it is new and when it has changed; what is empty holds no code.
    #[test]
    fn changes_are_seen() {
        let pid = std::process::id();
        let mut memory = vec![0_u8; 4096];
        let mut made = MadeCode::new();
        let start = memory.as_ptr() as u64;
        assert_eq!(made.read(pid, start, 4096), None);
        memory[7] = 0x90;
        let first = made.read(pid, start, 4096).unwrap();
        assert_eq!(first.code, memory);
        assert_eq!(made.read(pid, start, 4096), None);
        memory[8] = 0xc3;
        assert_ne!(made.read(pid, start, 4096).unwrap().key, first.key);
        assert_eq!(made.read(pid, start, MAX_BYTES + 1), None);
        made.forget(pid);
        assert!(made.is_empty());
    }

    /// A look reads no more than its share, and the next one goes on.
    #[test]
    fn looks_take_turns() {
        let mut made = MadeCode::new();
        let many = BYTES_A_LOOK / MAX_BYTES + 3;
        for start in 0..many {
            let seen = Seen {
                bytes: MAX_BYTES,
                checksum: 0,
            };
            made.mappings.insert((1, start), seen);
        }
        let mut now = Instant::now();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..2 {
            now += LOOK_EVERY;
            let due = made.due(now);
            assert!(due.len() as u64 <= BYTES_A_LOOK / MAX_BYTES);
            seen.extend(due.into_iter().map(|(at, _)| at));
            assert_eq!(made.due(now), []);
        }
        assert_eq!(seen.len() as u64, many);
        made.fork(1, 2);
        made.forget(1);
        assert_eq!(made.mappings.len() as u64, many);
    }
}
