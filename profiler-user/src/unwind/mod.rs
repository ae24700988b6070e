//! Unwind tables of executables: how to find the caller from each place in the code, without frame pointers.
//!
//! The compiler's call frame information (`.eh_frame`) is read once per file, off the sampling path, and
//! becomes rows of one word ([`profiler_ebpf::rows`]) that the kernel side searches. Nothing here knows
//! about processes or about the kernel: a file goes in, a table comes out. What cannot be expressed as a
//! row becomes an explicit row of no information and is counted; a table never guesses.
//!
//! Two passes keep memory small: the first lists where functions lie and what describes them, so that they
//! can be sorted; the second runs each description and appends its rows to the table.

mod builder;
#[cfg(test)]
mod check;
mod common;
mod elf;
mod error;
mod evaluate;
mod expression;
mod functions;
mod program;
mod rule;
mod table;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod trampoline;

use std::fs::File;

use gimli::{BaseAddresses, DebugFrame, EhFrame, EndianSlice, UnwindSection};
use object::{ReadCache, ReadRef};

pub use error::UnwindError;
pub use table::{Table, TableStats, Unfit, UnfitCounts};

use builder::Builder;
use elf::{Elf, FrameSource, Text};
use evaluate::Evaluator;
use expression::{Bytes, LE};
use functions::Functions;

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
    let trampolines = trampoline::find(&elf);
    let mut sources = elf.frame_sources()?;
    // A C library without any information still has its trampoline.
    sources.push(FrameSource::default());
    for source in sources {
        let bytes = EndianSlice::new(&source.data, LE);
        let bases = BaseAddresses::default().set_eh_frame(source.address);
        let table = if source.debug {
            let mut section = DebugFrame::from(bytes);
            section.set_address_size(8);
            build_section(&section, &bases, &elf.text, &trampolines)?
        } else {
            let mut section = EhFrame::from(bytes);
            section.set_address_size(8);
            build_section(&section, &bases, &elf.text, &trampolines)?
        };
        if let Some(table) = table {
            return Ok(table);
        }
    }
    Err(UnwindError::NoFrames)
}

/// Bytes of call frame information that make one row, at least.
const BYTES_PER_ROW: usize = 4;

/// The table of one section, unless it describes none of the code.
fn build_section<'d, S>(
    section: &S,
    bases: &BaseAddresses,
    text: &Text,
    trampolines: &[u64],
) -> Result<Option<Table>, UnwindError>
where
    S: UnwindSection<Bytes<'d>>,
{
    let mut functions = Functions::read(section, bases, text)?;
    let size = section.section().len();
    if functions.list.is_empty() && size > 0 {
        return Ok(None);
    }
    functions.add_trampolines(trampolines, text);
    functions.settle();
    if functions.list.is_empty() {
        return Ok(None);
    }
    let mut table = Builder::new(text, (size / BYTES_PER_ROW).min(MAX_ROWS));
    table.stats.functions = functions.list.len() as u64;
    table.stats.unknown.malformed = functions.malformed;
    let mut evaluator = Evaluator::new(section, bases, text.base);
    for function in &functions.list {
        table.begin(function.start)?;
        evaluator.run(function, &mut table)?;
        table.end(function.end);
    }
    Ok(Some(table.finish()?))
}
