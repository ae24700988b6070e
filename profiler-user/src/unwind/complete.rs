//! A table completed: rows for code that call frame information does not describe.

use object::ReadRef;
use profiler_ebpf::rows::Rule;
use sha2::{Digest as _, Sha256};

use super::builder::Builder;
use super::code::{Code, Extent, Start, derive};
use super::elf::Elf;
use super::input::Fingerprint;
use super::text::Text;
use super::{Table, UnwindError, uncovered};

/// Code of one file that is looked at, in bytes. OpenBLAS has 7 MiB of such code, MKL in PyTorch 29 MiB.
const MAX_BYTES: u64 = 64 << 20;
/// Instructions of one file that are looked at; each is looked at a few times.
const MAX_INSTRUCTIONS: u64 = 64 << 20;

/// Code without a rule in a table, and where functions begin in it.
pub(super) struct Uncovered<'a> {
    text: &'a Text,
    stretches: Vec<Code<'a>>,
    symbols: Vec<Extent>,
    /// Where the kernel starts the program.
    start: Option<Start>,
}

impl<'a> Uncovered<'a> {
    /// What a table lacks.
    pub fn of<'d: 'a, R: ReadRef<'d>>(elf: &Elf<'d, R>, text: &'a Text, table: &Table) -> Self {
        let found = uncovered::stretches(table, text);
        let symbols = uncovered::functions(elf, text, &found);
        let mut left = MAX_BYTES;
        let mut stretches = Vec::new();
        for (from, to) in found {
            let size = u64::from(to - from);
            left = match left.checked_sub(size) {
                Some(left) => left,
                None => continue,
            };
            if let Some(bytes) = elf.loaded(text.base + u64::from(from), size) {
                stretches.push(Code { start: from, bytes });
            }
        }
        Self {
            text,
            stretches,
            symbols,
            start: elf
                .start()
                .and_then(|at| u32::try_from(at.checked_sub(text.base)?).ok())
                .map(|at| Start {
                    at,
                    goes_on: elf.is_loader(),
                }),
        }
    }

    /// All of this code, of which nothing is known.
    pub fn all(text: &'a Text, bytes: &'a [u8]) -> Self {
        Self {
            text,
            stretches: vec![Code { start: 0, bytes }],
            symbols: Vec::new(),
            start: None,
        }
    }

    /// Without what symbols tell.
    #[cfg(test)]
    pub fn forget_symbols(&mut self) {
        self.symbols.clear();
    }

    /// Bytes of code.
    pub fn bytes(&self) -> usize {
        self.stretches.iter().map(|code| code.bytes.len()).sum()
    }

    /// A table of the rows that can be derived; `None` if there are none.
    pub fn derive(&self) -> Result<Option<Table>, UnwindError> {
        let mut budget = MAX_INSTRUCTIONS;
        let mut table = Builder::new(self.text, 0);
        for code in &self.stretches {
            let from = self.symbols.partition_point(|extent| extent.0 < code.start);
            let to = self.symbols.partition_point(|extent| extent.0 < code.end());
            let symbols = self.symbols.get(from..to).unwrap_or_default();
            let derived = derive(*code, symbols, self.start, &mut budget);
            table.stats.derived += derived.functions;
            table.stats.not_derived += derived.refused;
            for (address, rule) in derived.rows {
                table.push(address, rule)?;
            }
        }
        let table = table.finish()?;
        Ok((table.stats.rows > 0 || table.stats.not_derived > 0).then_some(table))
    }

    /// A digest of everything the rows depend on.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut digest = Sha256::new();
        digest.update(b"code");
        let mut number = |number: u64| digest.update(number.to_le_bytes());
        number(self.text.base);
        number(u64::from(self.text.end()));
        number(self.start.map_or(0, |start| {
            u64::from(start.goes_on) << 33 | 1 << 32 | u64::from(start.at)
        }));
        number(self.symbols.len() as u64);
        for (start, end) in &self.symbols {
            number(u64::from(*start) << 32 | u64::from(*end));
        }
        number(self.stretches.len() as u64);
        for code in &self.stretches {
            number(u64::from(code.start));
            number(code.bytes.len() as u64);
        }
        for code in &self.stretches {
            digest.update(code.bytes);
        }
        Fingerprint(digest.finalize().into())
    }
}

/// A table and what was derived for the code it lacks, as one.
pub(super) fn complete(table: &Table, text: &Text, derived: &Table) -> Result<Table, UnwindError> {
    let mut builder = Builder::again(table, text, derived.stats.rows);
    builder.stats.derived = derived.stats.derived;
    builder.stats.not_derived = derived.stats.not_derived;
    let mut rows = table.rows().peekable();
    let mut added = derived.rows().peekable();
    while rows.peek().is_some() || added.peek().is_some() {
        let (described, derived) = (rows.peek().copied(), added.peek().copied());
        let (address, rule) = match (described, derived) {
            (Some(row), Some(new)) if row.0 == new.0 => {
                rows.next();
                added.next();
                // Where a stretch begins with a derived row, and where it ends.
                if row.1 == Rule::GAP { new } else { row }
            }
            (Some(row), Some(new)) if row.0 < new.0 => rows.next().unwrap_or(row),
            (Some(row), None) => rows.next().unwrap_or(row),
            (_, Some(new)) => added.next().unwrap_or(new),
            (None, None) => break,
        };
        builder.push(address, rule)?;
    }
    builder.finish()
}
