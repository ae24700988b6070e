//! Code objects read the moment a sample arrives.
//!
//! Naming may lag behind by seconds, while the symbols of a large library are read; a process may live for 50 ms, and a
//! module's code is freed when the module is loaded. So what Python frames are called is read before the sample waits for
//! anything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::pipeline::Batch;
use crate::kernel::ring::{RawEvent, RawSample};
use crate::kernel::sideband::SidebandEvent;
use crate::process::exists;
use crate::python::{Code, CodeLosses, CodeReader, Interpreter};

/// Processes with an interpreter kept.
const MAX_PROCESSES: usize = 65536;

/// The code that a sample's Python frames run, by address.
#[derive(Debug, Default, Clone)]
pub(super) struct Codes(Vec<(u64, Arc<Code>)>);

impl Codes {
    /// The code object at an address, if it could be read.
    pub fn get(&self, address: u64) -> Option<&Code> {
        let known = self.0.iter().find(|(at, _)| *at == address);
        known.map(|(_, code)| &**code)
    }
}

/// One record of the ring, and what was read when it came.
#[derive(Debug)]
pub(super) struct Event {
    pub raw: RawEvent,
    pub codes: Codes,
}

impl From<RawEvent> for Event {
    fn from(raw: RawEvent) -> Self {
        Self {
            raw,
            codes: Codes::default(),
        }
    }
}

/// Which process runs which interpreter, as soon as it is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Interpreters(Arc<Mutex<HashMap<u32, Interpreter>>>);

impl Interpreters {
    /// A process runs this one. An entry is not taken back: it matters only while samples of the process have Python
    /// frames. False if there is no room.
    pub fn insert(&self, pid: u32, interpreter: Interpreter) -> bool {
        let mut known = self.lock();
        if known.len() >= MAX_PROCESSES {
            known.retain(|pid, _| exists(*pid));
        }
        let fits = known.len() < MAX_PROCESSES || known.contains_key(&pid);
        if fits {
            known.insert(pid, interpreter);
        }
        fits
    }

    fn get(&self, pid: u32) -> Option<Interpreter> {
        self.lock().get(&pid).copied()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Interpreter>> {
        // A thread that panicked while it held the lock left at most an entry out.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads code objects.
#[derive(Debug)]
pub(super) struct Reader {
    interpreters: Interpreters,
    codes: CodeReader,
}

impl Reader {
    pub fn new(interpreters: Interpreters) -> Self {
        Self {
            interpreters,
            codes: CodeReader::default(),
        }
    }

    /// What could not be read.
    pub fn losses(&self) -> CodeLosses {
        self.codes.losses
    }

    /// Puts a batch's events in order of time and reads what the samples in it run.
    pub fn read(&mut self, batch: &mut Batch) {
        batch.events.sort_by_key(|event| event.raw.time_ns());
        let mut sideband = batch.sideband.iter().peekable();
        for event in &mut batch.events {
            let now = event.raw.time_ns();
            while let Some(record) = sideband.next_if(|record| record.time_ns() <= now) {
                self.on_sideband(record);
            }
            if let RawEvent::Sample(sample) = &event.raw {
                event.codes = self.codes_of(sample);
            }
        }
        sideband.for_each(|record| self.on_sideband(record));
    }

    fn on_sideband(&mut self, record: &SidebandEvent) {
        match record {
            SidebandEvent::Fork {
                pid, tid, parent, ..
            } if pid == tid => {
                // The kernel side has told the child what it knew of the parent, perhaps before anyone here heard of it.
                if let Some(interpreter) = self.interpreters.get(*parent) {
                    self.interpreters.insert(*pid, interpreter);
                }
                self.codes.fork(*parent, *pid);
            }
            SidebandEvent::Name {
                pid, exec: true, ..
            } => self.codes.forget(*pid),
            SidebandEvent::Exit { pid, tid, .. } if pid == tid => self.codes.forget(*pid),
            _ => {}
        }
    }

    fn codes_of(&mut self, sample: &RawSample) -> Codes {
        let pid = sample.header.tgid;
        let mut found = Codes::default();
        if sample.python.is_empty() {
            return found;
        }
        let Some(interpreter) = self.interpreters.get(pid) else {
            return found;
        };
        let mut last = 0;
        for frame in sample.python.iter().filter(|frame| frame.code != 0) {
            if frame.code == last || found.get(frame.code).is_some() {
                continue; // recursion
            }
            last = frame.code;
            if let Some(code) = self.codes.code(pid, &interpreter, frame) {
                found.0.push((frame.code, code));
            }
        }
        found
    }
}
