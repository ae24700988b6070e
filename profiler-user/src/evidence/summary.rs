//! What was recorded, and where every sample went.

use serde::Serialize;

use crate::profile::Profile;

use super::share::{KEPT, Part};

/// The report's head.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Version of wholestack that recorded.
    pub recorded_by: String,
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// What was watched.
    pub scope: String,
    /// When sampling began, since the Unix epoch.
    pub started_unix_ns: u64,
    /// How long sampling went on.
    pub duration_seconds: f64,
    /// Samples asked for, per second and busy CPU.
    pub frequency_hz: u32,
    /// What paced them.
    pub clock: &'static str,
    /// CPUs that were sampled.
    pub cpus: u32,
    /// Processes seen.
    pub processes: usize,
    /// Threads seen.
    pub threads: usize,
    /// Samples taken; each of them is kept or lost.
    pub taken: u64,
    /// Samples in the profile: the base of the shares.
    pub kept: u64,
    /// Those with the whole stack.
    pub complete: u64,
    /// Those with a part of it.
    pub truncated: Part,
    /// Why, the most frequent first.
    pub truncated_by_reason: Vec<Counted>,
    /// Samples kept with a frame that was found without unwind data: a guess, checked.
    pub guessed: Part,
    /// Samples that are not in the profile.
    pub lost: Part,
    /// Why, the most frequent first.
    pub lost_by_reason: Vec<Counted>,
    /// Whether kept and lost add up to taken.
    pub balanced: bool,
    /// Frames in kept samples that have no name.
    pub unnamed_frames: Part,
    /// CPU time the kept samples stand for.
    pub cpu_seconds: f64,
    /// CPU time wholestack itself used while recording.
    pub own_cpu_seconds: f64,
    /// The same in percent of one CPU for the whole session.
    pub own_cpu_percent: f64,
    /// Unwind tables in the kernel at a time, at most.
    pub unwind_tables: u64,
    /// Memory that they took, at most.
    pub unwind_table_bytes: u64,
    /// Limits that were hit, and how often.
    pub limits: Vec<Counted>,
    /// What the reader has to know to judge the figures.
    pub notes: Vec<String>,
    /// False for a recording that was cut before it was closed.
    pub closed: bool,
}

/// A name and how often it was met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// The reason or limit, in the reader's words.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// Sums up a profile.
pub(super) fn summary(profile: &Profile) -> Summary {
    let (session, books) = (&profile.session, &profile.accounting);
    let kept = books.kept();
    let seconds = session.duration_ns as f64 / 1e9;
    let own_seconds = books.own_cpu_ns as f64 / 1e9;
    Summary {
        recorded_by: session.version.clone(),
        host: session.host.clone(),
        kernel: session.kernel.clone(),
        scope: session.scope.clone(),
        started_unix_ns: session.started_unix_ns,
        duration_seconds: seconds,
        frequency_hz: session.frequency_hz,
        clock: session.clock.text(),
        cpus: session.cpus,
        processes: profile.processes.len(),
        threads: profile.threads.len(),
        taken: books.taken,
        kept,
        complete: books.complete,
        truncated: Part::new(books.truncated_total(), kept, KEPT),
        truncated_by_reason: counted(
            books
                .truncated
                .iter()
                .map(|(reason, count)| (reason.text(), *count)),
        ),
        guessed: Part::new(books.guessed, kept, KEPT),
        lost: Part::new(books.lost_total(), books.taken, "samples taken"),
        lost_by_reason: counted(
            books
                .lost
                .iter()
                .map(|(reason, count)| (reason.text(), *count)),
        ),
        balanced: books.balanced(),
        unnamed_frames: Part::new(books.unnamed_frames, books.frames, "frames in samples kept"),
        cpu_seconds: kept as f64 * profile.ns_per_sample() / 1e9,
        own_cpu_seconds: own_seconds,
        own_cpu_percent: if seconds > 0.0 {
            100.0 * own_seconds / seconds
        } else {
            0.0
        },
        unwind_tables: books.unwind_tables,
        unwind_table_bytes: books.unwind_table_bytes,
        limits: limits(profile),
        notes: profile.notes.clone(),
        closed: session.closed,
    }
}

fn limits(profile: &Profile) -> Vec<Counted> {
    let books = &profile.accounting;
    let stacks = ("distinct stacks", books.stacks_over_limit);
    counted(
        books
            .limits
            .iter()
            .map(|(name, count)| (name.as_str(), *count))
            .chain([stacks]),
    )
}

/// Leaves out what never happened; the most frequent first, equal ones by name.
fn counted<'a>(pairs: impl Iterator<Item = (&'a str, u64)>) -> Vec<Counted> {
    let mut counted: Vec<Counted> = pairs
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| Counted {
            name: name.to_owned(),
            count,
        })
        .collect();
    counted.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    counted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::testing::Build;
    use crate::profile::{GilState, Loss, Truncation};

    /// Each part names its own base, and reasons add up to their part.
    #[test]
    fn parts_have_their_bases() {
        let mut build = Build::new();
        let process = build.process("p", 1);
        let thread = build.thread(process, "t", 1);
        let frame = build.native("f", "/m.so");
        build.sample(thread, &[frame], 90);
        build.sample_as(
            thread,
            &[frame],
            8,
            GilState::None,
            Some(Truncation::PythonLate),
        );
        build.sample_as(
            thread,
            &[frame],
            2,
            GilState::None,
            Some(Truncation::NativeDepth),
        );
        let books = &mut build.profile.accounting;
        books.lose(Loss::RingFull, 25);
        books.taken += 25;
        books.unnamed_frames = 4;
        books.guessed = 5;
        books.own_cpu_ns = 60_000_000;
        books.stacks_over_limit = 3;
        books.limits.insert("unused".to_owned(), 0);
        let summary = summary(&build.profile);
        assert_eq!(
            (
                summary.truncated.count,
                summary.truncated.base,
                summary.truncated.percent
            ),
            (10, 100, 10.0)
        );
        assert_eq!(
            summary
                .truncated_by_reason
                .iter()
                .map(|reason| reason.count)
                .collect::<Vec<_>>(),
            [8, 2]
        );
        assert_eq!(
            (summary.lost.count, summary.lost.base, summary.lost.percent),
            (25, 125, 20.0)
        );
        assert_eq!(summary.unnamed_frames.percent, 4.0);
        assert_eq!((summary.guessed.base, summary.guessed.percent), (100, 5.0));
        assert_eq!((summary.cpu_seconds, summary.balanced), (1.0, true));
        assert!((summary.own_cpu_percent - 0.6).abs() < 1e-9);
        assert_eq!(
            summary
                .limits
                .iter()
                .map(|limit| &*limit.name)
                .collect::<Vec<_>>(),
            ["distinct stacks"]
        );
    }

    /// A profile of nothing divides nothing by zero.
    #[test]
    fn nothing_recorded() {
        let summary = summary(&Profile::default());
        assert_eq!(
            (summary.kept, summary.cpu_seconds, summary.own_cpu_percent),
            (0, 0.0, 0.0)
        );
        assert_eq!(
            (summary.lost.percent, summary.truncated.percent),
            (0.0, 0.0)
        );
    }
}
