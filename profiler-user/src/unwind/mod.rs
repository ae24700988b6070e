//! Unwind tables of executables: how to find the caller from each place in the code, without frame pointers.
//!
//! The compiler's call frame information (`.eh_frame`) is read once per file, off the sampling path, and
//! becomes rows of one word ([`profiler_ebpf::rows`]) that the kernel side searches. Nothing here knows
//! about processes or about the kernel: a file goes in, a table comes out. What cannot be expressed as a
//! row becomes an explicit row of no information and is counted; a table never guesses.

mod assemble;
mod elf;
mod error;
mod expression;
mod functions;
mod rule;
mod table;
mod trampoline;

use std::fs::File;

use object::{ReadCache, ReadRef};

pub use error::UnwindError;
pub use table::{Table, TableStats, Unfit, UnfitCounts};

use elf::Elf;

/// Rows a table may have; a file that needs more is refused. The largest known needs 2.4 million.
const MAX_ROWS: usize = 16 << 20;

/// Builds the table of an ELF file. The file's read position is moved.
pub fn build(file: &File) -> Result<Table, UnwindError> {
    build_from(&ReadCache::new(file))
}

/// Builds the table of an ELF image in memory, such as the vDSO's.
pub fn build_from_bytes(image: &[u8]) -> Result<Table, UnwindError> {
    build_from(image)
}

fn build_from<'d, R: ReadRef<'d>>(data: R) -> Result<Table, UnwindError> {
    let elf = Elf::parse(data)?;
    let mut functions = functions::Functions::new(elf.text.clone());
    for source in elf.frame_sources()? {
        functions.read(&source)?;
        if !functions.is_empty() {
            break;
        }
    }
    for address in trampoline::find(&elf) {
        functions.add_signal_trampoline(address);
    }
    if functions.is_empty() {
        return Err(UnwindError::NoFrames);
    }
    assemble::assemble(functions)
}
