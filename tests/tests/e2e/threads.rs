//! Threads: all of them, by name, with the CPU time that they say they used.

use wholestack_tests::report::Report;
use wholestack_tests::{require_bpf, require_python};

use crate::fixtures::trainings;

/// Samples from which on a thread must have its Python name: it is asked for with the first ones.
const SAMPLED: u64 = 10;

/// Checks a thread's exact CPU time against its own clock: 5 % or 20 ms, since its clock is read a moment before its end.
#[track_caller]
pub fn assert_cpu(report: &Report, tid: u32, own_seconds: f64) {
    let thread = report
        .thread(tid)
        .unwrap_or_else(|| panic!("thread {tid} is not listed"));
    let exact = thread
        .cpu_seconds
        .unwrap_or_else(|| panic!("no CPU time: {thread:?}"));
    assert!(
        (exact - own_seconds).abs() <= f64::max(0.05 * own_seconds, 0.02),
        "own clock {own_seconds}: {thread:?}"
    );
}

/// Every thread that ran is listed, those that nearly always sleep too, and those that ran go by their Python name.
#[test]
fn all_are_listed_by_name() {
    require_bpf!();
    require_python!();
    for run in trainings() {
        for thread in &run.truth.threads {
            let row = run
                .report
                .thread(thread.tid)
                .unwrap_or_else(|| panic!("not listed: {thread:?}"));
            assert_eq!(row.pid, run.truth.pid, "{row:?}");
            if row.cpu.count >= SAMPLED {
                assert_eq!(row.name, thread.name, "{row:?}");
            } else {
                assert!(
                    [&thread.name, &thread.os_name].contains(&&row.name),
                    "{row:?} is {thread:?}"
                );
            }
        }
        assert_eq!(
            run.report.threads.rows.len(),
            run.truth.threads.len(),
            "{:#?}",
            run.report.threads
        );
    }
}

/// The kernel's CPU time of each thread is that of the thread's own clock.
#[test]
fn cpu_time_is_exact() {
    require_bpf!();
    require_python!();
    for run in trainings() {
        // The recording began when the threads waited for the work to begin. The main thread goes on after its last look
        // at its clock: it prints the truth.
        let (main, others): (Vec<_>, Vec<_>) = run
            .truth
            .threads
            .iter()
            .partition(|thread| thread.name == "MainThread");
        for thread in others {
            assert_cpu(&run.report, thread.tid, thread.cpu_s - thread.cpu_before_s);
        }
        let exact = run.report.thread(main[0].tid).unwrap().cpu_seconds.unwrap();
        let own = main[0].cpu_s - main[0].cpu_before_s;
        assert!(
            (own..own + 0.5).contains(&exact),
            "own clock {own}, kernel {exact}"
        );
    }
}

/// The stacks of a thread are found under its name and id, and no sample is in a thread that does not exist.
#[test]
fn stacks_are_in_their_threads() {
    require_bpf!();
    require_python!();
    for run in trainings() {
        for row in &run.report.threads.rows {
            let stacks = run
                .folded
                .count(|stack| stack.thread.id == row.tid && stack.thread.name == row.name);
            assert_eq!(stacks, row.cpu.count, "{row:?}");
        }
        let roles = [
            ("target-", "_chunk_fwd"),
            ("drafter-", "create_block_mask"),
            ("data_loader", "load_batch"),
        ];
        for stack in &run.folded.stacks {
            for (thread, function) in roles {
                let in_role = stack.thread.name.starts_with(thread);
                assert!(
                    in_role || !stack.has_function("training.py", function),
                    "{function} runs elsewhere: {stack:#?}"
                );
            }
        }
    }
}
