//! What can go wrong between us and the kernel.

use std::io;

/// A failure to load, attach or read.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The object is not the one this program was built for.
    #[error(
        "the kernel object does not fit this program: {0}; rebuild it with `cargo xtask ebpf build`"
    )]
    WrongObject(String),
    /// The kernel offers no type information.
    #[error(
        "cannot read the kernel's type information in {path} (the kernel needs CONFIG_DEBUG_INFO_BTF)"
    )]
    NoBtf {
        /// Where it was looked for.
        path: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The type information lacks a field.
    #[error("the kernel's type information has no `{field}` in `task_struct`: {reason}")]
    NoField {
        /// The field looked for.
        field: &'static str,
        /// What the reader said.
        reason: String,
    },
    /// The kernel refused the object.
    #[error("the kernel refused to load the programs: {0}")]
    Load(String),
    /// A program could not be attached.
    #[error("cannot attach {what}: {reason}")]
    Attach {
        /// Which hook.
        what: String,
        /// What the kernel said.
        reason: String,
    },
    /// A map could not be read or written.
    #[error("cannot access the kernel table {map}: {reason}")]
    Map {
        /// Its name.
        map: &'static str,
        /// What the kernel said.
        reason: String,
    },
    /// Perf's side-band could not be opened.
    #[error("cannot open perf's process events on CPU {cpu}")]
    Sideband {
        /// Which CPU.
        cpu: u32,
        /// Why it failed.
        source: io::Error,
    },
    /// The list of CPUs could not be read.
    #[error("cannot read the list of CPUs from {path}")]
    Cpus {
        /// Where it was looked for.
        path: String,
        /// Why it failed.
        source: io::Error,
    },
}
