//! A stand-in for the recorder: grows a profile and a recording together, as a real one does.

use crate::profile::*;
use crate::recording::{Window, Writer, read_samples};

/// A recording under way.
pub(super) struct Live {
    pub(super) profile: Profile,
    pub(super) writer: Writer<Vec<u8>>,
    /// Every sample taken, in order.
    pub(super) samples: Vec<Sample>,
}

impl Live {
    pub(super) fn new() -> Self {
        let session = Session {
            version: "0.1.0".into(),
            host: "gpu01".into(),
            kernel: "6.18.44".into(),
            cpus: 16,
            frequency_hz: 99,
            clock: Clock::Cycles,
            started_unix_ns: 1_700_000_000_000_000_000,
            duration_ns: 0,
            scope: "whole machine".into(),
            closed: false,
        };
        let writer = Writer::new(Vec::new(), &session).unwrap();
        let profile = Profile {
            session,
            ..Profile::default()
        };
        Self {
            profile,
            writer,
            samples: Vec::new(),
        }
    }

    /// A stack of Python functions, the leaf's line as given.
    pub(super) fn stack(&mut self, functions: &[&str], line: u32) -> StackId {
        let profile = &mut self.profile;
        let file = profile.strings.intern("/home/me/train.py");
        let frames: Vec<FrameId> = (functions.iter().zip(0..))
            .map(|(function, depth)| {
                let function = profile.strings.intern(function);
                profile.intern_frame(Frame {
                    kind: FrameKind::Python,
                    function,
                    file,
                    line: if depth == 0 { line } else { 10 },
                    first_line: 1,
                    module: StringId::default(),
                    offset: 0,
                })
            })
            .collect();
        profile.intern_stack(&frames)
    }

    /// The thread with that number, made with its process if it is new: four threads a process.
    pub(super) fn thread(&mut self, number: u32) -> ThreadId {
        let profile = &mut self.profile;
        while profile.threads.len() <= number as usize {
            let next = u32::try_from(profile.threads.len()).unwrap();
            if next.is_multiple_of(4) {
                let name = profile.strings.intern("python3");
                let command = profile
                    .strings
                    .intern(&format!("python3 train.py --rank {next}"));
                let pid = 1000 + next;
                let ended_ns = None;
                profile.processes.push(Process {
                    pid,
                    name,
                    command,
                    ended_ns,
                });
            }
            let name = profile.strings.intern(&format!("worker-{next}"));
            profile.threads.push(Thread {
                process: ProcessId(next / 4),
                tid: 1000 + next,
                name,
                cpu_ns: None,
            });
        }
        ThreadId(number)
    }

    /// One kept sample.
    pub(super) fn sample(&mut self, sample: Sample) {
        self.profile.accounting.taken += 1;
        let frames = self.profile.stack(sample.stack).len() as u64;
        self.profile.accounting.frames += frames;
        self.profile.add_sample(&sample);
        self.writer.push(&sample);
        self.samples.push(sample);
    }

    pub(super) fn flush(&mut self) {
        self.writer.flush(&self.profile).unwrap();
    }

    /// The profile as a reader should see it, and the file.
    pub(super) fn finish(mut self) -> (Profile, Vec<u8>) {
        let bytes = self.writer.finish(&self.profile).unwrap();
        self.profile.session.closed = true;
        (self.profile, bytes)
    }
}

/// A small recording of everything the format can hold, in three flushes and a close: the profile, its samples
/// and the file.
pub(super) fn small() -> (Profile, Vec<Sample>, Vec<u8>) {
    let mut live = Live::new();
    for second in 0..3u64 {
        let functions = ["_chunk_fwd", "forward", "<module>"];
        let depth = usize::try_from(second).unwrap() + 1;
        let stack = live.stack(&functions[..depth], 1028);
        for number in 0..3 {
            let thread = live.thread(number);
            live.sample(Sample {
                time_ns: second * 1_000_000_000 + u64::from(number) * 10_101_010,
                cpu: number,
                thread,
                stack,
                gil: [GilState::Held, GilState::NotHeld, GilState::None][number as usize],
                truncation: (number == 1).then_some(Truncation::NoFramePointers),
            });
        }
        // Two taken and not yet arrived, of which one is lost.
        live.profile.accounting.taken += 2;
        live.profile.accounting.lose(Loss::RingFull, 1);
        live.flush();
        live.profile.accounting.taken -= 1;
    }
    let profile = &mut live.profile;
    let function = profile.strings.intern("cuLaunchKernel");
    profile.calls.push(CallStat {
        thread: Some(ThreadId(1)),
        function,
        class: CallClass::Launch,
        count: 1000,
        nested: 10,
        returned: 999,
        errors: 1,
        error_codes: [(700, 1)].into(),
        not_ready: 2,
        bytes: Some(1 << 30),
        total_ns: 5_000_000,
        nested_ns: 1_000,
        max_ns: 90_000,
        latency: LatencyHistogram {
            counts: vec![0, 900, 99],
        },
    });
    profile.threads[1].cpu_ns = Some(30_000_000);
    profile.threads[2].name = profile.strings.intern("pin_memory");
    profile.processes[0].ended_ns = Some(2_900_000_000);
    profile.accounting.own_cpu_ns = 12_000_000;
    profile.accounting.limits.insert("file table".into(), 3);
    profile
        .notes
        .push("the kernel has no hardware counter".into());
    profile.session.duration_ns = 3_000_000_000;
    assert!(profile.accounting.balanced());
    let samples = live.samples.clone();
    let (profile, bytes) = live.finish();
    (profile, samples, bytes)
}

/// Two profiles are the same in every field, and in the order of every table.
pub(super) fn assert_same(found: &Profile, expected: &Profile) {
    assert_eq!(found.session, expected.session);
    let texts = |profile: &Profile| profile.strings.iter().map(String::from).collect::<Vec<_>>();
    assert_eq!(texts(found), texts(expected));
    assert!(found.frames.iter().eq(&expected.frames));
    assert!(found.stacks.iter().eq(&expected.stacks));
    assert_eq!(found.processes, expected.processes);
    assert_eq!(found.threads, expected.threads);
    assert!(found.samples.iter().eq(&expected.samples));
    assert_eq!(found.calls, expected.calls);
    assert_eq!(found.accounting, expected.accounting);
    assert_eq!(found.notes, expected.notes);
}

/// What can be read of a file, with the samples one by one.
pub(super) fn read_all(
    bytes: &[u8],
) -> Result<(Profile, Vec<Sample>), crate::recording::RecordingError> {
    let mut samples = Vec::new();
    let profile = read_samples(bytes, Window::ALL, |sample| samples.push(*sample))?;
    Ok((profile, samples))
}
