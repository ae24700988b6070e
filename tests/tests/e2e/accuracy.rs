//! Are the shares right? `training.py` measures the CPU time of each of its functions; the profile has to agree.
//!
//! A program that is right still misses by chance, so "agrees" needs care. Let a function's true share be `p`. Of `n`
//! samples, taken by a clock that knows nothing of the program, the number that fall into the function is binomial with
//! `n` and `p`; a steady clock spreads its samples more evenly than that, never less. Two things follow.
//!
//! - Each count must not be further out than chance explains. With a limit of `ALPHA / K` for each of the `K` functions,
//!   a program that is right is refused with a probability of at most `ALPHA` for all of them together (Bonferroni;
//!   whether the counts depend on each other does not matter).
//! - The 95 % intervals that the report prints must be honest: about one in twenty may miss. With 6 functions a program
//!   that is right has a miss in 26 % of runs, so "all cover" cannot be asked for. Wilson's interval covers with at least
//!   94 % for these `n` and `p`, so the number of intervals that cover is at least that of `K` independent ones with 94 %
//!   each; asked for is the number that those reach with a probability of 0.9999: 2 of 6, 7 of 12. (Shares of one run
//!   depend on each other weakly, by -p1*p2/n; 200,000 simulated runs of 3,000 samples with this workload's shares, and
//!   pairs of them with runs of 1,000, gave the same numbers.)

use wholestack_tests::require_bpf;
use wholestack_tests::require_python;
use wholestack_tests::statistics::Binomial;

use crate::fixtures::{TrainingRun, trainings};

/// How often a program that is right may be refused by one test.
const ALPHA: f64 = 1e-4;
/// How often the report's 95 % interval covers the truth at least.
const COVERAGE: f64 = 0.94;

/// A function's samples and its true share.
struct Compared<'a> {
    function: &'a str,
    truth: f64,
    count: u64,
    base: u64,
    low: f64,
    high: f64,
}

fn compared(run: &TrainingRun) -> Vec<Compared<'_>> {
    let functions = run.truth.functions.iter().map(|(function, truth)| {
        let label = format!("{function} (training.py)");
        let row = run
            .report
            .function(&label)
            .unwrap_or_else(|| panic!("no row {label}"));
        assert_eq!(row.line, Some(truth.first_line), "{label} begins there");
        Compared {
            function,
            truth: truth.share,
            count: row.total.count,
            base: row.total.base,
            low: row.total.low / 100.0,
            high: row.total.high / 100.0,
        }
    });
    functions.collect()
}

/// The share of every function is as near to its true share of CPU time as chance lets it be.
#[test]
fn shares_agree_with_the_truth() {
    require_bpf!();
    require_python!();
    for run in trainings() {
        let functions = compared(run);
        for Compared {
            function,
            truth,
            count,
            base,
            ..
        } in &functions
        {
            let chance = Binomial {
                n: *base,
                p: *truth,
            }
            .as_far_as(*count);
            let shown = *count as f64 / *base as f64;
            println!(
                "{} {function}: {shown:.4} of {base}, truth {truth:.4}, chance {chance:.2e}",
                run.python.version
            );
            assert!(
                chance > ALPHA / functions.len() as f64,
                "{function}: {count} of {base} is not {truth}"
            );
        }
    }
}

/// The intervals that the report prints are honest: as many cover the truth as 95 % intervals do.
#[test]
fn intervals_cover_the_truth() {
    require_bpf!();
    require_python!();
    let all: Vec<_> = trainings().iter().flat_map(compared).collect();
    let covering = all
        .iter()
        .filter(|function| (function.low..=function.high).contains(&function.truth))
        .count();
    let intervals = Binomial {
        n: all.len() as u64,
        p: COVERAGE,
    };
    println!("{covering} of {} intervals cover the truth", all.len());
    assert!(
        covering as u64 >= intervals.surely(ALPHA),
        "{covering} of {} intervals cover the truth",
        all.len()
    );
}

/// Samples times the clock's period are the CPU time that the process used, by its own account and by the kernel's.
#[test]
fn sampled_cpu_time_is_the_processes() {
    require_bpf!();
    require_python!();
    for run in trainings() {
        let (truth, report) = (&run.truth, &run.report);
        let expected = |seconds: f64| seconds * f64::from(report.summary.frequency_hz);
        let work = truth.process_cpu_s - truth.process_cpu_before_s;
        let exact: f64 = report
            .threads
            .rows
            .iter()
            .filter_map(|thread| thread.cpu_seconds)
            .sum();
        let kept = report.summary.kept as f64;
        println!(
            "{}: {kept} samples, expected {:.1}, {:.1}",
            run.python.version,
            expected(work),
            expected(exact)
        );
        // Three standard deviations of a count. What the process does after its work, the kernel's account has.
        assert!(
            (kept - expected(exact)).abs() <= 3.0 * kept.sqrt(),
            "{kept} samples of {exact} s"
        );
        let after = exact - work;
        assert!(
            (0.0..0.5).contains(&after),
            "the kernel says {exact} s, the process {work} s of work"
        );
    }
}

/// Every sample of a function shows a line of that function, and a function that spends its time on one line shows that.
#[test]
fn lines_are_where_the_time_goes() {
    require_bpf!();
    require_python!();
    for run in trainings() {
        for (name, function) in &run.truth.functions {
            let lines = function.first_line..=run.truth.last_line(function);
            let (mut samples, mut hot) = (0, 0);
            for stack in &run.folded.stacks {
                let mut frames = stack
                    .in_file("training.py")
                    .filter(|frame| frame.function == name);
                let Some(frame) = frames.next() else { continue };
                assert_eq!(
                    frames.next(),
                    None,
                    "{name} does not call itself: {stack:#?}"
                );
                assert!(
                    lines.contains(&frame.line),
                    "{name} is not on line {}: {stack:#?}",
                    frame.line
                );
                samples += stack.count;
                hot += if Some(frame.line) == function.hot_line {
                    stack.count
                } else {
                    0
                };
            }
            if function.hot_line.is_some() {
                println!(
                    "{} {name}: {hot} of {samples} on the hot line",
                    run.python.version
                );
                // At least nine tenths of the time, says the workload.
                let chance = Binomial { n: samples, p: 0.9 }.at_most(hot);
                assert!(
                    samples > 0 && chance > ALPHA,
                    "{name}: {hot} of {samples} on the hot line"
                );
            }
        }
    }
}
