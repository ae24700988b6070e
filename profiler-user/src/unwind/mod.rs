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
mod cache;
mod check;
mod common;
mod elf;
mod error;
mod evaluate;
mod expression;
mod functions;
mod input;
mod program;
mod rule;
mod table;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod text;
mod trampoline;

use std::fs::File;

use object::{ReadCache, ReadRef};

pub use cache::{Cache, CacheStats};
pub use error::UnwindError;
pub use table::{Table, TableStats, Unfit, UnfitCounts};

use elf::{Elf, FrameKind};
use input::Input;

/// Rows a table may have; a file that needs more is refused. The largest known needs 2.4 million.
const MAX_ROWS: usize = 16 << 20;

/// Builds the table of an ELF file. The file's read position is moved.
pub fn build(file: &File) -> Result<Table, UnwindError> {
    build_from(&ReadCache::new(file), None, |input| input.build())
}

/// As [`build`], with the file's debug file: its `.debug_frame` fills in where the file itself says nothing. That the
/// two belong together (debug link, build id) is for the caller to know.
pub fn build_with_debug(file: &File, debug: &File) -> Result<Table, UnwindError> {
    let debug = ReadCache::new(debug);
    build_from(&ReadCache::new(file), Some(&debug), |input| input.build())
}

/// Builds the table of an ELF image in memory, such as the vDSO's.
pub fn build_from_bytes(image: &[u8]) -> Result<Table, UnwindError> {
    build_from(image, None, |input| input.build())
}

/// Finds what to build from and has it built.
///
/// A program whose compiler wrote no `.eh_frame` still has that of the code it begins with: so the other sources are
/// asked whenever they are there, and not only where there is none.
fn build_from<'d, R: ReadRef<'d>>(
    data: R,
    debug: Option<R>,
    build: impl FnOnce(&Input) -> Result<Option<Table>, UnwindError>,
) -> Result<Table, UnwindError> {
    let elf = Elf::parse(data)?;
    // A debug file that cannot be read is no worse than none.
    let debug = debug.and_then(|debug| Elf::parse(debug).ok());
    let text = elf.text()?;
    let trampolines = trampoline::find(&elf, &text);
    let debug_frames = [Some(&elf), debug.as_ref()]
        .into_iter()
        .flatten()
        .filter_map(|elf| elf.frames(FrameKind::DebugFrame).ok().flatten());
    let input = Input {
        sources: elf
            .frames(FrameKind::EhFrame)?
            .into_iter()
            .chain(debug_frames)
            .collect(),
        text: &text,
        trampolines: &trampolines,
    };
    build(&input)?.ok_or(UnwindError::NoFrames)
}
