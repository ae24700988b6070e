//! Code that programs generate at run time: named by their perf maps, in their own root, and walked through by frame
//! pointer.

use wholestack_tests::folded::Stack;
use wholestack_tests::recorder::{Recorded, Recorder};
use wholestack_tests::require_bpf;
use wholestack_tests::scratch::{Scratch, small_program};
use wholestack_tests::statistics::Binomial;

const OUTER: &str = "LOuter;::call ([jit])";
const INNER: &str = "JS:*inner /app/a b.js:7 ([jit])";

/// Samples of which a part may be missing: those of the moment in which the program's unwind table is being made.
const WHOLE: f64 = 0.9;
/// How often a program that is right may be refused.
const ALPHA: f64 = 1e-5;

fn record(words: &[&str]) -> Recorded {
    let scratch = Scratch::new();
    let program = scratch.build(
        "jit",
        &small_program("jit.c"),
        &["-O2", "-fomit-frame-pointer"],
    );
    let words = words.iter().map(AsRef::as_ref);
    let command = std::iter::once(program.as_os_str()).chain(words);
    Recorder::new().hertz(499).command(command).run()
}

/// The frames of a stack without those of the C library.
fn frames(stack: &Stack) -> Vec<&str> {
    let own = |frame: &&String| !frame.contains("libc");
    stack
        .frames
        .iter()
        .filter(own)
        .map(String::as_str)
        .collect()
}

/// Checks that nearly all samples in generated code have exactly these frames, and no other sample a frame of it.
#[track_caller]
fn assert_chain(recorded: &Recorded, expected: &[&str]) {
    let (report, folded) = (recorded.report(), recorded.folded());
    report.check_books();
    let inner = expected[expected.len() - 1];
    let in_it = |stack: &&Stack| stack.frames.iter().any(|frame| frame == inner);
    let (mut samples, mut whole) = (0, 0);
    for stack in folded.stacks.iter().filter(in_it) {
        let found = frames(stack);
        let cut = found
            .iter()
            .any(|frame| frame.starts_with("[native frames cut"));
        let user: Vec<&str> = found
            .iter()
            .filter(|frame| !frame.ends_with(" [kernel]"))
            .copied()
            .collect();
        assert!(
            user == expected || cut || expected.ends_with(&user),
            "not how they call: {stack:#?}"
        );
        samples += stack.count;
        whole += if user == expected { stack.count } else { 0 };
    }
    println!("{whole} of {samples} whole; {:?}", report.summary.guessed);
    let chance = Binomial {
        n: samples,
        p: WHOLE,
    }
    .at_most(whole);
    assert!(
        samples > 100 && chance > ALPHA,
        "{whole} of {samples} whole: {:#?}",
        report.summary
    );
    // Behind generated code everything hangs on a guess, and that is said.
    assert!(
        report.summary.guessed.count >= whole,
        "{:#?}",
        report.summary
    );
}

/// Generated code has the names that its program lists, however it is mapped, and the callers behind it are known.
#[test]
fn listed_code_has_names() {
    require_bpf!();
    for memory in ["anonymous", "shared", "memfd"] {
        let recorded = record(&["0.6", memory, "listed"]);
        println!("{memory}");
        let chain = ["_start (jit)", "main (jit)", "spin (jit)", OUTER, INNER];
        assert_chain(&recorded, &chain);
        assert_eq!(recorded.report().summary.limits, []);
    }
}

/// So it has in a program with a pid, and a /tmp, of its own: the list there is found under the pid it has there.
#[test]
fn names_across_namespaces() {
    require_bpf!();
    let recorded = record(&["0.6", "anonymous", "listed", "apart"]);
    let chain = ["_start (jit)", "main (jit)", "spin (jit)", OUTER, INNER];
    assert_chain(&recorded, &chain);
}

/// Without a list the code has no names, but is there, with everything around it.
#[test]
fn unlisted_code_is_shown() {
    require_bpf!();
    let recorded = record(&["0.6", "anonymous", "unlisted"]);
    let folded = recorded.folded();
    let unnamed = |frame: &String| frame.starts_with("[anon]+0x");
    let samples =
        folded.count(|stack| stack.frames.iter().filter(|frame| unnamed(frame)).count() == 2);
    let under_spin = folded.count(|stack| {
        let at = stack.frames.iter().position(|frame| frame == "spin (jit)");
        at.and_then(|at| stack.frames.get(at + 1))
            .is_some_and(unnamed)
    });
    assert!(
        samples > 100 && under_spin >= samples * 9 / 10,
        "{:#?}",
        folded.stacks
    );
    assert!(
        folded
            .stacks
            .iter()
            .all(|stack| !stack.frames.iter().any(|frame| frame.ends_with("([jit])")))
    );
}
