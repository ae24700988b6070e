//! Unwind tables are built: of small files where the builder is asked, of others on a thread of its own, smallest first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
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

/// Files up to this size are small: their tables take a few milliseconds, less than it takes a busy machine to wake another
/// thread.
const SMALL_BYTES: u64 = 8 << 20;

/// A file to build a table for.
struct Job {
    bytes: u64,
    file: FileId,
    handle: File,
    origin: Option<Origin>,
}

/// Files that wait, the smallest first.
#[derive(Default)]
struct Waiting {
    order: BinaryHeap<Reverse<(u64, FileId)>>,
    jobs: HashMap<FileId, Job>,
}

/// A running builder.
pub(super) struct Builder {
    others: Sender<Job>,
    small: Waiting,
    cache: Cache,
}

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
        Ok(Self {
            others: jobs,
            small: Waiting::default(),
            cache: Cache::open(),
        })
    }

    /// Has a table built, a small file's by [`Self::build_small`]. Files are few (their number is bounded where they are
    /// found), so the queues are too.
    pub fn build(&mut self, file: FileId, handle: File, origin: Option<Origin>) {
        let bytes = handle
            .metadata()
            .map_or(u64::MAX, |metadata| metadata.len());
        let job = Job {
            bytes,
            file,
            handle,
            origin,
        };
        if bytes <= SMALL_BYTES {
            self.small.add(job);
        } else {
            // A thread that has ended leaves the file without a table, which every sample in it shows.
            let _ = self.others.send(job);
        }
    }

    /// Builds the table of the smallest file that waits for it here; `None` if none does.
    pub fn build_small(&mut self) -> Option<Built> {
        let job = self.small.next()?;
        Some(build(&mut self.cache, &job))
    }
}

impl Waiting {
    fn add(&mut self, job: Job) {
        self.order.push(Reverse((job.bytes, job.file)));
        self.jobs.insert(job.file, job);
    }

    fn next(&mut self) -> Option<Job> {
        let Reverse((_, file)) = self.order.pop()?;
        self.jobs.remove(&file)
    }
}

fn work(inbox: &Receiver<Job>, done: &impl Fn(Built) -> bool) {
    let mut waiting = Waiting::default();
    let mut cache = Cache::open();
    loop {
        // Take all there is, so that the smallest comes first; wait only when there is nothing to do.
        loop {
            let job = if waiting.jobs.is_empty() {
                inbox.recv().map_err(|_| TryRecvError::Disconnected)
            } else {
                inbox.try_recv()
            };
            match job {
                Ok(job) => waiting.add(job),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        let Some(job) = waiting.next() else { continue };
        if !done(build(&mut cache, &job)) {
            return;
        }
    }
}

fn build(cache: &mut Cache, job: &Job) -> Built {
    let handle = &job.handle;
    let origin = job.origin.as_ref();
    // Whoever has the file may say what its code is, as far as the file itself does not.
    let debug =
        origin.and_then(|origin| DebugReference::of(handle).find(&origin.root, &origin.path));
    let with_debug = debug.and_then(|debug| cache.build_with_debug(handle, &debug).ok());
    let table = with_debug.map_or_else(|| cache.build(handle), Ok);
    let table = match table {
        Ok(table) => ElfLoad::read(handle)
            .map(|load| (table, load))
            .ok_or(NoTable::Failed),
        Err(UnwindError::NotElf) => Err(NoTable::NotCode),
        Err(error) => {
            let path = origin.map_or(&b"a file"[..], |origin| &origin.path);
            let path = String::from_utf8_lossy(path);
            tracing::debug!("no unwind table of {path}: {error}");
            Err(NoTable::Failed)
        }
    };
    Built {
        file: job.file,
        table,
    }
}
