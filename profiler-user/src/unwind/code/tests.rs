//! Derived rows: of small functions, instruction by instruction, and of real files, against what their
//! compilers say.

use std::fs::File;
use std::path::Path;

use object::ReadCache;
use profiler_ebpf::rows::{CfaKind, FpKind, Rule};

use super::{Code, Derived, derive};
use crate::unwind::complete::Uncovered;
use crate::unwind::elf::Elf;
use crate::unwind::tests::{Fixture, expand, skip};
use crate::unwind::{Anew, Table, described};

const START: u32 = 0x1000;

fn derived(bytes: &[u8], symbols: &[(u32, u32)]) -> Derived {
    let code = Code {
        start: START,
        bytes,
    };
    derive(code, symbols, None, &mut 10_000)
}

fn sp(offset: u64, fp: FpKind, below: u64) -> Rule {
    Rule::new(CfaKind::Sp, offset, fp, below).unwrap()
}

/// `sub $0x80, %rsp; mov %rbp, 8(%rsp); nop; mov 8(%rsp), %rbp; add $0x80, %rsp; ret`: as MKL's kernels do.
const SAVES: &[u8] = &[
    0x48, 0x81, 0xec, 0x80, 0, 0, 0, // 0: sub
    0x48, 0x89, 0x6c, 0x24, 0x08, // 7: mov to the stack
    0x31, 0xed, // 12: xor %ebp, %ebp
    0x48, 0x8b, 0x6c, 0x24, 0x08, // 14: mov back
    0x48, 0x81, 0xc4, 0x80, 0, 0, 0,    // 19: add
    0xc3, // 26
];

/// The stack pointer is followed through the function, and the frame pointer to where it is kept.
#[test]
fn a_kernel_that_saves() {
    let expected = [
        (START, sp(8, FpKind::Same, 0)),
        (START + 7, sp(0x88, FpKind::Same, 0)),
        (START + 14, sp(0x88, FpKind::Saved, 0x80)),
        (START + 19, sp(0x88, FpKind::Same, 0)),
        (START + 26, sp(8, FpKind::Same, 0)),
        (START + 27, Rule::GAP),
    ];
    // With a symbol, and found behind what fills space.
    assert_eq!(derived(SAVES, &[(START, START + 27)]).rows, expected);
    assert_eq!(derived(SAVES, &[]).rows, expected);
}

/// A function that does not restore what its caller had is left out, and so is a part of one.
#[test]
fn what_does_not_prove_itself_is_left_out() {
    // The frame pointer is lost.
    let mut lost = SAVES.to_vec();
    lost[14..19].fill(0x90);
    let given = derived(&lost, &[(START, START + 27)]);
    assert_eq!((given.rows.len(), given.refused), (0, 1));
    // The stack pointer is not where it was: what begins behind the first instruction is no function.
    assert_eq!(derived(&SAVES[7..], &[]).rows, []);
    // Bytes that are no code.
    assert_eq!(derived(&[0x06; 64], &[(START, START + 64)]).rows, []);
}

/// Code made at run time lies in memory that is empty behind it.
#[test]
fn behind_zeros() {
    let mut code = SAVES.to_vec();
    code.resize(0x300, 0);
    code.extend(SAVES);
    let given = derived(&code, &[]);
    assert_eq!(given.functions, 2);
    assert_eq!(given.rows[5], (START + 27, Rule::GAP));
    assert_eq!(given.rows[6], (START + 0x300, sp(8, FpKind::Same, 0)));
}

/// `mov %rsp, %rbp; and; sub`: with the old stack pointer on the stack, and nowhere else.
#[test]
fn an_aligned_stack() {
    let code: &[u8] = &[
        0x55, // 0: push %rbp
        0x48, 0x89, 0xe0, // 1: mov %rsp, %rax
        0x48, 0x83, 0xe4, 0xc0, // 4: and $-64, %rsp
        0x48, 0x83, 0xec, 0x40, // 8: sub $64, %rsp
        0x48, 0x89, 0x44, 0x24, 0x18, // 12: mov %rax, 0x18(%rsp)
        0x31, 0xed, // 17: xor %ebp, %ebp
        0x48, 0x8b, 0x64, 0x24, 0x18, // 19: mov 0x18(%rsp), %rsp
        0x5d, // 24: pop %rbp
        0xc3, // 25
    ];
    let rows = derived(code, &[(START, START + 26)]).rows;
    let at = |offset: u32| {
        let next = rows.partition_point(|(address, _)| *address <= START + offset);
        rows[next - 1].1
    };
    assert_eq!(at(4), sp(16, FpKind::Same, 0));
    assert_eq!(at(8), Rule::UNKNOWN);
    assert_eq!(at(19), Rule::sp_deref(0x18, 16, FpKind::Saved, 16).unwrap());
    assert_eq!(at(24), sp(16, FpKind::Saved, 16));
}

/// `1: dec %rcx; jnz 1b`, entered twice with the stack pointer at different places.
#[test]
fn ways_that_disagree_are_not_known() {
    let code: &[u8] = &[
        0x85, 0xc0, // 0: test %eax, %eax
        0x74, 0x01, // 2: jz 5
        0x50, // 4: push %rax
        0x90, // 5: nop
        0xc3, // 6
    ];
    assert_eq!(derived(code, &[(START, START + 7)]).rows, []);
}

/// Where the program starts nobody called: `xor %ebp, %ebp; mov %rsp, %rdi; and $-16, %rsp; call`.
#[test]
fn where_a_program_starts() {
    let code = Code {
        start: START,
        bytes: &[
            0x31, 0xed, 0x48, 0x89, 0xe7, 0x48, 0x83, 0xe4, 0xf0, 0xe8, 1, 0, 0, 0, 0xf4, 0xc3,
        ],
    };
    for (goes_on, end) in [(false, 14), (true, 16)] {
        let at = START;
        let rows = derive(code, &[], Some(super::Start { at, goes_on }), &mut 100).rows;
        assert_eq!((rows[0], rows[1].0), ((START, Rule::END), START + end));
    }
}

/// The loader is known by its name, and where it starts nobody called, up to the jump to the program.
#[test]
fn where_the_loader_starts() {
    let path = "/lib64/ld-linux-x86-64.so.2";
    let Ok(file) = File::open(path) else {
        let test = "unwind::code::tests::where_the_loader_starts";
        return skip(test, &format!("{path} is not here"));
    };
    let data = std::fs::read(path).unwrap();
    let elf = Elf::parse(&data[..]).unwrap();
    let start = elf.start().unwrap();
    let table = crate::unwind::build(&file).unwrap();
    assert_eq!(table.find(start), Some(Rule::END));
    if let Ok(data) = std::fs::read("/lib/x86_64-linux-gnu/libm.so.6") {
        assert_eq!(Elf::parse(&data[..]).unwrap().start(), None);
    }
}

/// How derived rows and those of the compiler compare.
#[derive(Debug, Default)]
struct Agreement {
    same: u64,
    /// Found from another register: both are right, but not to be compared.
    other_register: u64,
    /// Described, but not derived.
    missing: u64,
    /// Addresses with what is said and what was found.
    different: Vec<(u64, Rule, Rule)>,
}

/// `ud2`.
const UNREACHABLE: [u8; 2] = [0x0f, 0x0b];

fn agreement(path: &Path, symbols: bool) -> Agreement {
    let file = File::open(path).unwrap();
    let data = ReadCache::new(&file);
    let elf = Elf::parse(&data).unwrap();
    let text = elf.text().unwrap();
    let described = described(&elf, None, &text, &mut Anew).unwrap().unwrap();
    let mut uncovered = Uncovered::of(&elf, &text, &Table::empty(&text));
    if !symbols {
        uncovered.forget_symbols();
    }
    let derived = uncovered.derive().unwrap().unwrap();
    let mut agreement = Agreement::default();
    for (address, _) in described.rows().chain(derived.rows()) {
        let address = text.base + u64::from(address);
        let (Some(said), Some(found)) = (described.find(address), derived.find(address)) else {
            continue;
        };
        // Where a function cannot come to, compilers say anything.
        if elf.loaded(address, 2) == Some(&UNREACHABLE) {
            continue;
        }
        count(&mut agreement, said, found, address);
    }
    println!("{}: {agreement:?} {:?}", path.display(), derived.stats);
    agreement
}

fn count(agreement: &mut Agreement, said: Rule, found: Rule, address: u64) {
    use CfaKind as K;
    let known = |rule: Rule| !matches!(rule.cfa_kind(), K::Unknown | K::End | K::Plt10 | K::Plt11);
    if !known(said) {
        return;
    }
    if !known(found) {
        agreement.missing += 1;
        return;
    }
    if said.cfa_kind() != found.cfa_kind() {
        agreement.other_register += 1;
        return;
    }
    let differs = said.cfa_offset() != found.cfa_offset()
        || said.fp_kind() == FpKind::Saved
            && found.fp_kind() == FpKind::Saved
            && said.fp_offset() != found.fp_offset();
    if differs {
        agreement.different.push((address, said, found));
    } else {
        agreement.same += 1;
    }
}

/// What compilers say of their code and what is derived from it never differ: of Rust, C and C++, with what
/// symbols tell and without. (Hand-written code cannot be compared: of that in glibc and OpenSSL the
/// information is wrong in places, and what is derived is right.)
#[test]
fn agrees_with_compilers() {
    let own = std::env::current_exe().unwrap().display().to_string();
    let patterns = [
        own.as_str(),
        "~/.pyenv/versions/3.11*/lib/libpython3.11.so.1.0",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
    ];
    for pattern in patterns {
        let Some(path) = expand(pattern).into_iter().find(|path| path.is_file()) else {
            let test = "unwind::code::tests::agrees_with_compilers";
            skip(test, &format!("{pattern} is not here"));
            continue;
        };
        for symbols in [true, false] {
            let found = agreement(&path, symbols);
            assert_eq!(found.different, [], "{}", path.display());
            assert!(found.same > 1000, "{found:?}");
        }
    }
}

/// A program without unwind data gets it from its code.
#[test]
fn programs_without_unwind_data() {
    let test = "unwind::code::tests::programs_without_unwind_data";
    let flags = [
        "-fno-asynchronous-unwind-tables",
        "-fno-unwind-tables",
        "-fomit-frame-pointer",
    ];
    let Some(fixture) = Fixture::build(test, &flags) else {
        return;
    };
    let table = crate::unwind::build(&File::open(&fixture.path).unwrap()).unwrap();
    let (address, size) = fixture.symbol("main");
    let unknown = (address..address + size).filter(|at| {
        table
            .find(*at)
            .is_none_or(|rule| rule.cfa_kind() == CfaKind::Unknown)
    });
    assert_eq!(unknown.count(), 0);
    assert!(table.stats.derived > 5);
}

/// NVIDIA's libraries are not followed, whatever their files are called.
#[test]
fn some_code_is_not_followed() {
    let test = "unwind::code::tests::some_code_is_not_followed";
    for (name, followed) in [("libcublasLt.so.13", false), ("libcurl.so.4", true)] {
        let name = format!("-Wl,-soname,{name}");
        let flags = ["-shared", "-fPIC", "-fno-asynchronous-unwind-tables", &name];
        let Some(fixture) = Fixture::build(test, &flags) else {
            return;
        };
        // Without the code's help there may be nothing to make a table of.
        let table = crate::unwind::build(&File::open(&fixture.path).unwrap());
        let derived = table.is_ok_and(|table| table.stats.derived > 0);
        assert_eq!(derived, followed, "{name}");
    }
}
