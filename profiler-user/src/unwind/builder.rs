//! A table being built: rows appended in order, gaps said, repeats left out, the directory filled.

use profiler_ebpf::rows::{self, PAGE_SHIFT, Rule};

use rustc_hash::FxHashMap;

use super::text::Text;
use super::{MAX_ROWS, Table, TableStats, Unfit, UnwindError};

/// Padding between functions: what is longer has code of which nothing is known.
const MAX_PADDING: u32 = 15;

/// Rules a table may have: their numbers have 16 bits. The largest library known has 1,700.
const MAX_RULES: usize = 1 << 16;

/// A table, up to some address.
#[derive(Debug)]
pub(super) struct Builder {
    /// Counts so far.
    pub stats: TableStats,
    base: u64,
    /// First row of each page begun so far, or of a later one.
    first_rows: Vec<u32>,
    pages: usize,
    rows: Vec<u32>,
    rules: Vec<Rule>,
    numbers: FxHashMap<u32, u16>,
    last: Option<Rule>,
    /// Where the last function ended.
    known_to: Option<u32>,
}

impl Builder {
    /// An empty table for the code, with room for that many rows.
    pub fn new(text: &Text, rows: usize) -> Self {
        let pages = (text.end() >> PAGE_SHIFT) as usize + 1;
        Self {
            stats: TableStats::default(),
            base: text.base,
            first_rows: Vec::with_capacity(pages + 1),
            pages,
            rows: Vec::with_capacity(rows),
            rules: Vec::new(),
            numbers: FxHashMap::default(),
            last: None,
            known_to: None,
        }
    }

    /// A table with what another one holds, and room for more rows.
    pub fn again(table: &Table, text: &Text, more: u64) -> Self {
        let rows = table.stats.rows.saturating_add(more);
        Self {
            stats: table.stats,
            ..Self::new(
                text,
                usize::try_from(rows).map_or(MAX_ROWS, |rows| rows.min(MAX_ROWS)),
            )
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
        if self.rows.len() >= MAX_ROWS {
            return Err(UnwindError::TooManyRows(MAX_ROWS));
        }
        self.begin_pages((address >> PAGE_SHIFT) as usize);
        let number = self.number(rule)?;
        self.rows.push(rows::row(address, number));
        self.last = Some(rule);
        Ok(())
    }

    fn number(&mut self, rule: Rule) -> Result<u16, UnwindError> {
        if let Some(number) = self.numbers.get(&rule.0) {
            return Ok(*number);
        }
        let number =
            u16::try_from(self.rules.len()).map_err(|_| UnwindError::TooManyRules(MAX_RULES))?;
        self.rules.push(rule);
        self.numbers.insert(rule.0, number);
        Ok(number)
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
        self.begin_pages(self.pages);
        self.stats.rows = self.rows.len() as u64;
        // All of these are far below 2^32: rows and rules have limits, pages are numbers of 16 bits.
        let rules_at = (self.first_rows.len() + self.rows.len().div_ceil(2)) as u32;
        let directory = self.first_rows.iter();
        let mut words = Vec::with_capacity(rules_at as usize + self.rules.len().div_ceil(2));
        words.extend(directory.map(|first| rows::directory_word(*first, rules_at)));
        words.extend(self.rows.chunks(2).map(pair));
        let rules: Vec<u32> = self.rules.iter().map(|rule| rule.0).collect();
        words.extend(rules.chunks(2).map(pair));
        Ok(Table {
            base: self.base,
            pages: self.pages as u32,
            words,
            stats: self.stats,
        })
    }

    /// The next row is the first at or behind each page not begun yet, up to `page`.
    #[inline]
    fn begin_pages(&mut self, page: usize) {
        let begun = page.min(self.pages) + 1;
        if self.first_rows.len() < begun {
            self.first_rows.resize(begun, self.rows.len() as u32);
        }
    }
}

/// Two halves as a word.
fn pair(halves: &[u32]) -> u64 {
    let second = halves.get(1).copied().unwrap_or(0);
    u64::from(second) << 32 | u64::from(halves[0])
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
        let first_rows = table.words[..6].iter().map(|word| *word as u32);
        assert_eq!(first_rows.collect::<Vec<_>>(), [0, 3, 3, 5, 5, 5]);
        let rows: Vec<_> = table.rows().collect();
        assert_eq!(rows.len(), 5);
        assert_eq!(rows[3], (0x2_0000, rule(16)));
    }
}
