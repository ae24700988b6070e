//! Processes and threads that are made and end.

use aya_ebpf::helpers::generated::{bpf_get_current_task, bpf_ktime_get_ns};
use aya_ebpf::helpers::{bpf_get_current_comm, bpf_get_current_pid_tgid};
use aya_ebpf::programs::RawTracePointContext;
use profiler_ebpf::wire::{Counter, RECORD_EXEC, RECORD_THREAD_EXIT, TARGET, ThreadExit};

use super::maps::{EVENTS, OPEN_CALLS, PYTHON, SPACE_OF, TARGETS};
use super::{active_config, count, in_scope, read_kernel};

/// A child inherits what is known of its parent: being watched, and the interpreter (same addresses
/// until it execs). User space takes both back when they no longer hold.
#[inline(always)]
pub fn fork(ctx: &RawTracePointContext) {
    let Some(config) = active_config() else {
        return;
    };
    let child: u64 = ctx.arg(1);
    let (Some(pid), Some(tgid)) = (
        read_kernel::<u32>(child, config.task_pid),
        read_kernel::<u32>(child, config.task_tgid),
    ) else {
        return;
    };
    if pid != tgid {
        return; // a thread
    }
    let parent = (bpf_get_current_pid_tgid() >> 32) as u32;
    if config.only_targets != 0 {
        if TARGETS.get_ptr(parent).is_none() {
            // A stranger may get the pid of a watched process that has ended.
            let _ = TARGETS.remove(tgid);
            return;
        }
        if TARGETS.insert(tgid, TARGET, 0).is_err() {
            count(Counter::TargetsFull, 1);
        }
    }
    // SAFETY: the value is copied out at once.
    if let Some(space) = unsafe { SPACE_OF.get(parent) } {
        // A full table shows as a process without unwind tables: counted there.
        let _ = SPACE_OF.insert(tgid, space, 0);
    }
    // SAFETY: the value is copied out at once.
    if let Some(info) = unsafe { PYTHON.get(parent) } {
        // A full table shows as a process whose Python was not known: counted there.
        let _ = PYTHON.insert(tgid, info, 0);
    }
}

/// A thread ends: its open calls go, its CPU time is reported.
#[inline(always)]
pub fn exit(_ctx: &RawTracePointContext) {
    let pid_tgid = bpf_get_current_pid_tgid();
    let _ = OPEN_CALLS.remove(pid_tgid);
    report(RECORD_THREAD_EXIT, pid_tgid as u32);
}

/// A thread became another program: what it used so far was the old one's.
#[inline(always)]
pub fn exec(ctx: &RawTracePointContext) {
    let _ = OPEN_CALLS.remove(bpf_get_current_pid_tgid());
    // The thread's id before: any thread can do this, and is the main one afterwards.
    let old_tid: i32 = ctx.arg(1);
    report(RECORD_EXEC, old_tid as u32);
}

/// Sends the current thread's CPU time so far.
#[inline(always)]
fn report(kind: u32, tid: u32) {
    let Some(config) = active_config() else {
        return;
    };
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    if !in_scope(config, tgid) {
        return;
    }
    // SAFETY: helpers without arguments.
    let (task, time_ns) = unsafe { (bpf_get_current_task(), bpf_ktime_get_ns()) };
    let event = ThreadExit {
        kind,
        _pad: 0,
        time_ns,
        tgid,
        tid,
        runtime_ns: read_kernel::<u64>(task, config.task_runtime).unwrap_or(0),
        comm: bpf_get_current_comm().unwrap_or_default(),
    };
    if EVENTS.output::<ThreadExit>(event, 0).is_err() {
        count(Counter::ExitRingFull, 1);
    }
}
