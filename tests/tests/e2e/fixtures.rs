//! Recordings that several tests look at, made when the first of them asks.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use wholestack_tests::folded::Folded;
use wholestack_tests::program::Said;
use wholestack_tests::pythons::{Python, some_pythons};
use wholestack_tests::recorder::Recorder;
use wholestack_tests::report::Report;
use wholestack_tests::scratch::{Scratch, workload};
use wholestack_tests::target::{Target, Watch, Watched};
use wholestack_tests::truth::Training;
use wholestack_tests::wait;

/// `training.py`, recorded from before its work began until its end.
pub struct TrainingRun {
    pub python: &'static Python,
    pub truth: Training,
    pub report: Report,
    pub folded: Folded,
    pub watched: Watched,
}

/// How long the first one works, as the project's first promise has it; and the others.
const SECONDS: [&str; 2] = ["20", "10"];

/// Versions of the interpreters that train: the one of the project's first promise, the oldest that is decoded, the newest.
const VERSIONS: [u32; 3] = [11, 8, 14];

/// One run for each of a few interpreters. Made once.
pub fn trainings() -> &'static [TrainingRun] {
    static RUNS: LazyLock<Vec<TrainingRun>> = LazyLock::new(|| {
        let seconds = SECONDS.iter().chain(std::iter::repeat(&SECONDS[1]));
        some_pythons(&VERSIONS)
            .into_iter()
            .zip(seconds)
            .map(|(python, seconds)| train(python, seconds))
            .collect()
    });
    &RUNS
}

fn train(python: &'static Python, seconds: &str) -> TrainingRun {
    let scratch = Scratch::new();
    let [ready, go, truth] = ["ready", "go", "truth"].map(|name| scratch.path(name));
    let mut training = Command::new(&python.path);
    training
        .arg(workload("training.py"))
        .args(["--quiet", "--seconds", seconds]);
    training.arg("--libcuda").arg(scratch.driver("driver"));
    training
        .arg("--ready")
        .arg(&ready)
        .arg("--wait-for")
        .arg(&go)
        .arg("--truth")
        .arg(&truth);
    let target = Target::start(&mut training);
    wait::for_file(&ready);
    let watch = Watch::on(target.pid());
    let recorder = Recorder::new().pid(target.pid()).start();
    scratch.signal("go");
    let recorded = recorder.finish();
    TrainingRun {
        python,
        truth: Training::parse(&wait::for_file(&truth)),
        report: recorded.report(),
        folded: recorded.folded(),
        watched: watch.end(),
    }
}

/// The whole machine, while `dd` copies nothing and a program uses its own code.
pub struct MachineRun {
    /// What was printed.
    pub said: Said,
    /// The bytes of the recording.
    pub wstk: Vec<u8>,
    pub report: Report,
    pub folded: Folded,
    /// The pids of the two.
    pub dd: u32,
    pub burner: u32,
    /// CPU seconds that all CPUs together were busy for, from before the recording until after it.
    pub busy_seconds: f64,
}

impl MachineRun {
    /// The recording as a file in this folder: what lives as long as the test program leaves no files behind.
    pub fn file(&self, scratch: &Scratch) -> PathBuf {
        scratch.file("machine.wstk", &self.wstk)
    }
}

/// A recording of the whole machine. Made once.
pub fn machine() -> &'static MachineRun {
    static RUN: LazyLock<MachineRun> = LazyLock::new(|| {
        let scratch = Scratch::new();
        let burner = scratch.burner();
        let busy_before = busy_seconds();
        let recorder = Recorder::new().seconds(3.0).start();
        let dd = Target::start(Command::new("dd").args(["if=/dev/zero", "of=/dev/null", "bs=1M"]));
        let burner = Target::start(Command::new(burner).arg("1"));
        let recorded = recorder.finish();
        MachineRun {
            report: recorded.report(),
            folded: recorded.folded(),
            wstk: fs::read(recorded.wstk()).unwrap(),
            said: recorded.said,
            dd: dd.pid(),
            burner: burner.pid(),
            busy_seconds: busy_seconds() - busy_before,
        }
    });
    &RUN
}

/// CPU seconds for which CPUs were not idle since the machine started.
fn busy_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let ticks: Vec<f64> = stat
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .skip(1)
        .map(|n| n.parse().unwrap())
        .collect();
    // user, nice, system, idle, iowait, irq, softirq, steal.
    let busy = [0, 1, 2, 5, 6, 7]
        .map(|kind| ticks[kind])
        .iter()
        .sum::<f64>();
    busy / rustix::param::clock_ticks_per_second() as f64
}
