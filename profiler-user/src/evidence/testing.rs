//! Small profiles built by hand, for the tests of this room and the rooms after it.

use crate::profile::{
    CallClass, CallStat, Frame, FrameId, FrameKind, GilState, LatencyHistogram, Loss, Process,
    ProcessId, Profile, Sample, StringId, Thread, ThreadId, Truncation,
};

/// A profile under construction.
pub(crate) struct Build {
    /// What was built so far.
    pub profile: Profile,
}

impl Build {
    /// An empty, properly closed profile of 10 s at 100 Hz on 4 CPUs.
    pub fn new() -> Self {
        let mut profile = Profile::default();
        profile.session.frequency_hz = 100;
        profile.session.duration_ns = 10_000_000_000;
        profile.session.cpus = 4;
        profile.session.closed = true;
        Self { profile }
    }

    /// A frame of a Python function at its first line.
    pub fn python(&mut self, function: &str, file: &str, line: u32) -> FrameId {
        self.python_at(function, file, line, line)
    }

    /// A frame of a Python function that begins at `first_line`.
    pub fn python_at(&mut self, function: &str, file: &str, first_line: u32, line: u32) -> FrameId {
        self.frame(FrameKind::Python, function, |profile, frame| {
            frame.file = profile.strings.intern(file);
            frame.first_line = first_line;
            frame.line = line;
        })
    }

    /// A frame of a native function without source.
    pub fn native(&mut self, function: &str, module: &str) -> FrameId {
        self.frame(FrameKind::Native, function, |profile, frame| {
            frame.module = profile.strings.intern(module);
        })
    }

    /// A native frame without a name.
    pub fn unnamed(&mut self, module: &str, offset: u64) -> FrameId {
        self.frame(FrameKind::Native, "", |profile, frame| {
            frame.module = profile.strings.intern(module);
            frame.offset = offset;
        })
    }

    /// A kernel frame.
    pub fn kernel(&mut self, function: &str) -> FrameId {
        self.frame(FrameKind::Kernel, function, |_, _| ())
    }

    /// A frame of a driver call.
    pub fn cuda(&mut self, function: &str) -> FrameId {
        self.frame(FrameKind::Cuda, function, |_, _| ())
    }

    /// A marker.
    pub fn marker(&mut self, text: &str) -> FrameId {
        self.frame(FrameKind::Marker, text, |_, _| ())
    }

    fn frame(
        &mut self,
        kind: FrameKind,
        function: &str,
        set: impl FnOnce(&mut Profile, &mut Frame),
    ) -> FrameId {
        let mut frame = Frame::marker(self.profile.strings.intern(function));
        frame.kind = kind;
        set(&mut self.profile, &mut frame);
        self.profile.intern_frame(frame)
    }

    /// A process.
    pub fn process(&mut self, name: &str, pid: u32) -> ProcessId {
        let id = ProcessId(u32::try_from(self.profile.processes.len()).expect("few"));
        let name = self.profile.strings.intern(name);
        self.profile.processes.push(Process {
            pid,
            name,
            command: StringId::default(),
            ended_ns: None,
        });
        id
    }

    /// A thread whose exact CPU time is not known.
    pub fn thread(&mut self, process: ProcessId, name: &str, tid: u32) -> ThreadId {
        let id = ThreadId(u32::try_from(self.profile.threads.len()).expect("few"));
        let name = self.profile.strings.intern(name);
        self.profile.threads.push(Thread {
            process,
            tid,
            name,
            cpu_ns: None,
        });
        id
    }

    /// `count` samples of a stack, leaf first, without a Python lock.
    pub fn sample(&mut self, thread: ThreadId, frames: &[FrameId], count: u64) {
        self.sample_as(thread, frames, count, GilState::None, None);
    }

    /// `count` samples of a stack, leaf first.
    pub fn sample_as(
        &mut self,
        thread: ThreadId,
        frames: &[FrameId],
        count: u64,
        gil: GilState,
        truncation: Option<Truncation>,
    ) {
        let stack = self.profile.intern_stack(frames);
        for _ in 0..count {
            let sample = Sample {
                time_ns: 0,
                cpu: 0,
                thread,
                stack,
                gil,
                truncation,
            };
            self.profile.add_sample(&sample);
        }
        let frames = u64::try_from(frames.len()).expect("few");
        self.profile.accounting.taken += count;
        self.profile.accounting.frames += frames * count;
    }

    /// Driver calls that took `ns` each.
    pub fn calls(&mut self, thread: Option<ThreadId>, function: &str, count: u64, ns: u64) {
        let function = self.profile.strings.intern(function);
        let bucket = profiler_ebpf::latency::bucket(ns);
        let mut latency = LatencyHistogram {
            counts: vec![0; bucket + 1],
        };
        latency.counts[bucket] = count;
        self.profile.calls.push(CallStat {
            thread,
            function,
            class: CallClass::Launch,
            count,
            nested: 0,
            returned: count,
            errors: 0,
            error_codes: Default::default(),
            not_ready: 0,
            bytes: None,
            total_ns: count * ns,
            nested_ns: 0,
            max_ns: ns,
            latency,
        });
    }
}

/// A training run in small: Python over native over kernel, two threads, driver calls, losses.
pub(crate) fn training() -> Build {
    let mut build = Build::new();
    let process = build.process("python3", 1234);
    let main = build.thread(process, "MainThread", 1234);
    let worker = build.thread(process, "ThreadPoolExecutor-0_worker_17", 1240);
    let idle = build.thread(process, "idle", 1250);
    let start = build.native("_start", "/usr/bin/python3.12");
    let clone = build.native("clone3", "/lib/libc.so.6");
    let boot = build.python(
        "Thread._bootstrap",
        "/usr/lib/python3.12/threading.py",
        1032,
    );
    let main_py = build.python_at("main", "/home/me/train.py", 90, 101);
    let step = build.python_at("Trainer.step", "/home/me/train.py", 40, 52);
    let chunk = build.python_at("_chunk_fwd", "/home/me/dflash_model.py", 1000, 1028);
    let forward = build.python_at("forward", "/v/site-packages/torch/nn/linear.py", 120, 125);
    let fetch = build.python_at("fetch", "/home/me/data\u{1b}[31m.py", 10, 14);
    let memcpy = build.native("__memmove_avx_unaligned_erms", "/lib/libc.so.6");
    let unnamed = build.unnamed("/usr/lib/libcuda.so.1", 0x2f3a10);
    let launch = build.cuda("cuLaunchKernel");
    let (enter, copy) = (
        build.kernel("entry_SYSCALL_64_after_hwframe"),
        build.kernel("copy_page_to_iter"),
    );
    let template = build.native(
        &format!("void at::native::{}(int)", "elementwise<".repeat(20)),
        "/v/libtorch.so",
    );
    build.sample_as(
        main,
        &[chunk, step, main_py, start],
        410,
        GilState::Held,
        None,
    );
    build.sample_as(
        main,
        &[unnamed, launch, forward, step, main_py, start],
        180,
        GilState::Held,
        None,
    );
    build.sample_as(
        main,
        &[template, forward, step, main_py, start],
        57,
        GilState::NotHeld,
        None,
    );
    let cut = Some(Truncation::NoFramePointers);
    build.sample_as(
        worker,
        &[memcpy, fetch, boot, clone],
        120,
        GilState::NotHeld,
        cut,
    );
    build.sample_as(
        worker,
        &[copy, enter, fetch, boot, clone],
        33,
        GilState::Held,
        None,
    );
    let books = &mut build.profile.accounting;
    books.lose(Loss::RingFull, 3);
    books.lose(Loss::Nested, 1);
    (books.taken, books.unnamed_frames, books.own_cpu_ns) = (books.taken + 4, 180, 62_000_000);
    books.limits.insert("cached unwind tables".to_owned(), 2);
    build.profile.threads[main.0 as usize].cpu_ns = Some(6_510_000_000);
    build.profile.threads[idle.0 as usize].cpu_ns = Some(4_000_000);
    build
        .profile
        .notes
        .push("no hardware counter: paced by the kernel's cpu-clock timer".to_owned());
    build.calls(Some(main), "cuLaunchKernel", 48_210, 6_100);
    build.calls(Some(main), "cuStreamSynchronize", 120, 21_000_000);
    build.calls(Some(worker), "cuMemcpyHtoDAsync_v2", 600, 45_000);
    build.calls(Some(main), "cuMemcpyHtoDAsync_v2", 2, 45_000);
    let copies = build.profile.calls.last_mut().expect("one was added");
    (copies.bytes, copies.errors) = (Some(3 << 30), 1);
    copies.error_codes.insert(700, 1);
    build.calls(Some(main), "cudaMemcpyAsync", 1, 50_000);
    build.profile.calls[2].nested = 1;
    build
}
