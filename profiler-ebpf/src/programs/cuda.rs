//! Driver and runtime calls: exact counts, times, bytes and errors per process, thread and function, and the open call.
//!
//! No event per call: figures stay in a map until user space reads them at the end.

use core::ptr::read_volatile;

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::{BPF_ANY, BPF_NOEXIST};
use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::helpers::generated::{bpf_get_attach_cookie, bpf_ktime_get_ns};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use profiler_ebpf::bytes::{self, Arguments};
use profiler_ebpf::memory::UserMemory as _;
use profiler_ebpf::wire::{
    CallKey, CallStats, Cookie, Counter, MAX_SUM_BYTES, NOT_READY, OpenCall, OpenCalls, bytes_at,
};
use profiler_ebpf::{calls, latency};

use super::maps::{CALL_ERRORS, CALLS, NO_CALLS, OPEN_CALLS};
use super::{CurrentTask, active_config, count, in_scope};

/// A call begins: the stack pointer points at its return address.
#[inline(always)]
pub fn enter(ctx: &ProbeContext) {
    let Some((key, cookie)) = key(ctx) else {
        return;
    };
    let Some(stats) = stats_or_new(&key) else {
        count(Counter::CallTableFull, 1);
        return;
    };
    // SAFETY: the entry's key names the current thread: nobody else writes it.
    let stats = unsafe { &mut *stats };
    stats.count += 1;
    if cookie.bytes_at() != bytes_at::NONE {
        add_bytes(ctx, cookie, stats);
    }

    let Some(open) = open_or_new(bpf_get_current_pid_tgid()) else {
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
    if open.depth > 0 {
        stats.nested += 1;
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

#[inline(always)]
fn add_bytes(ctx: &ProbeContext, cookie: Cookie, stats: &mut CallStats) {
    // SAFETY: the context of a probe is the registers at it. Each is read at its own place: a place that
    // depends on the cookie is none that the verifier lets a program read.
    let arguments = unsafe {
        let registers = &raw const *ctx.regs;
        Arguments {
            first: read_volatile(&raw const (*registers).rdi),
            second: read_volatile(&raw const (*registers).rsi),
            third: read_volatile(&raw const (*registers).rdx),
            fourth: read_volatile(&raw const (*registers).rcx),
            fifth: read_volatile(&raw const (*registers).r8),
            sixth: read_volatile(&raw const (*registers).r9),
            sp: read_volatile(&raw const (*registers).rsp),
        }
    };
    let sum = bytes::of_call(cookie, &arguments, &CurrentTask)
        .map(|bytes| stats.bytes + bytes)
        .filter(|sum| *sum < MAX_SUM_BYTES);
    match sum {
        Some(sum) => stats.bytes = sum,
        None => count(Counter::BytesUnknown, 1),
    }
}

/// A call returns: its return address has just been taken off the stack.
#[inline(always)]
pub fn exit(ctx: &RetProbeContext) {
    // SAFETY: a helper without arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let Some((key, cookie)) = key(ctx) else {
        return;
    };
    let Some(open) = OPEN_CALLS.get_ptr_mut(bpf_get_current_pid_tgid()) else {
        return;
    };
    // SAFETY: the entry belongs to the current thread: nobody else writes it.
    let open = unsafe { &mut *open };
    // SAFETY: the context of a probe is the registers at it.
    let registers = unsafe { &*ctx.regs };
    let Some((call, nested)) = calls::pop(open, key.function, registers.rsp.wrapping_sub(8)) else {
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
    if nested {
        stats.nested_ns += spent_ns;
    }
    if spent_ns > stats.max_ns {
        stats.max_ns = spent_ns;
    }
    let bucket = latency::bucket(spent_ns);
    if bucket < latency::BUCKETS {
        stats.latency[bucket] += 1;
    }
    // A CUresult is an int, and so is a cudaError_t.
    match registers.rax as u32 {
        0 => {}
        NOT_READY if cookie.may_be_not_ready() => stats.not_ready += 1,
        code => {
            stats.errors += 1;
            add_error(CallKey { code, ..key });
        }
    }
}

#[inline(always)]
fn add_error(key: CallKey) {
    if let Some(errors) = CALL_ERRORS.get_ptr_mut(key) {
        // SAFETY: the entry's key names the current thread: nobody else writes it.
        unsafe { *errors += 1 };
    } else if CALL_ERRORS.insert(key, 1, BPF_ANY.into()).is_err() {
        count(Counter::ErrorTableFull, 1);
    }
}

/// Who calls what, if that is to be recorded, and what the probe says of it.
#[inline(always)]
fn key(ctx: &impl EbpfContext) -> Option<(CallKey, Cookie)> {
    let config = active_config()?;
    let pid_tgid = bpf_get_current_pid_tgid();
    let tgid = (pid_tgid >> 32) as u32;
    if !in_scope(config, tgid) {
        return None;
    }
    // SAFETY: the helper takes the program's own context.
    let cookie = Cookie(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    let key = CallKey {
        tgid,
        tid: pid_tgid as u32,
        function: cookie.function(),
        code: 0,
    };
    Some((key, cookie))
}

#[inline(always)]
fn stats_or_new(key: &CallKey) -> Option<*mut CallStats> {
    if let Some(stats) = CALLS.get_ptr_mut(key) {
        return Some(stats);
    }
    let _ = CALLS.insert(key, NO_CALLS.get(0)?, BPF_NOEXIST.into());
    CALLS.get_ptr_mut(key)
}

#[inline(always)]
fn open_or_new(pid_tgid: u64) -> Option<*mut OpenCalls> {
    if let Some(open) = OPEN_CALLS.get_ptr_mut(pid_tgid) {
        return Some(open);
    }
    let _ = OPEN_CALLS.insert(pid_tgid, OpenCalls::default(), BPF_NOEXIST.into());
    OPEN_CALLS.get_ptr_mut(pid_tgid)
}
