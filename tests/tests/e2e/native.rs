//! Native stacks of a training in Python: whole from thread entry to leaf.

use wholestack_tests::statistics::Binomial;
use wholestack_tests::{require_bpf, require_python};

use crate::fixtures::trainings;

/// How often a program that is right may be refused.
const ALPHA: f64 = 1e-5;

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
