//! Debug information in a file of its own: found by link or build id in the target's own root, for names and lines, and
//! for stacks where the program itself has no unwind data.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wholestack_tests::folded::{Source, Stack};
use wholestack_tests::recorder::{Recorded, Recorder};
use wholestack_tests::require_bpf;
use wholestack_tests::scratch::{Scratch, workload};
use wholestack_tests::statistics::Binomial;

/// The program's own functions, as they call each other.
const CHAIN: [&str; 5] = ["main", "fa", "fb", "fc", "fd"];

/// Samples of which a part may be missing: those of the moment in which a new file's unwind table is being made.
const WHOLE: f64 = 0.9;
/// How often a program that is right may be refused.
const ALPHA: f64 = 1e-5;

/// Unwind data for a debugger only.
const FOR_DEBUGGERS: [&str; 5] = [
    "-O2",
    "-g",
    "-fomit-frame-pointer",
    "-fno-asynchronous-unwind-tables",
    "-Wl,--build-id=0x5eed0123456789abcdef",
];

/// Where that build id's debug file lies.
const BY_BUILD_ID: &str = "usr/lib/debug/.build-id/5e/ed0123456789abcdef.debug";

fn run(program: &str, words: &[&dyn AsRef<Path>]) {
    let words = words.iter().map(|word| word.as_ref());
    let done = Command::new(program).args(words).output().unwrap();
    assert!(done.status.success(), "{program}: {done:?}");
}

/// Builds the chain, puts its debug information into a file and strips it of everything else.
fn split(scratch: &Scratch, flags: &[&str]) -> (PathBuf, PathBuf) {
    let flags = [&FOR_DEBUGGERS, flags].concat();
    let program = scratch.build("chain", &workload("chain.c"), &flags);
    let debug = scratch.path("chain.debug");
    run("objcopy", &[&"--only-keep-debug", &program, &debug]);
    run("objcopy", &[&"--strip-all", &program]);
    (program, debug)
}

/// Gives a program a link to a debug file.
fn link(program: &Path, debug: &Path) {
    let link = format!("--add-gnu-debuglink={}", debug.display());
    run("objcopy", &[&link, &program]);
}

fn record(words: &[&dyn AsRef<Path>]) -> Recorded {
    let words = words.iter().map(|word| word.as_ref());
    Recorder::new().hertz(499).command(words).run()
}

/// The chain's functions in a stack, if each has its line.
fn chain(stack: &Stack) -> Vec<&str> {
    stack
        .in_file("chain.c")
        .map(|source: Source| source.function)
        .collect()
}

/// Checks that nearly all samples are whole, with names and lines.
#[track_caller]
fn assert_whole(recorded: &Recorded) {
    let (report, folded) = (recorded.report(), recorded.folded());
    report.check_books();
    let of_program = |stack: &Stack| stack.process.name == "chain";
    let samples = folded.count(of_program);
    let whole = folded.count(|stack| stack.has("_start (chain)") && chain(stack) == CHAIN);
    for stack in folded.stacks.iter().filter(|stack| of_program(stack)) {
        assert!(
            CHAIN.ends_with(&chain(stack)),
            "not how they call: {stack:#?}"
        );
    }
    println!(
        "{whole} of {samples} whole; {:?}",
        report.summary.truncated_by_reason
    );
    let chance = Binomial {
        n: samples,
        p: WHOLE,
    }
    .at_most(whole);
    assert!(samples > 100 && chance > ALPHA, "{:#?}", folded.stacks);
}

/// A program that was split has names, lines and whole stacks by its debug link, wherever its debug file may lie.
#[test]
fn by_link() {
    require_bpf!();
    for folder in ["", ".debug"] {
        let scratch = Scratch::new();
        let (program, debug) = split(&scratch, &["-Wl,--build-id=none"]);
        link(&program, &debug);
        fs::create_dir_all(scratch.path(folder)).unwrap();
        fs::rename(&debug, scratch.path(folder).join("chain.debug")).unwrap();
        assert_whole(&record(&[&program, &"0.6"]));
    }
}

/// So it has by its build id, in a root of its own, in which alone the debug file lies.
#[test]
fn by_build_id_in_another_root() {
    require_bpf!();
    let scratch = Scratch::new();
    let (program, debug) = split(&scratch, &["-static"]);
    let root = scratch.path("root");
    let place = root.join(BY_BUILD_ID);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::rename(&debug, &place).unwrap();
    fs::rename(&program, root.join("chain")).unwrap();
    assert_whole(&record(&[&"chroot", &root, &"/chain", &"0.6"]));
}

/// Without the debug file, or with a link to another's, the functions have no names, what is missing is marked, and no
/// caller is wrong.
#[test]
fn a_link_that_leads_nowhere() {
    require_bpf!();
    let scratch = Scratch::new();
    let (program, debug) = split(&scratch, &["-Wl,--build-id=none"]);
    link(&program, &debug);
    // The same name, another program.
    fs::copy(&program, &debug).unwrap();
    let recorded = record(&[&program, &"0.6"]);
    let (report, folded) = (recorded.report(), recorded.folded());
    report.check_books();
    let samples = folded.count(|stack| stack.process.name == "chain");
    let unnamed = folded.count(|stack| {
        stack
            .frames
            .iter()
            .any(|frame| frame.starts_with("chain+0x"))
    });
    let cut = folded.count(|stack| stack.has("[native frames cut]"));
    assert!(
        samples > 100 && unnamed > samples / 2 && cut > samples / 2,
        "{:#?}",
        folded.stacks
    );
    assert!(folded.stacks.iter().all(|stack| chain(stack).is_empty()));
}

/// A link that leads nowhere takes no name away that the program itself has.
#[test]
fn own_symbols_stay() {
    require_bpf!();
    let scratch = Scratch::new();
    let flags = ["-O2", "-g", "-fomit-frame-pointer"];
    let program = scratch.build("chain", &workload("chain.c"), &flags);
    let debug = scratch.path("chain.debug");
    run("objcopy", &[&"--only-keep-debug", &program, &debug]);
    run("objcopy", &[&"--strip-debug", &program]);
    link(&program, &debug);
    fs::write(&debug, "not what it was").unwrap();
    let recorded = record(&[&program, &"0.6"]);
    let folded = recorded.folded();
    let names = CHAIN.map(|name| format!("{name} (chain)"));
    let samples = folded.count(|stack| stack.process.name == "chain");
    let whole = folded.count(|stack| names.iter().all(|name| stack.has(name)));
    let chance = Binomial {
        n: samples,
        p: WHOLE,
    }
    .at_most(whole);
    assert!(samples > 100 && chance > ALPHA, "{:#?}", folded.stacks);
}
