//! Every process, as it is at the time of the event being handled.

use std::collections::HashMap;

use super::files::FileTable;
use super::{AddressSpace, Mapping, proc_fs};
use crate::kernel::sideband::MappingRecord;
use crate::profile::ProcessId;

/// Processes kept; when there are more, those that ended longest ago go first.
const MAX_PROCESSES: usize = 65536;
/// How long a process that ended is kept: samples older than its end are through by then.
const KEEP_ENDED_NS: u64 = 10_000_000_000;
/// How often the mappings of one process are read again for an address that is in none.
const REREAD_EVERY_NS: u64 = 1_000_000_000;

/// What is known of one life of one process.
#[derive(Debug, Default)]
pub struct ProcessState {
    /// Its entry in the profile, once it has one.
    pub id: Option<ProcessId>,
    /// Name of the program.
    pub name: String,
    /// Command line.
    pub command: String,
    /// Its code.
    pub space: AddressSpace,
    /// When its main thread ended.
    pub ended_ns: Option<u64>,
    /// When its mappings were last read from `/proc`.
    maps_read_ns: u64,
}

/// All processes.
#[derive(Debug, Default)]
pub struct ProcessTable {
    processes: HashMap<u32, ProcessState>,
    /// Files seen mapped.
    pub files: FileTable,
    /// Mappings that had no room.
    pub mappings_over_limit: u64,
    /// Processes forgotten since there were too many.
    pub forgotten: u64,
}

impl ProcessTable {
    /// An empty table.
    pub fn new() -> Self {
        Self {
            files: FileTable::new(),
            ..Self::default()
        }
    }

    /// Reads what runs now. Returns the mappings found, by process.
    pub fn scan(&mut self, now_ns: u64, pids: Option<&[u32]>) -> Vec<(u32, Mapping)> {
        let pids = pids.map_or_else(proc_fs::all_pids, <[u32]>::to_vec);
        pids.into_iter()
            .flat_map(|pid| self.read(pid, now_ns))
            .collect()
    }

    /// Reads one process afresh. Returns its mappings.
    pub fn read(&mut self, pid: u32, now_ns: u64) -> Vec<(u32, Mapping)> {
        let state = self.processes.entry(pid).or_default();
        state.maps_read_ns = now_ns;
        if let Some(name) = proc_fs::name(pid) {
            state.name = name;
        }
        let command = proc_fs::command(pid);
        if !command.is_empty() {
            state.command = command;
        }
        let records = proc_fs::executable_mappings(pid);
        if !records.is_empty() {
            state.space.clear();
        }
        records
            .iter()
            .filter_map(|record| Some((pid, self.map(pid, record)?)))
            .collect()
    }

    /// The process, read from `/proc` if it was not known. Also returns mappings that became known.
    pub fn get_or_read(&mut self, pid: u32, now_ns: u64) -> Vec<(u32, Mapping)> {
        if self.processes.contains_key(&pid) {
            Vec::new()
        } else {
            self.read(pid, now_ns)
        }
    }

    /// Reads the mappings again if `address` is in none, at most once a second for a process.
    pub fn refresh(&mut self, pid: u32, address: u64, now_ns: u64) -> Vec<(u32, Mapping)> {
        let state = self.processes.entry(pid).or_default();
        let known = state.space.find(address).is_some();
        if known || now_ns.saturating_sub(state.maps_read_ns) < REREAD_EVERY_NS {
            return Vec::new();
        }
        self.read(pid, now_ns)
    }

    /// All processes known.
    pub fn pids(&self) -> Vec<u32> {
        self.processes.keys().copied().collect()
    }

    /// The process, if known.
    pub fn get(&self, pid: u32) -> Option<&ProcessState> {
        self.processes.get(&pid)
    }

    /// The process, if known.
    pub fn get_mut(&mut self, pid: u32) -> Option<&mut ProcessState> {
        self.processes.get_mut(&pid)
    }

    /// A mapping was made.
    pub fn map(&mut self, pid: u32, record: &MappingRecord) -> Option<Mapping> {
        let end = record.start.checked_add(record.bytes)?;
        let file = self.files.intern_record(pid, record);
        let mapping = Mapping {
            start: record.start,
            end,
            file_offset: record.file_offset,
            file,
        };
        let state = self.processes.entry(pid).or_default();
        if !state.space.insert(mapping) {
            self.mappings_over_limit += 1;
        }
        Some(mapping)
    }

    /// A process was made: a copy of its parent, under a pid that may have been used before.
    pub fn fork(&mut self, parent: u32, pid: u32) {
        let state = self.processes.get(&parent).map(|parent| ProcessState {
            name: parent.name.clone(),
            command: parent.command.clone(),
            space: parent.space.clone(),
            ..ProcessState::default()
        });
        self.processes.insert(pid, state.unwrap_or_default());
    }

    /// A process became another program. Its mappings so far are gone; the new ones are reported next.
    pub fn exec(&mut self, pid: u32, name: &str) {
        let state = ProcessState {
            name: name.to_owned(),
            command: proc_fs::command(pid),
            ..ProcessState::default()
        };
        self.processes.insert(pid, state);
    }

    /// The main thread of a process ended.
    pub fn end(&mut self, pid: u32, time_ns: u64) {
        if let Some(state) = self.processes.get_mut(&pid) {
            state.ended_ns = Some(time_ns);
        }
    }

    /// Forgets processes that ended a while ago. Returns their ids.
    pub fn sweep(&mut self, now_ns: u64) -> Vec<u32> {
        let old = |state: &ProcessState| {
            state
                .ended_ns
                .is_some_and(|ended| now_ns.saturating_sub(ended) > KEEP_ENDED_NS)
        };
        let mut gone: Vec<u32> = self
            .processes
            .iter()
            .filter(|(pid, state)| old(state) && !proc_fs::exists(**pid))
            .map(|(pid, _)| *pid)
            .collect();
        if self.processes.len() - gone.len() > MAX_PROCESSES {
            let ended = self
                .processes
                .iter()
                .filter(|(_, state)| state.ended_ns.is_some());
            let more: Vec<u32> = ended
                .map(|(pid, _)| *pid)
                .filter(|pid| !gone.contains(pid))
                .collect();
            self.forgotten += more.len() as u64;
            gone.extend(more);
        }
        for pid in &gone {
            self.processes.remove(pid);
        }
        gone
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn record(start: u64) -> MappingRecord {
        MappingRecord {
            start,
            bytes: 0x1000,
            file_offset: 0,
            device: (0, 0),
            inode: 0,
            path: b"//anon".to_vec(),
        }
    }

    /// A child starts with its parent's code; an exec takes it away.
    #[test]
    fn fork_copies_and_exec_clears() {
        let mut table = ProcessTable::new();
        let (parent, child) = (u32::MAX - 1, u32::MAX);
        table.map(parent, &record(0x4000)).unwrap();
        table.fork(parent, child);
        assert!(table.get(child).unwrap().space.find(0x4000).is_some());
        table.exec(child, "new");
        let state = table.get(child).unwrap();
        assert!(state.space.find(0x4000).is_none());
        assert_eq!(state.name, "new");
    }

    /// A pid that is used again is another process.
    #[test]
    fn a_reused_pid_starts_afresh() {
        let mut table = ProcessTable::new();
        let pid = u32::MAX;
        table.map(pid, &record(0x4000)).unwrap();
        table.get_mut(pid).unwrap().id = Some(ProcessId(3));
        table.fork(u32::MAX - 1, pid);
        assert_eq!(table.get(pid).unwrap().id, None);
    }

    /// What ended long ago is forgotten, what ended just now is kept for late samples.
    #[test]
    fn sweeps_the_ended() {
        let mut table = ProcessTable::new();
        let pid = u32::MAX;
        table.fork(1, pid);
        table.end(pid, 1000);
        assert!(table.sweep(2000).is_empty());
        assert_eq!(table.sweep(1000 + KEEP_ENDED_NS + 1), [pid]);
        assert!(table.get(pid).is_none());
    }
}
