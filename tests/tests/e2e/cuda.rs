//! Driver calls: counted exactly, whenever the process started, and seen in stacks.

use std::ffi::OsString;
use std::process::Command;

use wholestack_tests::recorder::Recorder;
use wholestack_tests::report::Report;
use wholestack_tests::scratch::{Scratch, workload};
use wholestack_tests::target::Target;
use wholestack_tests::truth::{Cuda, CudaCalls, Training};
use wholestack_tests::{require_bpf, require_python, wait};

use crate::fixtures::trainings;

/// Checks that the report has exactly the calls that the stand-in counted: per function, and per thread and function.
#[track_caller]
fn assert_counts(report: &Report, pid: u32, truth: &Cuda) {
    assert_eq!(report.calls_by_thread(pid), truth.calls_by_thread());
    for row in report
        .cuda_driver_by_thread
        .iter()
        .filter(|row| row.pid == Some(pid))
    {
        let thread = truth
            .threads
            .iter()
            .find(|thread| Some(thread.tid) == row.tid)
            .unwrap();
        assert_eq!(
            row.call.errors, thread.functions[&row.call.function].errors,
            "{row:?}"
        );
        assert_eq!(row.call.returned, row.call.count, "{row:?}");
    }
}

/// The notes about a driver that was met in the middle of a recording: from how many milliseconds on it is counted.
fn gaps(report: &Report) -> Vec<&String> {
    report
        .summary
        .notes
        .iter()
        .filter(|note| note.starts_with("CUDA driver ") && note.contains(" ms "))
        .collect()
}

/// `cuda_calls`, and where its truth goes.
struct Calls {
    scratch: Scratch,
    program: OsString,
}

impl Calls {
    fn new() -> Self {
        let scratch = Scratch::new();
        let program = scratch
            .build(
                "cuda_calls",
                &workload("cuda_calls.c"),
                &["-O2", "-pthread"],
            )
            .into();
        Self { scratch, program }
    }

    fn words<A: Into<OsString>>(&self, options: impl IntoIterator<Item = A>) -> Vec<OsString> {
        std::iter::once(self.program.clone())
            .chain(options.into_iter().map(Into::into))
            .collect()
    }

    fn start(&self, words: &[OsString], truth: &str) -> Target {
        let mut command = Command::new(&words[0]);
        Target::start_into(command.args(&words[1..]), &self.scratch.path(truth))
    }

    fn truth(&self, name: &str) -> CudaCalls {
        CudaCalls::find(&std::fs::read_to_string(self.scratch.path(name)).unwrap())
    }
}

/// A process that began before the recording, with threads, several drivers' worth of functions, copies and errors: every
/// count is the stand-in's own.
#[test]
fn training_is_counted_exactly() {
    require_bpf!();
    require_python!();
    for run in trainings() {
        assert_counts(&run.report, run.truth.pid, run.truth.cuda());
        assert_eq!(run.report.calls(), run.truth.cuda().calls());
        let failed = run
            .report
            .cuda_driver
            .rows
            .iter()
            .map(|row| row.errors)
            .sum::<u64>();
        assert!(
            failed > 0,
            "launches that fail are part of the workload: {:#?}",
            run.report.cuda_driver
        );
    }
}

/// Processes that mapped the driver before the recording: counted from their first call, through `dlsym` and through
/// `cuGetProcAddress`, in the base and the per-thread forms, from several threads; no gap, and none claimed.
#[test]
fn counts_are_exact_from_before() {
    require_bpf!();
    let calls = Calls::new();
    let driver = calls.scratch.driver("driver").into_os_string();
    let go = calls.scratch.path("go").into_os_string();
    let forms: [&[&str]; 4] = [&["-t", "3"], &["-g"], &["-p"], &["-g", "-p", "-t", "2"]];
    let mut targets = Vec::new();
    for (index, form) in forms.iter().enumerate() {
        let mut words = calls.words(["-m", "-f"]);
        words.push(go.clone());
        words.extend(form.iter().map(Into::into));
        words.extend([
            driver.clone(),
            format!("{}", 2000 + index).into(),
            "40".into(),
        ]);
        targets.push(calls.start(&words, &format!("truth{index}")));
    }
    for target in &targets {
        wait::until("the driver is mapped", || {
            let maps = std::fs::read_to_string(format!("/proc/{}/maps", target.pid())).ok()?;
            maps.contains("/driver/libcuda.so.1").then_some(())
        });
    }
    let recorder = targets
        .iter()
        .fold(Recorder::new(), |recorder, target| {
            recorder.pid(target.pid())
        })
        .start();
    calls.scratch.signal("go");
    let recorded = recorder.finish();
    let report = recorded.report();
    targets.into_iter().for_each(Target::finish);
    for index in 0..forms.len() {
        let truth = calls.truth(&format!("truth{index}"));
        assert_counts(&report, truth.pid, &truth.library);
    }
    assert_eq!(gaps(&report), Vec::<&String>::new());
}

/// A command started by the recording: its driver is met when it maps it. What passed until the probes were there is
/// stated in milliseconds; the driver's own start takes far longer, so every call is counted.
#[test]
fn counts_are_exact_for_a_command() {
    require_bpf!();
    let calls = Calls::new();
    let driver = calls.scratch.driver("driver").into_os_string();
    let words = calls.words(["-t".into(), "3".into(), driver, "3000".into(), "30".into()]);
    let recorded = Recorder::new().command(words).run();
    let report = recorded.report();
    let truth = CudaCalls::find(&recorded.said.out);
    assert_counts(&report, truth.pid, &truth.library);
    let [gap] = gaps(&report)[..] else {
        panic!("one gap: {:?}", report.summary.notes)
    };
    assert!(gap.contains(&format!("process {}", truth.pid)), "{gap}");
}

/// The README's first command: training.py, started by the recording, is counted exactly and its truth still printed.
#[test]
fn counts_are_exact_for_the_first_command_of_the_readme() {
    require_bpf!();
    require_python!();
    let scratch = Scratch::new();
    let (program, truth, driver) = (
        workload("training.py"),
        scratch.path("truth"),
        scratch.driver("driver"),
    );
    let words = [
        "python3".as_ref(),
        program.as_os_str(),
        "--launches".as_ref(),
        "40".as_ref(),
        "--quiet".as_ref(),
    ];
    let paths = [
        "--truth".as_ref(),
        truth.as_os_str(),
        "--libcuda".as_ref(),
        driver.as_os_str(),
    ];
    let recorded = Recorder::new()
        .command(words.into_iter().chain(paths))
        .run();
    let truth = Training::parse(&wait::for_file(&truth));
    assert_counts(&recorded.report(), truth.pid, truth.cuda());
    assert!(
        recorded.said.out.contains("{\"workload\": \"training\""),
        "the command's own output is let through"
    );
    assert!(
        recorded.said.out.contains("\nCUDA DRIVER "),
        "{}",
        recorded.said.out
    );
}

/// Processes that start while the whole machine is recorded: the first one that maps a driver is counted from its first
/// call behind the driver's start, the next one, with the same file, from its very first: one call is one.
#[test]
fn counts_are_exact_from_after() {
    require_bpf!();
    let calls = Calls::new();
    let driver = calls.scratch.driver("driver").into_os_string();
    let recorder = Recorder::new().start();
    calls
        .start(
            &calls.words([
                "-t".into(),
                "2".into(),
                driver.clone(),
                "1000".into(),
                "10".into(),
            ]),
            "first",
        )
        .finish();
    calls
        .start(&calls.words([driver.clone(), "1".into()]), "second")
        .finish();
    calls
        .start(
            &calls.words(["-g".into(), driver, "1".into(), "1".into()]),
            "third",
        )
        .finish();
    let report = recorder.end_with(nix::sys::signal::Signal::SIGINT).report();
    for name in ["first", "second", "third"] {
        let truth = calls.truth(name);
        assert_counts(&report, truth.pid, &truth.library);
    }
    let first = calls.truth("first").pid;
    let own = |note: &&&String| note.contains(&*calls.scratch.folder().to_string_lossy());
    let gaps = gaps(&report);
    let [gap] = gaps.iter().filter(own).collect::<Vec<_>>()[..] else {
        panic!("one gap: {gaps:?}")
    };
    assert!(gap.contains(&format!("process {first}")), "{gap}");
}

/// A child that a recorded shell starts in the middle of the recording is counted exactly, although only the shell's pid
/// was given.
#[test]
fn counts_are_exact_for_children() {
    require_bpf!();
    let calls = Calls::new();
    let (driver, go) = (calls.scratch.driver("driver"), calls.scratch.path("go"));
    let script = format!(
        "while [ ! -e {} ]; do sleep 0.02; done; {} -p {} 500 5; exit $?",
        go.display(),
        calls.program.display(),
        driver.display()
    );
    let shell = Target::start_into(
        Command::new("sh").args(["-c", &script]),
        &calls.scratch.path("truth"),
    );
    let recorder = Recorder::new().pid(shell.pid()).start();
    calls.scratch.signal("go");
    let report = recorder.finish().report();
    let truth = calls.truth("truth");
    assert_ne!(truth.pid, shell.pid());
    assert_counts(&report, truth.pid, &truth.library);
}

/// Where a driver call is open, its name is in the stack, although the driver's own code has none; root side of it are
/// the Python function and the very line that made the call.
#[test]
fn open_calls_are_in_stacks() {
    require_bpf!();
    require_python!();
    for run in trainings() {
        let cuda = run.truth.cuda();
        let mut seen = std::collections::BTreeMap::<&str, u64>::new();
        for stack in &run.folded.stacks {
            let mut calls = stack
                .frames
                .iter()
                .enumerate()
                .filter_map(|(at, frame)| Some((at, frame.strip_suffix(" [cuda]")?)));
            let Some((at, function)) = calls.next() else {
                continue;
            };
            assert_eq!(
                calls.next(),
                None,
                "no driver call is inside another: {stack:#?}"
            );
            let above = stack.frames[..at].iter().rev().find_map(|frame| {
                wholestack_tests::folded::Source::parse(frame)
                    .filter(|source| source.file == "training.py")
            });
            let caller = above.unwrap_or_else(|| panic!("no Python above the call: {stack:#?}"));
            assert!(
                cuda.functions[function].lines.contains(&caller.line),
                "line {} does not call it: {stack:#?}",
                caller.line
            );
            let below = stack.frames[at..]
                .iter()
                .any(|frame| frame.contains(" (training.py:"));
            assert!(!below, "Python below the driver: {stack:#?}");
            *seen.entry(function).or_default() += stack.count;
        }
        println!("{}: {seen:?}", run.python.version);
        for function in ["cuLaunchKernel", "cuStreamSynchronize"] {
            assert!(
                seen.contains_key(function),
                "{function} takes enough time to be seen: {seen:?}"
            );
        }
    }
}
