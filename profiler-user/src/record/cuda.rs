//! Probes on every CUDA driver library that a watched process maps.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use crate::cuda::{CATALOGUE, is_driver, probe_sites};
use crate::kernel::{CallSite, Counters, Kernel, KernelError, monotonic_ns};
use crate::profile::{CallStat, LatencyHistogram, Profile, ThreadId};
use profiler_ebpf::wire::{CallKey, CallStats, Counter};

/// The drivers probed so far.
#[derive(Debug, Default)]
pub(super) struct Drivers {
    /// What the reader must know of them.
    pub notes: Vec<String>,
}

impl Drivers {
    /// A process mapped a file that was not seen before, at `mapped_ns`; `None` if that was before the
    /// recording began. True if it is a driver.
    pub fn mapped(
        &mut self,
        kernel: &mut Kernel,
        path: &str,
        file: &File,
        pid: u32,
        mapped_ns: Option<u64>,
    ) -> bool {
        if !is_driver(path, file) {
            return false;
        }
        let sites = probe_sites(file);
        let handle = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let places: Vec<CallSite> = sites
            .iter()
            .map(|site| CallSite {
                file_offset: site.file_offset,
                function: site.function,
            })
            .collect();
        if let Err(error) = kernel.attach_calls(&handle, &places) {
            self.notes.push(format!(
                "CUDA driver {}: not every call is counted: {error}",
                path
            ));
        } else if sites.is_empty() {
            self.notes.push(format!(
                "CUDA driver {}: it exports no function that is known",
                path
            ));
        } else if let Some(mapped_ns) = mapped_ns {
            let late_ms = monotonic_ns().saturating_sub(mapped_ns) as f64 / 1e6;
            self.notes.push(format!(
                "CUDA driver {}: {} functions counted from {late_ms:.1} ms after process {pid} mapped it",
                path,
                sites.len()
            ));
        }
        true
    }
}

/// Adds the kernel side's figures to the profile, one row per thread and function.
pub(super) fn add_calls(
    profile: &mut Profile,
    calls: &[(CallKey, CallStats)],
    mut thread: impl FnMut(&mut Profile, &CallKey) -> ThreadId,
) {
    let mut calls = calls.to_vec();
    calls.sort_by_key(|(key, _)| (key.function, key.tgid, key.tid));
    for (key, stats) in calls {
        let Some(function) = CATALOGUE.get(key.function as usize) else {
            continue;
        };
        let thread = thread(profile, &key);
        let row = CallStat {
            thread: Some(thread),
            function: profile.strings.intern(function.name),
            class: function.class,
            count: stats.count,
            returned: stats.returned,
            errors: stats.errors,
            total_ns: stats.total_ns,
            max_ns: stats.max_ns,
            latency: LatencyHistogram {
                counts: stats
                    .latency
                    .iter()
                    .map(|count| u64::from(*count))
                    .collect(),
            },
        };
        profile.calls.push(row);
    }
}

/// Books what the kernel side could not count or time.
pub(super) fn book_limits(profile: &mut Profile, counters: &Counters) {
    for (counter, name) in [
        (
            Counter::CallTableFull,
            "driver calls not counted: call table full",
        ),
        (
            Counter::CallsNotTimed,
            "driver calls not timed: too many open",
        ),
        (
            Counter::ReturnsMissed,
            "driver calls whose return was not seen",
        ),
        (
            Counter::TargetsFull,
            "child processes not watched: table full",
        ),
        (
            Counter::ExitRingFull,
            "thread ends not recorded: ring buffer full",
        ),
    ] {
        let count = counters.get(counter);
        if count > 0 {
            profile.accounting.limits.insert(name.to_owned(), count);
        }
    }
}

/// For errors of the kernel side that only cost figures.
pub(super) fn note_failure(profile: &mut Profile, what: &str, error: &KernelError) {
    profile.notes.push(format!("{what}: {error}"));
}
