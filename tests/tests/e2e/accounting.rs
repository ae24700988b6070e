//! Every sample that was taken is accounted for, in every output, also when there were more than could be kept.

use std::process::Command;

use nix::sys::signal::Signal;
use wholestack_tests::folded::{Folded, Stack};
use wholestack_tests::pythons::{Python, some_pythons};
use wholestack_tests::recorder::{Recorder, export};
use wholestack_tests::report::Report;
use wholestack_tests::scratch::Scratch;
use wholestack_tests::target::{Target, send};
use wholestack_tests::{require_bpf, require_python, wait};

use crate::fixtures::{machine, trainings};

/// Checks that the books balance, and that the folded file has the same books and just the samples that were kept.
#[track_caller]
pub fn assert_books(report: &Report, folded: &Folded) {
    report.check_books();
    let books = &report.summary;
    assert_eq!(
        folded.books,
        [
            books.taken,
            books.kept,
            books.lost.count,
            books.truncated.count
        ]
    );
    assert_eq!(folded.samples(), books.kept);
    assert_eq!(
        folded.losses.iter().map(|(_, count)| count).sum::<u64>(),
        books.lost.count
    );
}

/// Kept and lost make taken, in the report and in the folded file, for one process and for the whole machine; with a
/// buffer of ordinary size nothing is lost.
#[test]
fn books_balance() {
    require_bpf!();
    require_python!();
    let runs = trainings().iter().map(|run| (&run.report, &run.folded));
    for (report, folded) in runs.chain([(&machine().report, &machine().folded)]) {
        assert_books(report, folded);
        assert!(report.summary.kept > 0);
        assert_eq!(report.summary.lost.count, 0, "{:#?}", report.summary);
    }
}

/// A recorder that cannot keep up loses samples, says how many and why, and the books still balance: in the report, in
/// the folded file, and in both again when they are made from the recording.
#[test]
fn losses_are_counted() {
    require_bpf!();
    let scratch = Scratch::new();
    let burner = scratch.burner();
    let targets = [0, 1].map(|_| Target::start(Command::new(&burner).arg("60")));
    let recorder = Recorder::new()
        .hertz(4000)
        .option("--buffer-kib", "4")
        .pid(targets[0].pid())
        .pid(targets[1].pid())
        .start();
    send(recorder.pid(), Signal::SIGSTOP);
    // 4 KiB hold a few dozen samples at most: a tenth of a second's worth is more than enough to lose some.
    let before = targets[0].cpu_seconds();
    wait::until("the target runs on", || {
        (targets[0].cpu_seconds() - before > 0.3).then_some(())
    });
    send(recorder.pid(), Signal::SIGCONT);
    let recorded = recorder.end_with(Signal::SIGINT);
    let (report, folded) = (recorded.report(), recorded.folded());
    assert_books(&report, &folded);
    assert!(report.summary.lost.count > 100, "{:#?}", report.summary);
    assert!(report.summary.kept > 0, "{:#?}", report.summary);
    assert!(
        recorded
            .said
            .out
            .contains(&format!("lost {}", report.summary.lost.count)),
        "{}",
        recorded.said.out
    );
    let again = export(&recorded.wstk());
    assert_eq!(again, (folded, report));
}

/// A stack with more Python frames than are walked is kept, with its innermost frames and a mark where the others would
/// be, and counted as truncated for that reason.
#[test]
fn deep_stacks_are_cut_and_counted() {
    require_bpf!();
    require_python!();
    for python in some_pythons(&[8, 10, 11, 13, 14]) {
        deep_stacks_of(python);
    }
}

fn deep_stacks_of(python: &Python) {
    let scratch = Scratch::new();
    let program = scratch.file("deep.py", DEEP);
    let recorded = Recorder::new()
        .hertz(199)
        .command([&python.path, &program])
        .run();
    let (report, folded) = (recorded.report(), recorded.folded());
    assert_books(&report, &folded);
    let burning = |stack: &&Stack| stack.has_function("deep.py", "burn");
    let mut samples = 0;
    for stack in folded.stacks.iter().filter(burning) {
        let frames = stack
            .in_file("deep.py")
            .filter(|frame| frame.function == "go_down")
            .count();
        assert!(
            (190..DEPTH).contains(&frames),
            "{}: {frames} frames",
            python.version
        );
        assert!(
            stack
                .frames
                .iter()
                .any(|frame| frame.starts_with('[') && frame.contains("Python")),
            "no mark: {stack:#?}"
        );
        assert!(
            !stack.has_function("deep.py", "<module>"),
            "the outermost are the ones that are cut: {stack:#?}"
        );
        samples += stack.count;
    }
    let reason = report
        .summary
        .truncated_by_reason
        .iter()
        .find(|reason| reason.name.contains("more Python frames"));
    let marked = folded.count(|stack| stack.has("[Python frames cut]"));
    assert!(
        samples > 0 && marked >= samples && reason.is_some_and(|reason| reason.count == marked),
        "{samples} samples, {marked} with a mark: {:#?}",
        report.summary
    );
}

/// Frames of `deep.py`.
const DEPTH: usize = 900;

const DEEP: &str = "
import time

def burn():
    end = time.thread_time() + 0.5
    while time.thread_time() < end:
        x = 0
        for i in range(300):
            x ^= i

def go_down(n):
    return go_down(n - 1) if n > 1 else burn()

go_down(900)
";
