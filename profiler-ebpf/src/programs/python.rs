//! The interpreter's frames, after the native ones; then the sample is complete.

use aya_ebpf::programs::PerfEventContext;
use profiler_ebpf::memory::is_user_address;
use profiler_ebpf::python;
use profiler_ebpf::wire::{
    MAX_KERNEL_FRAMES, MAX_NATIVE_FRAMES, MAX_PYTHON_FRAMES, NATIVE_FRAME_WORDS,
    PYTHON_FRAME_WORDS, PythonEnd,
};

use super::CurrentTask;
use super::maps::{PYTHON, Scratch};
use super::walk::{scratch, send, stored, stored_u32};

/// The last stage of a sample.
#[inline(always)]
pub fn run(ctx: &PerfEventContext) {
    let Some(scratch) = scratch() else { return };
    let fs_base = scratch.walk.fs_base;
    if fs_base != 0 {
        frames(fs_base, scratch);
    }
    send(ctx, scratch);
}

#[inline(always)]
fn frames(fs_base: u64, scratch: &mut Scratch) {
    // SAFETY: user space replaces values whole; a torn read fails the thread's proof.
    let Some(info) = (unsafe { PYTHON.get(stored_u32(&scratch.header.tgid)) }) else {
        return;
    };
    let state = match python::thread_state(&CurrentTask, info, fs_base) {
        Ok(state) => state,
        Err(end) => {
            scratch.header.python_end = end as u8;
            return;
        }
    };
    scratch.header.gil = python::gil(&CurrentTask, info, state) as u8;
    let Some(mut cursor) = python::start(&CurrentTask, info, state) else {
        scratch.header.python_end = PythonEnd::Unreadable as u8;
        return;
    };
    let base = stored(&scratch.header.kernel_frames, MAX_KERNEL_FRAMES)
        + stored(&scratch.header.native_frames, MAX_NATIVE_FRAMES) * NATIVE_FRAME_WORDS;
    let mut end = PythonEnd::Depth;
    for index in 0..MAX_PYTHON_FRAMES {
        if cursor.frame == 0 {
            end = PythonEnd::Root;
            break;
        }
        let at = base + index * PYTHON_FRAME_WORDS;
        if !is_user_address(cursor.frame) {
            end = PythonEnd::Unreadable;
            break;
        }
        let Some(frame) = python::step(&CurrentTask, info, &mut cursor, &mut scratch.python) else {
            end = PythonEnd::Unreadable;
            break;
        };
        scratch.words[at] = frame.code;
        scratch.words[at + 1] = frame.instruction;
        scratch.words[at + 2] = frame.anchor;
        scratch.words[at + 3] = frame.check;
        scratch.header.python_frames = index as u16 + 1;
    }
    scratch.header.python_end = end as u8;
}
