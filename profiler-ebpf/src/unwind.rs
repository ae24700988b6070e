//! One step of the native walk: from a frame to its caller.
//!
//! By rule, where the code's unwind data gives one ([`step_by_rule`]); by frame pointer where there is none
//! ([`step_by_frame_pointer`]). Code that keeps no frame pointer leaves anything in `rbp`, so that step is
//! checked (alignment, direction, distance, a possible return address), and user space checks again that
//! each return address follows a call instruction.

use crate::memory::{UserMemory, is_user_address};
use crate::rows::{self, CfaKind, FpKind, Rule};
use crate::wire::{
    GENERATED, NO_TABLE_EVER, NativeEnd, SPACE_ENTRY_WORDS, SpaceEntry, SpaceRef, how,
};

/// The largest distance of two frames that is believed of a frame pointer.
pub const MAX_FRAME_BYTES: u64 = 1 << 20;

/// The registers the walk needs, in one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registers {
    /// Program counter: where execution is, or a return address.
    pub pc: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer; 0 when it is not known.
    pub fp: u64,
}

/// A caller's registers, and where its return address was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// Its registers.
    pub registers: Registers,
    /// Where `pc` was read.
    pub slot: u64,
    /// Its `pc` is where it was interrupted by a signal, not a return address.
    pub interrupted: bool,
}

/// Offsets in the frame the kernel puts on the stack for a signal, from the stack pointer in the trampoline:
/// `struct rt_sigframe` on x86-64, `uc.uc_mcontext` at 40 (arch/x86/include/asm/sigframe.h, after the
/// trampoline has taken the return address).
const SIGNAL_RBP: u64 = 40 + 8 * 10;
const SIGNAL_RSP: u64 = 40 + 8 * 15;
const SIGNAL_RIP: u64 = 40 + 8 * 16;

/// Steps from a frame to its caller: by the rule that holds there or, where there is none, by frame pointer.
/// The second value says whether and how the caller is a guess: [`how::GUESSED`], [`how::FOLLOWED`] or 0.
///
/// `returns`: the frame's `pc` is a return address. `word` reads the memory in which the process's mappings
/// (`space`) and the tables lie.
#[inline(always)]
pub fn step(
    memory: &impl UserMemory,
    frame: Registers,
    returns: bool,
    space: SpaceRef,
    word: impl Fn(u32) -> Option<u64> + Copy,
) -> Result<(Caller, u64), NativeEnd> {
    // A return address may be the first byte of the next function: its call lies before it.
    let missing = match find_rule(frame.pc - u64::from(returns), space, word) {
        Ok((rule, generated)) => {
            let guess = if generated { how::FOLLOWED } else { 0 };
            return Ok((step_by_rule(memory, frame, rule)?, guess));
        }
        Err(missing) => missing,
    };
    match step_by_frame_pointer(memory, frame) {
        Ok(caller) => Ok((caller, how::GUESSED)),
        Err(NativeEnd::Unreadable) => Err(NativeEnd::Unreadable),
        Err(NativeEnd::Root) if matches!(missing, NativeEnd::NoTable) => Err(NativeEnd::Root),
        Err(_) => Err(missing),
    }
}

/// The rule that holds at an address, and whether the code there was made at run time: [`NativeEnd::NoTable`] if what is mapped there is not known or has no
/// table yet, [`NativeEnd::NoUnwindData`] if it has none or says nothing of this place.
#[inline(always)]
fn find_rule(
    address: u64,
    space: SpaceRef,
    word: impl Fn(u32) -> Option<u64> + Copy,
) -> Result<(Rule, bool), NativeEnd> {
    let mapping =
        find_mapping(address, space.start, space.count, word).ok_or(NativeEnd::NoTable)?;
    if mapping.table == 0 {
        let never = mapping.pages == NO_TABLE_EVER;
        return Err(if never {
            NativeEnd::NoUnwindData
        } else {
            NativeEnd::NoTable
        });
    }
    let address = u32::try_from(address - mapping.origin).map_err(|_| NativeEnd::NoUnwindData)?;
    let pages = mapping.pages & !GENERATED;
    let rule = rows::find(address, pages, |index| word(mapping.table + index))
        .filter(|rule| !matches!(rule.cfa_kind(), CfaKind::Unknown))
        .ok_or(NativeEnd::NoUnwindData)?;
    Ok((rule, mapping.pages & GENERATED != 0))
}

/// Steps to the caller by a rule of unwind data.
#[inline(always)]
pub fn step_by_rule(
    memory: &impl UserMemory,
    frame: Registers,
    rule: Rule,
) -> Result<Caller, NativeEnd> {
    let cfa = match rule.cfa_kind() {
        CfaKind::Sp | CfaKind::SpLarge => frame.sp.wrapping_add(rule.cfa_offset()),
        CfaKind::Fp => frame.fp.wrapping_add(rule.cfa_offset()),
        CfaKind::FpDeref => memory
            .read::<u64>(frame.fp.wrapping_sub(rule.cfa_offset()))
            .ok_or(NativeEnd::Unreadable)?,
        CfaKind::SpDeref => {
            let (offset, extra) = rule.sp_deref_parts();
            memory
                .read::<u64>(frame.sp.wrapping_add_signed(offset))
                .ok_or(NativeEnd::Unreadable)?
                .wrapping_add(extra)
        }
        CfaKind::Plt11 => frame.sp + 8 + if frame.pc & 15 >= 11 { 8 } else { 0 },
        CfaKind::Plt10 => frame.sp + 8 + if frame.pc & 15 >= 10 { 8 } else { 0 },
        CfaKind::Signal => return step_by_signal(memory, frame),
        CfaKind::End => return Err(NativeEnd::Outermost),
        CfaKind::Unknown => return Err(NativeEnd::NoUnwindData),
    };
    // The stack grows down: a caller's frame lies above.
    if cfa <= frame.sp || cfa & 7 != 0 {
        return Err(NativeEnd::NoUnwindData);
    }
    let slot = cfa - 8;
    let pc = memory.read::<u64>(slot).ok_or(NativeEnd::Unreadable)?;
    let fp = match rule.fp_kind() {
        FpKind::Same => frame.fp,
        FpKind::Saved => memory
            .read::<u64>(cfa.wrapping_sub(rule.fp_offset()))
            .ok_or(NativeEnd::Unreadable)?,
        FpKind::AtFp => memory.read::<u64>(frame.fp).ok_or(NativeEnd::Unreadable)?,
        FpKind::Lost => 0,
    };
    Ok(Caller {
        registers: Registers { pc, sp: cfa, fp },
        slot,
        interrupted: false,
    })
}

/// Steps out of a signal handler: the kernel saved every register. The interrupted frame may lie on another
/// stack, above or below.
#[inline(always)]
fn step_by_signal(memory: &impl UserMemory, frame: Registers) -> Result<Caller, NativeEnd> {
    let slot = frame.sp.wrapping_add(SIGNAL_RIP);
    let (Some(fp), Some(sp), Some(pc)) = (
        memory.read::<u64>(frame.sp.wrapping_add(SIGNAL_RBP)),
        memory.read::<u64>(frame.sp.wrapping_add(SIGNAL_RSP)),
        memory.read::<u64>(slot),
    ) else {
        return Err(NativeEnd::Unreadable);
    };
    Ok(Caller {
        registers: Registers { pc, sp, fp },
        slot,
        interrupted: true,
    })
}

/// Steps to the caller by frame pointer, or says why that cannot be.
#[inline(always)]
pub fn step_by_frame_pointer(
    memory: &impl UserMemory,
    frame: Registers,
) -> Result<Caller, NativeEnd> {
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
    Ok(Caller {
        registers: Registers {
            pc,
            sp: frame.fp + 16,
            fp,
        },
        slot: frame.fp + 8,
        interrupted: false,
    })
}

/// Steps that suffice to find one of [`crate::wire::MAX_SPACE_ENTRIES`] mappings.
pub const SPACE_STEPS: usize = 13;

/// The mapping that holds `address` among the `count` sorted ones that lie from word `start` on.
#[inline(always)]
pub fn find_mapping(
    address: u64,
    start: u32,
    count: u32,
    word: impl Fn(u32) -> Option<u64>,
) -> Option<SpaceEntry> {
    let (mut low, mut high) = (0, count);
    // First mapping that starts behind the address; the one before it may hold it.
    for _ in 0..SPACE_STEPS {
        if low >= high {
            break;
        }
        let middle = low + (high - low) / 2;
        if word(start + middle * SPACE_ENTRY_WORDS)? <= address {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if low == 0 {
        return None;
    }
    let at = start + (low - 1) * SPACE_ENTRY_WORDS;
    let end = word(at + 1)?;
    if address >= end {
        return None;
    }
    let table = word(at + 3)?;
    Some(SpaceEntry {
        start: word(at)?,
        end,
        origin: word(at + 2)?,
        table: table as u32,
        pages: (table >> 32) as u32,
    })
}

#[cfg(test)]
mod tests;
