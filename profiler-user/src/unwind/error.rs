//! Why a file has no unwind table.

/// A file for which no table can be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnwindError {
    /// Not a 64-bit ELF file.
    #[error("not a 64-bit ELF file")]
    NotElf,
    /// Not an ELF file that can be read.
    #[error("not a readable 64-bit little-endian ELF file: {0}")]
    Elf(&'static str),
    /// For another processor.
    #[error("ELF machine {0} is not x86-64")]
    Machine(u16),
    /// No segment holds code.
    #[error("no executable segment")]
    NoText,
    /// Row addresses have 32 bits.
    #[error("code spans {0:#x} bytes, more than a table can address (4 GiB)")]
    TextTooLarge(u64),
    /// A part that must be read as a whole is too large to be true.
    #[error("{what} has {size} bytes, more than the {limit} that are read")]
    PartTooLarge {
        /// Name of the part.
        what: &'static str,
        /// Its size.
        size: u64,
        /// The most that is read.
        limit: u64,
    },
    /// More rows than a table may have.
    #[error("more than {0} unwind rows")]
    TooManyRows(usize),
    /// More distinct rules than a table may have.
    #[error("more than {0} distinct unwind rules")]
    TooManyRules(usize),
    /// No call frame information for any of the code.
    #[error("no unwind information (.eh_frame or .debug_frame)")]
    NoFrames,
}
