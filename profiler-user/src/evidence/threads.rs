//! THREADS: how busy each thread was, how often it held its interpreter's lock, and with what.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::profile::{GilState, Profile, ThreadId};

use super::index::Index;
use super::place::PlaceId;
use super::share::{Share, THREAD_SAMPLES, TICKS};
use super::table::Table;

/// One row of THREADS.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThreadRow {
    /// Its process's name.
    pub process: String,
    /// Its process's id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Thread name.
    pub name: String,
    /// CPU time in percent of one CPU, estimated from its samples.
    pub cpu: Share,
    /// CPU time by the kernel's own clock, exact; none if it could not be read.
    pub cpu_seconds: Option<f64>,
    /// How often a sample found it holding the GIL; none if it is not a Python thread, or its
    /// interpreter has no lock that could be read.
    pub gil_held: Option<Share>,
    /// The function it was sampled in most: innermost own code if it has any, else the leaf.
    pub top_function: Option<String>,
}

/// Samples of one thread by what they say about it.
#[derive(Debug, Default)]
struct Seen {
    samples: u64,
    gil_held: u64,
    gil_read: bool,
    own: HashMap<PlaceId, u64>,
    leaf: HashMap<PlaceId, u64>,
}

/// Every thread that was sampled, used CPU time or called the driver; the busiest first.
pub(super) fn threads(index: &Index<'_>, top: usize) -> Table<ThreadRow> {
    let profile = index.profile;
    let mut seen = look(index);
    let callers: HashSet<ThreadId> = profile
        .calls
        .iter()
        .filter_map(|call| call.thread)
        .collect();
    let mut active: Vec<(ThreadId, Seen)> = (0_u32..)
        .map(ThreadId)
        .zip(&profile.threads)
        .map(|(id, thread)| {
            (
                id,
                seen.remove(&id).unwrap_or_default(),
                thread.cpu_ns.unwrap_or(0),
            )
        })
        .filter(|(id, seen, cpu_ns)| seen.samples > 0 || *cpu_ns > 0 || callers.contains(id))
        .map(|(id, seen, _)| (id, seen))
        .collect();
    active.sort_by_cached_key(|(id, seen)| {
        let thread = profile.thread(*id);
        let busiest_first = std::cmp::Reverse((seen.samples, thread.cpu_ns.unwrap_or(0)));
        (
            busiest_first,
            profile.text(thread.name).to_owned(),
            thread.tid,
            *id,
        )
    });
    let rows = active
        .iter()
        .map(|(id, seen)| row(index, *id, seen))
        .collect();
    Table::new(rows, top, 0)
}

/// Clock ticks one busy CPU gives in the whole session: 100 % of one CPU.
pub(super) fn ticks(profile: &Profile) -> u64 {
    let ticks = u128::from(profile.session.duration_ns) * u128::from(profile.session.frequency_hz);
    u64::try_from((ticks + 500_000_000) / 1_000_000_000).unwrap_or(u64::MAX)
}

fn look(index: &Index<'_>) -> HashMap<ThreadId, Seen> {
    let mut threads: HashMap<ThreadId, Seen> = HashMap::new();
    for (key, count) in &index.profile.samples {
        let seen = threads.entry(key.thread).or_default();
        seen.samples += count;
        seen.gil_held += if key.gil == GilState::Held { *count } else { 0 };
        seen.gil_read |= matches!(key.gil, GilState::Held | GilState::NotHeld);
        let stack = index.stack(key.stack);
        if let Some(place) = index
            .innermost_own(stack)
            .and_then(|frame| index.functions.of(frame))
        {
            *seen.own.entry(place).or_insert(0) += count;
        }
        if let Some(place) = stack.first().and_then(|frame| index.functions.of(*frame)) {
            *seen.leaf.entry(place).or_insert(0) += count;
        }
    }
    threads
}

fn row(index: &Index<'_>, id: ThreadId, seen: &Seen) -> ThreadRow {
    let thread = index.profile.thread(id);
    let process = index.profile.process(thread.process);
    let most = if seen.own.is_empty() {
        &seen.leaf
    } else {
        &seen.own
    };
    let label = |place: PlaceId| index.functions.label(place);
    let top = most
        .iter()
        .max_by(|a, b| a.1.cmp(b.1).then_with(|| label(*b.0).cmp(label(*a.0))));
    ThreadRow {
        process: index.profile.text(process.name).to_owned(),
        pid: process.pid,
        tid: thread.tid,
        name: index.profile.text(thread.name).to_owned(),
        cpu: Share::new(seen.samples, ticks(index.profile), TICKS),
        cpu_seconds: thread.cpu_ns.map(|ns| ns as f64 / 1e9),
        gil_held: seen
            .gil_read
            .then(|| Share::new(seen.gil_held, seen.samples, THREAD_SAMPLES)),
        top_function: top.map(|(place, _)| label(*place).to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::evidence::OwnCode;
    use crate::evidence::testing::Build;

    /// Shares name two bases: ticks of one CPU for the time, the thread's samples for the lock.
    #[test]
    fn cpu_and_lock() {
        let mut build = Build::new();
        let process = build.process("python3", 10);
        let worker = build.thread(process, "worker", 12);
        let main = build.thread(process, "MainThread", 10);
        let (own, leaf) = (
            build.python("f", "/a.py", 1),
            build.native("memcpy", "/libc.so"),
        );
        build.sample_as(worker, &[leaf, own], 300, GilState::Held, None);
        build.sample_as(worker, &[leaf, leaf, own], 100, GilState::NotHeld, None);
        build.sample(main, &[leaf], 10);
        build.profile.threads[1].cpu_ns = Some(110_000_000);
        let table = threads(&Index::new(&build.profile, &OwnCode::default()), usize::MAX);
        let worker = &table.rows[0];
        assert_eq!(
            (worker.cpu.count, worker.cpu.base, worker.cpu.percent),
            (400, 1000, 40.0)
        );
        assert_eq!(worker.gil_held.as_ref().unwrap().percent, 75.0);
        assert_eq!(worker.top_function.as_deref(), Some("f (a.py)"));
        let main = &table.rows[1];
        assert_eq!(
            (main.gil_held.as_ref(), main.cpu_seconds),
            (None, Some(0.11))
        );
        assert_eq!(main.top_function.as_deref(), Some("memcpy (libc.so)"));
    }

    /// A thread that ran, or called the driver, is listed without samples; one that did nothing is not.
    #[test]
    fn threads_without_samples() {
        let mut build = Build::new();
        let process = build.process("p", 1);
        for (name, tid) in [("idle", 1), ("ran", 2), ("called", 3)] {
            build.thread(process, name, tid);
        }
        build.profile.threads[1].cpu_ns = Some(1);
        build.calls(Some(ThreadId(2)), "cuInit", 1, 100);
        let table = threads(&Index::new(&build.profile, &OwnCode::default()), usize::MAX);
        assert_eq!(
            table.rows.iter().map(|row| &*row.name).collect::<Vec<_>>(),
            ["ran", "called"]
        );
        assert_eq!(table.rows[0].cpu.percent, 0.0);
        assert_eq!(table.rows[0].top_function, None);
    }

    /// Where the lock could not be read nothing is claimed, not even 0 %.
    #[test]
    fn an_unreadable_lock_is_not_zero() {
        let mut build = Build::new();
        let process = build.process("p", 1);
        let thread = build.thread(process, "t", 1);
        build.sample_as(thread, &[], 5, GilState::Unknown, None);
        let table = threads(&Index::new(&build.profile, &OwnCode::default()), usize::MAX);
        assert_eq!(
            (table.rows[0].cpu.count, table.rows[0].gil_held.as_ref()),
            (5, None)
        );
    }
}
