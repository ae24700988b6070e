//! A table being built: rows appended in order, gaps said, repeats left out, the directory filled.

use profiler_ebpf::rows::{self, PAGE_SHIFT, Rule};

use super::text::Text;
use super::{MAX_ROWS, Table, TableStats, Unfit, UnwindError};

/// Padding between functions: what is longer has code of which nothing is known.
const MAX_PADDING: u32 = 15;

/// A table, up to some address.
#[derive(Debug)]
pub(super) struct Builder {
    /// Counts so far.
    pub stats: TableStats,
    base: u64,
    /// Words of the directory.
    directory: usize,
    /// Directory and rows.
    words: Vec<u64>,
    /// Pages whose directory word is set.
    pages_begun: usize,
    last: Option<Rule>,
    /// Where the last function ended.
    known_to: Option<u32>,
}

impl Builder {
    /// An empty table for the code, with room for that many rows.
    pub fn new(text: &Text, rows: usize) -> Self {
        let directory = (text.end() >> PAGE_SHIFT) as usize + 2;
        let mut words = Vec::with_capacity(directory + rows);
        words.resize(directory, 0);
        Self {
            stats: TableStats::default(),
            base: text.base,
            directory,
            words,
            pages_begun: 0,
            last: None,
            known_to: None,
        }
    }

    /// A table with what another one holds, and room for more rows.
    pub fn again(table: &Table, text: &Text, more: usize) -> Self {
        Self {
            stats: table.stats,
            ..Self::new(text, table.rows().len() + more)
        }
    }

    /// A function starts, at or behind the end of the last one.
    pub fn begin(&mut self, start: u32) -> Result<(), UnwindError> {
        if let Some(known_to) = self.known_to
            && start.saturating_sub(known_to) > MAX_PADDING
        {
            self.stats.gaps += 1;
            self.push(known_to, Rule::GAP)?;
        }
        Ok(())
    }

    /// The function ends.
    pub fn end(&mut self, end: u32) {
        self.known_to = Some(end);
    }

    /// Appends a row, unless it says what the last one does.
    #[inline]
    pub fn push(&mut self, address: u32, rule: Rule) -> Result<(), UnwindError> {
        if self.last == Some(rule) {
            return Ok(());
        }
        let index = self.words.len() - self.directory;
        if index >= MAX_ROWS {
            return Err(UnwindError::TooManyRows(MAX_ROWS));
        }
        let page = (address >> PAGE_SHIFT) as usize;
        if page >= self.pages_begun {
            self.begin_pages(page, index);
        }
        self.words.push(rows::row(address, rule));
        self.last = Some(rule);
        Ok(())
    }

    /// Appends a row of no information, and counts why.
    pub fn unfit(&mut self, address: u32, reason: Unfit) -> Result<(), UnwindError> {
        self.stats.unknown.add(reason);
        self.push(address, Rule::UNKNOWN)
    }

    /// The table. Nothing is known behind the last function.
    pub fn finish(mut self) -> Result<Table, UnwindError> {
        if let Some(known_to) = self.known_to {
            self.push(known_to, Rule::GAP)?;
        }
        let rows = self.words.len() - self.directory;
        self.begin_pages(self.directory - 1, rows);
        self.stats.rows = rows as u64;
        self.words.shrink_to_fit();
        Ok(Table {
            base: self.base,
            pages: (self.directory - 1) as u32,
            words: self.words,
            stats: self.stats,
        })
    }

    /// The row `index` is the first at or behind each page not begun yet, up to `page`.
    fn begin_pages(&mut self, page: usize, index: usize) {
        let begun = page.saturating_add(1).min(self.directory);
        if let Some(words) = self.words.get_mut(self.pages_begun..begun) {
            words.fill(index as u64);
            self.pages_begun = begun;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profiler_ebpf::rows::{CfaKind, FpKind};

    const BASE: u64 = 0x40_0000;

    fn rule(offset: u64) -> Rule {
        Rule::new(CfaKind::Sp, offset, FpKind::Same, 0).unwrap()
    }

    /// Start, end and rows (address, offset).
    type Given<'a> = (u32, u32, &'a [(u32, u64)]);

    fn table(functions: &[Given]) -> Table {
        let text = Text {
            base: BASE,
            ranges: vec![(0, 0x4_0000)],
        };
        let mut table = Builder::new(&text, 0);
        for (start, end, rows) in functions {
            table.begin(*start).unwrap();
            for (at, offset) in *rows {
                table.push(*at, rule(*offset)).unwrap();
            }
            table.end(*end);
        }
        table.finish().unwrap()
    }

    /// Padding takes the rule before it, a gap says that nothing is known, as does what lies behind the last.
    #[test]
    fn gaps_are_said() {
        let table = table(&[
            (0x100, 0x111, &[(0x100, 8), (0x101, 16)]),
            (0x120, 0x130, &[(0x120, 8)]),
            (0x140, 0x150, &[(0x140, 8)]),
        ]);
        for (address, expected) in [
            (0xff, None),
            (0x110, Some(rule(16))),
            (0x11f, Some(rule(16))),
            (0x12f, Some(rule(8))),
            (0x130, Some(Rule::GAP)),
            (0x140, Some(rule(8))),
            (0x150, Some(Rule::GAP)),
            (0x3_ffff, Some(Rule::GAP)),
        ] {
            assert_eq!(table.find(BASE + address), expected, "{address:#x}");
        }
        assert_eq!(table.find(BASE - 1), None);
        assert_eq!((table.stats.gaps, table.stats.rows), (1, 6));
    }

    /// Equal neighbours are one row, across functions too; the directory counts what is left.
    #[test]
    fn repeats_are_left_out() {
        let table = table(&[
            (0x100, 0x110, &[(0x100, 8)]),
            (0x110, 0x120, &[(0x110, 8), (0x114, 16)]),
            (0x2_0000, 0x2_0010, &[(0x2_0000, 16)]),
        ]);
        assert_eq!(table.pages, 5);
        assert_eq!(table.words[..6], [0, 3, 3, 5, 5, 5]);
        assert_eq!(table.rows().len(), 5);
    }
}
