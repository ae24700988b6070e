//! The thread that goes ahead: it tells the kernel side about every Python and every CUDA driver the moment
//! one is mapped, so that naming, which may take long, never delays a probe.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use super::RecordError;
use super::cuda::Drivers;
use super::pythons::Pythons;
use crate::kernel::Kernel;
use crate::kernel::sideband::{MappingRecord, SidebandEvent};
use crate::process::{ElfLoad, FileKey, all_pids, executable_mappings, open_mapped};
use crate::python::{PythonBuild, detect};

/// Records waiting at most; further ones are counted, and what they told is found by naming later.
const QUEUE: usize = 65536;

/// What was found in a file.
#[derive(Debug, Clone)]
struct Found {
    python: Option<(PythonBuild, ElfLoad)>,
}

/// What the scout knows.
pub(super) struct Scout {
    kernel: Arc<Mutex<Kernel>>,
    files: HashMap<FileKey, Found>,
    pythons: Pythons,
    drivers: Drivers,
    /// Processes watched; `None` for the whole machine.
    targets: Option<HashSet<u32>>,
}

/// What the reader of the profile must know of the scout's work.
#[derive(Debug, Default)]
pub(super) struct Scouted {
    pub notes: Vec<String>,
    pub pythons_over_limit: u64,
    pub records_missed: u64,
}

impl Scout {
    pub fn new(kernel: Arc<Mutex<Kernel>>, targets: Option<HashSet<u32>>) -> Self {
        Self {
            kernel,
            files: HashMap::new(),
            pythons: Pythons::default(),
            drivers: Drivers::default(),
            targets,
        }
    }

    /// Looks at what is mapped now.
    pub fn scan(&mut self) {
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
        let (records, inbox) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("wholestack-look".to_owned())
            .spawn(move || self.work(&inbox))
            .map_err(|source| RecordError::System {
                what: "cannot start a thread",
                source,
            })?;
        Ok(ScoutThread {
            records,
            missed: AtomicU64::new(0),
            thread,
        })
    }

    fn work(mut self, inbox: &Receiver<SidebandEvent>) -> Scouted {
        while let Ok(record) = inbox.recv() {
            self.on_record(&record);
        }
        let mut notes = self.drivers.notes;
        notes.extend(self.pythons.notes());
        Scouted {
            notes,
            pythons_over_limit: self.pythons.over_limit,
            records_missed: 0,
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
            } if pid == tid => {
                if let Some(targets) = &mut self.targets {
                    // Our only child is the command.
                    if !targets.contains(parent) && *parent != std::process::id() {
                        return;
                    }
                    targets.insert(*pid);
                }
                self.with_kernel(|scout, kernel| scout.pythons.fork(kernel, *parent, *pid));
            }
            SidebandEvent::Name {
                pid, exec: true, ..
            } => {
                self.with_kernel(|scout, kernel| scout.pythons.forget(kernel, *pid));
            }
            // The main thread's end is not the process's: others may still run.
            SidebandEvent::Exit { pid, tid, .. } if pid == tid && !crate::process::exists(*pid) => {
                self.with_kernel(|scout, kernel| scout.pythons.forget(kernel, *pid));
            }
            SidebandEvent::Lost(_) => self.scan(),
            _ => {}
        }
    }

    fn in_scope(&self, pid: u32) -> bool {
        self.targets.as_ref().is_none_or(|pids| pids.contains(&pid))
    }

    fn on_mapping(&mut self, pid: u32, mapping: &MappingRecord, mapped_ns: Option<u64>) {
        let key = FileKey {
            device: mapping.device,
            inode: mapping.inode,
            path: mapping.path.clone(),
        };
        if mapping.inode == 0 {
            return;
        }
        if !self.files.contains_key(&key) {
            let end = mapping.start.saturating_add(mapping.bytes);
            let Some(file) = open_mapped(&key, pid, mapping.start, end) else {
                return;
            };
            let path = String::from_utf8_lossy(&key.path).into_owned();
            self.with_kernel(|scout, kernel| {
                scout.drivers.mapped(kernel, &path, &file, pid, mapped_ns)
            });
            self.files.insert(
                key.clone(),
                Found {
                    python: detect(&file),
                },
            );
        }
        let Some((build, load)) = self.files.get(&key).and_then(|found| found.python.clone())
        else {
            return;
        };
        if let Some(bias) = load.bias(mapping.start, mapping.file_offset) {
            self.with_kernel(|scout, kernel| scout.pythons.found(kernel, pid, &build, bias));
        }
    }

    fn with_kernel(&mut self, act: impl FnOnce(&mut Self, &mut Kernel)) {
        let kernel = Arc::clone(&self.kernel);
        // A thread that panicked while it held the lock left at most a table entry undone.
        let mut kernel = kernel
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        act(self, &mut kernel);
    }
}

/// A running scout.
pub(super) struct ScoutThread {
    records: SyncSender<SidebandEvent>,
    missed: AtomicU64,
    thread: std::thread::JoinHandle<Scouted>,
}

impl ScoutThread {
    /// Hands over records in order of time. Never waits.
    pub fn show(&self, records: &[SidebandEvent]) {
        for record in records {
            if self.records.try_send(record.clone()).is_err() {
                self.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Waits until everything handed over is done.
    pub fn finish(self) -> Scouted {
        drop(self.records);
        let scouted = self.thread.join().unwrap_or_default();
        Scouted {
            records_missed: self.missed.into_inner(),
            ..scouted
        }
    }
}
