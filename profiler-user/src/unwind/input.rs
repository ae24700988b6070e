//! All that a table is made from.

use gimli::{BaseAddresses, DebugFrame, EhFrame, EndianSlice, UnwindSection};
use sha2::{Digest as _, Sha256};

use super::builder::Builder;
use super::elf::{FrameKind, FrameSource};
use super::evaluate::Evaluator;
use super::expression::{Bytes, LE};
use super::functions::Functions;
use super::text::Text;
use super::{MAX_ROWS, Table, UnwindError};

/// Bytes of call frame information that make one row, at least.
const BYTES_PER_ROW: usize = 4;

/// What a table is made from, in short. No one can make two inputs with the same one (SHA-256).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint(pub [u8; 32]);

/// Call frame information and the code it is about.
#[derive(Debug)]
pub(super) struct Input<'a> {
    /// The information.
    pub source: FrameSource<'a>,
    /// Where code lies.
    pub text: &'a Text,
    /// Signal trampolines known by their code: addresses in the file.
    pub trampolines: &'a [u64],
}

impl Input<'_> {
    /// The table, unless none of the code is described.
    pub fn build(&self) -> Result<Option<Table>, UnwindError> {
        let bytes = EndianSlice::new(&self.source.data, LE);
        let bases = BaseAddresses::default().set_eh_frame(self.source.address);
        match self.source.kind {
            FrameKind::DebugFrame => {
                let mut section = DebugFrame::from(bytes);
                section.set_address_size(8);
                self.build_section(&section, &bases)
            }
            FrameKind::EhFrame | FrameKind::Nothing => {
                let mut section = EhFrame::from(bytes);
                section.set_address_size(8);
                self.build_section(&section, &bases)
            }
        }
    }

    fn build_section<'d, S>(
        &self,
        section: &S,
        bases: &BaseAddresses,
    ) -> Result<Option<Table>, UnwindError>
    where
        S: UnwindSection<Bytes<'d>>,
    {
        let text = self.text;
        let mut functions = Functions::read(section, bases, text)?;
        if functions.list.is_empty() && self.source.kind != FrameKind::Nothing {
            return Ok(None);
        }
        functions.add_trampolines(self.trampolines, text);
        functions.settle();
        let described = functions
            .list
            .iter()
            .filter(|function| function.entry.is_some());
        let described = described.count() as u64;
        if functions.list.is_empty() {
            return Ok(None);
        }
        let rows = section.section().len() / BYTES_PER_ROW;
        let mut table = Builder::new(text, rows.min(MAX_ROWS));
        table.stats.functions = described;
        table.stats.unknown.malformed = functions.malformed;
        let mut evaluator = Evaluator::new(section, bases, text.base);
        for function in &functions.list {
            table.begin(function.start)?;
            evaluator.run(function, &mut table)?;
            table.end(function.end);
        }
        Ok(Some(table.finish()?))
    }

    /// A digest of everything the table depends on.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut digest = Sha256::new();
        let mut number = |number: u64| digest.update(number.to_le_bytes());
        number(self.source.kind as u64);
        number(self.source.address);
        number(self.source.data.len() as u64);
        number(self.text.base);
        number(self.text.ranges.len() as u64);
        for (start, end) in &self.text.ranges {
            number(u64::from(*start));
            number(u64::from(*end));
        }
        number(self.trampolines.len() as u64);
        for address in self.trampolines {
            number(*address);
        }
        digest.update(&self.source.data);
        Fingerprint(digest.finalize().into())
    }
}
