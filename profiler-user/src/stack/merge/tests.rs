//! Stored samples with known stacks, merged without a kernel: names are letters.

use bytemuck::Zeroable as _;
use profiler_ebpf::wire::{RECORD_SAMPLE, SampleHeader};

use super::*;

/// 42 is the interpreter's evaluator, 43 its calling machinery, 1 a root, 13 not behind a call. 300 to 309 lie in a function
/// that begins at 300 and has a frame pointer from 305 on; 310 calls it, 311 another one, 312 one that is not told.
/// 320 is as 300, but replaces its return address. 330 has the name of the open call.
#[derive(Default)]
struct Letters {
    python: bool,
    by_order: bool,
    all: bool,
    /// Native frames found to evaluate.
    found: Vec<u64>,
}

impl Names for Letters {
    type Frame = String;

    fn kernel(&mut self, address: u64, _leaf: bool) -> String {
        format!("k{address}")
    }

    fn native(&mut self, frame: &NativeFrame) -> NativeName<Vec<String>> {
        NativeName {
            frame: vec![format!("n{}", frame.pc)],
            evaluator: frame.pc == 42,
            plumbing: frame.pc == 43,
            root: frame.pc == 1,
            plausible: frame.pc != 13 || frame.how & how::RETURN_ADDRESS == 0,
            evidence: match frame.pc {
                300..310 => Evidence {
                    start: Some(300),
                    calls: None,
                    frame_pointer: Some(frame.pc >= 305),
                    returns_elsewhere: false,
                },
                320 => Evidence {
                    start: Some(300),
                    frame_pointer: Some(true),
                    returns_elsewhere: true,
                    ..Evidence::default()
                },
                310..312 => Evidence {
                    calls: Some(if frame.pc == 310 { 300 } else { 400 }),
                    ..Evidence::default()
                },
                _ => Evidence::default(),
            },
        }
    }

    fn python(&mut self, frame: &PythonFrame) -> PythonName<String> {
        PythonName {
            frame: format!("p{}", frame.code),
            known: true,
        }
    }

    fn call(&mut self, function: u32, inside: Option<&String>) -> Option<String> {
        (inside.map(String::as_str) != Some("n330")).then(|| format!("cuda{function}"))
    }

    fn marker(&mut self, text: &'static str) -> String {
        match text {
            NATIVE_CUT => "~".to_owned(),
            other => other.to_owned(),
        }
    }

    fn runs_python(&self) -> bool {
        self.python
    }

    fn keeps_machinery(&self) -> bool {
        self.all
    }

    fn frames_match_by_order(&self) -> bool {
        self.by_order
    }

    fn evaluates(&mut self, frame: &NativeFrame) {
        self.found.push(frame.pc);
    }
}

fn sample(native: &[(u64, u64)], python: &[(u64, u64)]) -> RawSample {
    let native: Vec<_> = native
        .iter()
        .enumerate()
        .map(|(index, (pc, sp))| NativeFrame {
            pc: *pc,
            sp: *sp,
            how: if index == 0 { 0 } else { how::RETURN_ADDRESS },
        })
        .collect();
    let python: Vec<_> = python
        .iter()
        .map(|(code, anchor)| PythonFrame {
            code: *code,
            instruction: 0,
            anchor: *anchor,
            check: 0,
        })
        .collect();
    RawSample {
        header: SampleHeader {
            kind: RECORD_SAMPLE,
            native_end: NativeEnd::Root as u8,
            python_end: if python.is_empty() {
                PythonEnd::NotPython
            } else {
                PythonEnd::Root
            } as u8,
            ..SampleHeader::zeroed()
        },
        kernel: Vec::new(),
        native,
        python,
    }
}

fn merged(sample: &RawSample) -> (String, Option<Truncation>) {
    let merged = merge(
        sample,
        &mut Letters {
            python: !sample.python.is_empty(),
            ..Letters::default()
        },
    );
    (merged.frames.join(" "), merged.truncation)
}

/// A whole native walk: each evaluation's Python frames stand where the native frame evaluates them.
#[test]
fn python_stands_where_it_is_evaluated() {
    let sample = sample(
        &[(200, 10), (42, 20), (201, 40), (42, 50), (1, 90)],
        &[(1, 0), (2, 25), (3, 0), (4, 60)],
    );
    assert_eq!(
        merged(&sample),
        ("n200 p1 p2 n201 p3 p4 n1".to_owned(), None)
    );
}

/// Asked for, the machinery stays: an evaluator below the Python frames it runs, what calls it above.
#[test]
fn machinery_is_kept_where_asked() {
    let mut names = Letters {
        python: true,
        all: true,
        ..Letters::default()
    };
    let sample = sample(
        &[(200, 10), (42, 20), (43, 40), (42, 50), (1, 90)],
        &[(1, 0), (2, 25), (3, 0), (4, 60)],
    );
    assert_eq!(
        merge(&sample, &mut names).frames.join(" "),
        "n200 n42 p1 p2 n43 n42 p3 p4 n1"
    );
}

/// The interpreter's loop may have no name: what holds an anchor is an evaluator, and is remembered.
#[test]
fn evaluators_need_no_name() {
    let mut names = Letters {
        python: true,
        ..Letters::default()
    };
    let sample = sample(&[(200, 10), (77, 20), (201, 40), (1, 90)], &[(1, 25)]);
    assert_eq!(
        merge(&sample, &mut names).frames.join(" "),
        "n200 p1 n201 n1"
    );
    assert_eq!(names.found, [77]);
}

/// An evaluator without a frame, as one that only begins, is shown as what it is.
#[test]
fn an_evaluator_may_have_no_frame() {
    let sample = sample(&[(42, 10), (201, 20), (42, 30), (1, 90)], &[(1, 35)]);
    assert_eq!(merged(&sample).0, "n42 n201 p1 n1");
}

/// Without anchors Python frames stand at the evaluators in their order.
#[test]
fn order_places_frames() {
    let mut names = Letters {
        python: true,
        by_order: true,
        ..Letters::default()
    };
    let sample = sample(
        &[(200, 10), (42, 20), (201, 40), (42, 50), (1, 90)],
        &[(1, 0), (2, 0)],
    );
    assert_eq!(
        merge(&sample, &mut names).frames.join(" "),
        "n200 p1 n201 p2 n1"
    );
}

/// Calling machinery is folded away, except where execution is in it and in processes without Python.
#[test]
fn machinery_is_folded() {
    let mut python = sample(
        &[(43, 10), (42, 20), (43, 30), (201, 40), (42, 50), (1, 90)],
        &[(1, 25), (2, 60)],
    );
    assert_eq!(merged(&python).0, "n43 p1 n201 p2 n1");
    python.python.clear();
    assert_eq!(merged(&python).0, "n43 n42 n43 n201 n42 n1");
}

/// A walk that ends inside the evaluator needs no marker: the Python frame is right there.
#[test]
fn a_cut_in_the_evaluator_joins() {
    let mut sample = sample(&[(42, 10)], &[(1, 0), (2, 25)]);
    sample.header.native_end = NativeEnd::NoFramePointer as u8;
    assert_eq!(
        merged(&sample),
        ("p1 p2".to_owned(), Some(Truncation::NoFramePointers))
    );
}

/// ... but what led there is missing.
#[test]
fn a_cut_in_the_evaluator_is_marked_behind_it() {
    let mut sample = sample(&[(42, 10)], &[(1, 0), (2, 25), (3, 0), (4, 60)]);
    sample.header.native_end = NativeEnd::NoFramePointer as u8;
    assert_eq!(merged(&sample).0, "p1 p2 ~ p3 p4");
}

/// A walk that ends in other code: the Python frames follow behind a marker.
#[test]
fn a_cut_elsewhere_is_marked() {
    let mut sample = sample(&[(200, 10), (201, 20)], &[(1, 0), (2, 225)]);
    sample.header.native_end = NativeEnd::NoFramePointer as u8;
    assert_eq!(
        merged(&sample),
        (
            "n200 n201 ~ p1 p2".to_owned(),
            Some(Truncation::NoFramePointers)
        )
    );
}

/// A caller that does not follow a call is not shown, nor anything the walk found behind it.
#[test]
fn an_implausible_caller_ends_the_walk() {
    let sample = sample(&[(200, 10), (13, 20), (1, 30)], &[]);
    assert_eq!(
        merged(&sample),
        ("n200 ~".to_owned(), Some(Truncation::NoFramePointers))
    );
}

/// A guessed caller is believed if it calls the very function it was guessed from; if what it calls is not told, only where
/// that function has a frame pointer. Unwind data needs no such proof.
#[test]
fn guesses_are_checked() {
    let whole = |pc: u64, caller: u64, guessed: bool| {
        let mut sample = sample(&[(pc, 10), (caller, 20), (1, 30)], &[]);
        sample.native[1].how |= if guessed { how::GUESSED } else { 0 };
        merged(&sample).1.is_none()
    };
    for (pc, caller, expected) in [
        (302, 310, true),
        (302, 311, false),
        (302, 312, false),
        (307, 310, true),
        (307, 311, false),
        (307, 312, true),
        (200, 311, true),
    ] {
        assert_eq!(whole(pc, caller, true), expected, "{pc} {caller}");
        assert!(whole(pc, caller, false), "{pc} {caller}");
    }
    assert!(whole(320, 310, false) && whole(320, 312, false) && !whole(320, 311, false));
}

/// A signal trampoline is returned to without having called: what it interrupted proves it.
#[test]
fn a_trampoline_follows_no_call() {
    let mut sample = sample(&[(200, 10), (13, 20), (201, 30), (1, 40)], &[]);
    sample.native[2].how = 0;
    assert_eq!(merged(&sample), ("n200 n13 n201 n1".to_owned(), None));
}

/// An end mark in code that is no thread's beginning proves nothing.
#[test]
fn an_end_mark_is_checked() {
    let sample = sample(&[(200, 10), (201, 20)], &[]);
    assert_eq!(merged(&sample).1, Some(Truncation::NoFramePointers));
}

/// The open driver call stands between what runs inside it and what called it.
#[test]
fn a_driver_call_finds_its_place() {
    let mut inside = sample(&[(200, 10), (201, 20), (202, 40), (1, 90)], &[]);
    inside.header.open_call = 8;
    inside.header.open_call_sp = 30;
    assert_eq!(merged(&inside).0, "n200 n201 cuda7 n202 n1");
    inside.native[1].pc = 330;
    assert_eq!(
        merged(&inside).0,
        "n200 n330 n202 n1",
        "it is named already"
    );
    // The walk ended inside the driver: the call follows, then the callers in Python.
    let mut cut = sample(&[(200, 10)], &[(1, 0), (2, 50)]);
    cut.header.native_end = NativeEnd::NoFramePointer as u8;
    cut.header.open_call = 8;
    cut.header.open_call_sp = 30;
    assert_eq!(merged(&cut).0, "n200 cuda7 ~ p1 p2");
    // A callback in Python that runs inside the call.
    let mut callback = sample(&[(42, 10)], &[(1, 15), (2, 50)]);
    callback.header.native_end = NativeEnd::NoFramePointer as u8;
    callback.header.open_call = 8;
    callback.header.open_call_sp = 30;
    assert_eq!(merged(&callback).0, "p1 cuda7 p2");
}

/// Kernel frames are leafward of everything.
#[test]
fn kernel_frames_come_first() {
    let mut sample = sample(&[(200, 10), (1, 20)], &[]);
    sample.kernel = vec![7, 8];
    assert_eq!(merged(&sample).0, "k7 k8 n200 n1");
}

/// Python that was not known yet, cut or unreadable is said, and no frame is dropped.
#[test]
fn python_troubles_are_said() {
    let mut late = sample(&[(1, 10)], &[(1, 20)]);
    late.header.python_end = PythonEnd::NotPython as u8;
    assert_eq!(merged(&late).1, Some(Truncation::PythonLate));
    late.header.python_end = PythonEnd::Depth as u8;
    assert_eq!(merged(&late).1, Some(Truncation::PythonDepth));
    assert!(merged(&late).0.ends_with(PYTHON_CUT));
    late.header.python_end = PythonEnd::WrongThread as u8;
    assert_eq!(merged(&late).1, Some(Truncation::PythonUnreadable));
}

/// A thread of which nothing is known is still a sample.
#[test]
fn nothing_is_shown_as_nothing() {
    let mut empty = sample(&[], &[]);
    empty.header.native_end = NativeEnd::NoUserStack as u8;
    assert_eq!(merged(&empty), (NOTHING.to_owned(), None));
}

/// A stack says that a frame in it was guessed, unless that frame was not believed.
#[test]
fn guesses_are_said() {
    let guessed = |callers: [u64; 2]| {
        let mut sample = sample(&[(200, 10), (callers[0], 20), (callers[1], 30)], &[]);
        sample.native[2].how = how::GUESSED | how::RETURN_ADDRESS;
        merge(&sample, &mut Letters::default()).guessed
    };
    assert!(guessed([201, 1]));
    assert!(!guessed([201, 13]));
    assert!(!guessed([13, 1]));
}
