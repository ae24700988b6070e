//! What happens with every event, in order of time: processes known, stacks named and merged, samples kept.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use profiler_ebpf::wire::{Counter, ThreadExit};

use super::cuda::{add_calls, book_limits, note_failure};
use super::limits;
use super::naming::{NameSources, SampleNames};
use super::reader::{Codes, Event};
use super::scout::Scouted;
use super::tasks::Tasks;
use super::{RecordError, RecordSettings, Scope};
use crate::kernel::ring::{RawEvent, RawSample};
use crate::kernel::sideband::SidebandEvent;
use crate::kernel::{Kernel, monotonic_ns};
use crate::process::{MappedFile, Mapping, ProcessTable, TargetMemory, has_ended, thread_ids};
use crate::profile::{Loss, ProcessId, Profile, Sample, ThreadId};
use crate::python::{Interpreter, detect, thread_name};
use crate::recording::{RecordingError, Writer};
use crate::stack::merge;

/// Events taken from the rings together. Every process record older than a sample in it is in it too,
/// or came before.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub events: Vec<Event>,
    pub sideband: Vec<SidebandEvent>,
}

impl Batch {
    /// Adds a later one.
    pub fn append(&mut self, mut later: Self) {
        self.events.append(&mut later.events);
        self.sideband.append(&mut later.sideband);
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.sideband.is_empty()
    }
}

/// Everything a recording knows, owned by one thread.
pub(super) struct Pipeline<W: Write> {
    kernel: Arc<Mutex<Kernel>>,
    profile: Profile,
    writer: Option<Writer<W>>,
    /// Why the file could not be written to its end.
    write_error: Option<RecordingError>,
    processes: ProcessTable,
    sources: NameSources,
    tasks: Tasks,
    /// Processes that run a Python which is understood.
    interpreters: HashMap<u32, Interpreter>,
    /// Processes watched; `None` for the whole machine.
    targets: Option<HashSet<u32>>,
    start_ns: u64,
    /// Programs that an exec under way has replaced, by pid.
    before_exec: HashMap<u32, ProcessId>,
    /// CPU time of this process when recording began.
    own_before_ns: u64,
    /// Recording is over; what is left is to name what waits.
    stopped: bool,
    sideband_lost: u64,
}

impl<W: Write> Pipeline<W> {
    /// Looks at what runs now, tells the kernel side about it, and starts recording.
    pub fn start(
        kernel: Arc<Mutex<Kernel>>,
        profile: Profile,
        settings: &RecordSettings,
    ) -> Result<Self, RecordError> {
        let scope = &settings.scope;
        let mut pipeline = Self {
            kernel,
            profile,
            writer: None,
            write_error: None,
            processes: ProcessTable::new(),
            sources: NameSources {
                keep_machinery: settings.native_all,
                ..NameSources::default()
            },
            tasks: Tasks::default(),
            interpreters: HashMap::new(),
            targets: scope.targets(),
            start_ns: 0,
            before_exec: HashMap::new(),
            own_before_ns: 0,
            stopped: false,
            sideband_lost: 0,
        };
        pipeline.watch_targets(scope)?;
        pipeline.scan();
        pipeline.start_ns = monotonic_ns();
        pipeline.own_before_ns = own_cpu_ns();
        pipeline.kernel().set_active(true)?;
        Ok(pipeline)
    }

    /// Writes what is kept from here on.
    pub fn write_to(&mut self, writer: Writer<W>) {
        self.writer = Some(writer);
    }

    /// The profile so far.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    fn watch_targets(&mut self, scope: &Scope) -> Result<(), RecordError> {
        let mut kernel = self.kernel();
        for pid in self.targets.iter().flatten() {
            kernel.watch(*pid)?;
        }
        if matches!(scope, Scope::Command(_)) {
            kernel.watch_children(std::process::id())?;
        }
        Ok(())
    }

    fn kernel(&self) -> MutexGuard<'_, Kernel> {
        // A thread that panicked while it held the lock left at most a table entry undone.
        self.kernel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn scan(&mut self) {
        let pids: Option<Vec<u32>> = self
            .targets
            .as_ref()
            .map(|pids| pids.iter().copied().collect());
        let mapped = self.processes.scan(monotonic_ns(), pids.as_deref());
        self.on_mappings(&mapped);
        for pid in self.processes.pids() {
            self.tasks.note_runtimes(pid);
        }
    }

    /// Handles a batch in order of time.
    pub fn handle(&mut self, mut batch: Batch) -> Result<(), RecordError> {
        batch.events.sort_by_key(|event| event.raw.time_ns());
        let mut sideband = batch.sideband.into_iter().peekable();
        for event in batch.events {
            let now = event.raw.time_ns();
            while let Some(record) = sideband.next_if(|record| record.time_ns() <= now) {
                self.on_sideband(record);
            }
            match event.raw {
                RawEvent::Sample(sample) => self.on_sample(&sample, &event.codes),
                RawEvent::ThreadExit(exit) => self.on_thread_exit(&exit),
                RawEvent::Exec(exec) => self.on_exec(&exec),
                RawEvent::Malformed => self.profile.accounting.lose(Loss::Malformed, 1),
            }
        }
        sideband.for_each(|record| self.on_sideband(record));
        Ok(())
    }

    /// Once a second: what was kept goes to the file, what ended long ago is forgotten.
    pub fn tick(&mut self) {
        self.read_counters();
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.flush(&self.profile)
        {
            // The file ends here; the report and other outputs need not.
            self.writer = None;
            self.write_error = Some(error);
        }
        for pid in self.processes.sweep(monotonic_ns()) {
            self.forget(pid);
            self.kernel().unwatch(pid);
            if let Some(targets) = &mut self.targets {
                targets.remove(&pid);
            }
        }
    }

    /// Stops recording in the kernel: no sample is taken from here on.
    pub fn stop(&mut self) -> Result<(), RecordError> {
        self.kernel().set_active(false)?;
        self.read_counters();
        self.stopped = true;
        self.profile.session.duration_ns = monotonic_ns().saturating_sub(self.start_ns);
        self.kernel().detach_sampling()?;
        Ok(())
    }

    /// Closes the books after the last batch.
    pub fn finish(mut self, scouted: Scouted) -> (Profile, Option<Result<W, RecordingError>>) {
        self.read_counters();
        self.book_live_threads();
        self.book_calls();
        self.book_notes(scouted);
        self.profile.session.closed = true;
        let out = match self.write_error {
            Some(error) => Some(Err(error)),
            None => self.writer.map(|writer| writer.finish(&self.profile)),
        };
        (self.profile, out)
    }

    /// Whether none of the watched processes is left.
    pub fn targets_gone(&self) -> bool {
        let targets = self.targets.as_ref();
        targets.is_some_and(|pids| pids.iter().all(|pid| has_ended(*pid)))
    }

    fn in_scope(&self, pid: u32) -> bool {
        self.targets.as_ref().is_none_or(|pids| pids.contains(&pid))
    }

    fn on_sideband(&mut self, record: SidebandEvent) {
        match record {
            SidebandEvent::Mapping { pid, mapping, .. } if self.in_scope(pid) => {
                if let Some(mapping) = self.processes.map(pid, &mapping) {
                    self.on_mappings(&[(pid, mapping)]);
                }
            }
            SidebandEvent::Fork {
                pid, tid, parent, ..
            } if pid == tid => self.on_fork(parent, pid),
            SidebandEvent::Name {
                pid,
                name,
                exec: true,
                ..
            } if self.in_scope(pid) => {
                if let Some(id) = self.processes.get(pid).and_then(|state| state.id) {
                    self.before_exec.insert(pid, id);
                }
                self.processes.exec(pid, &String::from_utf8_lossy(&name));
                self.forget(pid);
            }
            SidebandEvent::Exit { pid, tid, time_ns } if pid == tid && self.in_scope(pid) => {
                self.processes.end(pid, time_ns);
                if let Some(id) = self.processes.get(pid).and_then(|state| state.id) {
                    let ended_ns = time_ns.saturating_sub(self.start_ns);
                    self.profile.processes[id.0 as usize].ended_ns = Some(ended_ns);
                }
            }
            SidebandEvent::Lost(count) => {
                self.sideband_lost += count;
                self.scan();
            }
            _ => {}
        }
    }

    fn on_fork(&mut self, parent: u32, pid: u32) {
        if let Some(targets) = &mut self.targets {
            // Our only child is the command, which the kernel side watches from before it exists.
            if !targets.contains(&parent) && parent != std::process::id() {
                // A stranger may get the pid of a watched process that has ended.
                targets.remove(&pid);
                return;
            }
            targets.insert(pid);
        }
        self.forget(pid);
        self.processes.fork(parent, pid);
        if let Some(interpreter) = self.interpreters.get(&parent).copied() {
            self.interpreters.insert(pid, interpreter);
        }
        self.sources.generated.fork(parent, pid);
    }

    /// A process ended, or became another program.
    fn forget(&mut self, pid: u32) {
        self.interpreters.remove(&pid);
        self.sources.generated.forget(pid);
    }

    fn on_mappings(&mut self, mapped: &[(u32, Mapping)]) {
        for (pid, mapping) in mapped {
            let Some(id) = mapping.file else { continue };
            let file = self.processes.files.get(id);
            let python = self
                .sources
                .interpreters
                .entry(id)
                .or_insert_with(|| file.and_then(MappedFile::file).and_then(detect));
            let Some((build, load)) = python else {
                continue;
            };
            let bias = load.bias(mapping.start, mapping.file_offset);
            if let Some(interpreter) = bias.and_then(|bias| Interpreter::new(build, bias)) {
                self.interpreters.insert(*pid, interpreter);
            }
        }
    }

    fn on_sample(&mut self, raw: &RawSample, codes: &Codes) {
        let header = &raw.header;
        let (pid, tid) = (header.tgid, header.tid);
        let comm = comm_text(&header.comm);
        let mut mapped = self.processes.get_or_read(pid, header.time_ns);
        if let Some(leaf) = raw.native.first() {
            mapped.extend(self.processes.refresh(pid, leaf.pc, header.time_ns));
        }
        self.on_mappings(&mapped);
        let thread = self.thread(pid, tid, &comm);
        self.name_thread(thread, pid, tid, &comm, !raw.python.is_empty());

        let interpreter = self.interpreters.get(&pid).copied();
        let mut names = SampleNames {
            profile: &mut self.profile,
            sources: &mut self.sources,
            files: &self.processes.files,
            process: self.processes.get(pid),
            pid,
            interpreter,
            codes,
        };
        let merged = merge(raw, &mut names);
        let profile = &mut self.profile;
        profile.accounting.frames += merged.frames.len() as u64;
        let unnamed = merged
            .frames
            .iter()
            .filter(|frame| !profile.frame(**frame).is_named())
            .count();
        profile.accounting.unnamed_frames += unnamed as u64;
        profile.accounting.guessed += u64::from(merged.guessed);
        let sample = Sample {
            time_ns: header.time_ns.saturating_sub(self.start_ns),
            cpu: header.cpu,
            thread,
            stack: profile.intern_stack(&merged.frames),
            gil: merged.gil,
            truncation: merged.truncation,
        };
        profile.add_sample(&sample);
        if let Some(writer) = &mut self.writer {
            writer.push(&sample);
        }
    }

    fn thread(&mut self, pid: u32, tid: u32, comm: &str) -> ThreadId {
        let process = self
            .tasks
            .process(&mut self.profile, &mut self.processes, pid, comm);
        self.tasks.thread(&mut self.profile, process, tid, comm)
    }

    fn name_thread(&mut self, thread: ThreadId, pid: u32, tid: u32, comm: &str, has_python: bool) {
        let python = if has_python && self.tasks.wants_python_name(thread) {
            self.interpreters
                .get(&pid)
                .and_then(|interpreter| thread_name(TargetMemory::new(pid), interpreter, tid))
        } else {
            None
        };
        if let Some(name) = python {
            self.profile.threads[thread.0 as usize].name = self.profile.strings.intern(&name);
            self.tasks.has_python_name(thread);
        } else {
            let comm = self.profile.strings.intern(comm);
            self.tasks.rename(&mut self.profile, thread, comm);
        }
    }

    fn on_thread_exit(&mut self, exit: &ThreadExit) {
        self.processes.get_or_read(exit.tgid, exit.time_ns);
        let thread = self.thread(exit.tgid, exit.tid, &comm_text(&exit.comm));
        self.tasks
            .book_runtime(&mut self.profile, exit.tgid, thread, exit.runtime_ns);
    }

    /// The kernel's last word on an exec, of which the side-band told at its beginning.
    fn on_exec(&mut self, exec: &ThreadExit) {
        let old = self.before_exec.remove(&exec.tgid);
        if let Some(thread) = old.and_then(|old| self.tasks.known_thread(old, exec.tid)) {
            self.tasks
                .book_runtime(&mut self.profile, exec.tgid, thread, exec.runtime_ns);
        }
        self.tasks.start_afresh(exec.tgid, exec.runtime_ns);
    }

    /// Threads that are still there: their CPU time, also of those that were never sampled.
    fn book_live_threads(&mut self) {
        for pid in self.processes.pids() {
            if !self.in_scope(pid) {
                continue;
            }
            for tid in thread_ids(pid) {
                let Some(used_ns) = self.tasks.runtime_since_start_ns(pid, tid) else {
                    continue;
                };
                let id = self.processes.get(pid).and_then(|state| state.id);
                let known = id.and_then(|id| self.tasks.known_thread(id, tid));
                if known.is_none() && used_ns == 0 {
                    continue;
                }
                let comm = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"))
                    .unwrap_or_default();
                let thread = self.thread(pid, tid, comm.trim_end_matches('\n'));
                self.profile.threads[thread.0 as usize].cpu_ns = Some(used_ns);
            }
        }
    }

    fn read_counters(&mut self) {
        let counters = self.kernel().counters();
        match counters {
            Ok(counters) => {
                let books = &mut self.profile.accounting;
                books.taken = counters.get(Counter::Taken);
                for (reason, counter) in [
                    (Loss::RingFull, Counter::RingFull),
                    (Loss::Nested, Counter::Nested),
                ] {
                    books.lost.remove(&reason);
                    books.lose(reason, counters.get(counter));
                }
                book_limits(&mut self.profile, &counters);
            }
            Err(error) => note_failure(&mut self.profile, "losses are not known", &error),
        }
        if !self.stopped {
            self.profile.accounting.own_cpu_ns = own_cpu_ns().saturating_sub(self.own_before_ns);
        }
        self.book_own_limits();
    }

    fn book_own_limits(&mut self) {
        let profile = &mut self.profile;
        let lost = ("process records lost by the kernel", self.sideband_lost);
        limits::book(profile, [lost]);
        limits::book(profile, limits::of_processes(&self.processes));
        limits::book(profile, limits::of_names(&self.sources));
    }

    fn book_calls(&mut self) {
        let (calls, errors) = {
            let kernel = self.kernel();
            (kernel.calls(), kernel.call_errors())
        };
        match calls.and_then(|calls| Ok((calls, errors?))) {
            Ok((calls, errors)) => {
                let mut profile = std::mem::take(&mut self.profile);
                add_calls(&mut profile, &calls, &errors, |profile, key| {
                    let process =
                        self.tasks
                            .process(profile, &mut self.processes, key.tgid, "[exited]");
                    self.tasks.thread(profile, process, key.tid, "[exited]")
                });
                self.profile = profile;
            }
            Err(error) => note_failure(&mut self.profile, "driver calls could not be read", &error),
        }
    }

    fn book_notes(&mut self, scouted: Scouted) {
        let tables = &scouted.unwinding.tables;
        self.profile.accounting.unwind_tables = tables.most_tables;
        self.profile.accounting.unwind_table_bytes = tables.most_bytes;
        limits::book(&mut self.profile, limits::of_scout(&scouted));
        let books = &self.profile.accounting;
        if !books.balanced() {
            let (taken, kept, lost) = (books.taken, books.kept(), books.lost_total());
            self.profile.notes.push(format!(
                "the books do not balance: {taken} samples taken, {kept} kept, {lost} lost; please report this"
            ));
        }
        self.profile.notes.extend(scouted.notes);
        self.profile.notes.extend(seconds_note(&self.profile));
        if let Some(failure) = &self.sources.kernel.failure {
            self.profile
                .notes
                .push(format!("kernel functions have no names: {failure}"));
        }
    }
}

/// What to say when the samples stand for clearly more or less CPU time than the kernel's own clock saw.
fn seconds_note(profile: &Profile) -> Option<String> {
    let exact_ns: u64 = profile
        .threads
        .iter()
        .map(|thread| thread.cpu_ns.unwrap_or(0))
        .sum();
    let unknown = profile
        .threads
        .iter()
        .filter(|thread| thread.cpu_ns.is_none())
        .count();
    let (kept, per_sample_ns) = (profile.kept() as f64, profile.ns_per_sample());
    let (sampled_ns, exact_ns) = (kept * per_sample_ns, exact_ns as f64);
    // Four standard deviations of a count, and what the clock may be short by for each thread: a tick or so.
    let chance_ns = 4.0 * kept.sqrt() * per_sample_ns + 4e6 * profile.threads.len() as f64;
    let differ = (sampled_ns - exact_ns).abs() > chance_ns + 0.02 * exact_ns;
    (unknown == 0 && profile.accounting.lost_total() == 0 && differ).then(|| {
        format!(
            "samples stand for {:.2} s of CPU, the kernel's own clock says {:.2} s: shares can be trusted more than \
             seconds (on a virtual machine the host may take CPUs away while their clocks tick)",
            sampled_ns / 1e9,
            exact_ns / 1e9
        )
    })
}

/// CPU time of this process, all threads.
fn own_cpu_ns() -> u64 {
    let own = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    u64::try_from(own.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(own.tv_nsec).unwrap_or(0)
}

/// A kernel thread name as text.
fn comm_text(comm: &[u8; 16]) -> String {
    let name = comm.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}
