//! The name a thread was given in Python: `threading.Thread`'s own, which the kernel does not know before
//! CPython 3.14.
//!
//! Read off the thread's outermost frame, `Thread._bootstrap(self)`: its first local is the thread object,
//! whose attributes lie either in place (3.11: pointers before the object, keys shared by the class) or in
//! a dict. Layouts of CPython 3.11: `Include/internal/pycore_{interp,frame,dict,object}.h`.

use super::layout::V3_11;
use super::text::read_text;
use crate::process::TargetMemory;

/// Threads looked through to find one.
const MAX_THREADS: usize = 4096;
/// Frames walked to the outermost one.
const MAX_FRAMES: usize = 1024;
/// Attributes of a thread object looked through.
const MAX_ATTRIBUTES: u64 = 128;

/// The Python name of thread `tid`, whose process keeps its `_PyRuntime` at `runtime`. `None` for a thread
/// that `threading` did not make, or that cannot be read.
pub fn thread_name(memory: TargetMemory, runtime: u64, tid: u32) -> Option<String> {
    let state = thread_state(memory, runtime, tid)?;
    let frame = outermost_frame(memory, state)?;
    if read_text(
        memory,
        &V3_11,
        word(memory, code_of(memory, frame)?, V3_11.code_name as u64)?,
    )? != "_bootstrap"
    {
        return None;
    }
    let thread = word(memory, frame, 72)?; // localsplus[0]
    let name = attribute(memory, thread, "_name")?;
    read_text(memory, &V3_11, name)
}

fn word(memory: TargetMemory, base: u64, offset: u64) -> Option<u64> {
    memory.read(base.checked_add(offset)?)
}

fn code_of(memory: TargetMemory, frame: u64) -> Option<u64> {
    word(memory, frame, 32)
}

fn thread_state(memory: TargetMemory, runtime: u64, tid: u32) -> Option<u64> {
    let interpreter = word(memory, runtime, 40)?; // interpreters.head
    let mut state = word(memory, interpreter, 16)?; // threads.head
    for _ in 0..MAX_THREADS {
        if state == 0 {
            return None;
        }
        if word(memory, state, 160)? == u64::from(tid) {
            return Some(state); // native_thread_id
        }
        state = word(memory, state, 8)?; // next
    }
    None
}

fn outermost_frame(memory: TargetMemory, state: u64) -> Option<u64> {
    let record = word(memory, state, 56)?; // cframe
    let mut frame = word(memory, record, 8)?; // current_frame
    for _ in 0..MAX_FRAMES {
        let previous = word(memory, frame, 48)?;
        if previous == 0 {
            return Some(frame);
        }
        frame = previous;
    }
    None
}

/// The value of an attribute kept by the object itself.
fn attribute(memory: TargetMemory, object: u64, name: &str) -> Option<u64> {
    let values = word(memory, object.checked_sub(32)?, 0)?;
    if values != 0 {
        let class = word(memory, object, 8)?;
        let keys = word(memory, class, 872)?; // PyHeapTypeObject.ht_cached_keys
        let (index, _) = find_key(memory, keys, name)?;
        return word(memory, values, 8 * index).filter(|value| *value != 0);
    }
    let dict = word(memory, object.checked_sub(24)?, 0)?;
    let (keys, values) = (word(memory, dict, 32)?, word(memory, dict, 40)?);
    let (index, value_at) = find_key(memory, keys, name)?;
    let value = if values != 0 {
        word(memory, values, 8 * index)?
    } else {
        word(memory, value_at, 0)?
    };
    (value != 0).then_some(value)
}

/// Where a key stands in a dict's key table: its index, and the address of the value beside it.
fn find_key(memory: TargetMemory, keys: u64, name: &str) -> Option<(u64, u64)> {
    let [_, log2_index_bytes, kind, _] = memory.read::<[u8; 4]>(keys.checked_add(8)?)?;
    if log2_index_bytes > 16 {
        return None;
    }
    let entries = keys.checked_add(32)?.checked_add(1 << log2_index_bytes)?;
    // General tables keep a hash before key and value.
    let (entry_bytes, key_at) = if kind == 0 { (24, 8) } else { (16, 0) };
    let count = word(memory, keys, 24)?.min(MAX_ATTRIBUTES);
    (0..count).find_map(|index| {
        let entry = entries.checked_add(index * entry_bytes)?;
        let key = word(memory, entry, key_at).filter(|key| *key != 0)?;
        (read_text(memory, &V3_11, key)? == name).then_some((index, entry + key_at + 8))
    })
}
