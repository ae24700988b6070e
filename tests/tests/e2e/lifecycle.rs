//! How a recording ends, and that it keeps what it has, whatever ends it.

use std::process::Command;

use nix::sys::signal::Signal;
use wholestack_tests::program::run;
use wholestack_tests::recorder::{Recorder, Running, export};
use wholestack_tests::report::Report;
use wholestack_tests::scratch::Scratch;
use wholestack_tests::target::{Target, send, send_to_group};
use wholestack_tests::{require_bpf, wait};

use crate::accounting::assert_books;

/// A program that uses CPU time until it is killed.
fn busy() -> (Scratch, Target) {
    let scratch = Scratch::new();
    let target = Target::start(Command::new(scratch.burner()).arg("600"));
    (scratch, target)
}

/// Waits until the target has used so much CPU time that there must be samples of it.
fn let_run(target: &Target) {
    let before = target.cpu_seconds();
    wait::until("the target uses CPU time", || {
        (target.cpu_seconds() - before > 0.3).then_some(())
    });
}

/// Ctrl-C, SIGTERM and SIGHUP end a recording in order: exit code 0, one line that says so, everything kept, the file
/// whole and under its name.
#[test]
fn signals_keep_everything() {
    require_bpf!();
    let (_scratch, target) = busy();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let recorder = Recorder::new().pid(target.pid()).start();
        let_run(&target);
        let recorded = recorder.end_with(signal);
        let (report, folded) = (recorded.report(), recorded.folded());
        assert_books(&report, &folded);
        assert!(
            report.summary.kept >= 15 && report.summary.closed,
            "{signal}: {:#?}",
            report.summary
        );
        assert_eq!(export(&recorded.wstk()), (folded, report));
        assert_eq!(
            recorded.said.err.matches("ended by a signal").count(),
            1,
            "{signal}: {:#?}",
            recorded.said
        );
        assert!(
            !recorded
                .scratch
                .names()
                .iter()
                .any(|name| name.contains("partial")),
            "{:?}",
            recorded.scratch.names()
        );
    }
    assert!(target.is_running(), "the target was not asked to end");
}

/// Ctrl-C in a terminal reaches the command too: both end, and the recording is kept.
#[test]
fn the_terminals_interrupt_keeps_everything() {
    require_bpf!();
    let scratch = Scratch::new();
    let burner = scratch.burner();
    let recorder = Recorder::new()
        .hertz(499)
        .command([burner.as_os_str(), "600".as_ref()])
        .start();
    let pid = recorder.child();
    wait::until("the command uses CPU time", || {
        (wholestack_tests::target::cpu_seconds(pid) > 0.3).then_some(())
    });
    send_to_group(recorder.pid(), Signal::SIGINT);
    let report = recorder.finish().report();
    assert!(
        report.summary.kept >= 75 && report.summary.closed,
        "{:#?}",
        report.summary
    );
}

/// Asked twice, because it seemed slow, the recorder still writes everything.
#[test]
fn a_second_interrupt_changes_nothing() {
    require_bpf!();
    let (_scratch, target) = busy();
    let recorder = Recorder::new().pid(target.pid()).start();
    let_run(&target);
    send(recorder.pid(), Signal::SIGINT);
    send(recorder.pid(), Signal::SIGTERM);
    let recorded = recorder.end_with(Signal::SIGINT);
    assert_books(&recorded.report(), &recorded.folded());
}

/// The unfinished recording, once there are samples in it.
fn unfinished(recorder: &Running) -> (std::path::PathBuf, Report) {
    let partial = recorder.scratch().path("a.wstk.partial");
    let report = wait::until("samples are in the unfinished recording", || {
        let said = run(["report".as_ref(), "--json".as_ref(), partial.as_os_str()]);
        let report = (said.code == Some(0)).then(|| Report::parse(&said.out))?;
        (report.summary.kept > 0).then_some(report)
    });
    (partial, report)
}

/// A recorder that is killed leaves what it had: under `.partial`, readable, called unfinished, and no file under the
/// name of a whole one.
#[test]
fn a_killed_recorder_leaves_what_it_had() {
    require_bpf!();
    let (_scratch, target) = busy();
    let recorder = Recorder::new().pid(target.pid()).start();
    let (partial, before) = unfinished(&recorder);
    assert!(!before.summary.closed, "{:#?}", before.summary);
    let recorded = recorder.end_with(Signal::SIGKILL);
    let said = run([
        "report".as_ref(),
        "--json".as_ref(),
        recorded.scratch.path("a.wstk.partial").as_os_str(),
    ]);
    assert_eq!(said.code, Some(0), "{said:#?}");
    let report = Report::parse(&said.out);
    report.check_books();
    assert!(
        report.summary.kept >= before.summary.kept && !report.summary.closed,
        "{:#?}",
        report.summary
    );
    assert!(
        report.function("burn_a_little (burner)").is_some(),
        "{:#?}",
        report.top_functions
    );
    let outputs: Vec<_> = recorded
        .scratch
        .names()
        .into_iter()
        .filter(|name| name.starts_with("a."))
        .collect();
    assert!(
        partial.exists() && !outputs.iter().any(|name| name == "a.wstk"),
        "{outputs:?}"
    );
}

/// A recording that ends by its time is as long as it was asked to be.
#[test]
fn the_time_is_kept() {
    require_bpf!();
    let (_scratch, target) = busy();
    let report = Recorder::new()
        .pid(target.pid())
        .seconds(0.7)
        .run()
        .report();
    let length = report.summary.duration_seconds;
    assert!(
        report.summary.closed && length >= 0.7,
        "{:#?}",
        report.summary
    );
}
