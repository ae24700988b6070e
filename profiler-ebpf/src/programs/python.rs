//! The interpreter's frames, after the native ones; then the sample is complete.
//!
//! Like the native walk a program of bounded size that tail-calls itself, with all of its state in the scratch: each
//! frame is then the same to the verifier as the one before. Of the 33 tail calls that a sample may have the native
//! walk uses up to 31, so at least two runs are left.

use aya_ebpf::programs::PerfEventContext;
use profiler_ebpf::memory::is_user_address;
use profiler_ebpf::python::{self, Step};
use profiler_ebpf::wire::{
    MAX_FRAME_WORDS, MAX_KERNEL_FRAMES, MAX_NATIVE_FRAMES, MAX_PYTHON_FRAMES, NATIVE_FRAME_WORDS,
    PYTHON_FRAME_WORDS, PythonEnd, PythonFrame, PythonInfo,
};

use super::CurrentTask;
use super::maps::{PYTHON, Scratch};
use super::walk::{Stage, go_on, scratch, send, stored, stored_u32};

/// Frames walked by one run of the program: two runs, for which there is always room, walk 192.
const FRAMES_PER_RUN: usize = 96;

/// The last stage of a sample.
#[inline(always)]
pub fn run(ctx: &PerfEventContext) {
    let Some(scratch) = scratch() else { return };
    let end = frames(scratch);
    if let Some(end) = end {
        scratch.header.python_end = end as u8;
        send(ctx, scratch);
        return;
    }
    go_on(ctx, Stage::Python);
    scratch.header.python_end = PythonEnd::Depth as u8;
    send(ctx, scratch);
}

/// Walks some frames; how the walk ended, if it did.
#[inline(always)]
fn frames(scratch: &mut Scratch) -> Option<PythonEnd> {
    // SAFETY: user space replaces values whole; a torn read fails the thread's proof.
    let Some(info) = (unsafe { PYTHON.get(stored_u32(&scratch.header.tgid)) }) else {
        return Some(PythonEnd::NotPython);
    };
    if scratch.python_begun == 0 {
        scratch.python_begun = 1;
        if let Err(end) = begin(scratch, info) {
            return Some(end);
        }
    }
    for _ in 0..FRAMES_PER_RUN {
        if let Err(end) = frame(scratch, info) {
            return Some(end);
        }
    }
    None
}

#[inline(always)]
fn begin(scratch: &mut Scratch, info: &PythonInfo) -> Result<(), PythonEnd> {
    let fs_base = scratch.walk.fs_base;
    if fs_base == 0 {
        return Err(PythonEnd::NotPython);
    }
    let state = python::thread_state(&CurrentTask, info, fs_base)?;
    let first = stored(&scratch.header.kernel_frames, MAX_KERNEL_FRAMES)
        + stored(&scratch.header.native_frames, MAX_NATIVE_FRAMES) * NATIVE_FRAME_WORDS;
    scratch.python_next = first as u64;
    scratch.header.gil = python::gil(&CurrentTask, info, state) as u8;
    scratch.python_cursor =
        python::start(&CurrentTask, info, state).ok_or(PythonEnd::Unreadable)?;
    Ok(())
}

/// Records the frame the walk stands at and moves to its caller.
#[inline(always)]
fn frame(scratch: &mut Scratch, info: &PythonInfo) -> Result<(), PythonEnd> {
    let mut cursor = forgotten(&scratch.python_cursor);
    if cursor.frame == 0 {
        if let Some(anchor) = python::left_over(&CurrentTask, info, &mut cursor) {
            push(
                scratch,
                PythonFrame {
                    code: 0,
                    instruction: 0,
                    anchor,
                    check: 0,
                },
            )?;
        }
        return Err(PythonEnd::Root);
    }
    if !is_user_address(cursor.frame) {
        return Err(PythonEnd::Unreadable);
    }
    let step = python::step(&CurrentTask, info, &mut cursor, &mut scratch.python)
        .ok_or(PythonEnd::Unreadable)?;
    scratch.python_cursor = cursor;
    match step {
        Step::Frame(frame) => {
            scratch.python_frame = frame;
            let frame = forgotten(&scratch.python_frame);
            push(scratch, frame)
        }
        Step::Shim(anchor) => {
            anchor_last(scratch, anchor);
            Ok(())
        }
    }
}

/// A value read back from memory, so that the verifier forgets on which of many ways it came about.
#[inline(always)]
fn forgotten<T: Copy>(value: &T) -> T {
    // SAFETY: a plain aligned read.
    unsafe { core::ptr::read_volatile(value) }
}

#[inline(always)]
fn push(scratch: &mut Scratch, frame: PythonFrame) -> Result<(), PythonEnd> {
    let count = forgotten(&scratch.header.python_frames);
    let at = forgotten(&scratch.python_next) as usize;
    // The second is for the verifier: there is room for that many.
    if usize::from(count) >= MAX_PYTHON_FRAMES || at > MAX_FRAME_WORDS - PYTHON_FRAME_WORDS {
        return Err(PythonEnd::Depth);
    }
    scratch.words[at] = frame.code;
    scratch.words[at + 1] = frame.instruction;
    scratch.words[at + 2] = frame.anchor;
    scratch.words[at + 3] = frame.check;
    scratch.header.python_frames = count + 1;
    scratch.python_next = (at + PYTHON_FRAME_WORDS) as u64;
    Ok(())
}

/// The frames since the last anchor are evaluated there. None since then: an evaluation that only begins or ends.
#[inline(always)]
fn anchor_last(scratch: &mut Scratch, anchor: u64) {
    let count = forgotten(&scratch.header.python_frames);
    let next = forgotten(&scratch.python_next) as usize;
    if count == 0 || !(PYTHON_FRAME_WORDS..=MAX_FRAME_WORDS).contains(&next) {
        return;
    }
    let at = next - PYTHON_FRAME_WORDS + 2;
    if scratch.words[at] == 0 {
        scratch.words[at] = anchor;
    }
}
