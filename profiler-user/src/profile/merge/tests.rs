//! Merging by example.

use super::*;
use crate::profile::{
    CallClass, Clock, GilState, LatencyHistogram, Process, ProcessId, Sample, Session, Thread,
};

const SECOND: u64 = 1_000_000_000;

/// A recording of 10 s on 8 CPUs: one process, one thread, `samples` samples in `function`.
fn recording(host: &str, started_s: u64, function: &str, samples: u64) -> Profile {
    let mut profile = Profile {
        session: Session {
            version: "0.1.0".into(),
            host: host.into(),
            kernel: "6.18".into(),
            cpus: 8,
            frequency_hz: 99,
            clock: Clock::Cycles,
            started_unix_ns: started_s * SECOND,
            duration_ns: 10 * SECOND,
            scope: "whole machine".into(),
            closed: true,
        },
        ..Profile::default()
    };
    let function = profile.strings.intern(function);
    let frame = profile.intern_frame(Frame::marker(function));
    let stack = profile.intern_stack(&[frame]);
    let name = profile.strings.intern("python3");
    let command = profile.strings.intern("python3 train.py");
    let process = Process {
        pid: 7,
        name,
        command,
        ended_ns: None,
    };
    profile.processes.push(process);
    profile.threads.push(Thread {
        process: ProcessId(0),
        tid: 7,
        name,
        cpu_ns: Some(SECOND),
    });
    for time_ns in 0..samples {
        profile.accounting.taken += 1;
        profile.add_sample(&Sample {
            time_ns,
            cpu: 0,
            thread: ThreadId(0),
            stack,
            gil: GilState::Held,
            truncation: None,
        });
    }
    let function = profile.strings.intern("cuLaunchKernel");
    profile.calls.push(CallStat {
        thread: Some(ThreadId(0)),
        function,
        class: CallClass::Launch,
        count: 5,
        nested: 1,
        returned: 5,
        errors: 3,
        error_codes: [(2, 2), (700, 1)].into(),
        not_ready: 1,
        bytes: Some(4096),
        total_ns: 50,
        nested_ns: 10,
        max_ns: samples,
        latency: LatencyHistogram { counts: vec![5] },
    });
    profile.notes.push("no debug info".into());
    profile
}

fn names(profile: &Profile) -> Vec<&str> {
    let processes = profile.processes.iter();
    processes
        .map(|process| profile.text(process.name))
        .collect()
}

/// A single recording is what it was; none at all is an empty profile.
#[test]
fn one_and_none() {
    let alone = merge(vec![recording("a", 1, "f", 3)]);
    assert_eq!(alone.kept(), 3);
    assert_eq!(alone.notes.len(), 1);
    assert_eq!(merge(Vec::new()).kept(), 0);
}

/// Two hosts at the same time: their processes stay apart, CPUs add up, time does not.
#[test]
fn two_hosts() {
    let merged = merge(vec![recording("b", 2, "g", 4), recording("a", 1, "f", 3)]);
    assert_eq!(names(&merged), ["a:python3", "b:python3"]);
    assert_eq!(merged.threads.len(), 2);
    assert_eq!(merged.session.host, "a, b");
    assert_eq!(merged.session.cpus, 16);
    assert_eq!(merged.session.duration_ns, 10 * SECOND);
    assert_eq!(merged.kept(), 7);
    assert!(merged.accounting.balanced());
    assert_eq!(merged.calls.len(), 2);
    let expected = [
        "a: no debug info",
        "b: no debug info",
        "2 recordings merged; time covered: a 10.0 s, b 10.0 s; rates and shares of time are of the longest",
    ];
    assert_eq!(merged.notes, expected);
}

/// Two runs on one host: the process goes on, times add up, equal stacks become one.
#[test]
fn one_host_twice() {
    let merged = merge(vec![recording("a", 100, "f", 4), recording("a", 1, "f", 3)]);
    assert_eq!(names(&merged), ["python3"]);
    assert_eq!(merged.threads[0].cpu_ns, Some(2 * SECOND));
    assert_eq!(merged.session.cpus, 8);
    assert_eq!(merged.session.duration_ns, 20 * SECOND);
    assert_eq!(merged.session.started_unix_ns, SECOND);
    assert_eq!(merged.samples.values().copied().collect::<Vec<_>>(), [7]);
    assert_eq!(merged.calls.len(), 1);
    let call = &merged.calls[0];
    assert_eq!((call.count, call.total_ns, call.max_ns), (10, 100, 4));
    assert_eq!(call.latency.total(), 10);
}

/// Overlapping recordings of one host do not cover the same second twice.
#[test]
fn overlap() {
    let merged = merge(vec![recording("a", 1, "f", 1), recording("a", 5, "f", 1)]);
    assert_eq!(merged.session.duration_ns, 14 * SECOND);
}

/// A process that had ended does not go on under the same pid, and ends are told since the merged start.
#[test]
fn ended_processes() {
    let (mut first, mut second) = (recording("a", 1, "f", 1), recording("a", 100, "f", 1));
    first.processes[0].ended_ns = Some(SECOND);
    second.processes[0].ended_ns = Some(2 * SECOND);
    let merged = merge(vec![first, second]);
    let ends: Vec<_> = merged
        .processes
        .iter()
        .map(|process| process.ended_ns)
        .collect();
    assert_eq!(ends, [Some(SECOND), Some(101 * SECOND)]);
}

/// A CPU time that is known for a part only is not shown as the whole.
#[test]
fn unknown_cpu_time() {
    let (mut first, second) = (recording("a", 1, "f", 1), recording("a", 100, "f", 1));
    first.threads[0].cpu_ns = None;
    assert_eq!(merge(vec![first, second]).threads[0].cpu_ns, None);
}

/// Different frequencies and clocks are named, and the samples still stand for the CPU time they did.
#[test]
fn different_paces() {
    let (mut first, mut second) = (recording("a", 1, "f", 300), recording("b", 1, "f", 100));
    first.session.frequency_hz = 300;
    second.session.frequency_hz = 100;
    second.session.clock = Clock::CpuClock;
    second.session.closed = false;
    let merged = merge(vec![first, second]);
    assert_eq!(merged.session.frequency_hz, 200);
    assert!(!merged.session.closed);
    assert!(
        merged
            .notes
            .iter()
            .any(|note| note.contains("(100, 300 Hz)"))
    );
    assert!(
        merged
            .notes
            .iter()
            .any(|note| note.contains("hardware cycles, cpu-clock timer"))
    );
}

/// Samples whose stack finds no room in the merged table are counted as such.
#[test]
fn full_table() {
    let mut first = recording("a", 1, "f", 0);
    let name = StringId::default();
    for offset in 0..super::super::MAX_STACKS as u64 {
        let mut frame = Frame::marker(name);
        frame.offset = offset + 1;
        let frame = first.intern_frame(frame);
        first
            .stacks
            .insert(crate::profile::Stack(Box::new([frame])));
    }
    let merged = merge(vec![first, recording("a", 2, "g", 5)]);
    assert_eq!(merged.accounting.stacks_over_limit, 5);
    assert_eq!(merged.kept(), 5);
    assert!(merged.accounting.balanced());
}
