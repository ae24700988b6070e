//! Why a recording could not be made.

use std::io;
use std::path::PathBuf;

use crate::kernel::{KernelError, Right};
use crate::recording::RecordingError;

/// A recording that could not be started or kept.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Rights are missing.
    #[error("{}", missing(.0))]
    MissingRights(Vec<Right>),
    /// The frequency is out of range.
    #[error(
        "frequency {asked} Hz is out of range: this kernel takes 1 to {limit} samples per second and CPU \
         (kernel.perf_event_max_sample_rate)"
    )]
    Frequency {
        /// What was asked for.
        asked: u32,
        /// The kernel's limit.
        limit: u32,
    },
    /// No such process.
    #[error("there is no process {0}: see `ps -e` for those there are")]
    NoProcess(u32),
    /// The command could not be started.
    #[error("cannot start `{}`", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The kernel side failed.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The recording could not be written.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The system failed us in a way that is no user's doing.
    #[error("{what}")]
    System {
        /// What was being done.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The thread that names and merges ended early.
    #[error("the thread that names stacks ended early; please report this with its message above")]
    Worker,
}

fn missing(rights: &[Right]) -> String {
    let list: Vec<String> = rights
        .iter()
        .map(|right| format!("{} (to {})", right.name, right.purpose))
        .collect();
    format!("missing {}: run it as root", list.join(", "))
}
