//! What was recorded is what is read.

use proptest::prelude::*;

use super::live::{Live, assert_same, read_all, small};
use crate::profile::*;
use crate::recording::{RecordingError, Window, Writer, read, read_window};

/// A recording with everything in it reads back field for field, sample for sample.
#[test]
fn everything() {
    let (expected, samples, bytes) = small();
    let (found, read_samples) = read_all(&bytes).unwrap();
    assert_same(&found, &expected);
    assert_eq!(read_samples, samples);
}

/// A recording in which nothing was sampled is a recording.
#[test]
fn empty() {
    let (expected, bytes) = Live::new().finish();
    let found = read(bytes.as_slice()).unwrap();
    assert_same(&found, &expected);
    assert!(found.accounting.balanced());
}

/// A file behind the end is not read, and that is said.
#[test]
fn two_files_in_one() {
    let (_, _, bytes) = small();
    let twice = [bytes.as_slice(), &bytes].concat();
    let found = read(twice.as_slice()).unwrap();
    assert_eq!(found.kept(), 9);
    let told = format!("goes on behind the recording's end at byte {}", bytes.len());
    assert!(found.notes.iter().any(|note| note.contains(&told)));
}

/// A window holds the samples of its time, its books balance, and its times count from its start.
#[test]
fn window() {
    let (_, _, bytes) = small();
    let window = Window {
        from_ns: 1_000_000_000,
        to_ns: 2_000_000_000,
    };
    let found = read_window(bytes.as_slice(), window).unwrap();
    assert_eq!(found.kept(), 3);
    assert_eq!(found.accounting.frames, 3 * 2);
    assert!(found.accounting.balanced());
    assert_eq!(found.session.duration_ns, 1_000_000_000);
    assert_eq!(found.session.started_unix_ns, 1_700_000_001_000_000_000);
    assert_eq!(found.processes[0].ended_ns, Some(1_900_000_000));
    assert!(found.calls.is_empty());
    assert!(
        found
            .notes
            .last()
            .unwrap()
            .contains("1.0 s to 2.0 s of 3.0 s")
    );

    // Nothing is lost between windows that meet.
    let count = |from_ns, to_ns| {
        let found = read_window(bytes.as_slice(), Window { from_ns, to_ns }).unwrap();
        assert!(found.accounting.balanced());
        found.kept()
    };
    assert_eq!(count(0, 1_010_101_010) + count(1_010_101_010, u64::MAX), 9);
    assert_eq!(count(50_000_000_000, u64::MAX), 0);
}

/// The count of samples with guessed frames, and the unwind tables' size, come back; in a part of the recording it is that of the books around
/// it, and never more than the samples there.
#[test]
fn guesses() {
    let mut live = Live::new();
    let stack = live.stack(&["f"], 1);
    let thread = live.thread(0);
    for second in 0..4 {
        live.sample(Sample {
            time_ns: second * 1_000_000_000,
            cpu: 0,
            thread,
            stack,
            gil: GilState::None,
            truncation: None,
        });
        live.profile.accounting.guessed += u64::from(second != 0);
        live.flush();
    }
    live.profile.session.duration_ns = 4_000_000_000;
    let books = &mut live.profile.accounting;
    (books.unwind_tables, books.unwind_table_bytes) = (17, 5 << 20);
    let (expected, bytes) = live.finish();
    assert_same(&read(bytes.as_slice()).unwrap(), &expected);
    let in_window = |from_ns, to_ns| {
        let found = read_window(bytes.as_slice(), Window { from_ns, to_ns }).unwrap();
        (found.accounting.guessed, found.kept())
    };
    assert_eq!(in_window(0, u64::MAX), (3, 4));
    assert_eq!(in_window(2_500_000_000, u64::MAX), (1, 1));
    assert_eq!(in_window(1_500_000_000, 1_600_000_000), (0, 0));
}

/// A sample that names what the profile lacks is refused before it reaches the file.
#[test]
fn dangling_sample() {
    let mut live = Live::new();
    let stack = live.stack(&["f"], 1);
    let sample = Sample {
        time_ns: 0,
        cpu: 0,
        thread: ThreadId(0),
        stack,
        gil: GilState::None,
        truncation: None,
    };
    live.writer.push(&sample);
    let error = live.writer.flush(&live.profile).unwrap_err();
    assert!(matches!(
        error,
        RecordingError::Dangling {
            what: "thread",
            id: 0
        }
    ));
    let error = live.writer.flush(&live.profile).unwrap_err();
    assert!(matches!(error, RecordingError::Failed));
}

/// An output that takes nothing is noticed when the recording begins, not at its end.
#[test]
fn full_output() {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let Err(RecordingError::Io(error)) = Writer::new(full, &Session::default()) else {
        panic!("/dev/full took the header");
    };
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}

/// One step of a random recording.
#[derive(Debug, Clone)]
enum Op {
    Sample {
        functions: Vec<String>,
        line: u32,
        thread: u32,
        cpu: u32,
        time_ns: u64,
        gil: u8,
        truncation: u8,
    },
    Native {
        offset: u64,
        line: u32,
        kind: u8,
    },
    Lose(u8, u64),
    Rename {
        thread: u32,
        name: String,
        cpu_ns: Option<u64>,
    },
    End {
        process: u32,
        ended_ns: u64,
    },
    Call {
        thread: Option<u32>,
        function: String,
        count: u64,
        latency: Vec<u64>,
    },
    Note(String),
    Flush,
}

fn op() -> impl Strategy<Value = Op> {
    let sample = (
        proptest::collection::vec(".{0,8}", 0..6),
        any::<u32>(),
        0..40u32,
        any::<u32>(),
        0..1u64 << 56,
        0..4u8,
        0..9u8,
    );
    prop_oneof![
        8 => sample.prop_map(|(functions, line, thread, cpu, time_ns, gil, truncation)| {
            Op::Sample { functions, line, thread, cpu, time_ns, gil, truncation }
        }),
        2 => (any::<u64>(), any::<u32>(), 0..5u8)
            .prop_map(|(offset, line, kind)| Op::Native { offset, line, kind }),
        1 => (0..4u8, 0..1000u64).prop_map(|(reason, count)| Op::Lose(reason, count)),
        1 => (0..40u32, ".{0,8}", proptest::option::of(0..1u64 << 50))
            .prop_map(|(thread, name, cpu_ns)| Op::Rename { thread, name, cpu_ns }),
        1 => (0..10u32, 0..1u64 << 56).prop_map(|(process, ended_ns)| Op::End { process, ended_ns }),
        1 => (
            proptest::option::of(0..40u32),
            "cu[A-Z][a-z]{0,5}",
            0..1u64 << 40,
            proptest::collection::vec(0..1u64 << 40, 0..121),
        ).prop_map(|(thread, function, count, latency)| Op::Call { thread, function, count, latency }),
        1 => ".{0,20}".prop_map(Op::Note),
        2 => Just(Op::Flush),
    ]
}

fn apply(live: &mut Live, op: Op) {
    match op {
        Op::Sample {
            functions,
            line,
            thread,
            cpu,
            time_ns,
            gil,
            truncation,
        } => {
            let functions: Vec<&str> = functions.iter().map(String::as_str).collect();
            let sample = Sample {
                time_ns,
                cpu,
                thread: live.thread(thread),
                stack: live.stack(&functions, line),
                gil: super::super::ids::gil(u32::from(gil)).unwrap(),
                truncation: Truncation::from_id(truncation),
            };
            live.sample(sample);
        }
        Op::Native { offset, line, kind } => {
            let module = live.profile.strings.intern(&format!("/lib/{kind}.so"));
            live.profile.intern_frame(Frame {
                kind: super::super::ids::frame_kind(u32::from(kind) + 1).unwrap(),
                function: StringId::default(),
                file: StringId::default(),
                line,
                first_line: 0,
                module,
                offset,
            });
        }
        Op::Lose(reason, count) => {
            live.profile.accounting.taken += count;
            live.profile
                .accounting
                .lose(Loss::ALL[usize::from(reason)], count);
        }
        Op::Rename {
            thread,
            name,
            cpu_ns,
        } => {
            let id = live.thread(thread).0 as usize;
            live.profile.threads[id].name = live.profile.strings.intern(&name);
            live.profile.threads[id].cpu_ns = cpu_ns;
        }
        Op::End { process, ended_ns } => {
            live.thread(process * 4);
            live.profile.processes[process as usize].ended_ns = Some(ended_ns);
        }
        Op::Call {
            thread,
            function,
            count,
            latency,
        } => {
            let thread = thread.map(|thread| live.thread(thread));
            let function = live.profile.strings.intern(&function);
            live.profile.calls.push(CallStat {
                thread,
                function,
                class: CallClass::Sync,
                count,
                nested: count / 3,
                returned: count / 2,
                errors: count / 4,
                error_codes: [(2, count / 8), (700, count / 16)].into(),
                not_ready: count / 5,
                bytes: (count % 2 == 0).then_some(count * 7),
                total_ns: count * 3,
                nested_ns: count,
                max_ns: count,
                latency: LatencyHistogram { counts: latency },
            });
        }
        Op::Note(note) => live.profile.notes.push(note),
        Op::Flush => live.flush(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any recording reads back as it was, wherever its flushes fell, and balances wherever it is cut.
    #[test]
    fn any_recording(ops in proptest::collection::vec(op(), 0..80), cut in 0.0..1.0f64) {
        let mut live = Live::new();
        for op in ops {
            apply(&mut live, op);
        }
        let samples = live.samples.clone();
        let (expected, bytes) = live.finish();
        let (found, read) = read_all(&bytes).unwrap();
        assert_same(&found, &expected);
        prop_assert_eq!(&read, &samples);

        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place in the file")]
        let cut = (cut * bytes.len() as f64) as usize;
        if let Ok((found, read)) = read_all(&bytes[..cut]) {
            prop_assert!(found.accounting.balanced());
            prop_assert!(samples.starts_with(&read));
        }
    }
}
