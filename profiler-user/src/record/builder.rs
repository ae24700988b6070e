//! The thread that builds unwind tables, small files first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use super::RecordError;
use crate::process::{ElfLoad, FileId};
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

/// A file to build a table for.
struct Job {
    bytes: u64,
    file: FileId,
    handle: File,
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
    pub fn build(&self, file: FileId, handle: File) {
        let bytes = handle
            .metadata()
            .map_or(u64::MAX, |metadata| metadata.len());
        // A builder that has ended leaves the file without a table, which every sample in it shows.
        let _ = self.0.send(Job {
            bytes,
            file,
            handle,
        });
    }
}

fn work(inbox: &Receiver<Job>, done: &impl Fn(Built) -> bool) {
    let mut waiting: BinaryHeap<Reverse<(u64, FileId)>> = BinaryHeap::new();
    let mut cache = Cache::open();
    let mut handles = std::collections::HashMap::new();
    loop {
        // Take all there is, so that the smallest comes first; wait only when there is nothing to do.
        loop {
            let job = if waiting.is_empty() {
                inbox.recv().map_err(|_| TryRecvError::Disconnected)
            } else {
                inbox.try_recv()
            };
            match job {
                Ok(Job {
                    bytes,
                    file,
                    handle,
                }) => {
                    waiting.push(Reverse((bytes, file)));
                    handles.insert(file, handle);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        let Some(Reverse((_, file))) = waiting.pop() else {
            continue;
        };
        let Some(handle) = handles.remove(&file) else {
            continue;
        };
        let table = build(&mut cache, &handle);
        if !done(Built { file, table }) {
            return;
        }
    }
}

fn build(cache: &mut Cache, handle: &File) -> Result<(Table, ElfLoad), NoTable> {
    match cache.build(handle) {
        Ok(table) => Ok((table, ElfLoad::read(handle).ok_or(NoTable::Failed)?)),
        Err(UnwindError::NotElf) => Err(NoTable::NotCode),
        Err(error) => {
            tracing::debug!("no unwind table: {error}");
            Err(NoTable::Failed)
        }
    }
}
