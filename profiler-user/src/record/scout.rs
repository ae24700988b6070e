//! The thread that goes ahead: it tells the kernel side about every Python, every CUDA driver and every unwind
//! table the moment a file is mapped, so that naming, which may take long, never delays a probe or a walk.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::RecordError;
use super::builder::{Builder, Built};
use super::cuda::Drivers;
use super::pythons::Pythons;
use super::unwinding::{UnwindLimits, Unwinding};
use crate::cuda::LoaderPaths;
use crate::kernel::Kernel;
use crate::kernel::sideband::{MappingRecord, SidebandEvent};
use crate::process::{
    ElfLoad, FileId, FileTable, Mapping, all_pids, executable_mappings, has_ended,
};
use crate::python::{PythonBuild, detect};

/// Tasks waiting at most; further records are counted, and what they told is found by naming later.
const QUEUE: usize = 65536;
/// How often processes whose main thread has ended are looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What the scout is asked to look at.
enum Task {
    Record(SidebandEvent),
    Built(Built),
    Stop,
}

/// What the scout knows.
pub(super) struct Scout {
    kernel: Arc<Mutex<Kernel>>,
    files: FileTable,
    /// Files looked at, and the Python runtime found in them.
    seen: HashMap<FileId, Option<(PythonBuild, ElfLoad)>>,
    pythons: Pythons,
    drivers: Drivers,
    unwinding: Unwinding,
    builder: Builder,
    inbox: Receiver<Task>,
    tasks: SyncSender<Task>,
    /// Processes watched; `None` for the whole machine.
    targets: Option<HashSet<u32>>,
    /// Whether tables are built at all.
    unwind_tables: bool,
    /// Processes whose main thread has ended, and when they were last looked at.
    ending: HashSet<u32>,
    looked: Instant,
}

/// What the reader of the profile must know of the scout's work.
#[derive(Debug, Default)]
pub(super) struct Scouted {
    pub notes: Vec<String>,
    pub pythons_over_limit: u64,
    pub records_missed: u64,
    pub unwinding: UnwindLimits,
}

impl Scout {
    pub fn new(
        kernel: Arc<Mutex<Kernel>>,
        targets: Option<HashSet<u32>>,
        unwind_tables: bool,
    ) -> Result<Self, RecordError> {
        let (tasks, inbox) = sync_channel(QUEUE);
        let results = tasks.clone();
        let builder = Builder::start(move |built| results.send(Task::Built(built)).is_ok())?;
        Ok(Self {
            kernel,
            files: FileTable::new(),
            seen: HashMap::new(),
            pythons: Pythons::default(),
            drivers: Drivers::default(),
            unwinding: Unwinding::new(),
            builder,
            inbox,
            tasks,
            targets,
            unwind_tables,
            ending: HashSet::new(),
            looked: Instant::now(),
        })
    }

    /// Probes the libraries that a process would get if it asked for them.
    pub fn expect(&mut self, paths: &LoaderPaths) {
        self.with_kernel(|scout, kernel| scout.drivers.expect(kernel, paths));
    }

    /// Looks at what is mapped now, and has the tables for it built for at most `patience`.
    pub fn scan(&mut self, patience: Duration) {
        let until = Instant::now() + patience;
        self.scan_processes();
        while self.unwind_tables && self.unwinding.tables_known() < self.seen.len() {
            let left = until.saturating_duration_since(Instant::now());
            match self.inbox.recv_timeout(left) {
                Ok(task) => self.on_task(task),
                Err(_) => break,
            };
        }
        self.flush();
    }

    fn scan_processes(&mut self) {
        let pids = self
            .targets
            .as_ref()
            .map_or_else(all_pids, |pids| pids.iter().copied().collect());
        for pid in pids {
            for mapping in executable_mappings(pid) {
                self.on_mapping(pid, &mapping, None);
            }
        }
    }

    /// Goes on in a thread of its own.
    pub fn start(self) -> Result<ScoutThread, RecordError> {
        let tasks = self.tasks.clone();
        let thread = std::thread::Builder::new()
            .name("wholestack-look".to_owned())
            .spawn(move || self.work())
            .map_err(|source| RecordError::System {
                what: "cannot start a thread",
                source,
            })?;
        Ok(ScoutThread {
            tasks,
            missed: AtomicU64::new(0),
            thread,
        })
    }

    fn work(mut self) -> Scouted {
        while let Ok(task) = self.inbox.recv() {
            let mut go_on = self.on_task(task);
            // What came together reaches the kernel together.
            while go_on && let Ok(task) = self.inbox.try_recv() {
                go_on = self.on_task(task);
            }
            self.flush();
            if !go_on {
                break;
            }
        }
        let mut notes = self.drivers.notes;
        notes.extend(self.pythons.notes());
        Scouted {
            notes,
            pythons_over_limit: self.pythons.over_limit,
            records_missed: 0,
            unwinding: self.unwinding.limits,
        }
    }

    /// False when there is nothing more to do.
    fn on_task(&mut self, task: Task) -> bool {
        match task {
            Task::Record(record) => self.on_record(&record),
            Task::Built(Built { file, table }) => {
                self.with_kernel(|scout, kernel| scout.unwinding.built(kernel, file, table));
            }
            Task::Stop => return false,
        }
        true
    }

    fn flush(&mut self) {
        self.with_kernel(|scout, kernel| scout.unwinding.flush(kernel));
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            let ended: Vec<u32> = self
                .ending
                .iter()
                .copied()
                .filter(|pid| has_ended(*pid))
                .collect();
            for pid in ended {
                self.ending.remove(&pid);
                self.forget(pid);
            }
        }
    }

    fn on_record(&mut self, record: &SidebandEvent) {
        match record {
            SidebandEvent::Mapping {
                pid,
                time_ns,
                mapping,
            } if self.in_scope(*pid) => {
                self.on_mapping(*pid, mapping, Some(*time_ns));
            }
            SidebandEvent::Fork {
                pid, tid, parent, ..
            } if pid == tid => self.on_fork(*parent, *pid),
            SidebandEvent::Name {
                pid, exec: true, ..
            } => self.forget(*pid),
            // The main thread's end is not the process's: others may still run.
            SidebandEvent::Exit { pid, tid, .. } if pid == tid => {
                self.ending.insert(*pid);
            }
            SidebandEvent::Lost(_) => self.scan_processes(),
            _ => {}
        }
    }

    fn on_fork(&mut self, parent: u32, pid: u32) {
        if let Some(targets) = &mut self.targets {
            // Our only child is the command.
            if !targets.contains(&parent) && parent != std::process::id() {
                // A stranger may get the pid of a watched process that has ended.
                if targets.remove(&pid) {
                    self.ending.remove(&pid);
                    self.forget(pid);
                }
                return;
            }
            targets.insert(pid);
        }
        // A pid that is used again: what is left of its last life goes.
        if self.ending.remove(&pid) {
            self.forget(pid);
        }
        self.unwinding.fork(parent, pid);
        self.with_kernel(|scout, kernel| scout.pythons.fork(kernel, parent, pid));
    }

    /// A process ended or became another program.
    fn forget(&mut self, pid: u32) {
        self.with_kernel(|scout, kernel| {
            scout.pythons.forget(kernel, pid);
            scout.unwinding.forget(kernel, pid);
        });
    }

    fn in_scope(&self, pid: u32) -> bool {
        self.targets.as_ref().is_none_or(|pids| pids.contains(&pid))
    }

    fn on_mapping(&mut self, pid: u32, record: &MappingRecord, mapped_ns: Option<u64>) {
        let file = self.files.intern_record(pid, record);
        let Some(end) = record.start.checked_add(record.bytes) else {
            return;
        };
        let mapping = Mapping {
            start: record.start,
            end,
            file_offset: record.file_offset,
            file,
        };
        if let Some(id) = file {
            self.look_at(id, pid, mapped_ns);
            let python = self.seen.get(&id).cloned().flatten();
            if let Some((build, load)) = python
                && let Some(bias) = load.bias(mapping.start, mapping.file_offset)
            {
                self.with_kernel(|scout, kernel| scout.pythons.found(kernel, pid, &build, bias));
            }
        }
        self.unwinding.map(pid, mapping);
    }

    /// Looks into a file that was not seen before.
    fn look_at(&mut self, id: FileId, pid: u32, mapped_ns: Option<u64>) {
        if self.seen.contains_key(&id) {
            return;
        }
        let file = self.files.get(id);
        let path = file.path.clone();
        let Some(handle) = file.file().and_then(|file| file.try_clone().ok()) else {
            return;
        };
        self.with_kernel(|scout, kernel| {
            scout.drivers.mapped(kernel, &path, &handle, pid, mapped_ns)
        });
        self.seen.insert(id, detect(&handle));
        if self.unwind_tables {
            self.builder.build(id, handle);
        }
    }

    fn with_kernel(&mut self, act: impl FnOnce(&mut Self, &mut Kernel)) {
        let kernel = Arc::clone(&self.kernel);
        // A thread that panicked while it held the lock left at most a table entry undone.
        let mut kernel = kernel.lock().unwrap_or_else(PoisonError::into_inner);
        act(self, &mut kernel);
    }
}

/// A running scout.
pub(super) struct ScoutThread {
    tasks: SyncSender<Task>,
    missed: AtomicU64,
    thread: std::thread::JoinHandle<Scouted>,
}

impl ScoutThread {
    /// Hands over records in order of time. Never waits.
    pub fn show(&self, records: &[SidebandEvent]) {
        for record in records {
            if self.tasks.try_send(Task::Record(record.clone())).is_err() {
                self.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Waits until everything handed over is done.
    pub fn finish(self) -> Scouted {
        // A scout that has ended left what it knew with its thread.
        let _ = self.tasks.send(Task::Stop);
        let scouted = self.thread.join().unwrap_or_default();
        Scouted {
            records_missed: self.missed.into_inner(),
            ..scouted
        }
    }
}
