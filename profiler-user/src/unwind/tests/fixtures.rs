//! The program in C, as compilers and linkers leave it in its many forms.

use std::fs::File;

use profiler_ebpf::rows::{CfaKind, FpKind, Rule};

use crate::unwind::{Table, build, build_with_debug};

use super::compare::compare_debug;
use super::fixture::{Fixture, rules, table};

/// With frame pointers most rows count from the frame pointer, without them from the stack pointer.
#[test]
fn with_and_without_frame_pointers() {
    let test = "unwind::fixtures::with_and_without_frame_pointers";
    for (flag, expected) in [
        ("-fno-omit-frame-pointer", CfaKind::Fp),
        ("-fomit-frame-pointer", CfaKind::Sp),
    ] {
        let Some(fixture) = Fixture::build(test, &[flag]) else {
            return;
        };
        let (table, compared) = fixture.compared();
        assert_eq!((compared.unfit, compared.lost_fp), (0, 0));
        let rules = rules(&table, fixture.symbol("last"));
        let body = rules[rules.len() - 1];
        assert_eq!(body.cfa_kind(), expected, "{rules:x?}");
    }
}

/// However it is linked, what both oracles say is what the table says.
#[test]
fn however_linked() {
    let test = "unwind::fixtures::however_linked";
    for flags in [
        &["-no-pie"][..],
        &["-pie", "-fPIE"],
        &["-static"],
        &["-static-pie", "-fPIE"],
        &["-Wl,-z,separate-code"],
        &["-Wl,-z,noseparate-code"],
        &["-no-pie", "-Wl,-Ttext-segment=0x7654000"],
        &["-Wl,-z,lazy", "-fcf-protection"],
        &["-Wl,--no-eh-frame-hdr", "-static"],
        &["-ffunction-sections", "-Wl,--gc-sections", "-flto"],
    ] {
        let Some(fixture) = Fixture::build(test, flags) else {
            continue;
        };
        let (table, compared) = fixture.compared();
        assert!(compared.same > 50 && compared.ends > 0, "{flags:?}");
        assert_eq!(table.base % 0x1_0000, 0);
        let main = rules(&table, fixture.symbol("main"));
        assert!(main.iter().all(|rule| *rule != Rule::UNKNOWN));
    }
}

/// Neither symbols nor section headers are needed.
#[test]
fn stripped_is_the_same() {
    let test = "unwind::fixtures::stripped_is_the_same";
    let Some(fixture) = Fixture::build(test, &[]) else {
        return;
    };
    let whole = table(&fixture.path);
    if let Some(stripped) = fixture.changed(test, &["objcopy", "--strip-all"]) {
        assert_same_where_known(&whole, &table(&stripped));
    }
    let mut data = std::fs::read(&fixture.path).unwrap();
    data[40..48].fill(0);
    data[58..64].fill(0);
    assert_same_where_known(&whole, &crate::unwind::build_from_bytes(&data).unwrap());
}

/// Code that is not described may be understood less without symbols, but never otherwise.
fn assert_same_where_known(whole: &Table, stripped: &Table) {
    assert_eq!(whole.stats.functions, stripped.stats.functions);
    for (address, _) in whole.rows().chain(stripped.rows()) {
        let address = whole.base + u64::from(address);
        let [a, b] = [whole, stripped].map(|table| table.find(address));
        assert!(
            a == b || b.is_none_or(|rule| rule == Rule::GAP),
            "{address:#x}: {a:x?} {b:x?}"
        );
    }
}

/// A frame of more than 64 KiB is in the table with its size.
#[test]
fn large_frames() {
    let Some(fixture) = Fixture::build("unwind::fixtures::large_frames", &[]) else {
        return;
    };
    let (table, _) = fixture.compared();
    let rules = rules(&table, fixture.symbol("large"));
    let largest = rules.iter().map(|rule| rule.cfa_offset()).max();
    assert!(largest > Some(150_000), "{largest:?}");
}

/// A function that aligns its stack pointer and still reaches its arguments.
#[test]
fn realigned() {
    let test = "unwind::fixtures::realigned";
    let Some(fixture) = Fixture::build(test, &["-mavx2"]) else {
        return;
    };
    let (table, compared) = fixture.compared();
    assert!(compared.same_as_gimli > 0 && compared.untracked > 0);
    let rules = rules(&table, fixture.symbol("realigned"));
    let is_body =
        |rule: &Rule| rule.cfa_kind() == CfaKind::FpDeref && rule.fp_kind() == FpKind::AtFp;
    assert!(rules.iter().any(is_body), "{rules:x?}");
}

/// A signal trampoline is one row, from the byte before it on: glibc's by its mark, musl's by its code.
#[test]
fn signal_trampolines() {
    let test = "unwind::fixtures::signal_trampolines";
    let Some(fixture) = Fixture::build(test, &["-static"]) else {
        return;
    };
    let (table, _) = fixture.compared();
    let signals = table.rows().filter(|(_, rule)| *rule == Rule::SIGNAL);
    let mut signals: Vec<u64> = signals
        .map(|(address, _)| table.base + u64::from(address))
        .collect();
    for start in &signals {
        let code: Vec<Option<Rule>> = (0..10).map(|at| table.find(start + at)).collect();
        assert_eq!(code, [Some(Rule::SIGNAL); 10]);
    }
    let (own, size) = fixture.symbol("trampoline");
    assert_ne!(table.find(own + size), Some(Rule::SIGNAL));
    signals.retain(|start| *start != own - 1);
    assert_eq!(signals.len(), 1);
}

/// A call at the end of a function that never returns: the address before its return address is the function's.
#[test]
fn calls_that_do_not_return() {
    let test = "unwind::fixtures::calls_that_do_not_return";
    let Some(fixture) = Fixture::build(test, &["-fomit-frame-pointer"]) else {
        return;
    };
    let table = table(&fixture.path);
    let (start, size) = fixture.symbol("leave");
    let rule = table.find(start + size - 1).unwrap();
    assert_eq!(rule.cfa_kind(), CfaKind::Sp);
    assert!(rule.cfa_offset() > 8, "{rule:x?}");
}

/// `.debug_frame` beside an `.eh_frame` that describes only the C library's start-up files, as in a program built without
/// unwind tables: each says its part.
#[test]
fn debug_frame_beside_eh_frame() {
    let test = "unwind::fixtures::debug_frame_beside_eh_frame";
    let none = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    let (Some(with), Some(without)) = (
        Fixture::build(test, &[&none[..], &["-g"]].concat()),
        Fixture::build(test, &none),
    ) else {
        return;
    };
    let begin = table(&with.path).find(with.symbol("_start").0);
    assert_eq!(begin, Some(Rule::END));
    for name in ["main", "large", "dynamic", "last"] {
        let described = rules(&table(&with.path), with.symbol(name));
        let known = |rule: &Rule| rule.cfa_kind() != CfaKind::Unknown;
        assert!(
            described.iter().all(known) && described.len() > 1,
            "{name}: {described:x?}"
        );
    }
    let (with, without) = (table(&with.path).stats, table(&without.path).stats);
    assert!(with.functions > without.functions, "{with:?} {without:?}");
}

/// `.debug_frame`, also compressed or in a file of its own, where there is no `.eh_frame`.
#[test]
fn debug_frame() {
    let test = "unwind::fixtures::debug_frame";
    let flags = [
        "-shared",
        "-fPIC",
        "-nostdlib",
        "-g",
        "-fno-asynchronous-unwind-tables",
        "-fno-unwind-tables",
        "-Wl,-z,now",
        "-Wl,--no-ld-generated-unwind-info",
    ];
    let Some(fixture) = Fixture::build(test, &flags) else {
        return;
    };
    let (whole, compared) = fixture.compared();
    assert!(compared.same > 50);
    let only_debug = fixture.changed(test, &["objcopy", "--only-keep-debug"]);
    if let Some(debug) = only_debug.map(|path| File::open(path).unwrap())
        && let Some(stripped) = fixture.changed(test, &["objcopy", "--strip-all"])
    {
        let stripped = File::open(stripped).unwrap();
        assert_eq!(build(&stripped).unwrap().stats.functions, 0);
        assert_eq!(build_with_debug(&stripped, &debug), Ok(whole.clone()));
    }
    for how in ["zlib", "zstd"] {
        let option = format!("--compress-debug-sections={how}");
        if let Some(compressed) = fixture.changed(test, &["objcopy", &option]) {
            assert_eq!(table(&compressed), whole);
        }
    }
}

/// What compilers make for a debugger only, beside the `.eh_frame` that a program begins with all the same.
const FOR_DEBUGGERS: [&str; 4] = [
    "-g",
    "-fomit-frame-pointer",
    "-fno-asynchronous-unwind-tables",
    "-fno-unwind-tables",
];

/// A program whose own functions only `.debug_frame` describes: they are in the table, beside those of `.eh_frame`;
/// when the program was split, from its debug file, and without that file not at all.
#[test]
fn split_debug_frame() {
    let test = "unwind::fixtures::split_debug_frame";
    let Some(fixture) = Fixture::build(test, &FOR_DEBUGGERS) else {
        return;
    };
    let whole = table(&fixture.path);
    let compared = compare_debug(&fixture.path, &whole);
    assert!(compared.same > 50, "{compared:?}");
    assert_ne!(rules(&whole, fixture.symbol("_start")), [Rule::UNKNOWN]);
    let (Some(stripped), Some(debug)) = (
        fixture.changed(test, &["objcopy", "--strip-all"]),
        fixture.changed(test, &["objcopy", "--only-keep-debug"]),
    ) else {
        return;
    };
    let (stripped, debug) = (File::open(stripped).unwrap(), File::open(debug).unwrap());
    let without = build(&stripped).unwrap();
    assert_eq!(rules(&without, fixture.symbol("main")), [Rule::GAP]);
    assert_ne!(rules(&without, fixture.symbol("_start")), [Rule::UNKNOWN]);
    // Symbols are gone, and with them what they tell of code that is not described: it has no rows either way.
    let split = build_with_debug(&stripped, &debug).unwrap();
    assert_eq!((split.base, split.words), (whole.base, whole.words));
    let rubbish = File::open("/proc/version").unwrap();
    assert_eq!(build_with_debug(&stripped, &rubbish), Ok(without));
}
