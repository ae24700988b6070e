//! The interpreter's frames of one thread, read without its help.
//!
//! The thread state is taken from the thread's own pthread slot, where it stays while the thread has
//! released the lock, and proved by one read: its `thread_id` must be this thread's fs base. Layout comes
//! in from user space ([`PythonInfo`]); the walk itself knows CPython 3.11's shape: frames linked by
//! `previous`, the last one of each native evaluation flagged as entry, and one C frame record per
//! evaluation, which lies on the C stack and so tells which native frame evaluates.

use crate::memory::{UserMemory, is_user_address};
use crate::wire::{Gil, PythonEnd, PythonFrame, PythonInfo};

/// Words read of an interpreter frame: covers every field used in any supported version.
pub const FRAME_WORDS: usize = 10;

/// glibc, x86-64: offset of `struct pthread.specific_1stblock` from the fs base, entries of 16 bytes, the
/// value second. Read off glibc 2.36 and 2.43; checked at each sample by the thread id.
const GLIBC_FIRST_BLOCK: u64 = 0x310;
/// Offset of `struct pthread.specific`, pointers to blocks of 32 entries.
const GLIBC_BLOCKS: u64 = 0x510;
/// Keys of one block.
const GLIBC_BLOCK_KEYS: u64 = 32;
/// Keys a process can have (`PTHREAD_KEYS_MAX`).
const GLIBC_KEYS: u64 = 1024;

/// The thread state found for the sampled thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadState {
    /// Its address.
    pub address: u64,
    /// The running thread state of the interpreter, read on the way; 0 if none.
    pub current: u64,
}

/// Finds the thread state of the thread whose fs base this is.
#[inline(always)]
pub fn thread_state(
    memory: &impl UserMemory,
    info: &PythonInfo,
    fs_base: u64,
) -> Result<ThreadState, PythonEnd> {
    let current = memory
        .read::<u64>(info.runtime + u64::from(info.tstate_current))
        .ok_or(PythonEnd::Unreadable)?;
    // Sub-interpreters: the slot keeps the first state bound to the thread, the running one may differ.
    if current != 0 && owns(memory, info, current, fs_base) {
        return Ok(ThreadState {
            address: current,
            current,
        });
    }
    let key = memory
        .read::<u32>(info.runtime + u64::from(info.tss_key))
        .ok_or(PythonEnd::Unreadable)?;
    let slot = slot_address(memory, fs_base, u64::from(key)).ok_or(PythonEnd::NoThreadState)?;
    let address = memory.read::<u64>(slot).ok_or(PythonEnd::Unreadable)?;
    if address == 0 {
        return Err(PythonEnd::NoThreadState);
    }
    if !owns(memory, info, address, fs_base) {
        return Err(PythonEnd::WrongThread);
    }
    Ok(ThreadState { address, current })
}

#[inline(always)]
fn owns(memory: &impl UserMemory, info: &PythonInfo, state: u64, fs_base: u64) -> bool {
    memory.read::<u64>(state + u64::from(info.tstate_thread_id)) == Some(fs_base)
}

#[inline(always)]
fn slot_address(memory: &impl UserMemory, fs_base: u64, key: u64) -> Option<u64> {
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
    let holder_at = info.runtime + u64::from(info.gil_last_holder);
    let locked_at = info.runtime + u64::from(info.gil_locked);
    let (Some(before), Some(locked), Some(after)) = (
        memory.read::<u64>(holder_at),
        memory.read::<u32>(locked_at),
        memory.read::<u64>(holder_at),
    ) else {
        return Gil::Unknown;
    };
    if before != after {
        return Gil::Unknown;
    }
    if locked == 1 && before == state.address {
        Gil::Held
    } else {
        Gil::NotHeld
    }
}

/// Where the walk stands: the frame to visit next, and the C frame record of its evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Next interpreter frame; 0 at the end.
    pub frame: u64,
    /// C frame record that evaluates it.
    pub cframe: u64,
}

/// The innermost frame of a thread state.
#[inline(always)]
pub fn start(memory: &impl UserMemory, info: &PythonInfo, state: ThreadState) -> Option<Cursor> {
    let cframe = memory.read::<u64>(state.address + u64::from(info.tstate_cframe))?;
    let frame = memory.read::<u64>(cframe + u64::from(info.cframe_current_frame))?;
    Some(Cursor { frame, cframe })
}

/// Reads the frame under the cursor and moves to its caller. `words` is room for the raw frame.
#[inline(always)]
pub fn step(
    memory: &impl UserMemory,
    info: &PythonInfo,
    cursor: &mut Cursor,
    words: &mut [u64; FRAME_WORDS],
) -> Option<PythonFrame> {
    *words = memory.read::<[u64; FRAME_WORDS]>(cursor.frame)?;
    let code = word(words, info.frame_code_word);
    let flags = word(words, info.frame_flags_word);
    let mut frame = PythonFrame {
        code,
        instruction: word(words, info.frame_instruction_word),
        anchor: 0,
        check: code_check(memory, info, code)?,
    };
    cursor.frame = word(words, info.frame_previous_word);
    if (flags >> (info.frame_entry_shift & 63)) & 0xff != 0 {
        frame.anchor = cursor.cframe;
        // The outermost record lies in the thread state; a failed read shows at the next frame, if any.
        cursor.cframe = memory
            .read::<u64>(cursor.cframe + u64::from(info.cframe_previous))
            .unwrap_or(0);
    }
    Some(frame)
}

#[inline(always)]
fn word(words: &[u64; FRAME_WORDS], index: u8) -> u64 {
    let index = usize::from(index);
    if index < FRAME_WORDS { words[index] } else { 0 }
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
mod tests {
    use super::*;
    use crate::memory::fake::FakeMemory;

    const FS: u64 = 0x7f00_0000_0000;
    const RUNTIME: u64 = 0x55_0000;
    const STATE: u64 = 0x60_0000;

    /// A layout like 3.11's.
    fn info() -> PythonInfo {
        PythonInfo {
            runtime: RUNTIME,
            tss_key: 596,
            gil_last_holder: 368,
            gil_locked: 376,
            tstate_current: 576,
            tstate_thread_id: 152,
            tstate_cframe: 56,
            cframe_current_frame: 8,
            cframe_previous: 16,
            frame_code_word: 4,
            frame_previous_word: 6,
            frame_instruction_word: 7,
            frame_flags_word: 8,
            frame_entry_shift: 32,
            code_first_line: 72,
            code_names: 112,
            ..PythonInfo::default()
        }
    }

    fn put_code(memory: &mut FakeMemory, at: u64, line: u32) -> u64 {
        memory.put(at + 112, at + 0x1000);
        memory.put(at + 120, at + 0x2000);
        memory.put_u32(at + 72, line);
        fold_check(at + 0x1000, at + 0x2000, line)
    }

    fn put_frame(memory: &mut FakeMemory, at: u64, code: u64, previous: u64, entry: bool) {
        for index in 0..FRAME_WORDS as u64 {
            memory.put(at + 8 * index, 0);
        }
        memory.put(at + 32, code);
        memory.put(at + 48, previous);
        memory.put(at + 56, code + 200);
        memory.put(at + 64, u64::from(entry) << 32);
    }

    /// A thread with three frames in two evaluations, key 1, lock released.
    fn thread() -> (FakeMemory, [u64; 3]) {
        let mut memory = FakeMemory::default();
        memory.put(RUNTIME + 576, 0);
        memory.put_u32(RUNTIME + 596, 1);
        memory.put(RUNTIME + 368, STATE);
        memory.put_u32(RUNTIME + 376, 0);
        memory.put(FS + GLIBC_FIRST_BLOCK + 16 + 8, STATE);
        memory.put(STATE + 152, FS);
        memory.put(STATE + 56, 0x7fff_1000);
        memory.put(0x7fff_1000 + 8, 0x70_0000);
        memory.put(0x7fff_1000 + 16, 0x7fff_2000);
        memory.put(0x7fff_2000 + 16, STATE + 0x100);
        put_frame(&mut memory, 0x70_0000, 0x80_0000, 0x71_0000, false);
        put_frame(&mut memory, 0x71_0000, 0x81_0000, 0x72_0000, true);
        put_frame(&mut memory, 0x72_0000, 0x82_0000, 0, true);
        let checks = [0x80_0000, 0x81_0000, 0x82_0000].map(|at| put_code(&mut memory, at, 7));
        (memory, checks)
    }

    /// All frames come out leaf first, with an anchor on the outermost of each evaluation.
    #[test]
    fn walks_frames_and_anchors() {
        let (memory, checks) = thread();
        let state = thread_state(&memory, &info(), FS).unwrap();
        assert_eq!(state.address, STATE);
        assert_eq!(gil(&memory, &info(), state), Gil::NotHeld);
        let mut cursor = start(&memory, &info(), state).unwrap();
        let mut words = [0; FRAME_WORDS];
        let mut seen = Vec::new();
        while cursor.frame != 0 {
            seen.push(step(&memory, &info(), &mut cursor, &mut words).unwrap());
        }
        let anchors: Vec<u64> = seen.iter().map(|frame| frame.anchor).collect();
        assert_eq!(anchors, [0, 0x7fff_1000, 0x7fff_2000]);
        let codes: Vec<u64> = seen.iter().map(|frame| frame.code).collect();
        assert_eq!(codes, [0x80_0000, 0x81_0000, 0x82_0000]);
        assert_eq!(
            seen.iter().map(|frame| frame.check).collect::<Vec<_>>(),
            checks
        );
        assert_eq!(seen[0].instruction, 0x80_0000 + 200);
    }

    /// The lock is held only when taken, and by this thread.
    #[test]
    fn reads_the_lock() {
        let (mut memory, _) = thread();
        let state = ThreadState {
            address: STATE,
            current: 0,
        };
        memory.put_u32(RUNTIME + 376, 1);
        assert_eq!(gil(&memory, &info(), state), Gil::Held);
        memory.put(RUNTIME + 368, STATE + 8);
        assert_eq!(gil(&memory, &info(), state), Gil::NotHeld);
        assert_eq!(gil(&FakeMemory::default(), &info(), state), Gil::Unknown);
    }

    /// A state that is another thread's is refused, an empty slot is no Python thread.
    #[test]
    fn proves_the_thread_state() {
        let (mut memory, _) = thread();
        memory.put(STATE + 152, FS + 64);
        assert_eq!(
            thread_state(&memory, &info(), FS),
            Err(PythonEnd::WrongThread)
        );
        memory.put(FS + GLIBC_FIRST_BLOCK + 16 + 8, 0);
        assert_eq!(
            thread_state(&memory, &info(), FS),
            Err(PythonEnd::NoThreadState)
        );
    }

    /// Keys beyond the first block go through the block table.
    #[test]
    fn finds_high_keys() {
        let (mut memory, _) = thread();
        memory.put_u32(RUNTIME + 596, 33);
        memory.put(FS + GLIBC_BLOCKS + 8, 0x90_0000);
        memory.put(0x90_0000 + 16 + 8, STATE);
        assert_eq!(thread_state(&memory, &info(), FS).unwrap().address, STATE);
        memory.put_u32(RUNTIME + 596, u32::MAX);
        assert_eq!(
            thread_state(&memory, &info(), FS),
            Err(PythonEnd::NoThreadState)
        );
    }

    /// The running state is preferred when it is this thread's (sub-interpreters).
    #[test]
    fn prefers_the_running_state() {
        let (mut memory, _) = thread();
        memory.put(RUNTIME + 576, STATE + 0x1000);
        memory.put(STATE + 0x1000 + 152, FS);
        assert_eq!(
            thread_state(&memory, &info(), FS).unwrap().address,
            STATE + 0x1000
        );
    }
}
