//! Programs recorded side by side, and how many of their stacks were what was expected.

use std::collections::BTreeMap;

use wholestack::profile::Truncation;
use wholestack_tests::recorder::Recorder;
use wholestack_tests::report::Report;
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
/// Keeps step with nothing.
const HERTZ: u32 = 997;

/// A program to be recorded.
pub struct Exhibit {
    /// What its stacks are to look like. It lies in the folder.
    pub program: Program,
    /// The words that it is called with.
    pub words: String,
}

/// Programs that were recorded.
pub struct Gallery {
    seen: Vec<Seen>,
    /// The recording's report.
    pub report: Report,
}

/// What was seen of a program.
#[derive(Debug)]
pub struct Seen {
    /// Its name.
    pub name: &'static str,
    /// Samples in its first second.
    pub first: Tally,
    /// Samples from then on.
    pub later: Tally,
    /// Those of the latter that are of the process of that name with the most samples.
    pub parent: Tally,
    /// A sample that shows a wrong caller, and how many do.
    pub wrong: Option<(String, u64)>,
    /// Stacks that are cut.
    pub cut: Vec<Cut>,
}

/// Samples with user code, and what became of them.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    /// All.
    pub samples: u64,
    /// The chain as expected.
    pub chain: u64,
    /// In start-up, exit or a library, and whole.
    pub elsewhere: u64,
}

/// A stack that is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Why.
    pub why: Truncation,
    /// Frames of user code that are left.
    pub frames: usize,
    /// Whether it is from after the first second.
    pub late: bool,
}

impl Tally {
    /// Samples that reach the root.
    pub fn whole(self) -> u64 {
        self.chain + self.elsewhere
    }

    fn percent(self) -> f64 {
        100.0 * self.whole() as f64 / self.samples.max(1) as f64
    }
}

impl Gallery {
    /// Runs programs that lie in the folder, all at once, under one recorder.
    pub fn record(scratch: &Scratch, exhibits: &[Exhibit]) -> Self {
        let lines: Vec<String> = exhibits
            .iter()
            .map(|exhibit| {
                let path = scratch.path(exhibit.program.name);
                format!("{} {} >/dev/null &", path.display(), exhibit.words)
            })
            .collect();
        let script = format!("#!/bin/sh\n{}\nwait\n", lines.join("\n"));
        let recorded = Recorder::new()
            .hertz(HERTZ)
            .command([scratch.script("all.sh", &script)])
            .run();
        let samples = samples::read(&recorded.wstk());
        let look = |exhibit: &Exhibit| Seen::of(&exhibit.program, &samples);
        Self {
            seen: exhibits.iter().map(look).collect(),
            report: recorded.report(),
        }
    }

    /// What was seen of a program.
    #[track_caller]
    pub fn seen(&self, name: &str) -> &Seen {
        let found = self.seen.iter().find(|seen| seen.name == name);
        let found = found.unwrap_or_else(|| panic!("{name} was not recorded"));
        found.show();
        found
    }
}

impl Seen {
    fn of(program: &Program, samples: &[Sample]) -> Self {
        let mut seen = Self {
            name: program.name,
            first: Tally::default(),
            later: Tally::default(),
            parent: Tally::default(),
            wrong: None,
            cut: Vec::new(),
        };
        let own = samples
            .iter()
            .filter(|sample| sample.process == program.name);
        let began = own.clone().map(|sample| sample.time_ns).min().unwrap_or(0);
        let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
        for sample in own.clone() {
            *sizes.entry(sample.pid).or_default() += 1;
        }
        let longest = sizes.iter().max_by_key(|(_, size)| **size);
        let longest = longest.map(|(pid, _)| *pid);
        let user = own.filter(|sample| !sample.frames.iter().all(|frame| frame.is_kernel()));
        for sample in user {
            let late = sample.time_ns - began >= FIRST_NS;
            let judged = program.judge(sample);
            let (chain, elsewhere) = match &judged {
                Ok(Verdict::Whole) => (1, 0),
                Ok(Verdict::Elsewhere) => (0, u64::from(sample.truncation.is_none())),
                Ok(Verdict::Cut) | Err(_) => (0, 0),
            };
            let tallies: &mut [&mut Tally] = match (late, Some(sample.pid) == longest) {
                (false, _) => &mut [&mut seen.first],
                (true, false) => &mut [&mut seen.later],
                (true, true) => &mut [&mut seen.later, &mut seen.parent],
            };
            for tally in tallies {
                tally.samples += 1;
                tally.chain += chain;
                tally.elsewhere += elsewhere;
            }
            match judged {
                Err(what) => {
                    let example = || (format!("{what}: {sample:#?}"), 0);
                    seen.wrong.get_or_insert_with(example).1 += 1;
                }
                Ok(_) => seen.cut.extend(sample.truncation.map(|why| {
                    let user = |frame: &&samples::Frame| !frame.is_kernel() && !frame.is_marker();
                    Cut {
                        why,
                        frames: sample.frames.iter().filter(user).count(),
                        late,
                    }
                })),
            }
        }
        seen
    }

    fn show(&self) {
        println!(
            "{:>12}: first second {:4} of {:4} whole ({:6.2} %), then {:4} of {:4} ({:6.2} %, {} elsewhere), {} wrong",
            self.name,
            self.first.whole(),
            self.first.samples,
            self.first.percent(),
            self.later.whole(),
            self.later.samples,
            self.later.percent(),
            self.later.elsewhere,
            self.wrong.as_ref().map_or(0, |wrong| wrong.1)
        );
        let mut reasons: BTreeMap<(bool, Truncation), u64> = BTreeMap::new();
        for cut in &self.cut {
            *reasons.entry((cut.late, cut.why)).or_default() += 1;
        }
        for ((late, why), count) in reasons {
            let when = if late { "then" } else { "first second" };
            println!("{:>14}{when}: {count} cut: {}", "", why.text());
        }
    }

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
        self.assert_nearly_all(self.later, self.later.whole());
        assert!(self.later.chain > 0, "{self:#?}");
    }

    /// The same of the longest process alone.
    #[track_caller]
    pub fn assert_parent_whole(&self) {
        self.assert_nearly_all(self.parent, self.parent.whole());
        assert!(self.parent.chain > 0, "{self:#?}");
    }

    /// Checks that no stack is wrong, and that so many of the samples are nearly all.
    #[track_caller]
    pub fn assert_nearly_all(&self, of: Tally, count: u64) {
        self.assert_share(of, count, WHOLE);
    }

    /// Checks that no stack is wrong, and that so many of the samples are this share or more.
    #[track_caller]
    pub fn assert_share(&self, of: Tally, count: u64, p: f64) {
        self.assert_never_wrong();
        let chance = Binomial { n: of.samples, p }.at_most(count);
        assert!(of.samples > 0 && chance > ALPHA, "{self:#?}");
    }
}
