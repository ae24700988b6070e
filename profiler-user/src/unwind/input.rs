//! All that a table is made from.

use gimli::{BaseAddresses, DebugFrame, EhFrame, EndianSlice};
use profiler_ebpf::rows::Rule;
use sha2::{Digest as _, Sha256};

use super::builder::Builder;
use super::elf::{FrameKind, FrameSource};
use super::evaluate::Evaluator;
use super::expression::{Bytes, LE};
use super::functions::{Function, Functions};
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
    /// The information, best first: each is believed where those before it say nothing.
    pub sources: &'a [FrameSource<'a>],
    /// Where code lies.
    pub text: &'a Text,
    /// Signal trampolines known by their code: addresses in the file.
    pub trampolines: &'a [u64],
}

/// A section in either form.
enum Section<'d> {
    Eh(EhFrame<Bytes<'d>>),
    Debug(DebugFrame<Bytes<'d>>),
}

/// What runs a section's entries.
enum Runner<'d, 's> {
    Eh(Evaluator<'d, 's, EhFrame<Bytes<'d>>>),
    Debug(Evaluator<'d, 's, DebugFrame<Bytes<'d>>>),
}

impl<'d> Section<'d> {
    fn of(source: &'d FrameSource) -> (Self, BaseAddresses) {
        let bytes = EndianSlice::new(&source.data, LE);
        let section = match source.kind {
            FrameKind::DebugFrame => {
                let mut section = DebugFrame::from(bytes);
                section.set_address_size(8);
                Self::Debug(section)
            }
            FrameKind::EhFrame => {
                let mut section = EhFrame::from(bytes);
                section.set_address_size(8);
                Self::Eh(section)
            }
        };
        (
            section,
            BaseAddresses::default().set_eh_frame(source.address),
        )
    }

    fn functions(
        &self,
        number: u8,
        bases: &BaseAddresses,
        text: &Text,
    ) -> Result<Functions, UnwindError> {
        match self {
            Self::Eh(section) => Functions::read(section, number, bases, text),
            Self::Debug(section) => Functions::read(section, number, bases, text),
        }
    }

    fn runner<'s>(&'s self, bases: &'s BaseAddresses, base: u64) -> Runner<'d, 's> {
        match self {
            Self::Eh(section) => Runner::Eh(Evaluator::new(section, bases, base)),
            Self::Debug(section) => Runner::Debug(Evaluator::new(section, bases, base)),
        }
    }
}

impl Runner<'_, '_> {
    fn run(
        &mut self,
        function: &Function,
        offset: u32,
        table: &mut Builder,
    ) -> Result<(), UnwindError> {
        match self {
            Self::Eh(evaluator) => evaluator.run(function, offset, table),
            Self::Debug(evaluator) => evaluator.run(function, offset, table),
        }
    }
}

impl Input<'_> {
    /// The table, unless none of the code is described.
    pub fn build(&self) -> Result<Option<Table>, UnwindError> {
        let text = self.text;
        let sections: Vec<(Section, BaseAddresses)> =
            self.sources.iter().map(Section::of).collect();
        let mut functions = Functions::default();
        for (number, (section, bases)) in (0..).zip(&sections) {
            functions.add_missing(section.functions(number, bases, text)?);
            functions.settle();
        }
        let described = functions.list.len() as u64;
        // A C library without any information still has its trampoline.
        functions.add_trampolines(self.trampolines, text);
        functions.settle();
        if functions.list.is_empty() {
            return Ok(None);
        }
        let mut table = Builder::new(text, (self.bytes() / BYTES_PER_ROW).min(MAX_ROWS));
        table.stats.functions = described;
        table.stats.unknown.malformed = functions.malformed;
        let runners = sections.iter();
        let mut runners: Vec<Runner> = runners
            .map(|(section, bases)| section.runner(bases, text.base))
            .collect();
        for function in &functions.list {
            table.begin(function.start)?;
            match function.entry {
                Some(entry) => {
                    if let Some(runner) = runners.get_mut(usize::from(entry.section)) {
                        runner.run(function, entry.offset, &mut table)?;
                    }
                }
                None => table.push(function.start, Rule::SIGNAL)?,
            }
            table.end(function.end);
        }
        Ok(Some(table.finish()?))
    }

    /// Bytes of information.
    pub fn bytes(&self) -> usize {
        self.sources.iter().map(|source| source.data.len()).sum()
    }

    /// A digest of everything the table depends on.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut digest = Sha256::new();
        let mut number = |number: u64| digest.update(number.to_le_bytes());
        number(self.sources.len() as u64);
        for source in self.sources {
            number(source.kind as u64);
            number(source.address);
            number(source.data.len() as u64);
        }
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
        for source in self.sources {
            digest.update(&source.data);
        }
        Fingerprint(digest.finalize().into())
    }
}
