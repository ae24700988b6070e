//! Interpreters that are not understood, and such as only pretend: said in one line, and their native frames kept.

use wholestack_tests::folded::Folded;
use wholestack_tests::recorder::Recorder;
use wholestack_tests::report::Report;
use wholestack_tests::require_bpf;
use wholestack_tests::scratch::{FRAME_POINTERS, Scratch, small_program};

/// Records a program that has the exported symbols of a CPython.
fn pretend(flags: &[&str]) -> (Report, Folded) {
    let scratch = Scratch::new();
    let flags = [FRAME_POINTERS, &["-rdynamic"], flags].concat();
    let program = scratch.build("pretender", &small_program("pretender.c"), &flags);
    let recorded = Recorder::new().command([program]).run();
    (recorded.report(), recorded.folded())
}

#[track_caller]
fn assert_native_frames(folded: &Folded) {
    let native = folded.count(|stack| {
        stack
            .frames
            .iter()
            .any(|frame| frame.starts_with("pretend ("))
    });
    assert!(
        native * 2 > folded.samples() && native > 0,
        "{:#?}",
        folded.stacks
    );
}

/// A Python of a version that is not understood: one line names the version, the native frames are there.
#[test]
fn a_later_python_is_named() {
    require_bpf!();
    let (report, folded) = pretend(&["-DVERSION=0x03630100"]);
    let [note] = &report.summary.notes[..] else {
        panic!("one note: {:?}", report.summary.notes)
    };
    assert!(
        note.contains("Python 3.99.1") && note.contains("native frames"),
        "{note}"
    );
    assert_native_frames(&folded);
}

/// A Python that does not say its version in any way: the same.
#[test]
fn a_python_of_unknown_version_is_said() {
    require_bpf!();
    let (report, folded) = pretend(&["-DNO_VERSION"]);
    let [note] = &report.summary.notes[..] else {
        panic!("one note: {:?}", report.summary.notes)
    };
    assert!(
        note.contains("Python of unknown version") && note.contains("native frames"),
        "{note}"
    );
    assert_native_frames(&folded);
}

/// A process that claims a Python that is understood, with nothing but wrong addresses where the interpreter's state
/// should be, is profiled without its Python frames, and harms nobody.
#[test]
fn a_damaged_python_is_survived() {
    require_bpf!();
    for version in [
        &["-DNO_VERSION", "-DTAG=\"cpython-38\""][..],
        &["-DNO_VERSION", "-DTAG=\"cpython-310\""],
        &["-DVERSION=0x030b02f0"],
        &["-DVERSION=0x030c01f0"],
    ] {
        for size in ["-DSIZE=64", "-DSIZE=200000"] {
            let (report, folded) = pretend(&[version, &[size]].concat());
            report.check_books();
            assert_eq!(report.summary.notes, [""; 0], "{version:?} is understood");
            assert_native_frames(&folded);
        }
    }
}
