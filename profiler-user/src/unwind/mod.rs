//! Unwind tables of executables: how to find the caller from each place in the code, without frame pointers.
//!
//! The compiler's call frame information (`.eh_frame`) is read once per file, off the sampling path, and
//! becomes rows of one word ([`profiler_ebpf::rows`]) that the kernel side searches. Nothing here knows
//! about processes or about the kernel: a file goes in, a table comes out. What cannot be expressed as a
//! row becomes an explicit row of no information and is counted; a table never guesses. Code that is not
//! described at all (hand-written assembly) is followed instead, and believed where it proves itself (`code/`).
//!
//! Two passes keep memory small: the first lists where functions lie and what describes them, so that they
//! can be sorted; the second runs each description and appends its rows to the table.

mod builder;
mod cache;
mod check;
mod code;
mod common;
mod complete;
mod elf;
mod entries;
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
mod uncovered;
mod vendor;

use std::fs::File;

use object::{ReadCache, ReadRef};

pub use cache::{Cache, CacheStats};
pub use entries::{FrameEntry, for_each_frame_entry};
pub use error::UnwindError;
pub use table::{Table, TableStats, Unfit, UnfitCounts};

use complete::{Uncovered, complete};
use elf::{Elf, FrameKind};
use input::Input;
use text::Text;

/// Rows a table may have; a file that needs more is refused. The largest known needs 2.4 million.
const MAX_ROWS: usize = 16 << 20;

/// Code made at run time that is followed at once, in bytes.
const MAX_CODE: u32 = 16 << 20;

/// Builds the table of an ELF file. The file's read position is moved.
pub fn build(file: &File) -> Result<Table, UnwindError> {
    build_from(&ReadCache::new(file), None, &mut Anew)
}

/// As [`build`], but only from call frame information: code that is not described has no rows.
pub fn build_described(file: &File) -> Result<Table, UnwindError> {
    let data = ReadCache::new(file);
    let elf = Elf::parse(&data)?;
    described(&elf, None, &elf.text()?, &mut Anew)?.ok_or(UnwindError::NoFrames)
}

/// As [`build`], with the file's debug file: its `.debug_frame` fills in where the file itself says nothing. That the
/// two belong together (debug link, build id) is for the caller to know.
pub fn build_with_debug(file: &File, debug: &File) -> Result<Table, UnwindError> {
    let debug = ReadCache::new(debug);
    build_from(&ReadCache::new(file), Some(&debug), &mut Anew)
}

/// Builds the table of an ELF image in memory, such as the vDSO's.
pub fn build_from_bytes(image: &[u8]) -> Result<Table, UnwindError> {
    build_from(image, None, &mut Anew)
}

/// Builds the table of code made at run time, by following it (`code/`); addresses count from its first byte. `None`
/// if none of it is understood.
pub fn build_from_code(bytes: &[u8]) -> Result<Option<Table>, UnwindError> {
    let size = u32::try_from(bytes.len())
        .ok()
        .filter(|size| *size <= MAX_CODE);
    let size = size.ok_or(UnwindError::TextTooLarge(bytes.len() as u64))?;
    let text = Text {
        base: 0,
        ranges: vec![(0, size)],
    };
    let table = Uncovered::all(&text, bytes).derive()?;
    Ok(table.filter(|table| table.stats.rows > 0))
}

/// How what was found in a file becomes rows.
trait Make {
    /// Rows from call frame information, unless none of the code is described.
    fn described(&mut self, input: &Input) -> Result<Option<Table>, UnwindError>;
    /// Rows for the code that is not described.
    fn derived(&mut self, uncovered: &Uncovered) -> Result<Option<Table>, UnwindError>;
}

/// Everything is made anew.
struct Anew;

impl Make for Anew {
    fn described(&mut self, input: &Input) -> Result<Option<Table>, UnwindError> {
        input.build()
    }

    fn derived(&mut self, uncovered: &Uncovered) -> Result<Option<Table>, UnwindError> {
        uncovered.derive()
    }
}

/// Finds what to build from and has it built.
///
/// A program whose compiler wrote no `.eh_frame` still has that of the code it begins with: so the other sources are
/// asked whenever they are there, and not only where there is none.
fn build_from<'d, R: ReadRef<'d>>(
    data: R,
    debug: Option<R>,
    make: &mut impl Make,
) -> Result<Table, UnwindError> {
    let elf = Elf::parse(data)?;
    // A debug file that cannot be read is no worse than none.
    let debug = debug.and_then(|debug| Elf::parse(debug).ok());
    let text = elf.text()?;
    let described = described(&elf, debug.as_ref(), &text, make)?;
    if !vendor::may_be_followed(&elf) {
        return described.ok_or(UnwindError::NoFrames);
    }
    let table = match &described {
        Some(table) => table,
        None => &Table::empty(&text),
    };
    let uncovered = Uncovered::of(&elf, &text, table);
    match make.derived(&uncovered)? {
        Some(derived) => complete(table, &text, &derived),
        None => described.ok_or(UnwindError::NoFrames),
    }
}

/// The table of what is described: by `.eh_frame`, and by `.debug_frame` where that says nothing.
fn described<'d, R: ReadRef<'d>>(
    elf: &Elf<'d, R>,
    debug: Option<&Elf<'d, R>>,
    text: &Text,
    make: &mut impl Make,
) -> Result<Option<Table>, UnwindError> {
    let trampolines = trampoline::find(elf, text);
    let debug_frames = [Some(elf), debug]
        .into_iter()
        .flatten()
        .filter_map(|elf| elf.frames(FrameKind::DebugFrame).ok().flatten());
    make.described(&Input {
        sources: elf
            .frames(FrameKind::EhFrame)?
            .into_iter()
            .chain(debug_frames)
            .collect(),
        text,
        trampolines: &trampolines,
    })
}
