//! One step of the native walk: from a frame to its caller.
//!
//! This is the seam behind which the table-driven walk will come. Today's rule is the frame pointer:
//! `rbp` points at the caller's `rbp`, the return address lies above it. Code that keeps no frame pointer
//! leaves anything in `rbp`, so every step is checked (alignment, direction, distance, a possible return
//! address), and user space checks again that each return address follows a call instruction.

use crate::memory::{UserMemory, is_user_address};
use crate::wire::NativeEnd;

/// The largest distance of two frames that is believed: a frame pointer further away is not one.
pub const MAX_FRAME_BYTES: u64 = 1 << 20;

/// The registers the walk needs, in one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    /// Program counter of the leaf, return address in callers.
    pub pc: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub fp: u64,
}

/// Steps to the caller, or says why there is none.
#[inline(always)]
pub fn step(memory: &impl UserMemory, frame: Registers) -> Result<Registers, NativeEnd> {
    if frame.fp == 0 {
        return Err(NativeEnd::Root);
    }
    // The ABI aligns rbp to 16 in every function that sets it up.
    if frame.fp & 15 != 0 || frame.fp < frame.sp || frame.fp - frame.sp > MAX_FRAME_BYTES {
        return Err(NativeEnd::NoFramePointer);
    }
    let Some([fp, pc]) = memory.read::<[u64; 2]>(frame.fp) else {
        return Err(NativeEnd::Unreadable);
    };
    if pc == 0 && fp == 0 {
        return Err(NativeEnd::Root);
    }
    if !is_user_address(pc) {
        return Err(NativeEnd::NoFramePointer);
    }
    Ok(Registers {
        pc,
        sp: frame.fp + 16,
        fp,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::fake::FakeMemory;

    const SP: u64 = 0x7fff_0000_1000;

    fn stack(words: &[(u64, u64)]) -> FakeMemory {
        let mut memory = FakeMemory::default();
        for (offset, word) in words {
            memory.put(SP + offset, *word);
        }
        memory
    }

    /// Two frames, then the zero mark `_start` leaves.
    #[test]
    fn walks_to_the_root() {
        let memory = stack(&[
            (0x20, SP + 0x40),
            (0x28, 0x40_1234),
            (0x40, 0),
            (0x48, 0x40_5678),
        ]);
        let leaf = Registers {
            pc: 0x40_1000,
            sp: SP,
            fp: SP + 0x20,
        };
        let caller = step(&memory, leaf).unwrap();
        assert_eq!(
            caller,
            Registers {
                pc: 0x40_1234,
                sp: SP + 0x30,
                fp: SP + 0x40
            }
        );
        let root = step(&memory, caller).unwrap();
        assert_eq!(
            root,
            Registers {
                pc: 0x40_5678,
                sp: SP + 0x50,
                fp: 0
            }
        );
        assert_eq!(step(&memory, root), Err(NativeEnd::Root));
    }

    /// A register that holds something else is never taken for a frame pointer.
    #[test]
    fn refuses_what_is_no_frame_pointer() {
        let memory = stack(&[(0x20, SP + 0x40), (0x28, 0x10), (0x30, 1), (0x38, 2)]);
        for fp in [
            SP - 0x10,
            SP + 0x21,
            SP + 0x28,
            SP + MAX_FRAME_BYTES + 0x10,
            0x55aa,
            16,
        ] {
            let leaf = Registers {
                pc: 0x40_1000,
                sp: SP,
                fp,
            };
            assert_eq!(
                step(&memory, leaf),
                Err(NativeEnd::NoFramePointer),
                "{fp:#x}"
            );
        }
        // The right shape, but what lies there is no code address.
        let leaf = Registers {
            pc: 0x40_1000,
            sp: SP,
            fp: SP + 0x20,
        };
        assert_eq!(step(&memory, leaf), Err(NativeEnd::NoFramePointer));
    }

    /// Memory that is not present ends the walk with that reason.
    #[test]
    fn says_when_memory_is_missing() {
        let leaf = Registers {
            pc: 0x40_1000,
            sp: SP,
            fp: SP + 0x20,
        };
        assert_eq!(
            step(&FakeMemory::default(), leaf),
            Err(NativeEnd::Unreadable)
        );
    }
}
