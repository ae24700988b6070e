//! Native stacks: whole from thread entry to leaf, with and without frame pointers, and honest where they are not.

use wholestack_tests::folded::Stack;
use wholestack_tests::recorder::Recorder;
use wholestack_tests::scratch::{Scratch, workload};
use wholestack_tests::statistics::Binomial;
use wholestack_tests::{require_bpf, require_python};

use crate::fixtures::trainings;

/// The program's own functions, as they call each other.
const CHAIN: [&str; 6] = ["_start", "main", "fa", "fb", "fc", "fd"];

/// Samples of which a part may be missing: those of the moment in which a new file's unwind table is being made.
const WHOLE: f64 = 0.9;

/// How often a program that is right may be refused.
const ALPHA: f64 = 1e-5;

/// A call chain that never changes is found whole in nearly every sample, compiled with frame pointers and without; where
/// a part is missing there is a mark, and what is there is in order, with nothing in between.
#[test]
fn a_known_chain_is_whole() {
    require_bpf!();
    let scratch = Scratch::new();
    for frame_pointers in ["-fno-omit-frame-pointer", "-fomit-frame-pointer"] {
        let program = scratch.build("chain", &workload("chain.c"), &["-O2", frame_pointers]);
        let recorded = Recorder::new()
            .hertz(199)
            .command([program.as_os_str(), "1".as_ref()])
            .run();
        let folded = recorded.folded();
        let (mut samples, mut whole) = (0, 0);
        for stack in folded.stacks.iter().filter(|stack| stack.has("fd (chain)")) {
            let own = own_functions(stack);
            assert!(
                CHAIN.ends_with(&own),
                "{frame_pointers}: not how they call: {stack:#?}"
            );
            let marked = stack
                .frames
                .iter()
                .any(|frame| frame.starts_with('[') && frame.ends_with(']'));
            assert!(
                own == CHAIN || marked,
                "{frame_pointers}: something is missing without a mark: {stack:#?}"
            );
            samples += stack.count;
            whole += if own == CHAIN { stack.count } else { 0 };
        }
        println!("{frame_pointers}: {whole} of {samples} whole");
        let chance = Binomial {
            n: samples,
            p: WHOLE,
        }
        .at_most(whole);
        assert!(
            samples > 0 && chance > ALPHA,
            "{frame_pointers}: {whole} of {samples} whole"
        );
    }
}

fn own_functions(stack: &Stack) -> Vec<&str> {
    stack
        .frames
        .iter()
        .filter_map(|frame| frame.strip_suffix(" (chain)"))
        .collect()
}

/// Stacks of the training, through interpreter, ctypes and driver, are whole in nearly every sample.
#[test]
fn training_stacks_are_whole() {
    require_bpf!();
    require_python!();
    for run in trainings() {
        let books = &run.report.summary;
        println!(
            "{}: {} of {} whole",
            run.python.version, books.complete, books.kept
        );
        let chance = Binomial {
            n: books.kept,
            p: 0.97,
        }
        .at_most(books.complete);
        assert!(chance > ALPHA, "{books:#?}");
    }
}

/// What the unwind tables of a process took is said: something, and far less than the files are large.
#[test]
fn table_memory_is_said() {
    require_bpf!();
    require_python!();
    for run in trainings() {
        let books = &run.report.summary;
        let (tables, bytes) = (books.unwind_tables, books.unwind_table_bytes);
        println!("{}: {tables} tables, {bytes} bytes", run.python.version);
        assert!(
            tables > 3 && (100_000..64 << 20).contains(&bytes),
            "{books:#?}"
        );
    }
}
