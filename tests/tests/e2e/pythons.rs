//! Every version of CPython: where Python frames stand among native ones, and what becomes of versions nobody knows.

use std::process::Command;

use wholestack_tests::folded::{Source, Stack};
use wholestack_tests::pythons::{Python, missing_minors, pythons, some_pythons, strange_pythons};
use wholestack_tests::recorder::Recorder;
use wholestack_tests::rights::skip;
use wholestack_tests::scratch::small_program;
use wholestack_tests::{require_bpf, require_python};

/// There is an interpreter of each version that is decoded, so that the other tests mean all of them.
#[test]
fn every_version_is_here() {
    for python in pythons() {
        println!("{} at {}", python.version, python.path.display());
    }
    let missing: Vec<String> = missing_minors()
        .iter()
        .map(|minor| format!("3.{minor}"))
        .collect();
    if !missing.is_empty() {
        skip(&format!(
            "no CPython {} here: `cargo xtask interpreters` and `pyenv install` bring them",
            missing.join(", ")
        ));
    }
}

/// The functions of a program in a stack, root first.
fn functions<'a>(stack: &'a Stack, file: &'a str) -> Vec<&'a str> {
    stack.in_file(file).map(|source| source.function).collect()
}

/// The callbacks of `callbacks.py` in the order in which they call each other.
const CALLBACKS: [&str; 7] = [
    "reducing",
    "reduced",
    "sorted_by",
    "in_sqlite",
    "in_json",
    "compared",
    "burn",
];
/// Libraries whose code stands between two of them, in the same order; none where it is the interpreter's own.
const BETWEEN: [&str; 5] = ["", "", "libsqlite3", "", "libffi"];

/// Python that C calls that Python calls, five times over: every Python function stands directly above its caller, and
/// between the two the C code that leads from one to the other and nothing else.
#[test]
fn callbacks_are_in_their_order() {
    require_bpf!();
    require_python!();
    for python in pythons() {
        let recorder = Recorder::new().hertz(499).command([
            python.path.as_os_str(),
            small_program("callbacks.py").as_os_str(),
            "0.15".as_ref(),
        ]);
        let folded = recorder.run().folded();
        let burning = |stack: &&Stack| stack.has_function("callbacks.py", "burn");
        let (mut starts, mut cut) = ([0; 3], 0);
        for stack in folded.stacks.iter().filter(burning) {
            let names = functions(stack, "callbacks.py");
            let inner = names.len().saturating_sub(CALLBACKS.len());
            assert_eq!(names[inner..], CALLBACKS, "{}: {stack:#?}", python.version);
            let outer: Vec<_> = names[..inner]
                .iter()
                .map(|name| name.rsplit('.').next().unwrap())
                .collect();
            let start = match outer[..] {
                ["<module>"] => 0,
                ["<module>", "dies", "__del__"] => 1,
                [] => 2,
                _ => panic!("{}: {stack:#?}", python.version),
            };
            starts[start] += stack.count;
            assert_c_between(python, stack);
            cut += stack.count * u64::from(stack.has("[native frames cut]"));
        }
        println!("{}: {starts:?} samples, {cut} cut", python.version);
        assert!(starts.iter().all(|count| *count > 20), "{starts:?}");
        assert!(cut * 10 < starts.iter().sum(), "{cut} cut of {starts:?}");
    }
}

/// Asked for, the interpreter's own frames stay: its evaluator between the Python frames it runs and the C code they call.
#[test]
fn machinery_is_kept_where_asked() {
    require_bpf!();
    require_python!();
    for python in some_pythons(&[8, 10, 12]) {
        let recorder = Recorder::new().hertz(499).flag("--native-all").command([
            python.path.as_os_str(),
            small_program("callbacks.py").as_os_str(),
            "0.1".as_ref(),
        ]);
        let folded = recorder.run().folded();
        let mut whole = 0;
        for stack in &folded.stacks {
            if functions(stack, "callbacks.py").len() < CALLBACKS.len()
                || stack.has("[native frames cut]")
            {
                continue;
            }
            let at = |name: &str| {
                let is_it =
                    |frame: &String| Source::parse(frame).is_some_and(|it| it.function == name);
                stack.frames.iter().rposition(is_it).unwrap()
            };
            for name in ["reduced", "sorted_by", "in_sqlite", "in_json"] {
                let is_python = |frame: &&String| {
                    Source::parse(frame).is_some_and(|it| it.file.ends_with(".py"))
                };
                let mut after = stack.frames[at(name)..].iter().skip_while(is_python);
                let below = after.next().unwrap();
                assert!(
                    below.starts_with("_PyEval_EvalFrameDefault"),
                    "{}: {below}",
                    python.version
                );
            }
            whole += stack.count;
        }
        println!("{}: {whole} whole", python.version);
        assert!(whole > 20, "{}: {:#?}", python.version, folded.stacks);
    }
}

/// Between each two callbacks there is C code, of the right library where that is one of its own, unless the native walk
/// ended before it and the stack says so.
#[track_caller]
fn assert_c_between(python: &Python, stack: &Stack) {
    let at = |name: &str| {
        let is_it = |frame: &String| Source::parse(frame).is_some_and(|it| it.function == name);
        stack.frames.iter().position(is_it).unwrap()
    };
    if stack.has("[native frames cut]") {
        return;
    }
    // `compared` calls `burn` itself.
    for (pair, library) in CALLBACKS.windows(2).zip(BETWEEN) {
        let between = &stack.frames[at(pair[0]) + 1..at(pair[1])];
        let has = |what: &str| between.iter().any(|frame| frame.contains(what));
        assert!(
            !between.is_empty() && has(library) && !has("_PyEval_EvalFrameDefault"),
            "{}: between {pair:?}: {between:#?}",
            python.version
        );
    }
}

/// A generator stands above whoever resumed it, a coroutine above those that await it.
#[test]
fn generators_stand_above_their_callers() {
    require_bpf!();
    require_python!();
    for python in pythons() {
        let recorder = Recorder::new().hertz(499).command([
            python.path.as_os_str(),
            small_program("resumed.py").as_os_str(),
            "0.7".as_ref(),
        ]);
        let folded = recorder.run().folded();
        let (mut little, mut lot, mut awaited) = (0, 0, 0);
        for stack in &folded.stacks {
            let names = functions(stack, "resumed.py");
            if names.contains(&"worker") {
                match names[..] {
                    ["<module>", "drive", "a_little", "worker"] => little += stack.count,
                    ["<module>", "drive", "a_lot", "worker"] => lot += stack.count,
                    _ => panic!("{}: {stack:#?}", python.version),
                }
            } else if names.contains(&"innermost") {
                let chain = ["outermost", "middle", "innermost"];
                assert!(names.ends_with(&chain), "{}: {stack:#?}", python.version);
                assert!(
                    stack.has_function("events.py", "Handle._run")
                        || stack.has_function("events.py", "_run"),
                    "{}: {stack:#?}",
                    python.version
                );
                awaited += stack.count;
            }
        }
        println!("{}: {little} and {lot}, {awaited} awaited", python.version);
        // One part in 101; three in a hundred would be 13 standard deviations off.
        assert!(lot > 200 && awaited > 200, "{lot} {awaited}");
        assert!(little * 33 < lot, "{little} of {lot}");
    }
}

/// How many processes live for a moment in that test.
const BRIEF: usize = 20;

/// Processes that live for 50 ms: at least 95 % of the samples in which Python runs have Python frames, all of them with
/// names, and no process is without. What the interpreter does before its first and after its last frame is no part of it.
#[test]
fn brief_processes_have_names() {
    require_bpf!();
    require_python!();
    for python in some_pythons(&[8, 11, 13, 14]) {
        let line = format!(
            "i=0; while [ $i -lt {BRIEF} ]; do {} {}; i=$((i+1)); done",
            python.path.display(),
            small_program("brief.py").display()
        );
        let recorder = Recorder::new().hertz(999).command(["sh", "-c", &line]);
        let folded = recorder.run().folded();
        let is_source =
            |frame: &String| Source::parse(frame).is_some_and(|it| !it.file.ends_with(".c"));
        let is_unnamed = |frame: &String| frame.starts_with("[python]");
        // The interpreter's own functions that lead to Python frames, where it has symbols for them.
        let evaluates = |frame: &String| {
            frame.starts_with("PyEval_EvalCode") || frame.starts_with("_PyEval_EvalFrame")
        };
        let (mut good, mut bad) = (0, 0);
        let mut processes = std::collections::BTreeSet::new();
        for stack in &folded.stacks {
            let frames = &stack.frames;
            let named = frames.iter().any(is_source) && !frames.iter().any(is_unnamed);
            if named {
                good += stack.count;
            } else if frames.iter().any(is_unnamed) || frames.iter().any(evaluates) {
                bad += stack.count;
            }
            if stack.has_function("brief.py", "briefly") {
                processes.insert(stack.process.id);
            }
        }
        println!("{}: {good} named, {bad} not", python.version);
        assert_eq!(processes.len(), BRIEF, "{}", python.version);
        assert!(
            good * 100 >= (good + bad) * 95,
            "{}: {good} named, {bad} not",
            python.version
        );
    }
}

/// A version that is not decoded is named in a note, once, and its native frames are there.
#[test]
fn unknown_versions_are_named() {
    require_bpf!();
    let strange = strange_pythons();
    if strange.is_empty() {
        return skip("no Python of another version than those that are decoded");
    }
    for python in strange {
        let burn = "import os\nwhile os.times()[0] < 0.4: sum(range(300))";
        let recorder = Recorder::new().hertz(199).command([
            python.path.as_os_str(),
            "-c".as_ref(),
            burn.as_ref(),
        ]);
        let recorded = recorder.run();
        let (report, folded) = (recorded.report(), recorded.folded());
        let notes = &report.summary.notes;
        let wanted = format!("Python {}: frames not decoded in 1 process", python.version);
        let told = notes.iter().filter(|note| note.starts_with(&wanted));
        assert_eq!(told.count(), 1, "{}: {notes:#?}", python.version);
        let native = folded.count(|stack| stack.frames.iter().any(|frame| frame.starts_with("Py")));
        assert!(native > 20, "{}: {:#?}", python.version, folded.stacks);
    }
}

/// A Python that another program's loader starts is found all the same, and so is one under another name.
#[test]
fn names_do_not_matter() {
    require_bpf!();
    let python = require_python!();
    let scratch = wholestack_tests::scratch::Scratch::new();
    let renamed = scratch.path("trainer");
    std::fs::copy(&python.path, &renamed).unwrap();
    let burn = "import os\ndef burn():\n while os.times()[0] < 0.4: sum(range(300))\nburn()";
    let version = Command::new(&renamed).arg("-V").output();
    if version.is_err() {
        return skip("this Python cannot be copied");
    }
    let loader = "/lib64/ld-linux-x86-64.so.2";
    let words: [&[&std::ffi::OsStr]; 2] = [
        &[renamed.as_os_str()],
        &[loader.as_ref(), renamed.as_os_str()],
    ];
    for start in words {
        let rest = ["-c", burn].map(std::ffi::OsStr::new);
        let recorder = Recorder::new()
            .hertz(199)
            .command(start.iter().chain(&rest));
        let folded = recorder.run().folded();
        let found = folded.count(|stack| stack.has_function("<string>", "burn"));
        assert!(found > 20, "{start:?}: {:#?}", folded.stacks);
    }
}
