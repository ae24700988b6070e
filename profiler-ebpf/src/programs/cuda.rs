//! Driver calls: exact counts and times per process, thread and function, and the open call.
//!
//! No event per call: figures stay in a map until user space reads them at the end.

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::helpers::generated::{bpf_get_attach_cookie, bpf_ktime_get_ns};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use profiler_ebpf::memory::UserMemory as _;
use profiler_ebpf::wire::{CallKey, CallStats, Counter, OpenCall, OpenCalls};
use profiler_ebpf::{calls, latency};

use super::maps::{CALLS, NO_CALLS, OPEN_CALLS};
use super::{CurrentTask, active_config, count, in_scope};

/// A call begins: the stack pointer points at its return address.
#[inline(always)]
pub fn enter(ctx: &ProbeContext) {
    let Some(key) = key(ctx) else { return };
    let Some(stats) = stats_or_new(&key) else {
        count(Counter::CallTableFull, 1);
        return;
    };
    // SAFETY: the entry's key names the current thread: nobody else writes it.
    unsafe { (*stats).count += 1 };

    let pid_tgid = bpf_get_current_pid_tgid();
    if OPEN_CALLS.get_ptr(pid_tgid).is_none() {
        let _ = OPEN_CALLS.insert(pid_tgid, OpenCalls::default(), BPF_NOEXIST.into());
    }
    let Some(open) = OPEN_CALLS.get_ptr_mut(pid_tgid) else {
        count(Counter::CallsNotTimed, 1);
        return;
    };
    // SAFETY: the entry belongs to the current thread: nobody else writes it.
    let open = unsafe { &mut *open };
    // SAFETY: the context of a probe is the registers at it.
    let sp = unsafe { (*ctx.regs).rsp };
    let missed = calls::drop_ended(open, key.function, sp);
    if missed > 0 {
        count(Counter::ReturnsMissed, u64::from(missed));
    }
    // The probe runs before a return probe replaces it.
    let return_address = CurrentTask.read::<u64>(sp).unwrap_or(0);
    // SAFETY: a helper without arguments.
    let start_ns = unsafe { bpf_ktime_get_ns() };
    if !calls::push(
        open,
        OpenCall {
            sp,
            return_address,
            start_ns,
            function: key.function,
            _pad: 0,
        },
    ) {
        count(Counter::CallsNotTimed, 1);
    }
}

/// A call returns: its return address has just been taken off the stack.
#[inline(always)]
pub fn exit(ctx: &RetProbeContext) {
    // SAFETY: a helper without arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let Some(key) = key(ctx) else { return };
    let Some(open) = OPEN_CALLS.get_ptr_mut(bpf_get_current_pid_tgid()) else {
        return;
    };
    // SAFETY: the entry belongs to the current thread: nobody else writes it.
    let open = unsafe { &mut *open };
    // SAFETY: the context of a probe is the registers at it.
    let registers = unsafe { &*ctx.regs };
    let Some(call) = calls::pop(open, key.function, registers.rsp.wrapping_sub(8)) else {
        return;
    };
    let Some(stats) = CALLS.get_ptr_mut(key) else {
        return;
    };
    // SAFETY: the entry's key names the current thread: nobody else writes it.
    let stats = unsafe { &mut *stats };
    let spent_ns = now_ns.wrapping_sub(call.start_ns);
    stats.returned += 1;
    stats.total_ns += spent_ns;
    if spent_ns > stats.max_ns {
        stats.max_ns = spent_ns;
    }
    // A CUresult is an int.
    if registers.rax as u32 != 0 {
        stats.errors += 1;
    }
    let bucket = latency::bucket(spent_ns);
    if bucket < latency::BUCKETS {
        stats.latency[bucket] += 1;
    }
}

/// Who calls what, if that is to be recorded. The probe's cookie is the catalogue id.
#[inline(always)]
fn key(ctx: &impl EbpfContext) -> Option<CallKey> {
    let config = active_config()?;
    let pid_tgid = bpf_get_current_pid_tgid();
    let tgid = (pid_tgid >> 32) as u32;
    if !in_scope(config, tgid) {
        return None;
    }
    // SAFETY: the helper takes the program's own context.
    let function = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) } as u32;
    Some(CallKey {
        tgid,
        tid: pid_tgid as u32,
        function,
        _pad: 0,
    })
}

#[inline(always)]
fn stats_or_new(key: &CallKey) -> Option<*mut CallStats> {
    if let Some(stats) = CALLS.get_ptr_mut(key) {
        return Some(stats);
    }
    let _ = CALLS.insert(key, NO_CALLS.get(0)?, BPF_NOEXIST.into());
    CALLS.get_ptr_mut(key)
}
