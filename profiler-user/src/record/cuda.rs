//! Probes on every library of CUDA's that a watched process maps, or might.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use crate::cuda::{
    Bytes, Library, LoaderPaths, catalogue, libraries_to_be, library_of, probe_sites,
};
use crate::kernel::{CallSite, Counters, Kernel, KernelError, monotonic_ns};
use crate::profile::{CallStat, LatencyHistogram, Profile, ThreadId};
use profiler_ebpf::wire::{CallKey, CallStats, Counter};

/// The libraries probed so far.
#[derive(Debug, Default)]
pub(super) struct Drivers {
    /// Device and inode of each: one file may have many names, but takes one set of probes. The probes keep the
    /// file, so that its inode is not used again.
    probed: HashSet<(u64, u64)>,
    /// What the reader must know of them.
    pub notes: Vec<String>,
}

impl Drivers {
    /// Probes what a loader would find, before anybody maps it.
    pub fn expect(&mut self, kernel: &mut Kernel, paths: &LoaderPaths) {
        for path in libraries_to_be(paths) {
            if let Ok(file) = File::open(&path) {
                self.mapped(kernel, &path.to_string_lossy(), &file, 0, None);
            }
        }
    }

    /// A process mapped a file that was not seen before, at `mapped_ns`; `None` if that was before the
    /// recording began.
    pub fn mapped(
        &mut self,
        kernel: &mut Kernel,
        path: &str,
        file: &File,
        pid: u32,
        mapped_ns: Option<u64>,
    ) {
        let Some(library) = library_of(path, file) else {
            return;
        };
        let identity = file.metadata().map(|data| (data.dev(), data.ino()));
        if identity.is_ok_and(|identity| !self.probed.insert(identity)) {
            return;
        }
        let what = match library {
            Library::Driver => "CUDA driver",
            Library::Runtime => "CUDA runtime",
        };
        let sites = probe_sites(library, file);
        let handle = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let places: Vec<CallSite> = sites
            .iter()
            .map(|site| CallSite {
                file_offset: site.file_offset,
                cookie: site.cookie,
                common: site.common,
            })
            .collect();
        let note = match kernel.attach_calls(&handle, &places) {
            Err(error) => format!("not every call is counted: {error}"),
            Ok(_) if sites.is_empty() => "it exports no function that is known".to_owned(),
            Ok(left_out) => {
                let counted = sites.len() - left_out;
                if left_out > 0 {
                    self.notes.push(format!(
                        "{what} {path}: {left_out} rarer functions are not counted: \
                         this kernel (before 6.6) puts probes on one by one"
                    ));
                }
                let Some(mapped_ns) = mapped_ns else { return };
                let late_ms = monotonic_ns().saturating_sub(mapped_ns) as f64 / 1e6;
                format!(
                    "{counted} functions counted from {late_ms:.1} ms after process {pid} mapped it"
                )
            }
        };
        self.notes.push(format!("{what} {path}: {note}"));
    }
}

/// Adds the kernel side's figures to the profile, one row per thread and function.
pub(super) fn add_calls(
    profile: &mut Profile,
    calls: &[(CallKey, CallStats)],
    errors: &[(CallKey, u64)],
    mut thread: impl FnMut(&mut Profile, &CallKey) -> ThreadId,
) {
    let mut codes: HashMap<CallKey, Vec<(u32, u64)>> = HashMap::new();
    for (key, count) in errors {
        let of = CallKey { code: 0, ..*key };
        codes.entry(of).or_default().push((key.code, *count));
    }
    let mut calls = calls.to_vec();
    calls.sort_by_key(|(key, _)| (key.function, key.tgid, key.tid));
    for (key, stats) in calls {
        let Some(function) = catalogue().get(key.function) else {
            continue;
        };
        let thread = thread(profile, &key);
        let row = CallStat {
            thread: Some(thread),
            function: profile.strings.intern(&function.name),
            class: function.row.class,
            count: stats.count,
            nested: stats.nested,
            returned: stats.returned,
            errors: stats.errors,
            error_codes: codes.remove(&key).into_iter().flatten().collect(),
            not_ready: stats.not_ready,
            bytes: (function.row.bytes != Bytes::None).then_some(stats.bytes),
            total_ns: stats.total_ns,
            nested_ns: stats.nested_ns,
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
            Counter::BytesUnknown,
            "driver calls whose bytes were not added: unreadable, or beyond belief",
        ),
        (
            Counter::ErrorTableFull,
            "errors of driver calls kept without their code: table full",
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
