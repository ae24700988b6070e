//! Programs recorded side by side, and how many of their stacks were what was expected.

use std::path::Path;

use wholestack::profile::Truncation;
use wholestack_tests::recorder::Recorder;
use wholestack_tests::samples::{self, Sample};
use wholestack_tests::scratch::Scratch;
use wholestack_tests::statistics::Binomial;

use super::expect::{Program, Verdict};

/// Samples that have to be whole.
const WHOLE: f64 = 0.995;
/// How often a program that is right may be refused.
const ALPHA: f64 = 1e-5;
/// What is recorded in a program's first second is shown, and may be cut: its unwind tables are being made.
const FIRST_NS: u64 = 1_000_000_000;
/// Odd, so that it does not keep step with anything.
const HERTZ: u32 = 997;

/// A program to be recorded.
pub struct Exhibit {
    /// What its stacks are to look like.
    pub program: Program,
    /// Its words behind its path, which is its name in the folder.
    pub words: String,
}

/// What was seen of a program.
#[derive(Debug)]
pub struct Seen {
    /// Its name.
    pub name: &'static str,
    /// Samples in its first second, and those of them that are whole.
    pub first: Tally,
    /// The same from then on.
    pub later: Tally,
    /// A sample that shows a wrong caller, and how many do.
    pub wrong: Option<(String, u64)>,
    /// Stacks that are cut: the reason, and their length.
    pub cut: Vec<(Option<Truncation>, usize)>,
}

/// Samples with user code, and what became of them.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    /// All.
    pub samples: u64,
    /// The chain as expected.
    pub chain: u64,
    /// In start-up, exit or a library; reached the thread's root.
    pub elsewhere: u64,
}

impl Tally {
    /// Samples that reach the root.
    pub fn whole(self) -> u64 {
        self.chain + self.elsewhere
    }
}

/// Runs programs that lie in the folder, all at once, under one recorder.
pub fn record(scratch: &Scratch, exhibits: &[Exhibit]) -> Vec<Seen> {
    let lines: Vec<String> = exhibits
        .iter()
        .map(|exhibit| line(scratch, exhibit))
        .collect();
    let script = format!("#!/bin/sh\n{}\nwait\n", lines.join("\n"));
    let recorded = Recorder::new()
        .hertz(HERTZ)
        .command([scratch.script("all.sh", &script)])
        .run();
    assert_eq!(recorded.said.code, Some(0), "{:#?}", recorded.said);
    let samples = samples::read(&recorded.wstk());
    let seen: Vec<Seen> = exhibits
        .iter()
        .map(|exhibit| look(&exhibit.program, &samples))
        .collect();
    seen.iter().for_each(show);
    seen
}

fn line(scratch: &Scratch, exhibit: &Exhibit) -> String {
    let path = scratch.path(exhibit.program.name);
    assert!(Path::exists(&path), "{} was not built", path.display());
    format!("{} {} >/dev/null &", path.display(), exhibit.words)
}

fn look(program: &Program, samples: &[Sample]) -> Seen {
    let mut seen = Seen {
        name: program.name,
        first: Tally::default(),
        later: Tally::default(),
        wrong: None,
        cut: Vec::new(),
    };
    let own = samples
        .iter()
        .filter(|sample| sample.process == program.name);
    let began = own.clone().map(|sample| sample.time_ns).min().unwrap_or(0);
    for sample in own {
        if sample.frames.iter().all(|frame| frame.is_kernel()) {
            continue;
        }
        let tally = match sample.time_ns - began {
            ..FIRST_NS => &mut seen.first,
            _ => &mut seen.later,
        };
        tally.samples += 1;
        let cut = sample.truncation.is_some();
        match program.judge(sample) {
            Ok(Verdict::Whole) => tally.chain += 1,
            Ok(Verdict::Elsewhere) if !cut => tally.elsewhere += 1,
            Ok(_) => seen.cut.push((sample.truncation, sample.frames.len())),
            Err(what) => {
                let (_, count) = seen
                    .wrong
                    .get_or_insert_with(|| (format!("{what}: {sample:#?}"), 0));
                *count += 1;
            }
        }
    }
    seen
}

fn show(seen: &Seen) {
    let share = |tally: Tally| 100.0 * tally.whole() as f64 / tally.samples.max(1) as f64;
    println!(
        "{:>14}: first second {:4} of {:4} whole ({:6.2} %), later {:4} of {:4} ({:6.2} %; {} elsewhere), {} wrong",
        seen.name,
        seen.first.whole(),
        seen.first.samples,
        share(seen.first),
        seen.later.whole(),
        seen.later.samples,
        share(seen.later),
        seen.later.elsewhere,
        seen.wrong.as_ref().map_or(0, |wrong| wrong.1)
    );
    let mut reasons = std::collections::BTreeMap::new();
    for (reason, _) in &seen.cut {
        *reasons.entry(reason).or_insert(0) += 1;
    }
    if !reasons.is_empty() {
        println!("                cut: {reasons:?}");
    }
}

impl Seen {
    /// Checks that no stack shows a caller that is none.
    #[track_caller]
    pub fn assert_never_wrong(&self) {
        if let Some((example, count)) = &self.wrong {
            panic!("{}: {count} are wrong, such as: {example}", self.name);
        }
    }

    /// Checks that, too, and that from the first second on the stacks are whole.
    #[track_caller]
    pub fn assert_whole(&self) {
        self.assert_never_wrong();
        let tally = self.later;
        let chance = Binomial {
            n: tally.samples,
            p: WHOLE,
        }
        .at_most(tally.whole());
        assert!(tally.chain > 0 && chance > ALPHA, "{self:#?}");
    }
}
