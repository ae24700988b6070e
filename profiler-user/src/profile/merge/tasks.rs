//! Processes and threads of several recordings: which are the same, which only look alike.

use std::collections::HashMap;

use crate::profile::{Process, ProcessId, Profile, StringId, Thread, ThreadId};

/// Tasks that may go on in a later recording. One life goes on in at most one life of the next recording: what
/// is found is taken out, and comes back as it is after that recording.
pub(super) struct Tasks {
    many_hosts: bool,
    processes: HashMap<ProcessKey, ProcessId>,
    threads: HashMap<(ProcessId, u32), ThreadId>,
}

/// What makes processes of two recordings the same, unless the earlier one had ended.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ProcessKey {
    host: String,
    pid: u32,
    name: StringId,
    command: StringId,
}

impl Tasks {
    pub(super) fn new(many_hosts: bool) -> Self {
        Self {
            many_hosts,
            processes: HashMap::new(),
            threads: HashMap::new(),
        }
    }

    /// Adds a recording's tasks; gives where its threads are in the merged profile.
    pub(super) fn add(
        &mut self,
        profile: &Profile,
        strings: &[StringId],
        merged: &mut Profile,
    ) -> Vec<ThreadId> {
        let mut later = HashMap::new();
        let mut processes = Vec::with_capacity(profile.processes.len());
        for process in &profile.processes {
            let process = self.named(process, profile, strings, merged);
            let key = ProcessKey {
                host: profile.session.host.clone(),
                pid: process.pid,
                name: process.name,
                command: process.command,
            };
            let ended = process.ended_ns.is_some();
            let id = match self.processes.remove(&key) {
                Some(id) => {
                    merged.processes[id.0 as usize].ended_ns = process.ended_ns;
                    id
                }
                None => ProcessId(push(&mut merged.processes, process)),
            };
            if !ended {
                later.insert(key, id);
            }
            processes.push(id);
        }
        self.processes.extend(later);
        self.add_threads(profile, strings, &processes, merged)
    }

    fn add_threads(
        &mut self,
        profile: &Profile,
        strings: &[StringId],
        processes: &[ProcessId],
        merged: &mut Profile,
    ) -> Vec<ThreadId> {
        let mut later = HashMap::new();
        let mut threads = Vec::with_capacity(profile.threads.len());
        for thread in &profile.threads {
            let thread = Thread {
                process: processes[thread.process.0 as usize],
                name: strings[thread.name.0 as usize],
                ..thread.clone()
            };
            let key = (thread.process, thread.tid);
            let id = match self.threads.remove(&key) {
                Some(id) => {
                    let known = &mut merged.threads[id.0 as usize];
                    known.name = thread.name;
                    // Half of a sum would pass for the whole.
                    let both = known.cpu_ns.zip(thread.cpu_ns);
                    known.cpu_ns = both.map(|(before, now)| before.saturating_add(now));
                    id
                }
                None => ThreadId(push(&mut merged.threads, thread)),
            };
            later.insert(key, id);
            threads.push(id);
        }
        self.threads.extend(later);
        threads
    }

    /// The process in the merged profile's terms: its host in the name, its end since the merged start.
    fn named(
        &self,
        process: &Process,
        profile: &Profile,
        strings: &[StringId],
        merged: &mut Profile,
    ) -> Process {
        let mut name = strings[process.name.0 as usize];
        if self.many_hosts {
            let text = format!("{}:{}", profile.session.host, merged.text(name));
            name = merged.strings.intern(&text);
        }
        let began =
            (profile.session.started_unix_ns).saturating_sub(merged.session.started_unix_ns);
        Process {
            pid: process.pid,
            name,
            command: strings[process.command.0 as usize],
            ended_ns: process.ended_ns.map(|ended| ended.saturating_add(began)),
        }
    }
}

fn push<T>(table: &mut Vec<T>, row: T) -> u32 {
    table.push(row);
    crate::profile::index_u32(table.len() - 1)
}
