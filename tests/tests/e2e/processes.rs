//! Processes: made by fork and by exec, early and late, short-lived and idle; and targets that end.

use std::collections::BTreeMap;
use std::process::Command;

use serde::Deserialize;
use wholestack_tests::recorder::Recorder;
use wholestack_tests::scratch::{Scratch, small_program};
use wholestack_tests::target::Target;
use wholestack_tests::{require_bpf, require_python, wait};

use crate::accounting::assert_books;
use crate::threads::assert_cpu;

/// What `family.py` says of one of its threads.
#[derive(Debug, Deserialize)]
struct Member {
    what: String,
    pid: u32,
    tid: u32,
    cpu_s: f64,
}

/// Given one pid, later threads and children are recorded too: children made by fork alone, of multiprocessing and of
/// os.fork, and their children and threads. Each has rows of its own, its exact CPU time, and its Python functions.
#[test]
fn forks_and_later_threads_are_recorded() {
    require_bpf!();
    let python = require_python!();
    let scratch = Scratch::new();
    let (truth, go) = (scratch.path("truth"), scratch.path("go"));
    let mut family = Command::new(&python.path);
    family
        .arg(small_program("family.py"))
        .args([&truth, &go])
        .arg("0.4");
    let target = Target::start(&mut family);
    let recorder = Recorder::new().hertz(199).pid(target.pid()).start();
    scratch.signal("go");
    let recorded = recorder.finish();
    let (report, folded) = (recorded.report(), recorded.folded());
    assert_books(&report, &folded);

    let truth = std::fs::read_to_string(truth).unwrap();
    let members: Vec<Member> = truth
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(members.len(), 6, "{members:#?}");
    for member in &members {
        let row = report
            .thread(member.tid)
            .unwrap_or_else(|| panic!("not listed: {member:?}"));
        assert_eq!(
            (row.pid, row.process.is_empty()),
            (member.pid, false),
            "{row:?}"
        );
        assert_cpu(&report, member.tid, member.cpu_s);
        let own = |stack: &&wholestack_tests::folded::Stack| stack.thread.id == member.tid;
        let mut samples = 0;
        for stack in folded.of_process(member.pid).filter(own) {
            let elsewhere = stack
                .in_file("family.py")
                .find(|frame| frame.function.starts_with("in_") && frame.function != member.what);
            assert_eq!(elsewhere, None, "{member:?} is not there: {stack:#?}");
            samples += if stack.has_function("family.py", &member.what) {
                stack.count
            } else {
                0
            };
        }
        // 0.4 s at 199 Hz are 80 ticks of a steady clock.
        assert!(samples >= 40, "{member:?} is seen in {samples} samples");
    }
    let names: BTreeMap<&str, &str> = members
        .iter()
        .map(|member| {
            (
                member.what.as_str(),
                report.thread(member.tid).unwrap().name.as_str(),
            )
        })
        .collect();
    assert_eq!(names["in_thread"], "late-thread");
    assert_eq!(names["in_grandchilds_thread"], "deep-thread");
}

/// A command that becomes other programs, through shell scripts and exec, is recorded to the last of them, under its
/// last name; also the program that a script starts and waits for.
#[test]
fn scripts_and_exec_are_followed() {
    require_bpf!();
    let python = require_python!();
    let scratch = Scratch::new();
    let burner = scratch.burner();
    let program = scratch.file(
        "spin.py",
        "import time\nwhile time.thread_time() < 0.5:\n    x = 1\n",
    );
    let inner = format!(
        "#!/bin/sh\n{} 0.5\nexec {} {}\n",
        burner.display(),
        python.path.display(),
        program.display()
    );
    let inner = scratch.script("inner.sh", &inner);
    let outer = scratch.script(
        "outer.sh",
        &format!("#!/bin/sh\nexec sh -c 'exec {}'\n", inner.display()),
    );
    let recorded = Recorder::new().hertz(199).command([&outer]).run();
    let (report, folded) = (recorded.report(), recorded.folded());
    assert_books(&report, &folded);
    let burned: Vec<_> = folded
        .stacks
        .iter()
        .filter(|stack| {
            stack
                .frames
                .iter()
                .any(|frame| frame.starts_with("burn_a_little ("))
        })
        .collect();
    assert!(
        !burned.is_empty() && burned.iter().all(|stack| stack.process.name == "burner"),
        "{burned:#?}"
    );
    let spun: Vec<_> = folded
        .stacks
        .iter()
        .filter(|stack| stack.has_function("spin.py", "<module>"))
        .collect();
    let file = python.path.file_name().unwrap().to_string_lossy();
    let right = spun
        .iter()
        .all(|stack| file.starts_with(&*stack.process.name) && stack.process.id == stack.thread.id);
    assert!(!spun.is_empty() && right, "{spun:#?}");
    assert_ne!(burned[0].process.id, spun[0].process.id);
}

/// A command runs with the niceness of whoever asked for the recording: threads of the recorder that go before others do
/// not hand that down.
#[test]
fn the_command_goes_before_nobody() {
    require_bpf!();
    let scratch = Scratch::new();
    let [own, theirs] = ["own", "theirs"].map(|name| scratch.path(name));
    let niceness = |out: &std::path::Path| format!("nice > {}", out.display());
    let shell = |script: String| ["sh".to_owned(), "-c".to_owned(), script];
    let [program, words @ ..] = shell(niceness(&own));
    assert!(
        Command::new(program)
            .args(words)
            .status()
            .unwrap()
            .success()
    );
    // Asked after a while, too: the recorder's threads have been running then.
    let later = format!("sleep 0.3; {}", niceness(&theirs));
    Recorder::new().command(shell(later)).run().report();
    assert_eq!(wait::for_file(&own), wait::for_file(&theirs));
}

/// CPU time before an exec is the old program's, after it the new one's, each by the kernel's own clock.
#[test]
fn an_exec_divides_the_cpu_time() {
    require_bpf!();
    let python = require_python!();
    let scratch = Scratch::new();
    let second = "import time, sys\nwhile time.process_time() < 1.2: pass\n\
        open(sys.argv[1], 'a').write('%f\\n' % time.process_time())";
    let first = "import os, sys, time\nwhile time.process_time() < 0.4: pass\n\
        open(sys.argv[2], 'a').write('%d %f\\n' % (os.getpid(), time.process_time()))\n\
        os.execv(sys.executable, [sys.executable, '-c', sys.argv[1], sys.argv[2]])";
    let truth = scratch.path("truth");
    let command = [
        python.path.as_os_str(),
        "-c".as_ref(),
        first.as_ref(),
        second.as_ref(),
        truth.as_os_str(),
    ];
    let report = Recorder::new().command(command).run().report();
    let truth = std::fs::read_to_string(truth).unwrap();
    let said: Vec<f64> = truth
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    let [pid, before, both] = said[..] else {
        panic!("{truth}")
    };
    let mut seconds: Vec<f64> = report
        .threads
        .rows
        .iter()
        .filter(|row| f64::from(row.tid) == pid)
        .filter_map(|row| row.cpu_seconds)
        .collect();
    seconds.sort_by(f64::total_cmp);
    let right = seconds.len() == 2
        && (seconds[0] - before).abs() < 0.05
        && (seconds[1] - (both - before)).abs() < 0.05;
    assert!(right, "{seconds:?}, truth {truth}");
}

/// A recording in which nothing ran is a valid file and says so, whether the command was too short or the process slept;
/// what the program itself used for its own start is not held against it.
#[test]
fn nothing_to_see_is_said() {
    require_bpf!();
    let asleep = Target::start(Command::new("sleep").arg("600"));
    let short = Recorder::new().command(["true"]);
    let idle = Recorder::new().pid(asleep.pid()).seconds(0.5);
    for recorder in [short, idle] {
        let recorded = recorder.run();
        let (report, folded) = (recorded.report(), recorded.folded());
        assert_books(&report, &folded);
        let books = &report.summary;
        assert!(books.closed && books.kept < 10, "{books:#?}");
        let said = if books.kept == 0 {
            "no samples"
        } else {
            "samples: below 100 the shares say little"
        };
        assert!(recorded.said.out.contains(said), "{}", recorded.said.out);
        let most = books.duration_seconds * f64::from(books.cpus);
        assert!(
            books.own_cpu_seconds <= most,
            "own cost is more than there was: {books:#?}"
        );
    }
}

/// A program without CUDA and without Python has no such rows, and no notes.
#[test]
fn nothing_is_made_up() {
    require_bpf!();
    let scratch = Scratch::new();
    let recorded = Recorder::new()
        .command([scratch.burner().as_os_str(), "0.3".as_ref()])
        .run();
    let report = recorded.report();
    assert!(report.summary.kept > 0, "{report:#?}");
    assert!(
        report.cuda_driver.rows.is_empty() && report.cuda_driver_by_thread.is_empty(),
        "{:#?}",
        report.cuda_driver
    );
    assert!(
        report.gil.is_empty()
            && report
                .threads
                .rows
                .iter()
                .all(|thread| thread.gil_held.is_none()),
        "{report:#?}"
    );
    assert_eq!(report.summary.notes, Vec::<String>::new());
    assert!(
        !recorded.said.out.contains("CUDA") && !recorded.said.out.contains("\nGIL "),
        "{}",
        recorded.said.out
    );
}

/// When the process that is recorded ends, so does the recording: in order, with one line that says so, and everything
/// that was recorded.
#[test]
fn the_end_of_the_target_ends_the_recording() {
    require_bpf!();
    let scratch = Scratch::new();
    let mut burner = Command::new(scratch.burner());
    burner.args(["0.5".as_ref(), scratch.path("go").as_os_str()]);
    let target = Target::start(&mut burner);
    let recorder = Recorder::new().pid(target.pid()).start();
    scratch.signal("go");
    let recorded = recorder.finish();
    let report = recorded.report();
    assert!(
        report.summary.closed && report.summary.kept >= 25,
        "{:#?}",
        report.summary
    );
    assert_cpu(&report, target.pid(), 0.5);
    let ends = recorded
        .said
        .complaints()
        .into_iter()
        .filter(|line| line.contains("ended"))
        .count();
    assert_eq!(ends, 1, "{:#?}", recorded.said);
}

/// The recording also goes on when one of two processes ends, and ends with the last.
#[test]
fn the_last_target_ends_the_recording() {
    require_bpf!();
    let scratch = Scratch::new();
    let (burner, go) = (scratch.burner(), scratch.path("go"));
    let start = |seconds: &str| Target::start(Command::new(&burner).arg(seconds).arg(&go));
    let (short, long) = (start("0.1"), start("0.6"));
    let recorder = Recorder::new().pid(short.pid()).pid(long.pid()).start();
    scratch.signal("go");
    let report = recorder.finish().report();
    assert_cpu(&report, short.pid(), 0.1);
    assert_cpu(&report, long.pid(), 0.6);
    wait::until("both have ended", || {
        (!short.is_running() && !long.is_running()).then_some(())
    });
}

/// A process that has ended, but whose parent does not wait for it, has ended: the recording does not go on for the entry
/// that is left in the list of processes.
#[test]
fn a_target_nobody_waits_for_has_ended() {
    require_bpf!();
    let scratch = Scratch::new();
    let (burner, go, pid) = (scratch.burner(), scratch.path("go"), scratch.path("pid"));
    let script = format!(
        "{} 0.3 {} & echo $! > {}; exec sleep 600",
        burner.display(),
        go.display(),
        pid.display()
    );
    let _parent = Target::start(Command::new("sh").args(["-c", &script]));
    let pid: u32 = wait::for_file(&pid).trim().parse().unwrap();
    let recorder = Recorder::new().pid(pid).seconds(15.0).start();
    scratch.signal("go");
    let recorded = recorder.finish();
    let report = recorded.report();
    assert_cpu(&report, pid, 0.3);
    assert!(recorded.said.err.contains("ended"), "{:#?}", recorded.said);
}

/// How the command ended is said, and is not our own failure.
#[test]
fn the_commands_end_is_told() {
    require_bpf!();
    for (script, told) in [
        ("exit 3", "the command ended with exit code 3"),
        ("kill -9 $$", "the command was killed"),
    ] {
        let recorded = Recorder::new().command(["sh", "-c", script]).run();
        recorded.report();
        assert!(
            recorded
                .said
                .complaints()
                .contains(&&*format!("wholestack: {told}")),
            "{:#?}",
            recorded.said
        );
    }
}
