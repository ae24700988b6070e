//! Are lines right? A program asks its own interpreter on which lines its frames are, below calls of many shapes.

use std::collections::BTreeSet;

use wholestack_tests::pythons::pythons;
use wholestack_tests::recorder::Recorder;
use wholestack_tests::scratch::{Scratch, small_program};
use wholestack_tests::{require_bpf, require_python};

/// A chain of frames, root first: function, file, line.
type Chain = Vec<(String, String, u32)>;

/// Every frame of every sample is on the line that the interpreter itself names: in calls on several lines, decorators,
/// comprehensions, generators, `with`, operators, call-backs from C, class bodies, coroutines, 70,000 lines down.
#[test]
fn every_line_is_the_interpreters_own() {
    require_bpf!();
    require_python!();
    for python in pythons() {
        let scratch = Scratch::new();
        let truth = scratch.path("truth");
        let words = [
            python.path.as_os_str(),
            small_program("lines.py").as_os_str(),
            truth.as_os_str(),
        ]
        .map(ToOwned::to_owned);
        let recorder = Recorder::new()
            .hertz(499)
            .command(words.into_iter().chain(["0.1".into()]));
        let recorded = recorder.run();
        let folded = recorded.folded();
        let chains: Vec<Chain> =
            serde_json::from_str(&std::fs::read_to_string(truth).unwrap()).unwrap();
        let expected: BTreeSet<Chain> = chains.into_iter().collect();

        let files: BTreeSet<&str> = expected
            .iter()
            .flatten()
            .map(|(_, file, _)| file.as_str())
            .collect();
        let mut found = BTreeSet::new();
        for stack in folded
            .stacks
            .iter()
            .filter(|stack| stack.has_function("lines.py", "burn"))
        {
            let frames = stack
                .frames
                .iter()
                .filter_map(|frame| wholestack_tests::folded::Source::parse(frame));
            let python_frames = frames.filter(|frame| files.contains(frame.file));
            let above = python_frames.take_while(|frame| frame.function != "burn");
            let chain: Chain = above
                .map(|frame| (frame.function.into(), frame.file.into(), frame.line))
                .collect();
            assert!(
                expected.contains(&chain),
                "{}: no frame was ever there: {chain:#?}",
                python.version
            );
            found.insert(chain);
        }
        let missed: Vec<_> = expected.difference(&found).collect();
        assert!(
            missed.is_empty(),
            "{}: never seen: {missed:#?}",
            python.version
        );
    }
}
