//! GIL: how much of the time each process's interpreter lock was held, and by whom.
//!
//! Samples are taken on CPUs, so this is the time a holder was running. A lock held by a thread that
//! sleeps is not seen, and neither is one that is waited for: the figures are lower bounds of the
//! time the lock was taken.

use indexmap::IndexMap;
use serde::Serialize;

use crate::profile::{GilState, ProcessId, Profile, ThreadId};

use super::share::{GIL_SAMPLES, Share, TICKS};
use super::threads::ticks;

/// One process whose lock could be read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GilProcess {
    /// Its name.
    pub process: String,
    /// Its id.
    pub pid: u32,
    /// How much of the session a running thread held the lock.
    pub held: Share,
    /// Samples of Python threads that were running without it.
    pub not_held: u64,
    /// Samples in which it could not be read.
    pub unknown: u64,
    /// Who held it, most often first.
    pub holders: Vec<GilHolder>,
}

/// One thread that held the lock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GilHolder {
    /// Thread id.
    pub tid: u32,
    /// Thread name.
    pub name: String,
    /// Its part of the samples that hold the lock.
    #[serde(flatten)]
    pub share: Share,
}

/// Samples of one process by state of its lock.
#[derive(Debug, Default)]
struct Counts {
    held: u64,
    not_held: u64,
    unknown: u64,
    holders: IndexMap<ThreadId, u64>,
}

/// Every process whose lock was read at least once, the most held first.
pub(super) fn gil(profile: &Profile) -> Vec<GilProcess> {
    let mut processes: IndexMap<ProcessId, Counts> = IndexMap::new();
    for (key, count) in &profile.samples {
        if key.gil == GilState::None {
            continue;
        }
        let counts = processes
            .entry(profile.thread(key.thread).process)
            .or_default();
        match key.gil {
            GilState::Held => {
                counts.held += count;
                *counts.holders.entry(key.thread).or_insert(0) += count;
            }
            GilState::NotHeld => counts.not_held += count,
            GilState::Unknown => counts.unknown += count,
            GilState::None => (),
        }
    }
    processes.retain(|_, counts| counts.held + counts.not_held > 0);
    let mut rows: Vec<GilProcess> = processes
        .iter()
        .map(|(id, counts)| row(profile, *id, counts))
        .collect();
    rows.sort_by(|a, b| {
        b.held
            .count
            .cmp(&a.held.count)
            .then_with(|| a.pid.cmp(&b.pid))
    });
    rows
}

fn row(profile: &Profile, id: ProcessId, counts: &Counts) -> GilProcess {
    let mut holders: Vec<GilHolder> = counts
        .holders
        .iter()
        .map(|(id, count)| GilHolder {
            tid: profile.thread(*id).tid,
            name: profile.text(profile.thread(*id).name).to_owned(),
            share: Share::new(*count, counts.held, GIL_SAMPLES),
        })
        .collect();
    holders.sort_by(|a, b| {
        b.share
            .count
            .cmp(&a.share.count)
            .then_with(|| a.tid.cmp(&b.tid))
    });
    GilProcess {
        process: profile.text(profile.process(id).name).to_owned(),
        pid: profile.process(id).pid,
        held: Share::new(counts.held, ticks(profile), TICKS),
        not_held: counts.not_held,
        unknown: counts.unknown,
        holders,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::testing::Build;

    /// The lock's time is a share of the session, a holder's part a share of the samples that hold it.
    #[test]
    fn held_by_whom() {
        let mut build = Build::new();
        let python = build.process("python3", 10);
        let other = build.process("cat", 20);
        let (a, b) = (build.thread(python, "a", 10), build.thread(python, "b", 11));
        let c = build.thread(other, "cat", 20);
        let frame = build.marker("x");
        build.sample_as(a, &[frame], 30, GilState::Held, None);
        build.sample_as(b, &[frame], 10, GilState::Held, None);
        build.sample_as(b, &[frame], 5, GilState::NotHeld, None);
        build.sample_as(b, &[frame], 2, GilState::Unknown, None);
        build.sample(c, &[frame], 50);
        let rows = gil(&build.profile);
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].held.count, rows[0].held.base), (40, 1000));
        assert_eq!((rows[0].not_held, rows[0].unknown), (5, 2));
        let parts = rows[0]
            .holders
            .iter()
            .map(|holder| (holder.tid, holder.share.percent));
        assert_eq!(parts.collect::<Vec<_>>(), [(10, 75.0), (11, 25.0)]);
    }

    /// A process whose lock was never readable says nothing about it.
    #[test]
    fn an_unreadable_lock_has_no_row() {
        let mut build = Build::new();
        let process = build.process("python3", 10);
        let thread = build.thread(process, "a", 10);
        build.sample_as(thread, &[], 3, GilState::Unknown, None);
        assert_eq!(gil(&build.profile), []);
    }
}
