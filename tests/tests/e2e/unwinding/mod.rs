//! Native stacks of programs that are hard to unwind: whole from the thread's root to the leaf, or cut with a mark, never
//! with a caller that is none.
//!
//! The programs burn CPU at the end of chains of calls that are known. Every sample is compared with them.

mod chains;
mod expect;
mod gallery;

use profiler_ebpf::rows::CfaKind;
use wholestack::profile::Truncation;
use wholestack::unwind;
use wholestack_tests::require_bpf;
use wholestack_tests::scratch::Scratch;

use chains::{build_mode, builds, has_avx2, modes, newcomers};
use expect::Functions;

/// Frames that are walked at most.
const DEPTH: usize = 240;

/// With frame pointers and without, with unwind data of each form and without any: whole, but without either they may be
/// cut.
#[test]
fn whatever_tells_of_callers() {
    require_bpf!();
    for name in ["fp", "nofp", "fp-none", "debug-frame"] {
        builds().seen(name).assert_whole();
    }
    builds().seen("nofp-none").assert_never_wrong();
}

/// However a program is linked: code is found in the file, and the file in memory.
#[test]
fn however_linked() {
    require_bpf!();
    for name in [
        "static",
        "static-pie",
        "no-pie",
        "separate",
        "noseparate",
        "high-text",
        "large-pages",
        "stripped",
        "headless",
    ] {
        builds().seen(name).assert_whole();
    }
}

/// A signal handler stands on what it interrupted, on the same stack and on another.
#[test]
fn signal_handlers() {
    require_bpf!();
    for name in ["handler", "other-stack"] {
        modes().seen(name).assert_whole();
    }
}

/// Code that the kernel puts into every process has callers, too.
#[test]
fn reading_the_clock() {
    require_bpf!();
    modes().seen("vdso").assert_whole();
}

/// The child of a vfork, which runs on its parent's stack until it ends.
#[test]
fn children_of_vfork() {
    require_bpf!();
    modes().seen("vfork").assert_whole();
}

/// Frames of 150 and 400 KiB, whatever registers they keep.
#[test]
fn large_frames() {
    require_bpf!();
    for name in ["frame-150k", "frame-400k", "frame-full"] {
        modes().seen(name).assert_whole();
    }
}

/// Code whose stack is realigned, so that its caller is found only by what it saved itself.
#[test]
fn realigned_stacks() {
    require_bpf!();
    if !has_avx2() {
        return wholestack_tests::rights::skip("no AVX2 on this machine");
    }
    let scratch = Scratch::new();
    let path = build_mode(&scratch, "realigned");
    let table = unwind::build(&std::fs::File::open(&path).unwrap()).unwrap();
    let extent = Functions::read(&path).extent("realigned");
    // In an ordinary build, code lies at the same address in the file as in memory.
    let mut rows = table.rows().filter(|(address, rule)| {
        let inside = extent.contains(&(table.base + u64::from(*address)));
        inside && rule.cfa_kind() == CfaKind::FpDeref
    });
    assert!(
        rows.next().is_some(),
        "the compiler did not make the code that is to be tested"
    );
    modes().seen("realigned").assert_whole();
}

/// A thread, and one that is 200 calls deep.
#[test]
fn threads() {
    require_bpf!();
    for name in ["thread", "deep-200"] {
        modes().seen(name).assert_whole();
    }
}

/// A thread deeper than is walked is cut at the root, with a mark, and counted.
#[test]
fn too_deep_a_thread() {
    require_bpf!();
    let seen = modes().seen("deep-400");
    let deep = |why: Truncation| why == Truncation::NativeDepth;
    let late = seen.cut.iter().filter(|cut| cut.late && deep(cut.why));
    let count = late.clone().count() as u64;
    assert!(late.clone().all(|cut| cut.frames == DEPTH), "{seen:#?}");
    // The main thread only waits.
    seen.assert_nearly_all(seen.later, count + seen.later.whole());
    assert!(seen.later.chain * 100 < count, "{seen:#?}");
    let all = seen.cut.iter().filter(|cut| deep(cut.why)).count() as u64;
    let books = &modes().report.summary.truncated_by_reason;
    let booked = books
        .iter()
        .find(|reason| reason.name == Truncation::NativeDepth.text());
    assert_eq!(booked.map(|reason| reason.count), Some(all), "{books:#?}");
}

/// A call that never returns, at the very end of its function.
#[test]
fn calls_that_do_not_return() {
    require_bpf!();
    let scratch = Scratch::new();
    let functions = Functions::read(&build_mode(&scratch, "tail"));
    let end = functions.extent("ends_in_a_call").end;
    assert!(
        functions.beginning_at(end).is_some(),
        "the return address is not that of another function"
    );
    modes().seen("tail").assert_whole();
}

/// An exception on its way through the libraries that unwind the stack themselves. Towards the end of that, the stack's
/// memory says who called the handler's function: there it is cut.
#[test]
fn exceptions() {
    require_bpf!();
    let seen = modes().seen("throws");
    seen.assert_share(seen.later, seen.later.whole(), 0.97);
    assert!(seen.later.chain > seen.later.elsewhere, "{seen:#?}");
}

/// Closures, threads and a panic in Rust.
#[test]
fn rust_programs() {
    require_bpf!();
    modes().seen("rust-chain").assert_whole();
}

/// A library that is loaded while its program runs.
#[test]
fn late_libraries() {
    require_bpf!();
    newcomers().seen("load").assert_whole();
}

/// Starting programs: whole. The programs themselves end after a few milliseconds: never wrong.
#[test]
fn short_programs() {
    require_bpf!();
    let seen = newcomers().seen("spawn");
    seen.assert_never_wrong();
    seen.assert_parent_whole();
}
