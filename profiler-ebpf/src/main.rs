//! The kernel side of wholestack: programs that record raw facts and interpret nothing.
//!
//! Entry points only; what they do lies in `programs/`, what they walk with in the library.
//! On the host the programs only compile, so that lints need no eBPF toolchain.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![expect(
    missing_docs,
    reason = "the program macros generate an undocumented function each"
)]

mod programs;

use aya_ebpf::macros::{perf_event, raw_tracepoint, uprobe, uretprobe};
use aya_ebpf::programs::{PerfEventContext, ProbeContext, RawTracePointContext, RetProbeContext};
use profiler_ebpf::wire::{ABI, Abi};

/// Lets bpf_get_stack and the other helpers reserved for GPL-compatible programs be used.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// What the loader compares before it attaches anything.
#[used]
#[unsafe(no_mangle)]
static WHOLESTACK_ABI: Abi = ABI;

/// One tick of the sampling clock on one CPU.
#[perf_event]
pub fn sample(ctx: PerfEventContext) -> u32 {
    programs::sample::run(&ctx);
    0
}

/// A sample's native frames, a few at a time.
#[perf_event]
pub fn walk_native(ctx: PerfEventContext) -> u32 {
    programs::walk::native(&ctx);
    0
}

/// A sample's Python frames.
#[perf_event]
pub fn walk_python(ctx: PerfEventContext) -> u32 {
    programs::python::run(&ctx);
    0
}

/// A driver call begins.
#[uprobe]
pub fn cuda_enter(ctx: ProbeContext) -> u32 {
    programs::cuda::enter(&ctx);
    0
}

/// A driver call returns.
#[uretprobe]
pub fn cuda_exit(ctx: RetProbeContext) -> u32 {
    programs::cuda::exit(&ctx);
    0
}

/// `sched_process_fork(parent, child)`: a process or thread was made and has not run yet.
#[raw_tracepoint(tracepoint = "sched_process_fork")]
pub fn task_fork(ctx: RawTracePointContext) -> u32 {
    programs::task::fork(&ctx);
    0
}

/// `sched_process_exec(task, old_pid, bprm)`: a thread has become another program; it is the current one.
#[raw_tracepoint(tracepoint = "sched_process_exec")]
pub fn task_exec(ctx: RawTracePointContext) -> u32 {
    programs::task::exec(&ctx);
    0
}

/// `sched_process_exit(task)`: a thread ends; it is the current one.
#[raw_tracepoint(tracepoint = "sched_process_exit")]
pub fn task_exit(ctx: RawTracePointContext) -> u32 {
    programs::task::exit(&ctx);
    0
}

/// The programs run in the kernel only.
#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: the verifier rejects any program in which this could be reached.
    unsafe { core::hint::unreachable_unchecked() }
}
