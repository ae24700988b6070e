//! Entries of processes and threads in the profile, made when first needed.

use rustc_hash::FxHashMap;

use crate::process::{ProcessTable, thread_ids, thread_runtime_ns};
use crate::profile::{Process, ProcessId, Profile, StringId, Thread, ThreadId};

/// Which entry stands for which live process and thread.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    threads: FxHashMap<(ProcessId, u32), ThreadId>,
    /// CPU time threads had used when the recording began.
    runtime_before_ns: FxHashMap<(u32, u32), u64>,
    /// Stands for all processes beyond the limit.
    overflow: Option<ProcessId>,
    /// Threads that were asked for their Python name, and how often.
    name_tries: FxHashMap<ThreadId, u8>,
}

/// Processes kept apart; samples of further ones go to one marked entry and are counted.
const MAX_PROCESSES: usize = 1 << 18;
/// Threads kept apart, likewise.
const MAX_THREADS: usize = 1 << 20;

/// How often a thread is asked for its Python name.
const NAME_TRIES: u8 = 3;

impl Tasks {
    /// Notes the CPU time of a process's threads before the recording.
    pub fn note_runtimes(&mut self, pid: u32) {
        for tid in thread_ids(pid) {
            if let Some(ns) = thread_runtime_ns(pid, tid) {
                self.runtime_before_ns.insert((pid, tid), ns);
            }
        }
    }

    /// The entry of a process, which must be in the table.
    pub fn process(
        &mut self,
        profile: &mut Profile,
        table: &mut ProcessTable,
        pid: u32,
        comm: &str,
    ) -> ProcessId {
        let known = table.get(pid).and_then(|state| state.id);
        if let Some(id) = known {
            return id;
        }
        let (name, command) = table
            .get(pid)
            .map(|state| (state.name.clone(), state.command.clone()))
            .unwrap_or_default();
        let name = if name.is_empty() { comm } else { &name };
        let process = Process {
            pid,
            name: profile.strings.intern(name),
            command: profile.strings.intern(&command),
            ended_ns: None,
        };
        if profile.processes.len() >= MAX_PROCESSES {
            profile.accounting.hit_limit("processes not kept apart", 1);
            return self.overflow_process(profile);
        }
        let id = ProcessId(next(profile.processes.len()));
        profile.processes.push(process);
        if let Some(state) = table.get_mut(pid) {
            state.id = Some(id);
        }
        id
    }

    /// The entry of a thread.
    pub fn thread(
        &mut self,
        profile: &mut Profile,
        process: ProcessId,
        tid: u32,
        comm: &str,
    ) -> ThreadId {
        if let Some(known) = self.threads.get(&(process, tid)) {
            return *known;
        }
        if profile.threads.len() >= MAX_THREADS {
            profile.accounting.hit_limit("threads not kept apart", 1);
            return self.overflow_thread(profile);
        }
        let id = ThreadId(next(profile.threads.len()));
        let name = profile.strings.intern(comm);
        profile.threads.push(Thread {
            process,
            tid,
            name,
            cpu_ns: None,
        });
        self.threads.insert((process, tid), id);
        id
    }

    fn overflow_process(&mut self, profile: &mut Profile) -> ProcessId {
        *self.overflow.get_or_insert_with(|| {
            let name = profile.strings.intern("[more than are kept]");
            let id = ProcessId(next(profile.processes.len()));
            profile.processes.push(Process {
                pid: 0,
                name,
                command: StringId::default(),
                ended_ns: None,
            });
            id
        })
    }

    fn overflow_thread(&mut self, profile: &mut Profile) -> ThreadId {
        let process = self.overflow_process(profile);
        *self.threads.entry((process, 0)).or_insert_with(|| {
            let name = profile.strings.intern("[more than are kept]");
            let id = ThreadId(next(profile.threads.len()));
            profile.threads.push(Thread {
                process,
                tid: 0,
                name,
                cpu_ns: None,
            });
            id
        })
    }

    /// The entry of a thread, if it has one.
    pub fn known_thread(&self, process: ProcessId, tid: u32) -> Option<ThreadId> {
        self.threads.get(&(process, tid)).copied()
    }

    /// Follows a change of the kernel's name, unless Python gave one.
    pub fn rename(&mut self, profile: &mut Profile, thread: ThreadId, comm: StringId) {
        if !self.name_tries.contains_key(&thread) {
            profile.threads[thread.0 as usize].name = comm;
        }
    }

    /// Whether a thread should be asked for its Python name now.
    pub fn wants_python_name(&mut self, thread: ThreadId) -> bool {
        let tries = self.name_tries.entry(thread).or_insert(0);
        *tries = tries.saturating_add(1);
        *tries <= NAME_TRIES
    }

    /// The thread has its Python name: no need to ask again.
    pub fn has_python_name(&mut self, thread: ThreadId) {
        self.name_tries.insert(thread, NAME_TRIES);
    }

    /// A thread goes on as another program's main thread: what it used so far was the old one's.
    pub fn start_afresh(&mut self, pid: u32, life_ns: u64) {
        self.runtime_before_ns.insert((pid, pid), life_ns);
    }

    /// Books a thread's CPU time, given what it used in its whole life.
    pub fn book_runtime(&self, profile: &mut Profile, pid: u32, thread: ThreadId, life_ns: u64) {
        let entry = &mut profile.threads[thread.0 as usize];
        let before = self
            .runtime_before_ns
            .get(&(pid, entry.tid))
            .copied()
            .unwrap_or(0);
        entry.cpu_ns = Some(life_ns.saturating_sub(before));
    }

    /// CPU time a live thread has used since the recording began.
    pub fn runtime_since_start_ns(&self, pid: u32, tid: u32) -> Option<u64> {
        let before = self
            .runtime_before_ns
            .get(&(pid, tid))
            .copied()
            .unwrap_or(0);
        Some(thread_runtime_ns(pid, tid)?.saturating_sub(before))
    }
}

fn next(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
