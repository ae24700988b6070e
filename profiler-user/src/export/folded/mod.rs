//! `.folded`, `.txt`: `process;thread;root;...;leaf COUNT`, one line a distinct stack.
//!
//! What flamegraph.pl, inferno and speedscope read. The counts add up to the samples kept. Frames are
//! written as the report shows them, so two files of one name are not told apart here; the other
//! formats and the report do that. `docs/formats/folded.md` describes the format for others.

mod books;
mod escape;

use std::collections::BTreeMap;
use std::io::Write;

use indexmap::IndexSet;

use crate::profile::{FrameId, Profile, ThreadId};

use super::task_label::TaskLabels;
use super::{ExportError, Exporter};

pub use escape::{escape, unescape};

/// Writes folded stacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Folded;

impl Exporter for Folded {
    fn write(&self, profile: &Profile, out: &mut dyn Write) -> Result<(), ExportError> {
        for line in books::lines(&profile.accounting) {
            writeln!(out, "{line}")?;
        }
        let frames = FrameNames::new(profile);
        let tasks = TaskLabels::new(profile);
        for (thread, stacks) in by_thread(profile, &frames) {
            let process = profile.thread(thread).process;
            let start = format!(
                "{};{}",
                escape(tasks.process(process)),
                escape(tasks.thread(thread))
            );
            for (stack, count) in stacks {
                out.write_all(start.as_bytes())?;
                for name in stack {
                    write!(out, ";{}", frames.names[name])?;
                }
                writeln!(out, " {count}")?;
            }
        }
        Ok(())
    }
}

/// The names frames are written with, each once. A stack is then a list of small numbers, and stacks
/// that are written alike are equal lists: memory stays far below that of the lines.
#[derive(Debug)]
struct FrameNames {
    names: IndexSet<String>,
    of_frame: Vec<usize>,
}

impl FrameNames {
    fn new(profile: &Profile) -> Self {
        let mut names = IndexSet::new();
        let of_frame = profile
            .frames
            .iter()
            .map(|frame| names.insert_full(escape(&frame.label(&profile.strings))).0)
            .collect();
        Self { names, of_frame }
    }

    /// The frames' names from root to leaf.
    fn root_first(&self, stack: &[FrameId]) -> Box<[usize]> {
        stack
            .iter()
            .rev()
            .map(|frame| self.of_frame[frame.0 as usize])
            .collect()
    }
}

/// Distinct stacks with their counts, thread by thread, in an order that depends on the profile only.
fn by_thread(
    profile: &Profile,
    frames: &FrameNames,
) -> BTreeMap<ThreadId, BTreeMap<Box<[usize]>, u64>> {
    let mut threads: BTreeMap<ThreadId, BTreeMap<Box<[usize]>, u64>> = BTreeMap::new();
    for (key, count) in &profile.samples {
        let stack = frames.root_first(profile.stack(key.stack));
        *threads
            .entry(key.thread)
            .or_default()
            .entry(stack)
            .or_insert(0) += count;
    }
    threads
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::evidence::testing::Build;
    use crate::profile::{GilState, Loss, Truncation};

    fn write(build: &Build) -> String {
        let mut out = Vec::new();
        Folded.write(&build.profile, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Root first, process and thread before it, equal stacks merged whatever else differs.
    #[test]
    fn lines() {
        let mut build = Build::new();
        let process = build.process("python3", 10);
        let (main, worker) = (
            build.thread(process, "python3", 10),
            build.thread(process, "pool-1", 11),
        );
        let (f, g) = (
            build.python("f", "/a.py", 1),
            build.python("g;h", "/a.py", 2),
        );
        build.sample_as(worker, &[g, f], 2, GilState::Held, None);
        build.sample_as(
            worker,
            &[g, f],
            3,
            GilState::NotHeld,
            Some(Truncation::PythonLate),
        );
        build.sample(main, &[f], 1);
        build.sample(main, &[], 4);
        build.profile.accounting.guessed = 2;
        assert_eq!(
            write(&build),
            "# wholestack;taken 10, kept 10, lost 0, truncated 3 samples 0\n\
             # wholestack;truncated;Python not known yet: 3 samples 0\n\
             # wholestack;guessed: 2 samples 0\n\
             python3 (10);python3 (10) 4\n\
             python3 (10);python3 (10);f (a.py:1) 1\n\
             python3 (10);pool-1 (11);f (a.py:1);g\\u{3b}h (a.py:2) 5\n"
        );
    }

    /// Without samples the file still says how many were taken and why none is there.
    #[test]
    fn nothing_kept() {
        let mut build = Build::new();
        assert_eq!(
            write(&build),
            "# wholestack;taken 0, kept 0, lost 0, truncated 0 samples 0\n"
        );
        build.profile.accounting.lose(Loss::RingFull, 7);
        build.profile.accounting.taken = 7;
        assert_eq!(
            write(&build),
            "# wholestack;taken 7, kept 0, lost 7, truncated 0 samples 0\n\
             # wholestack;lost;ring buffer full: 7 samples 0\n"
        );
    }
}
