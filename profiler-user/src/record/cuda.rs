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

/// Files probed at most: each keeps its probes in the kernel until the end.
const MAX_LIBRARIES: usize = 1024;

/// The libraries probed so far.
#[derive(Debug, Default)]
pub(super) struct Drivers {
    /// Device and inode of each: one file may have many names, but takes one set of probes. The probes keep the
    /// file, so that its inode is not used again.
    probed: HashSet<(u64, u64)>,
    notes: Vec<String>,
    over_limit: u64,
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

    /// What the reader must know of them.
    pub fn into_notes(self) -> Vec<String> {
        let mut notes = self.notes;
        if self.over_limit > 0 {
            notes.push(format!(
                "CUDA libraries beyond the first {MAX_LIBRARIES} files, not probed: {}",
                self.over_limit
            ));
        }
        notes
    }

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
        let Some(library) = library_of(path, file) else {
            return false;
        };
        let Ok(data) = file.metadata() else {
            return true;
        };
        let identity = (data.dev(), data.ino());
        if self.probed.len() >= MAX_LIBRARIES && !self.probed.contains(&identity) {
            self.over_limit += 1;
        } else if self.probed.insert(identity) {
            let what = match library {
                Library::Driver => "CUDA driver",
                Library::Runtime => "CUDA runtime",
            };
            let notes = probe(kernel, library, file, pid, mapped_ns);
            let notes = notes.iter().map(|note| format!("{what} {path}: {note}"));
            self.notes.extend(notes);
        }
        true
    }
}

/// Probes a library. Returns what the reader must know of it.
fn probe(
    kernel: &mut Kernel,
    library: Library,
    file: &File,
    pid: u32,
    mapped_ns: Option<u64>,
) -> Vec<String> {
    let sites = probe_sites(library, file);
    if sites.is_empty() {
        return vec!["it exports no function that is known".to_owned()];
    }
    let handle = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let places: Vec<CallSite> = sites
        .iter()
        .map(|site| CallSite {
            file_offset: site.file_offset,
            cookie: site.cookie,
            common: site.common,
        })
        .collect();
    let left_out = match kernel.attach_calls(&handle, &places) {
        Ok(left_out) => left_out,
        Err(error) => return vec![format!("not every call is counted: {error}")],
    };
    let mut notes = Vec::new();
    if left_out > 0 {
        notes.push(format!(
            "{left_out} rarer functions are not counted: this kernel (before 6.6) puts probes on one by one"
        ));
    }
    if let Some(mapped_ns) = mapped_ns {
        let late_ms = monotonic_ns().saturating_sub(mapped_ns) as f64 / 1e6;
        let counted = sites.len() - left_out;
        notes.push(format!(
            "{counted} functions counted from {late_ms:.1} ms after process {pid} mapped it"
        ));
    }
    notes
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
