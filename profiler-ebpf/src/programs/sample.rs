//! A sample begins: who, where in the kernel, and with which registers the user walk starts.

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::pt_regs;
use aya_ebpf::helpers::generated::{
    bpf_get_current_task_btf, bpf_get_smp_processor_id, bpf_get_stack, bpf_ktime_get_ns,
    bpf_task_pt_regs,
};
use aya_ebpf::helpers::{bpf_get_current_comm, bpf_get_current_pid_tgid};
use aya_ebpf::programs::PerfEventContext;
use profiler_ebpf::calls;
use profiler_ebpf::entry::{is_exec, returns_to_pc};
use profiler_ebpf::memory::UserMemory;
use profiler_ebpf::unwind::Registers;
use profiler_ebpf::wire::{
    Config, Counter, Gil, MAX_KERNEL_FRAMES, NativeEnd, PythonEnd, RECORD_SAMPLE, SampleHeader, how,
};

use super::maps::{OPEN_CALLS, SCRATCH, SPACE_OF, Scratch};
use super::walk::{self, Stage};
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
    if take(ctx, config, pid_tgid, scratch) {
        walk::go_on(ctx, Stage::Native);
    }
    walk::send(ctx, scratch);
}

#[inline(always)]
fn take(ctx: &PerfEventContext, config: &Config, pid_tgid: u64, scratch: &mut Scratch) -> bool {
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

    let (registers, cs, returns) = if in_user {
        let registers = Registers {
            pc: interrupted.rip,
            sp: interrupted.rsp,
            fp: interrupted.rbp,
        };
        (registers, interrupted.cs, false)
    } else {
        kernel_stack(ctx, scratch);
        if read_kernel::<u64>(task as u64, config.task_mm).unwrap_or(0) == 0 {
            return false; // a kernel thread
        }
        // SAFETY: the task is the current one; the helper computes where its user registers lie.
        let entry = unsafe { bpf_task_pt_regs(task) } as *const pt_regs;
        // SAFETY: the helper checks the address and copies.
        let Ok(entry) = (unsafe { aya_ebpf::helpers::bpf_probe_read_kernel(entry) }) else {
            return false;
        };
        if entry.cs & 3 != 3 {
            return false; // a user worker thread that never runs in user mode
        }
        // The old program's stack is gone, and the new one has not begun.
        if is_exec(entry.orig_rax) && CurrentTask.read::<u64>(entry.rsp).is_none() {
            return false;
        }
        let registers = Registers {
            pc: entry.rip,
            sp: entry.rsp,
            fp: entry.rbp,
        };
        (registers, entry.cs, returns_to_pc(entry.orig_rax))
    };
    if cs != USER_CS_64 {
        scratch.header.native_end = NativeEnd::ThirtyTwoBit as u8;
        return false;
    }
    open_calls(pid_tgid, registers.sp, scratch);
    scratch.python_begun = 0;
    scratch.walk.registers = registers;
    scratch.walk.how = if returns { how::RETURN_ADDRESS } else { 0 };
    // In a return probe's code the stack is that of the caller, to which it will jump.
    if let Some(call) = calls::returning(&scratch.walk.open, registers.pc, registers.sp)
        && call.return_address != 0
    {
        scratch.walk.registers.pc = call.return_address;
        scratch.walk.registers.sp = call.sp + 8;
        scratch.walk.how = how::RETURN_ADDRESS;
    }
    scratch.walk.fs_base = read_kernel::<u64>(task as u64, config.task_fsbase).unwrap_or(0);
    // SAFETY: values are plain words, replaced whole.
    let space = unsafe { SPACE_OF.get(scratch.header.tgid) };
    scratch.walk.space = space.copied().unwrap_or_default();
    true
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
fn open_calls(pid_tgid: u64, sp: u64, scratch: &mut Scratch) {
    // SAFETY: the entry belongs to the current thread, which is stopped in this program.
    let Some(open) = (unsafe { OPEN_CALLS.get(pid_tgid) }) else {
        scratch.walk.open.depth = 0;
        return;
    };
    scratch.walk.open = *open;
    if let Some(call) = calls::innermost(open, sp) {
        scratch.header.open_call = call.function + 1;
        scratch.header.open_call_sp = call.sp;
    }
}
