//! Unwind tables are built: of small files where the builder is asked, of others on a thread of its own, smallest first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fs::File;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use super::RecordError;
use crate::process::{ElfLoad, FileId};
use crate::unwind::{Cache, Table};

/// What became of a file.
pub(super) struct Built {
    pub file: FileId,
    /// The table; `None` where there is none to be had.
    pub table: Option<(Table, ElfLoad)>,
}

/// Files up to this size are small: their tables take a few milliseconds, less than it takes a busy machine to wake another
/// thread.
const SMALL_BYTES: u64 = 8 << 20;

/// A file to build a table for.
struct Job {
    bytes: u64,
    file: FileId,
    handle: File,
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
    pub fn build(&mut self, file: FileId, handle: File) {
        let bytes = handle
            .metadata()
            .map_or(u64::MAX, |metadata| metadata.len());
        let job = Job {
            bytes,
            file,
            handle,
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
    let table = match cache.build(&job.handle) {
        Ok(table) => ElfLoad::read(&job.handle).map(|load| (table, load)),
        Err(error) => {
            tracing::debug!("no unwind table: {error}");
            None
        }
    };
    Built {
        file: job.file,
        table,
    }
}
