//! One sample: who, where in the kernel, where in native code, where in Python, in which driver call.
//!
//! Frame counts are kept in the scratch and read back from memory between the walks: that keeps the
//! verifier from following every length of one walk through the next.

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::pt_regs;
use aya_ebpf::helpers::generated::{
    bpf_get_current_task_btf, bpf_get_smp_processor_id, bpf_get_stack, bpf_ktime_get_ns,
    bpf_task_pt_regs,
};
use aya_ebpf::helpers::{bpf_get_current_comm, bpf_get_current_pid_tgid};
use aya_ebpf::programs::PerfEventContext;
use profiler_ebpf::calls;
use profiler_ebpf::memory::is_user_address;
use profiler_ebpf::python;
use profiler_ebpf::unwind::{self, Registers};
use profiler_ebpf::wire::{
    Config, Counter, Gil, MAX_KERNEL_FRAMES, MAX_NATIVE_FRAMES, MAX_PYTHON_FRAMES,
    NATIVE_FRAME_WORDS, NativeEnd, PYTHON_FRAME_WORDS, PythonEnd, RECORD_SAMPLE, SampleHeader,
};

use super::maps::{EVENTS, OPEN_CALLS, PYTHON, SCRATCH, Scratch};
use super::{CurrentTask, active_config, count, in_scope, read_kernel};

/// Code segment of 64-bit user code on x86-64 (`__USER_CS`); 32-bit code has another.
const USER_CS_64: u64 = 0x33;

/// Takes one sample, unless the CPU is idle or the process is not watched.
#[inline(always)]
pub fn run(ctx: &PerfEventContext) {
    let Some(config) = active_config() else {
        return;
    };
    let pid_tgid = bpf_get_current_pid_tgid();
    if pid_tgid == 0 {
        return; // the idle task
    }
    if !in_scope(config, (pid_tgid >> 32) as u32) {
        return;
    }
    count(Counter::Taken, 1);
    let Some(scratch) = SCRATCH.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: a per-CPU slot of this program; `busy` keeps a nested run out.
    let scratch = unsafe { &mut *scratch };
    if scratch.busy != 0 {
        count(Counter::Nested, 1);
        return;
    }
    scratch.busy = 1;
    take(ctx, config, pid_tgid, scratch);
    send(ctx, scratch);
    scratch.busy = 0;
}

#[inline(always)]
fn take(ctx: &PerfEventContext, config: &Config, pid_tgid: u64, scratch: &mut Scratch) {
    // SAFETY: helpers without arguments.
    let (cpu, time_ns) = unsafe { (bpf_get_smp_processor_id(), bpf_ktime_get_ns()) };
    scratch.header = SampleHeader {
        kind: RECORD_SAMPLE,
        cpu,
        time_ns,
        tgid: (pid_tgid >> 32) as u32,
        tid: pid_tgid as u32,
        comm: bpf_get_current_comm().unwrap_or_default(),
        kernel_frames: 0,
        native_frames: 0,
        python_frames: 0,
        native_end: NativeEnd::NoUserStack as u8,
        python_end: PythonEnd::NotPython as u8,
        gil: Gil::None as u8,
        kernel_missing: 0,
        _pad: 0,
        open_call: 0,
        open_call_sp: 0,
    };
    // SAFETY: the context of a perf event program starts with the interrupted registers.
    let interrupted = unsafe { &(*ctx.ctx).regs };
    let in_user = interrupted.cs & 3 == 3;
    // SAFETY: returns the running task, which is not going away meanwhile.
    let task = unsafe { bpf_get_current_task_btf() };

    let (registers, cs) = if in_user {
        (
            Registers {
                pc: interrupted.rip,
                sp: interrupted.rsp,
                fp: interrupted.rbp,
            },
            interrupted.cs,
        )
    } else {
        kernel_stack(ctx, scratch);
        if read_kernel::<u64>(task as u64, config.task_mm).unwrap_or(0) == 0 {
            return; // a kernel thread
        }
        // SAFETY: the task is the current one; the helper computes where its user registers lie.
        let entry = unsafe { bpf_task_pt_regs(task) } as *const pt_regs;
        // SAFETY: the helper checks the address and copies.
        let Ok(entry) = (unsafe { aya_ebpf::helpers::bpf_probe_read_kernel(entry) }) else {
            return;
        };
        if entry.cs & 3 != 3 {
            return; // a user worker thread that never runs in user mode
        }
        (
            Registers {
                pc: entry.rip,
                sp: entry.rsp,
                fp: entry.rbp,
            },
            entry.cs,
        )
    };
    if cs != USER_CS_64 {
        scratch.header.native_end = NativeEnd::ThirtyTwoBit as u8;
        return;
    }
    open_call(pid_tgid, registers.sp, &mut scratch.header);
    native_walk(registers, scratch);
    if let Some(fs_base) = read_kernel::<u64>(task as u64, config.task_fsbase) {
        python_walk(fs_base, scratch);
    }
}

#[inline(always)]
fn kernel_stack(ctx: &PerfEventContext, scratch: &mut Scratch) {
    // SAFETY: the buffer is at least that large; the helper writes at most that much.
    let bytes = unsafe {
        bpf_get_stack(
            ctx.as_ptr(),
            scratch.words.as_mut_ptr().cast(),
            (8 * MAX_KERNEL_FRAMES) as u32,
            0,
        )
    };
    if bytes < 0 {
        scratch.header.kernel_missing = 1;
    } else {
        scratch.header.kernel_frames = (bytes as u64 / 8) as u16;
    }
}

#[inline(always)]
fn open_call(pid_tgid: u64, sp: u64, header: &mut SampleHeader) {
    // SAFETY: the entry belongs to the current thread, which is stopped in this program.
    let Some(open) = (unsafe { OPEN_CALLS.get(pid_tgid) }) else {
        return;
    };
    if let Some(call) = calls::innermost(open, sp) {
        header.open_call = call.function + 1;
        header.open_call_sp = call.sp;
    }
}

#[inline(always)]
fn native_walk(leaf: Registers, scratch: &mut Scratch) {
    let base = stored(&scratch.header.kernel_frames, MAX_KERNEL_FRAMES);
    let mut frame = leaf;
    let mut end = NativeEnd::Depth;
    for index in 0..MAX_NATIVE_FRAMES {
        let at = base + index * NATIVE_FRAME_WORDS;
        scratch.words[at] = frame.pc;
        scratch.words[at + 1] = frame.sp;
        scratch.header.native_frames = index as u16 + 1;
        match unwind::step(&CurrentTask, frame) {
            Ok(caller) => frame = caller,
            Err(reason) => {
                end = reason;
                break;
            }
        }
    }
    scratch.header.native_end = end as u8;
}

#[inline(always)]
fn python_walk(fs_base: u64, scratch: &mut Scratch) {
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

#[inline(always)]
fn send(_ctx: &PerfEventContext, scratch: &mut Scratch) {
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
}

/// A count read back from memory, so that the verifier forgets how it came about, and its limit, so that
/// it knows what the count cannot exceed.
#[inline(always)]
fn stored(count: &u16, limit: usize) -> usize {
    // SAFETY: a plain aligned read.
    let count = usize::from(unsafe { core::ptr::read_volatile(count) });
    if count > limit { limit } else { count }
}

#[inline(always)]
fn stored_u32(value: &u32) -> u32 {
    // SAFETY: a plain aligned read.
    unsafe { core::ptr::read_volatile(value) }
}
