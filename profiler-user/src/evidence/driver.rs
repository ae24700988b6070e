//! CUDA DRIVER: what the driver was called for, how often, how long, and from which line.
//!
//! Counts and times are measured at every call, not sampled, so they carry no interval. Quantiles
//! come from buckets and are upper bounds, at most 25 % high. The calling line is the exception: it
//! is the line most often seen when a sample fell into the call.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use serde::Serialize;

use crate::cuda::code_name;
use crate::profile::{CallStat, LatencyHistogram, Profile, ThreadId};

use super::calling_line::calling_lines;
use super::index::Index;
use super::share::Part;
use super::table::Table;

/// An error that calls returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorCode {
    /// The number.
    pub code: u32,
    /// What it means, as in `out of memory`; none for a rare one.
    pub name: Option<&'static str>,
    /// How often.
    pub count: u64,
}

/// What was measured of a function's calls.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallFigures {
    /// What kind of work it is.
    pub class: &'static str,
    /// Calls that began in the session: exact.
    pub count: u64,
    /// Of these, made inside another call of the table, whose time holds theirs: the driver's, called by the runtime.
    pub nested: u64,
    /// Calls per second of the session.
    pub per_second: f64,
    /// Calls whose return was seen: the base of the times.
    pub returned: u64,
    /// Those that returned an error.
    pub errors: u64,
    /// Which errors, and how often.
    pub error_codes: Vec<ErrorCode>,
    /// Those that answered "not ready", which is no error.
    pub not_ready: u64,
    /// Bytes that the calls were to move or take; none where the arguments do not tell.
    pub bytes: Option<u64>,
    /// Time in returned calls, in seconds.
    pub total_seconds: f64,
    /// Of that, in nested ones.
    pub nested_seconds: f64,
    /// Mean latency in nanoseconds; none if no call returned.
    pub mean_ns: Option<f64>,
    /// Latency half of the calls stay below, in nanoseconds.
    pub p50_ns: Option<u64>,
    /// Latency 99 % of the calls stay below, in nanoseconds.
    pub p99_ns: Option<u64>,
    /// The longest, in nanoseconds.
    pub max_ns: Option<u64>,
}

/// One row of CUDA DRIVER: one function over all threads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DriverRow {
    /// The function, as in `cuLaunchKernel`.
    pub function: String,
    /// Its figures.
    #[serde(flatten)]
    pub figures: CallFigures,
    /// Threads that called it; 0 if only unknown ones did.
    pub threads: usize,
    /// Time in it as a part of its thread's wall time; none if several threads called it.
    pub thread_share: Option<Part>,
    /// The own-code line most samples in it were called from; none without such samples.
    pub top_line: Option<String>,
}

/// One function on one thread.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DriverThreadRow {
    /// The function.
    pub function: String,
    /// The process's id; none, as are the next two, for threads beyond the kernel table's limit.
    pub pid: Option<u32>,
    /// Thread id.
    pub tid: Option<u32>,
    /// Thread name.
    pub thread: Option<String>,
    /// Its figures.
    #[serde(flatten)]
    pub figures: CallFigures,
    /// Time in it as a part of the thread's wall time.
    pub thread_share: Option<Part>,
}

/// One row a function, the most time first.
pub(super) fn by_function(index: &Index<'_>, top: usize) -> Table<DriverRow> {
    let profile = index.profile;
    let mut functions: BTreeMap<&str, Vec<&CallStat>> = BTreeMap::new();
    for call in profile.calls.iter().filter(|call| call.count > 0) {
        functions
            .entry(profile.text(call.function))
            .or_default()
            .push(call);
    }
    let mut sums: Vec<(CallStat, Callers)> = functions
        .values()
        .map(|calls| (merge(calls), Callers::of(calls)))
        .collect();
    sums.sort_by_cached_key(|(sum, _)| rank(profile, sum));
    let lines = calling_lines(index);
    let rows = sums
        .iter()
        .map(|(sum, callers)| DriverRow {
            function: profile.text(sum.function).to_owned(),
            figures: figures(profile, sum),
            threads: callers.known.len(),
            thread_share: callers.is_one().then(|| wall_share(profile, sum)),
            top_line: lines.get(&sum.function).cloned(),
        })
        .collect();
    Table::new(rows, top, 0)
}

/// One row a thread and function, the most time first.
pub(super) fn by_thread(profile: &Profile) -> Vec<DriverThreadRow> {
    let mut calls: Vec<&CallStat> = profile.calls.iter().filter(|call| call.count > 0).collect();
    calls.sort_by_cached_key(|call| (rank(profile, call), call.thread));
    calls
        .into_iter()
        .map(|call| {
            let thread = call.thread.map(|id| profile.thread(id));
            DriverThreadRow {
                function: profile.text(call.function).to_owned(),
                pid: thread.map(|thread| profile.process(thread.process).pid),
                tid: thread.map(|thread| thread.tid),
                thread: thread.map(|thread| profile.text(thread.name).to_owned()),
                figures: figures(profile, call),
                thread_share: thread.map(|_| wall_share(profile, call)),
            }
        })
        .collect()
}

/// The most time first, then the most calls, then by name.
fn rank(profile: &Profile, call: &CallStat) -> (Reverse<(u64, u64)>, String) {
    (
        Reverse((call.total_ns, call.count)),
        profile.text(call.function).to_owned(),
    )
}

/// Who called a function.
#[derive(Debug)]
struct Callers {
    known: HashSet<ThreadId>,
    unknown: bool,
}

impl Callers {
    fn of(calls: &[&CallStat]) -> Self {
        Self {
            known: calls.iter().filter_map(|call| call.thread).collect(),
            unknown: calls.iter().any(|call| call.thread.is_none()),
        }
    }

    /// Whether it is certain that one thread made all the calls.
    fn is_one(&self) -> bool {
        self.known.len() == 1 && !self.unknown
    }
}

/// The sum of one function's rows; its thread means nothing.
fn merge(calls: &[&CallStat]) -> CallStat {
    let (first, rest) = calls
        .split_first()
        .expect("a function is listed because it was called");
    let mut sum = (*first).clone();
    for call in rest {
        sum.merge(call);
    }
    sum
}

fn figures(profile: &Profile, call: &CallStat) -> CallFigures {
    let seconds = profile.session.duration_ns as f64 / 1e9;
    CallFigures {
        class: call.class.text(),
        count: call.count,
        nested: call.nested,
        per_second: if seconds > 0.0 {
            call.count as f64 / seconds
        } else {
            0.0
        },
        returned: call.returned,
        errors: call.errors,
        error_codes: call
            .error_codes
            .iter()
            .map(|(code, count)| ErrorCode {
                code: *code,
                name: code_name(*code),
                count: *count,
            })
            .collect(),
        not_ready: call.not_ready,
        bytes: call.bytes,
        total_seconds: call.total_ns as f64 / 1e9,
        nested_seconds: call.nested_ns as f64 / 1e9,
        mean_ns: (call.returned > 0).then(|| call.total_ns as f64 / call.returned as f64),
        p50_ns: quantile(&call.latency, 0.5, call.max_ns),
        p99_ns: quantile(&call.latency, 0.99, call.max_ns),
        max_ns: (call.returned > 0).then_some(call.max_ns),
    }
}

/// A bucket's bound may lie above everything that was measured.
fn quantile(latency: &LatencyHistogram, q: f64, max_ns: u64) -> Option<u64> {
    latency.quantile_ns(q).map(|bound| bound.min(max_ns))
}

fn wall_share(profile: &Profile, call: &CallStat) -> Part {
    Part::new(
        call.total_ns,
        profile.session.duration_ns,
        "nanoseconds of the session",
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::evidence::OwnCode;
    use crate::evidence::testing::Build;

    /// Two threads' calls of one function are one row, and a row each by thread.
    #[test]
    fn threads_are_summed() {
        let mut build = Build::new();
        let process = build.process("python3", 10);
        let (a, b) = (
            build.thread(process, "a", 10),
            build.thread(process, "b", 11),
        );
        build.calls(Some(a), "cuLaunchKernel", 1000, 5_000);
        build.calls(Some(b), "cuLaunchKernel", 500, 9_000);
        build.calls(Some(b), "cuStreamSynchronize", 2, 1_000_000_000);
        build.calls(None, "cuMemFree", 1, 10);
        let table = by_function(&Index::new(&build.profile, &OwnCode::default()), usize::MAX);
        let sync = &table.rows[0];
        assert_eq!((&*sync.function, sync.threads), ("cuStreamSynchronize", 1));
        assert_eq!(sync.thread_share.as_ref().unwrap().percent, 20.0);
        let launch = &table.rows[1];
        assert_eq!(
            (
                launch.figures.count,
                launch.figures.per_second,
                launch.threads
            ),
            (1500, 150.0, 2)
        );
        assert_eq!(
            (launch.thread_share.as_ref(), launch.figures.max_ns),
            (None, Some(9_000))
        );
        assert!((launch.figures.mean_ns.unwrap() - 6333.3).abs() < 0.1);
        let (p50, p99) = (
            launch.figures.p50_ns.unwrap(),
            launch.figures.p99_ns.unwrap(),
        );
        assert!((5_000..6_250).contains(&p50) && p99 == 9_000, "{p50} {p99}");
        assert_eq!(
            (table.rows[2].threads, table.rows[2].thread_share.as_ref()),
            (0, None)
        );
        let rows = by_thread(&build.profile);
        assert_eq!(
            rows.iter().map(|row| row.tid).collect::<Vec<_>>(),
            [Some(11), Some(10), Some(11), None]
        );
    }

    /// Bytes, errors by code and nested calls of several threads add up.
    #[test]
    fn details_are_summed() {
        let mut build = Build::new();
        let process = build.process("python3", 10);
        for (tid, bytes, codes) in [(10, 100, vec![(2, 1)]), (11, 50, vec![(2, 2), (12345, 1)])] {
            let thread = build.thread(process, "a", tid);
            build.calls(Some(thread), "cuMemAlloc_v2", 10, 1_000);
            let call = build.profile.calls.last_mut().unwrap();
            call.bytes = Some(bytes);
            call.errors = codes.iter().map(|(_, count)| count).sum();
            call.error_codes = codes.into_iter().collect();
            (call.nested, call.nested_ns, call.not_ready) = (4, 4_000, 1);
        }
        let table = by_function(&Index::new(&build.profile, &OwnCode::default()), usize::MAX);
        let figures = &table.rows[0].figures;
        assert_eq!(
            (figures.bytes, figures.errors, figures.nested),
            (Some(150), 4, 8)
        );
        assert_eq!((figures.nested_seconds, figures.not_ready), (8e-6, 2));
        let codes: Vec<_> = figures
            .error_codes
            .iter()
            .map(|error| (error.code, error.name, error.count))
            .collect();
        assert_eq!(codes, [(2, Some("out of memory"), 3), (12345, None, 1)]);
    }

    /// Calls that never returned have a count and no times.
    #[test]
    fn unreturned_calls_have_no_times() {
        let mut build = Build::new();
        build.calls(None, "cuStreamSynchronize", 1, 0);
        let call = &mut build.profile.calls[0];
        (call.returned, call.latency) = (0, LatencyHistogram::default());
        let figures = by_thread(&build.profile).remove(0).figures;
        assert_eq!(
            (
                figures.count,
                figures.mean_ns,
                figures.p50_ns,
                figures.max_ns
            ),
            (1, None, None, None)
        );
    }
}
