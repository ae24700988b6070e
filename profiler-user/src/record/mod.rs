//! One recording, from start to finish.
//!
//! tokio drives what waits: signals, the clock, the started command, the rings' readiness. What computes
//! (naming, merging, writing) runs on a plain thread behind a bounded queue; when it falls behind, the
//! kernel's ring fills and counts what it loses.

mod builder;
mod command;
mod cuda;
mod error;
mod generated;
mod limits;
mod made_code;
mod naming;
mod pipeline;
mod places;
mod priority;
mod pythons;
mod reader;
mod run;
mod scout;
mod tables;
mod tasks;
mod unwinding;
mod worker;

pub use command::{Invoker, invoker};
pub use error::RecordError;
pub use run::{Ended, Progress, Recorded, check_rights, record};

use std::collections::HashSet;
use std::ffi::OsString;
use std::time::Duration;

/// What to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Every process.
    Machine,
    /// These processes and the children they have or get.
    Pids(Vec<u32>),
    /// A command started for the recording, which ends with it.
    Command(Vec<OsString>),
}

impl Scope {
    /// The processes watched from the start; `None` for all there are.
    fn targets(&self) -> Option<HashSet<u32>> {
        match self {
            Self::Machine => None,
            Self::Pids(pids) => Some(pids.iter().copied().collect()),
            Self::Command(_) => Some(HashSet::new()),
        }
    }
}

/// Settings of one recording.
#[derive(Debug, Clone)]
pub struct RecordSettings {
    /// Samples per second and busy CPU.
    pub frequency_hz: u32,
    /// When to stop by itself.
    pub duration: Option<Duration>,
    /// What to record.
    pub scope: Scope,
    /// Size of the ring from the kernel side in bytes: a power of two, at least a page.
    pub ring_bytes: u32,
    /// Walk native code by unwind tables; without, by frame pointer alone: only to compare the two.
    pub unwind_tables: bool,
    /// Show the interpreter's own calling machinery too.
    pub native_all: bool,
    /// A kernel object with log lines, for debugging; `None` for the one that ships.
    pub debug_object: Option<Vec<u8>>,
}
