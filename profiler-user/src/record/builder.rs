//! The thread that builds unwind tables, small files first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use super::RecordError;
use crate::process::{DebugReference, ElfLoad, FileId, TargetRoot};
use crate::unwind::{Cache, Table, UnwindError};

/// What became of a file.
pub(super) struct Built {
    pub file: FileId,
    /// The table, or why there is none.
    pub table: Result<(Table, ElfLoad), NoTable>,
}

/// Why a file has no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoTable {
    /// It is no program or library, but memory of another name, or data.
    NotCode,
    /// It cannot be had.
    Failed,
}

/// Where a file lies: its debug file is looked for from there.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    /// Root of a process that maps it.
    pub root: Arc<TargetRoot>,
    /// Its path there.
    pub path: Vec<u8>,
}

/// A file to build a table for.
struct Job {
    bytes: u64,
    file: FileId,
    handle: File,
    origin: Option<Origin>,
}

/// A running builder.
pub(super) struct Builder(Sender<Job>);

impl Builder {
    /// Starts the thread; `done` is called on it with each result, and says whether anyone still listens.
    pub fn start(done: impl Fn(Built) -> bool + Send + 'static) -> Result<Self, RecordError> {
        let (jobs, inbox) = channel();
        std::thread::Builder::new()
            .name("wholestack-rows".to_owned())
            .spawn(move || work(&inbox, &done))
            .map_err(|source| RecordError::System {
                what: "cannot start a thread",
                source,
            })?;
        Ok(Self(jobs))
    }

    /// Has a table built. Files are few (their number is bounded where they are found), so the queue is too.
    pub fn build(&self, file: FileId, handle: File, origin: Option<Origin>) {
        let bytes = handle
            .metadata()
            .map_or(u64::MAX, |metadata| metadata.len());
        // A builder that has ended leaves the file without a table, which every sample in it shows.
        let _ = self.0.send(Job {
            bytes,
            file,
            handle,
            origin,
        });
    }
}

fn work(inbox: &Receiver<Job>, done: &impl Fn(Built) -> bool) {
    let mut waiting: BinaryHeap<Reverse<(u64, FileId)>> = BinaryHeap::new();
    let mut cache = Cache::open();
    let mut jobs = std::collections::HashMap::new();
    loop {
        // Take all there is, so that the smallest comes first; wait only when there is nothing to do.
        loop {
            let job = if waiting.is_empty() {
                inbox.recv().map_err(|_| TryRecvError::Disconnected)
            } else {
                inbox.try_recv()
            };
            match job {
                Ok(job) => {
                    waiting.push(Reverse((job.bytes, job.file)));
                    jobs.insert(job.file, job);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        let Some(Reverse((_, file))) = waiting.pop() else {
            continue;
        };
        let Some(job) = jobs.remove(&file) else {
            continue;
        };
        let table = build(&mut cache, &job);
        if !done(Built { file, table }) {
            return;
        }
    }
}

fn build(cache: &mut Cache, job: &Job) -> Result<(Table, ElfLoad), NoTable> {
    let handle = &job.handle;
    let origin = job.origin.as_ref();
    // Whoever has the file may say what its code is, as far as the file itself does not.
    let debug =
        origin.and_then(|origin| DebugReference::of(handle).find(&origin.root, &origin.path));
    let with_debug = debug.and_then(|debug| cache.build_with_debug(handle, &debug).ok());
    let table = with_debug.map_or_else(|| cache.build(handle), Ok);
    match table {
        Ok(table) => Ok((table, ElfLoad::read(handle).ok_or(NoTable::Failed)?)),
        Err(UnwindError::NotElf) => Err(NoTable::NotCode),
        Err(error) => {
            let path = origin.map_or(&b"a file"[..], |origin| &origin.path);
            let path = String::from_utf8_lossy(path);
            tracing::debug!("no unwind table of {path}: {error}");
            Err(NoTable::Failed)
        }
    }
}
