//! The native walk, a few frames at a time: a program of bounded size that tail-calls itself.
//!
//! State lies in the scratch. Frame counts are read back from memory: that keeps the verifier from following
//! every length of one walk through the next.

use aya_ebpf::programs::PerfEventContext;
use profiler_ebpf::calls;
use profiler_ebpf::memory::is_user_address;
use profiler_ebpf::unwind;
use profiler_ebpf::wire::{
    CHUNK_WORDS, Counter, MAX_KERNEL_FRAMES, MAX_NATIVE_FRAMES, MAX_PYTHON_FRAMES,
    NATIVE_FRAME_WORDS, NativeEnd, PYTHON_FRAME_WORDS, SampleHeader, how,
};

use super::maps::{EVENTS, MEMORY, SCRATCH, STAGES, Scratch};
use super::{CurrentTask, count};

/// Frames walked by one run of the program. With 33 tail calls at most (`MAX_TAIL_CALL_CNT`), 30 of them here,
/// this reaches [`MAX_NATIVE_FRAMES`].
const FRAMES_PER_RUN: usize = 8;

/// Programs that follow the first one, by index in the map of stages.
#[derive(Clone, Copy)]
pub enum Stage {
    /// [`native`], again until the stack ends.
    Native = 0,
    /// [`super::python::run`].
    Python = 1,
}

/// Goes on with another program; returns only if that fails.
#[inline(always)]
pub fn go_on(ctx: &PerfEventContext, stage: Stage) {
    // SAFETY: the program there has the type of this one; nothing here needs to be undone.
    unsafe { STAGES.tail_call(ctx, stage as u32) };
}

/// Walks the next few native frames.
#[inline(always)]
pub fn native(ctx: &PerfEventContext) {
    let Some(scratch) = scratch() else { return };
    for _ in 0..FRAMES_PER_RUN {
        if let Err(end) = frame(scratch) {
            scratch.header.native_end = end as u8;
            go_on(ctx, Stage::Python);
            send(ctx, scratch);
            return;
        }
    }
    go_on(ctx, Stage::Native);
    scratch.header.native_end = NativeEnd::Abandoned as u8;
    send(ctx, scratch);
}

/// Records the frame the walk stands at and moves to its caller.
#[inline(always)]
fn frame(scratch: &mut Scratch) -> Result<(), NativeEnd> {
    let index = stored(&scratch.header.native_frames, MAX_NATIVE_FRAMES);
    if index >= MAX_NATIVE_FRAMES {
        return Err(NativeEnd::Depth);
    }
    let at = stored(&scratch.header.kernel_frames, MAX_KERNEL_FRAMES) + index * NATIVE_FRAME_WORDS;
    let walk = &scratch.walk;
    scratch.words[at] = walk.registers.pc;
    scratch.words[at + 1] = walk.registers.sp;
    scratch.words[at + 2] = walk.how;
    scratch.header.native_frames = index as u16 + 1;
    let returns = walk.how & how::RETURN_ADDRESS != 0;
    let (caller, guess) = unwind::step(&CurrentTask, walk.registers, returns, walk.space, word)?;
    let mut registers = caller.registers;
    if let Some(original) = calls::return_address_at(&walk.open, caller.slot) {
        registers.pc = original;
    }
    if !is_user_address(registers.pc) {
        let end = if registers.pc == 0 {
            NativeEnd::Root
        } else {
            NativeEnd::NoUnwindData
        };
        return Err(end);
    }
    scratch.walk.how = guess
        | if caller.interrupted {
            0
        } else {
            how::RETURN_ADDRESS
        };
    scratch.walk.registers = registers;
    Ok(())
}

/// A word of the memory both sides see.
#[inline(always)]
fn word(index: u32) -> Option<u64> {
    MEMORY
        .get_value(index / CHUNK_WORDS, &(index % CHUNK_WORDS))
        .copied()
}

/// Sends the sample off and frees the scratch.
#[inline(always)]
pub fn send(_ctx: &PerfEventContext, scratch: &mut Scratch) {
    let words = stored(&scratch.header.kernel_frames, MAX_KERNEL_FRAMES)
        + stored(&scratch.header.native_frames, MAX_NATIVE_FRAMES) * NATIVE_FRAME_WORDS
        + stored(&scratch.header.python_frames, MAX_PYTHON_FRAMES) * PYTHON_FRAME_WORDS;
    let bytes = size_of::<SampleHeader>() + 8 * words;
    // SAFETY: header and words lie side by side in the scratch, and `bytes` ends within the words.
    let record =
        unsafe { core::slice::from_raw_parts((&raw const scratch.header).cast::<u8>(), bytes) };
    if EVENTS.output::<[u8]>(record, 0).is_err() {
        count(Counter::RingFull, 1);
        crate::log_line!(_ctx, "sample lost: ring full");
    }
    scratch.busy = 0;
}

/// This CPU's sample in the making.
#[inline(always)]
pub fn scratch() -> Option<&'static mut Scratch> {
    // SAFETY: a per-CPU slot; `busy` keeps a nested sample out until this one is sent.
    SCRATCH
        .get_ptr_mut(0)
        .map(|scratch| unsafe { &mut *scratch })
}

/// A count read back from memory, so that the verifier forgets how it came about, and its limit, so that
/// it knows what the count cannot exceed.
#[inline(always)]
pub fn stored(count: &u16, limit: usize) -> usize {
    // SAFETY: a plain aligned read.
    let count = usize::from(unsafe { core::ptr::read_volatile(count) });
    if count > limit { limit } else { count }
}

/// A value read back from memory.
#[inline(always)]
pub fn stored_u32(value: &u32) -> u32 {
    // SAFETY: a plain aligned read.
    unsafe { core::ptr::read_volatile(value) }
}
