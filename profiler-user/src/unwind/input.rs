//! All that a table is made from.

use gimli::{BaseAddresses, DebugFrame, EhFrame, EndianSlice};
use profiler_ebpf::rows::Rule;
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
    /// The information, in order: a later one is asked only for code of which no earlier one says anything.
    pub sources: Vec<FrameSource<'a>>,
    /// Where code lies.
    pub text: &'a Text,
    /// Signal trampolines known by their code: addresses in the file.
    pub trampolines: &'a [u64],
}

impl Input<'_> {
    /// Bytes of information.
    pub fn bytes(&self) -> usize {
        self.sources.iter().map(|source| source.data.len()).sum()
    }

    /// The table, unless none of the code is described.
    pub fn build(&self) -> Result<Option<Table>, UnwindError> {
        let sections: Vec<Section> = self.sources.iter().map(Section::of).collect();
        let text = self.text;
        let mut functions = Functions::default();
        for (section, source) in sections.iter().zip(0..) {
            functions.fill(section.functions(text)?, source)?;
        }
        let described = functions.list.len() as u64;
        functions.add_trampolines(self.trampolines, text);
        functions.settle();
        if functions.list.is_empty() {
            return Ok(None);
        }
        let rows = self.bytes() / BYTES_PER_ROW;
        let mut table = Builder::new(text, rows.min(MAX_ROWS));
        table.stats.functions = described;
        table.stats.unknown.malformed = functions.malformed;
        let mut evaluators: Vec<AnyEvaluator> = sections
            .iter()
            .map(|section| section.evaluator(text.base))
            .collect();
        for function in &functions.list {
            table.begin(function.start)?;
            match evaluators.get_mut(usize::from(function.source)) {
                Some(AnyEvaluator::Eh(evaluator)) => evaluator.run(function, &mut table)?,
                Some(AnyEvaluator::Debug(evaluator)) => evaluator.run(function, &mut table)?,
                // Without any information there can only be trampolines.
                None => table.push(function.start, Rule::SIGNAL)?,
            }
            table.end(function.end);
        }
        Ok(Some(table.finish()?))
    }

    /// A digest of everything the table depends on.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut digest = Sha256::new();
        let mut number = |number: u64| digest.update(number.to_le_bytes());
        number(self.sources.len() as u64);
        for source in &self.sources {
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
        for source in &self.sources {
            digest.update(&source.data);
        }
        Fingerprint(digest.finalize().into())
    }
}

/// One source's section, as gimli reads it, and what its pointers count from.
struct Section<'d> {
    form: Form<'d>,
    bases: BaseAddresses,
}

/// The two forms of call frame information.
enum Form<'d> {
    Eh(EhFrame<Bytes<'d>>),
    Debug(DebugFrame<Bytes<'d>>),
}

/// What runs the entries of one section.
enum AnyEvaluator<'d, 's> {
    Eh(Evaluator<'d, 's, EhFrame<Bytes<'d>>>),
    Debug(Evaluator<'d, 's, DebugFrame<Bytes<'d>>>),
}

impl<'d> Section<'d> {
    fn of(source: &'d FrameSource<'_>) -> Self {
        let bytes = EndianSlice::new(&source.data, LE);
        let form = match source.kind {
            FrameKind::EhFrame => {
                let mut section = EhFrame::from(bytes);
                section.set_address_size(8);
                Form::Eh(section)
            }
            FrameKind::DebugFrame => {
                let mut section = DebugFrame::from(bytes);
                section.set_address_size(8);
                Form::Debug(section)
            }
        };
        Self {
            form,
            bases: BaseAddresses::default().set_eh_frame(source.address),
        }
    }

    fn functions(&self, text: &Text) -> Result<Functions, UnwindError> {
        match &self.form {
            Form::Eh(section) => Functions::read(section, &self.bases, text),
            Form::Debug(section) => Functions::read(section, &self.bases, text),
        }
    }

    fn evaluator(&self, base: u64) -> AnyEvaluator<'d, '_> {
        match &self.form {
            Form::Eh(section) => AnyEvaluator::Eh(Evaluator::new(section, &self.bases, base)),
            Form::Debug(section) => AnyEvaluator::Debug(Evaluator::new(section, &self.bases, base)),
        }
    }
}
