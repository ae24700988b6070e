//! Rows of all functions, in the order in which their call frame information lies in the file.

use gimli::{
    BaseAddresses, CieOrFde, CommonInformationEntry, DebugFrame, EhFrame, EndianSlice,
    FrameDescriptionEntry, Reader as _, UnwindContext, UnwindOffset, UnwindSection, UnwindTable,
    X86_64,
};
use profiler_ebpf::rows::{self, Rule};

use super::elf::{FrameSource, Text};
use super::expression::{Bytes, LE};
use super::rule::{Storage, translate};
use super::{MAX_ROWS, TableStats, Unfit, UnwindError};

/// A function's code, and where its rows begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Function {
    /// First address, from the table's base on.
    pub start: u32,
    /// End address.
    pub end: u32,
    /// Index of its first row.
    pub first_row: u32,
    /// Index behind its last row.
    pub end_row: u32,
}

/// Functions and their rows, as read.
#[derive(Debug)]
pub(super) struct Functions {
    /// Where code lies.
    pub text: Text,
    /// Functions in the order of the file.
    pub list: Vec<Function>,
    /// Their rows. Those of one function are in order, begin with its start, and differ from one to the next.
    pub rows: Vec<u64>,
    /// What was found and what did not fit.
    pub stats: TableStats,
}

/// A common entry is run anew for each function: a long one would make a small file take hours.
const MAX_COMMON_ENTRY: usize = 4096;

/// Average of big files, for reserving: 48 bytes of call frame information a function, 7 rows each.
const BYTES_PER_ROW: usize = 7;

impl Functions {
    /// None yet.
    pub fn new(text: Text) -> Self {
        Self {
            text,
            list: Vec::new(),
            rows: Vec::new(),
            stats: TableStats::default(),
        }
    }

    /// Whether none has been found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Reads all of a section.
    pub fn read(&mut self, source: &FrameSource<'_>) -> Result<(), UnwindError> {
        self.rows
            .reserve((source.data.len() / BYTES_PER_ROW).min(MAX_ROWS));
        let bytes = EndianSlice::new(&source.data, LE);
        let bases = BaseAddresses::default().set_eh_frame(source.address);
        if source.debug {
            let mut section = DebugFrame::from(bytes);
            section.set_address_size(8);
            self.read_section(&section, &bases)
        } else {
            let mut section = EhFrame::from(bytes);
            section.set_address_size(8);
            self.read_section(&section, &bases)
        }
    }

    fn read_section<'d, S>(&mut self, section: &S, bases: &BaseAddresses) -> Result<(), UnwindError>
    where
        S: UnwindSection<Bytes<'d>>,
    {
        let mut context = UnwindContext::new_in();
        let mut entries = section.entries(bases);
        loop {
            let partial = match entries.next() {
                Ok(Some(CieOrFde::Fde(partial))) => partial,
                Ok(Some(CieOrFde::Cie(_))) => continue,
                Ok(None) => return Ok(()),
                Err(_) => break,
            };
            match partial.parse(common_entry) {
                Ok(entry) => self.read_function(section, bases, &mut context, &entry)?,
                Err(_) => self.stats.unknown.add(Unfit::Malformed),
            }
        }
        // An entry whose length is wrong hides those behind it; what came before stands.
        self.stats.unknown.add(Unfit::Malformed);
        Ok(())
    }

    fn read_function<'d, S>(
        &mut self,
        section: &S,
        bases: &BaseAddresses,
        context: &mut UnwindContext<usize, Storage>,
        entry: &FrameDescriptionEntry<Bytes<'d>>,
    ) -> Result<(), UnwindError>
    where
        S: UnwindSection<Bytes<'d>>,
    {
        // Functions the linker threw away are left at address 0.
        if entry.initial_address() == 0 {
            return Ok(());
        }
        let Some((start, end)) = self.text.clip(entry.initial_address(), entry.end_address())
        else {
            return Ok(());
        };
        self.begin(start, end)?;
        let Ok(mut table) = UnwindTable::new(section, bases, context, entry) else {
            self.unfit(start, Unfit::Malformed);
            return Ok(());
        };
        if entry.cie().return_address_register() != X86_64::RA {
            self.unfit(start, Unfit::ReturnAddress);
            return Ok(());
        }
        let signal = entry.is_signal_trampoline();
        let mut known_to = start;
        loop {
            let row = match table.next_row() {
                Ok(Some(row)) => row,
                Ok(None) => return Ok(()),
                Err(_) => break,
            };
            // Rows begin at or behind the function's start, which is at or behind the base.
            let from = row.start_address() - self.text.base;
            if from >= u64::from(end) {
                return Ok(());
            }
            let to = row.end_address().saturating_sub(self.text.base);
            known_to = to.min(u64::from(end)) as u32;
            if u64::from(known_to) <= from {
                continue;
            }
            if self.rows.len() >= MAX_ROWS {
                return Err(UnwindError::TooManyRows(MAX_ROWS));
            }
            match translate(section, row, signal) {
                Ok(translated) => {
                    self.stats.lost_fp += u64::from(translated.lost_fp);
                    self.push(from as u32, translated.rule);
                }
                Err(reason) => self.unfit(from as u32, reason),
            }
        }
        if known_to < end {
            self.unfit(known_to, Unfit::Malformed);
        }
        Ok(())
    }

    /// Adds the C library's signal trampoline, known by its code.
    pub fn add_signal_trampoline(&mut self, address: u64) {
        // Its callers look it up by the address before.
        let begin = address.saturating_sub(1);
        let length = super::trampoline::CODE.len() as u64;
        let Some((start, end)) = self.text.clip(begin, address.saturating_add(length)) else {
            return;
        };
        self.list
            .retain(|function| !(start < function.start && function.start < end));
        if self.begin(start, end).is_ok() {
            self.push(start, Rule::SIGNAL);
        }
    }

    fn begin(&mut self, start: u32, end: u32) -> Result<(), UnwindError> {
        if self.rows.len() >= MAX_ROWS || self.list.len() >= MAX_ROWS {
            return Err(UnwindError::TooManyRows(MAX_ROWS));
        }
        self.stats.functions += 1;
        self.list.push(Function {
            start,
            end,
            first_row: self.rows.len() as u32,
            end_row: self.rows.len() as u32,
        });
        Ok(())
    }

    fn unfit(&mut self, address: u32, reason: Unfit) {
        self.stats.unknown.add(reason);
        self.push(address, Rule::UNKNOWN);
    }

    /// Appends a row to the last function, unless it says what the one before it does.
    fn push(&mut self, address: u32, rule: Rule) {
        let Some(function) = self.list.last_mut() else {
            return;
        };
        let same = function.first_row < function.end_row
            && self.rows.last().map(|last| rows::row_rule(*last)) == Some(rule);
        if !same {
            self.rows.push(rows::row(address, rule));
            function.end_row += 1;
        }
    }
}

/// The common entry (CIE) at an offset, if it is not too long to be true.
fn common_entry<'d, S>(
    section: &S,
    bases: &BaseAddresses,
    offset: S::Offset,
) -> gimli::Result<CommonInformationEntry<Bytes<'d>>>
where
    S: UnwindSection<Bytes<'d>>,
{
    let mut input = *section.section();
    input.skip(UnwindOffset::into(offset))?;
    let (length, _) = input.read_initial_length()?;
    if length > MAX_COMMON_ENTRY {
        return Err(gimli::Error::UnsupportedOffset);
    }
    section.cie_from_offset(bases, offset)
}
