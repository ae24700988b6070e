//! The GIL: who holds it, and that threads which have released it show their Python frames all the same.

use std::collections::BTreeMap;

use serde_json::Value;
use wholestack_tests::pythons::pythons;
use wholestack_tests::recorder::Recorder;
use wholestack_tests::scratch::{Scratch, small_program};
use wholestack_tests::statistics::Binomial;
use wholestack_tests::{require_bpf, require_python};

use crate::threads::assert_cpu;

/// How often a program that is right may be refused for one thread.
const ALPHA: f64 = 1e-5;

/// Threads in bytecode hold the GIL whenever they run; one in hashlib and one in a C library do not; they and one that
/// asks for sleep show their Python functions all the same.
#[test]
fn holders_hold_and_all_show_python() {
    require_bpf!();
    require_python!();
    for python in pythons() {
        let scratch = Scratch::new();
        let truth = scratch.path("truth");
        let program = small_program("gil.py");
        let burner = scratch.burner_library();
        let words = [&python.path, &program, &truth]
            .map(|path| path.as_os_str())
            .into_iter();
        let words = words.chain(["2.5".as_ref(), burner.as_os_str()]);
        let recorded = Recorder::new().hertz(199).command(words).run();
        let (report, folded) = (recorded.report(), recorded.folded());
        let truth: BTreeMap<String, Value> =
            serde_json::from_str(&std::fs::read_to_string(truth).unwrap()).unwrap();

        for (name, function, held) in [
            ("bytecode-0", "in_bytecode", Some(0.95..=1.0)),
            ("bytecode-1", "in_bytecode", Some(0.95..=1.0)),
            ("hashing", "in_hashlib", Some(0.0..=0.02)),
            ("foreign", "in_library", Some(0.0..=0.02)),
            ("napping", "in_sleep", None),
        ] {
            let tid = u32::try_from(truth[name]["tid"].as_u64().unwrap()).unwrap();
            let thread = report
                .thread(tid)
                .unwrap_or_else(|| panic!("{name} is not listed"));
            assert_eq!(thread.name, name, "{thread:?}");
            assert_cpu(&report, tid, truth[name]["cpu_s"].as_f64().unwrap());

            let gil = thread
                .gil_held
                .as_ref()
                .unwrap_or_else(|| panic!("GIL not known: {thread:?}"));
            println!(
                "{} {name}: held in {} of {}",
                python.version, gil.count, gil.base
            );
            let held = held.unwrap_or(0.0..=1.0);
            let often_enough = Binomial {
                n: gil.base,
                p: *held.start(),
            }
            .at_most(gil.count)
                > ALPHA;
            let seldom_enough = Binomial {
                n: gil.base,
                p: *held.end(),
            }
            .at_least(gil.count)
                > ALPHA;
            assert!(
                often_enough && seldom_enough,
                "should hold in {held:?}: {thread:?}"
            );

            let shown = folded
                .count(|stack| stack.thread.id == tid && stack.has_function("gil.py", function));
            // All but the moments in which a thread begins and ends.
            let chance = Binomial {
                n: thread.cpu.count,
                p: 0.98,
            }
            .at_most(shown);
            assert!(
                shown > 0 && chance > ALPHA,
                "{function} shows in {shown} samples: {thread:?}"
            );
        }
        let in_c = |function: &str| {
            folded.count(|stack| {
                stack.thread.name == "foreign"
                    && stack.frames.iter().any(|frame| frame.starts_with(function))
            })
        };
        assert!(
            in_c("burn_a_little") > 0,
            "the C function is below the Python frames: {:#?}",
            folded.stacks
        );
    }
}
