//! The thread that goes ahead: it tells the kernel side about every Python, every CUDA driver and every unwind
//! table the moment a file is mapped, so that naming, which may take long, never delays a probe or a walk.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::RecordError;
use super::builder::{Builder, Built, Origin};
use super::cuda::Drivers;
use super::made_code::{self, MadeCode};
use super::priority::Urgent;
use super::pythons::Pythons;
use super::reader::Interpreters;
use super::unwinding::{UnwindLimits, Unwinding};
use crate::cuda::LoaderPaths;
use crate::kernel::Kernel;
use crate::kernel::sideband::{MappingRecord, SidebandEvent};
use crate::process::{
    ElfLoad, FileId, FileTable, Mapping, TargetRoot, all_pids, executable_mappings, exists,
    has_ended,
};
use crate::python::{CodeLosses, PythonBuild, detect};
use crate::unwind::build_from_code;

/// Tasks waiting at most; further records are counted, and what they told is found by naming later.
const QUEUE: usize = 65536;
/// How often processes whose main thread has ended are looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a file must not have been mapped before it is forgotten, where files are too many.
const FORGET_AFTER: Duration = Duration::from_secs(10);

/// What the scout is asked to look at.
enum Task {
    Record(SidebandEvent),
    Built(Built),
    Stop,
}

/// What was found in a file.
#[derive(Debug)]
struct Seen {
    /// A Python runtime.
    python: Option<(PythonBuild, ElfLoad)>,
    /// A CUDA driver: it has probes, which last as long as the recording.
    driver: bool,
}

/// What the scout knows.
pub(super) struct Scout {
    kernel: Arc<Mutex<Kernel>>,
    files: FileTable,
    /// Files looked at.
    seen: HashMap<FileId, Seen>,
    pythons: Pythons,
    drivers: Drivers,
    unwinding: Unwinding,
    made: MadeCode,
    builder: Builder,
    /// The root of the process looked at last.
    root: Option<(u32, Arc<TargetRoot>)>,
    inbox: Receiver<Task>,
    tasks: SyncSender<Task>,
    /// Processes watched; `None` for the whole machine.
    targets: Option<HashSet<u32>>,
    /// Whether tables are built at all.
    unwind_tables: bool,
    /// Processes whose main thread has ended, and when they were last looked at.
    ending: HashSet<u32>,
    looked: Instant,
    /// Files that were not mapped any more.
    files_forgotten: u64,
}

/// What the reader of the profile must know of the scout's work.
#[derive(Debug, Default)]
pub(super) struct Scouted {
    pub notes: Vec<String>,
    pub pythons_over_limit: u64,
    pub records_missed: u64,
    /// Python frames whose code object was not to be had, and other losses of code objects.
    pub codes: CodeLosses,
    pub files_forgotten: u64,
    pub made_over_limit: u64,
    pub unwinding: UnwindLimits,
}

impl Scout {
    pub fn new(
        kernel: Arc<Mutex<Kernel>>,
        targets: Option<HashSet<u32>>,
        unwind_tables: bool,
        interpreters: Interpreters,
    ) -> Result<Self, RecordError> {
        let (tasks, inbox) = sync_channel(QUEUE);
        let results = tasks.clone();
        let builder = Builder::start(move |built| results.send(Task::Built(built)).is_ok())?;
        Ok(Self {
            kernel,
            files: FileTable::new(),
            seen: HashMap::new(),
            pythons: Pythons::new(interpreters),
            drivers: Drivers::default(),
            unwinding: Unwinding::new(),
            made: MadeCode::new(),
            builder,
            root: None,
            inbox,
            tasks,
            targets,
            unwind_tables,
            ending: HashSet::new(),
            looked: Instant::now(),
            files_forgotten: 0,
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
        self.look_at_own_libraries();
        while self.unwinding.is_building() {
            let left = until.saturating_duration_since(Instant::now());
            if !left.is_zero()
                && let Some(built) = self.builder.build_small()
            {
                self.on_built(built);
                continue;
            }
            match self.inbox.recv_timeout(left) {
                Ok(task) => self.on_task(task),
                Err(_) => break,
            };
        }
        self.flush();
        self.keep_ready();
    }

    /// Looks at the libraries that this process maps: nearly every program maps the C library, and the first samples of one
    /// that starts are in need of its table.
    fn look_at_own_libraries(&mut self) {
        let own = std::process::id();
        let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        for record in executable_mappings(own) {
            if record.path == program.as_os_str().as_encoded_bytes() {
                continue;
            }
            if let Some(file) = self.files.intern_record(own, &record) {
                self.look_at(file, own, None);
            }
        }
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
        let _urgent = Urgent::begin();
        while self.catch_up() {
            let go_on = match self.next_task() {
                Ok(task) => self.on_task(task),
                Err(RecvTimeoutError::Timeout) => true,
                Err(RecvTimeoutError::Disconnected) => false,
            };
            if !go_on {
                break;
            }
            self.look_at_made_code(Instant::now());
            self.make_room(Instant::now());
        }
        self.flush();
        let mut notes = self.drivers.into_notes();
        notes.extend(self.pythons.notes());
        Scouted {
            notes,
            pythons_over_limit: self.pythons.over_limit,
            records_missed: 0,
            codes: CodeLosses::default(),
            files_forgotten: self.files_forgotten,
            made_over_limit: self.made.over_limit,
            unwinding: self.unwinding.limits(),
        }
    }

    /// Waits for something to do; not for ever where memory is short, or may hold new code.
    fn next_task(&self) -> Result<Task, RecvTimeoutError> {
        if self.unwinding.is_short() {
            self.inbox.recv_timeout(LOOK_EVERY)
        } else if !self.made.is_empty() {
            self.inbox.recv_timeout(made_code::LOOK_EVERY)
        } else {
            self.inbox
                .recv()
                .map_err(|_| RecvTimeoutError::Disconnected)
        }
    }

    /// Gives back what files hold that nobody maps any more, where tables or files are too many.
    fn make_room(&mut self, now: Instant) {
        let crowd = self.files.crowd();
        if (crowd == 0 && !self.unwinding.is_short()) || !self.unwinding.is_time_to_look(now) {
            return;
        }
        // The record of a process's end may have been lost.
        for pid in self.unwinding.pids() {
            if !exists(pid) {
                self.forget(pid);
            }
        }
        let mut again = Vec::new();
        let mut forgotten = Vec::new();
        self.with_kernel(|scout, kernel| {
            if scout.unwinding.look(kernel, now, exists) {
                again = scout.unwinding.make_room(kernel, now);
                let kept = |file| scout.seen.get(&file).is_some_and(|seen| seen.driver);
                forgotten = scout
                    .unwinding
                    .forget_unused(kernel, crowd, FORGET_AFTER, now, kept);
            }
        });
        self.files_forgotten += forgotten.len() as u64;
        for file in forgotten {
            self.seen.remove(&file);
            self.files.forget(file);
        }
        for file in again {
            self.build(file, self.unwinding.user_of(file));
        }
    }

    /// Does all that waits: tasks first, then small files' tables, one at a time, so that nothing waits for more than one.
    /// What came together reaches the kernel together. False when there is nothing more to do.
    fn catch_up(&mut self) -> bool {
        loop {
            while let Ok(task) = self.inbox.try_recv() {
                if !self.on_task(task) {
                    return false;
                }
            }
            self.flush();
            match self.builder.build_small() {
                Some(built) => self.on_built(built),
                None => break,
            }
        }
        self.keep_ready();
        true
    }

    fn on_built(&mut self, Built { file, table }: Built) {
        self.with_kernel(|scout, kernel| scout.unwinding.built(kernel, file, table));
    }

    /// Has memory ready for what comes next.
    fn keep_ready(&mut self) {
        self.with_kernel(|_, kernel| {
            if let Err(error) = kernel.keep_ready() {
                tracing::debug!("no memory kept ready: {error}");
            }
        });
    }

    /// False when there is nothing more to do.
    fn on_task(&mut self, task: Task) -> bool {
        match task {
            Task::Record(record) => self.on_record(&record),
            Task::Built(built) => self.on_built(built),
            Task::Stop => return false,
        }
        true
    }

    fn flush(&mut self) {
        self.with_kernel(|scout, kernel| scout.unwinding.flush(kernel, Instant::now()));
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
        self.made.fork(parent, pid);
        self.with_kernel(|scout, kernel| scout.pythons.fork(kernel, parent, pid));
    }

    /// A process ended or became another program.
    fn forget(&mut self, pid: u32) {
        self.root.take_if(|(of, _)| *of == pid);
        self.made.forget(pid);
        self.with_kernel(|scout, kernel| {
            scout.pythons.forget(kernel, pid);
            scout.unwinding.forget(kernel, pid, Instant::now());
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
            let python = self.seen.get(&id).and_then(|seen| seen.python.clone());
            if let Some((build, load)) = python
                && let Some(bias) = load.bias(mapping.start, mapping.file_offset)
            {
                self.with_kernel(|scout, kernel| scout.pythons.found(kernel, pid, &build, bias));
            }
        }
        if file.is_none() && self.unwind_tables {
            self.made.remapped(pid, mapping.start);
            if self.read_code(pid, mapping.start, record.bytes) {
                return;
            }
        }
        self.unwinding.map(pid, mapping);
    }

    /// Looks again at code made at run time.
    fn look_at_made_code(&mut self, now: Instant) {
        for ((pid, start), bytes) in self.made.due(now) {
            self.read_code(pid, start, bytes);
        }
    }

    /// Follows the code in memory without a file and maps it; false if there is none that was not there before.
    fn read_code(&mut self, pid: u32, start: u64, bytes: u64) -> bool {
        let Some(made) = self.made.read(pid, start, bytes) else {
            return false;
        };
        let end = start + bytes;
        let Some(id) = self.files.intern(made.key, pid, start, end) else {
            return false;
        };
        let (python, driver) = (None, false);
        let known = self.seen.insert(id, Seen { python, driver }).is_some();
        if !known || self.unwinding.is_gone(id) {
            match build_from_code(&made.code) {
                Ok(Some(table)) => self.with_kernel(|scout, kernel| {
                    scout.unwinding.made(kernel, id, &table, bytes);
                }),
                Ok(None) | Err(_) => self.unwinding.unreadable(id),
            }
        }
        let mapping = Mapping {
            start,
            end,
            file_offset: 0,
            file: Some(id),
        };
        self.unwinding.map(pid, mapping);
        true
    }

    /// Looks into a file that was not seen before.
    fn look_at(&mut self, id: FileId, pid: u32, mapped_ns: Option<u64>) {
        if self.seen.contains_key(&id) {
            if self.unwinding.is_gone(id) {
                self.build(id, Some(pid));
            }
            return;
        }
        let Some(file) = self.files.get(id) else {
            return;
        };
        let path = file.path.clone();
        let Some(handle) = file.file().and_then(|file| file.try_clone().ok()) else {
            self.unwinding.unreadable(id);
            return;
        };
        let mut driver = false;
        self.with_kernel(|scout, kernel| {
            driver = scout.drivers.mapped(kernel, &path, &handle, pid, mapped_ns);
        });
        let python = detect(&handle);
        self.seen.insert(id, Seen { python, driver });
        if self.unwind_tables {
            self.build(id, Some(pid));
        }
    }

    /// Has the table of a file built, which process `pid` has mapped just now.
    fn build(&mut self, id: FileId, pid: Option<u32>) {
        let root = pid.and_then(|pid| self.root_of(pid));
        let Some(file) = self.files.get(id) else {
            return;
        };
        let Some(handle) = file.file().and_then(|file| file.try_clone().ok()) else {
            return;
        };
        let origin = root.map(|root| Origin {
            root,
            path: file.key.path.clone(),
        });
        self.unwinding.building(id);
        self.builder.build(id, handle, origin);
    }

    /// The root of a process: most files that are new come several at a time from one process.
    fn root_of(&mut self, pid: u32) -> Option<Arc<TargetRoot>> {
        if self.root.as_ref().is_none_or(|(of, _)| *of != pid) {
            self.root = TargetRoot::of(pid).map(|root| (pid, Arc::new(root)));
        }
        self.root.as_ref().map(|(_, root)| Arc::clone(root))
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
