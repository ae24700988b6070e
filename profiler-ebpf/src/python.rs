//! The interpreter's frames of one thread, read without its help.
//!
//! The thread state is taken from the thread's own pthread slot, where it stays while the thread has
//! released the lock, and proved by one read: its `thread_id` must be this thread's fs base. Layout comes
//! in from user space ([`PythonInfo`]). What differs between versions beyond offsets is how a frame tells which
//! native frame evaluates it ([`anchors`]): something of each evaluation lies on the C stack since 3.10.

use bytemuck::{Pod, Zeroable};

use crate::memory::{UserMemory, is_user_address};
use crate::wire::{Gil, PythonEnd, PythonFrame, PythonInfo, anchors};

/// Words read of an interpreter frame: covers every field used in any supported version.
pub const FRAME_WORDS: usize = 10;
/// Room for them: a power of two, so that an index needs no branch, only a mask.
pub const FRAME_ROOM: usize = 16;

/// glibc, x86-64: offset of `struct pthread.specific_1stblock` from the fs base, entries of 16 bytes, the
/// value second. Read off glibc 2.36 and 2.43; checked at each sample by the thread id.
const GLIBC_FIRST_BLOCK: u64 = 0x310;
/// Offset of `struct pthread.specific`, pointers to blocks of 32 entries.
const GLIBC_BLOCKS: u64 = 0x510;
/// Keys of one block.
const GLIBC_BLOCK_KEYS: u64 = 32;
/// Keys a process can have (`PTHREAD_KEYS_MAX`).
const GLIBC_KEYS: u64 = 1024;
/// musl, x86-64: offset of `struct pthread.tsd`, a pointer to as many words as there are keys. Read off 1.2.3.
const MUSL_TSD: u64 = 0x80;
/// Keys a process can have there.
const MUSL_KEYS: u64 = 128;

/// Owners of frames from here on are no Python code: they stand for the C code that evaluates (3.12 on).
const SHIM_OWNER: u64 = 3;
/// Low bits of a pointer to a code object that do not belong to its address (3.14 on).
const TAG_BITS: u64 = 3;

/// The thread state found for the sampled thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadState {
    /// Its address.
    pub address: u64,
}

/// Finds the thread state of the thread whose fs base this is.
#[inline(always)]
pub fn thread_state(
    memory: &impl UserMemory,
    info: &PythonInfo,
    fs_base: u64,
) -> Result<ThreadState, PythonEnd> {
    if info.tstate_current != 0 {
        let current = memory
            .read::<u64>(info.runtime + u64::from(info.tstate_current))
            .ok_or(PythonEnd::Unreadable)?;
        // Sub-interpreters: the slot keeps the first state bound to the thread, the running one may differ.
        if current != 0 && owns(memory, info, current, fs_base) {
            return Ok(ThreadState { address: current });
        }
    }
    let key = memory
        .read::<u32>(info.runtime + u64::from(info.tss_key))
        .ok_or(PythonEnd::Unreadable)?;
    let slot =
        slot_address(memory, info, fs_base, u64::from(key)).ok_or(PythonEnd::NoThreadState)?;
    let address = memory.read::<u64>(slot).ok_or(PythonEnd::Unreadable)?;
    if address == 0 {
        return Err(PythonEnd::NoThreadState);
    }
    if !owns(memory, info, address, fs_base) {
        return Err(PythonEnd::WrongThread);
    }
    Ok(ThreadState { address })
}

#[inline(always)]
fn owns(memory: &impl UserMemory, info: &PythonInfo, state: u64, fs_base: u64) -> bool {
    memory.read::<u64>(state + u64::from(info.tstate_thread_id)) == Some(fs_base)
}

#[inline(always)]
fn slot_address(
    memory: &impl UserMemory,
    info: &PythonInfo,
    fs_base: u64,
    key: u64,
) -> Option<u64> {
    if info.musl != 0 {
        let table = memory.read::<u64>(fs_base + MUSL_TSD)?;
        return (key < MUSL_KEYS && is_user_address(table)).then_some(table + 8 * key);
    }
    if key >= GLIBC_KEYS {
        return None;
    }
    if key < GLIBC_BLOCK_KEYS {
        return Some(fs_base + GLIBC_FIRST_BLOCK + 16 * key + 8);
    }
    let block = memory.read::<u64>(fs_base + GLIBC_BLOCKS + 8 * (key / GLIBC_BLOCK_KEYS))?;
    if !is_user_address(block) {
        return None;
    }
    Some(block + 16 * (key % GLIBC_BLOCK_KEYS) + 8)
}

/// Whether the thread with this state holds the lock. Holder and state are two words that change
/// apart, so the holder is read twice.
#[inline(always)]
pub fn gil(memory: &impl UserMemory, info: &PythonInfo, state: ThreadState) -> Gil {
    read_gil(memory, info, state).unwrap_or(Gil::Unknown)
}

#[inline(always)]
fn read_gil(memory: &impl UserMemory, info: &PythonInfo, state: ThreadState) -> Option<Gil> {
    let lock = if info.gil_of_interpreter != 0 {
        let interpreter = memory.read::<u64>(state.address + u64::from(info.tstate_interpreter))?;
        memory.read::<u64>(interpreter + u64::from(info.gil))?
    } else {
        info.runtime + u64::from(info.gil)
    };
    if info.gil_optional != 0 && memory.read::<u32>(lock)? == 0 {
        return Some(Gil::Absent);
    }
    let holder_at = lock + u64::from(info.gil_last_holder);
    let before = memory.read::<u64>(holder_at)?;
    let locked = memory.read::<u32>(lock + u64::from(info.gil_locked))?;
    let after = memory.read::<u64>(holder_at)?;
    if before != after {
        return None;
    }
    Some(if locked == 1 && before == state.address {
        Gil::Held
    } else {
        Gil::NotHeld
    })
}

/// Where the walk stands: the frame to visit next, and the C frame record of its evaluation.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct Cursor {
    /// Next interpreter frame; 0 at the end.
    pub frame: u64,
    /// C frame record that evaluates it; 0 where there are none.
    pub cframe: u64,
    /// The record in the thread state, which lies behind all others and is no evaluation's.
    pub root_cframe: u64,
}

/// The innermost frame of a thread state.
#[inline(always)]
pub fn start(memory: &impl UserMemory, info: &PythonInfo, state: ThreadState) -> Option<Cursor> {
    let cframe = if info.tstate_cframe != 0 {
        memory.read::<u64>(state.address + u64::from(info.tstate_cframe))?
    } else {
        0
    };
    let frame_at = if info.tstate_frame != 0 {
        state.address + u64::from(info.tstate_frame)
    } else {
        cframe + u64::from(info.cframe_current_frame)
    };
    Some(Cursor {
        frame: memory.read::<u64>(frame_at)?,
        cframe,
        root_cframe: state.address + u64::from(info.tstate_root_cframe),
    })
}

/// What the cursor stood at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A frame of Python code.
    Frame(PythonFrame),
    /// None: an address in the native frame that evaluates the frames before.
    Shim(u64),
}

/// Reads the frame under the cursor and moves to its caller. `words` is room for the raw frame.
#[inline(always)]
pub fn step(
    memory: &impl UserMemory,
    info: &PythonInfo,
    cursor: &mut Cursor,
    words: &mut [u64; FRAME_ROOM],
) -> Option<Step> {
    let address = cursor.frame;
    let read = memory.read::<[u64; FRAME_WORDS]>(address + u64::from(info.frame_start))?;
    words[..FRAME_WORDS].copy_from_slice(&read);
    let flags = (word(words, info.frame_flags_word) >> (info.frame_flags_shift & 63)) & 0xff;
    cursor.frame = word(words, info.frame_previous_word);
    if info.anchors == anchors::SHIM && flags >= SHIM_OWNER {
        return Some(Step::Shim(address));
    }
    let ends_evaluation =
        info.anchors == anchors::EVERY || info.anchors == anchors::ENTRY && flags != 0;
    let anchor = if ends_evaluation {
        take_record(memory, info, cursor)
    } else {
        0
    };
    let instruction = if info.frame_last_index != 0 {
        let index = memory.read::<i32>(address + u64::from(info.frame_last_index))?;
        i64::from(index).cast_unsigned()
    } else {
        word(words, info.frame_instruction_word)
    };
    let code = word(words, info.frame_code_word) & !TAG_BITS;
    Some(Step::Frame(PythonFrame {
        code,
        instruction,
        anchor,
        check: code_check(memory, info, code).unwrap_or(0),
    }))
}

/// At the end of the chain: the record of an evaluation that is not the outermost, if one is left. Its frame is not
/// linked (yet), so every frame has got the record of the one it called.
#[inline(always)]
pub fn left_over(memory: &impl UserMemory, info: &PythonInfo, cursor: &mut Cursor) -> Option<u64> {
    let anchor = if info.anchors == anchors::EVERY {
        take_record(memory, info, cursor)
    } else {
        0
    };
    (anchor != 0).then_some(anchor)
}

/// The C frame record of the current evaluation, and on to the one before. For the outermost, which is no evaluation's,
/// 0; what its pointer to the one before holds was never set.
#[inline(always)]
fn take_record(memory: &impl UserMemory, info: &PythonInfo, cursor: &mut Cursor) -> u64 {
    let record = cursor.cframe;
    if record == cursor.root_cframe {
        return 0;
    }
    // A failed read shows at the next frame, if any.
    cursor.cframe = memory
        .read::<u64>(record + u64::from(info.cframe_previous))
        .unwrap_or(0);
    record
}

#[inline(always)]
fn word(words: &[u64; FRAME_ROOM], index: u8) -> u64 {
    words[usize::from(index) % FRAME_ROOM]
}

/// Folds where a code object's names lie and its first line. User space computes the same from its own
/// read, so a code object that took another's address is noticed.
#[inline(always)]
pub fn fold_check(file_name: u64, name: u64, first_line: u32) -> u64 {
    file_name ^ name.rotate_left(21) ^ (u64::from(first_line) << 40)
}

#[inline(always)]
fn code_check(memory: &impl UserMemory, info: &PythonInfo, code: u64) -> Option<u64> {
    let [file_name, name] = memory.read::<[u64; 2]>(code + u64::from(info.code_names))?;
    let first_line = memory.read::<u32>(code + u64::from(info.code_first_line))?;
    Some(fold_check(file_name, name, first_line))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
