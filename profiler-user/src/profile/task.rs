//! Processes and threads.

use super::StringId;

/// Index of a [`Process`] in a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub u32);

/// Index of a [`Thread`] in a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub u32);

/// One life of one process; a reused pid is another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Process id as the host sees it.
    pub pid: u32,
    /// Name of the program: the main thread's name at its last exec.
    pub name: StringId,
    /// The command line, arguments separated by a space; empty if it could not be read.
    pub command: StringId,
    /// When it ended, since the start of the session.
    pub ended_ns: Option<u64>,
}

/// One life of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its process.
    pub process: ProcessId,
    /// Thread id as the host sees it.
    pub tid: u32,
    /// Its name: Python's, where one was given, else the kernel's.
    pub name: StringId,
    /// CPU time it really used during the session, by the kernel's own clock; `None` if it could not be read.
    pub cpu_ns: Option<u64>,
}
