//! Times of driver calls: those of the calls, not of something else.

use wholestack_tests::{require_bpf, require_python};

use crate::fixtures::trainings;

/// What the probes may add to a call, on average: far more than they do, far less than a mistake would.
const ADDED_NS: u64 = 100_000;

/// Time in calls is at least what the stand-in measured inside of them, by the same clock, and not much more.
#[test]
fn total_time_holds_the_drivers_own() {
    require_bpf!();
    require_python!();
    for run in trainings() {
        for row in &run.report.cuda_driver.rows {
            let inside = &run.truth.cuda().functions[&row.function];
            let total_ns = (row.total_seconds * 1e9).round() as u64;
            println!(
                "{} {}: {total_ns} ns around {} ns, {} calls",
                run.python.version, row.function, inside.total_ns, row.count
            );
            assert!(
                total_ns >= inside.total_ns,
                "shorter than the call itself: {row:?}, {inside:?}"
            );
            let most = inside.total_ns + inside.total_ns / 4 + inside.calls * ADDED_NS;
            assert!(
                total_ns <= most,
                "much longer than the call itself: {row:?}, {inside:?}"
            );
        }
    }
}
