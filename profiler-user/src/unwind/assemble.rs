//! From functions in the order of the file to one sorted table with its page directory.

use std::cmp::Reverse;

use profiler_ebpf::rows::{self, PAGE_SHIFT, Rule};

use super::functions::{Function, Functions};
use super::{MAX_ROWS, Table, UnwindError};

/// Padding between functions: what is longer has code of which nothing is known.
const MAX_PADDING: u32 = 15;

/// Sorts, fills gaps with rows of no information, leaves out rows that repeat the one before.
///
/// Where functions overlap, the one that starts later holds from there on, as it does for whoever searches
/// by start; of several with the same start, the longest, then the first in the file.
pub(super) fn assemble(functions: Functions) -> Result<Table, UnwindError> {
    let Functions {
        text,
        mut list,
        rows,
        mut stats,
    } = functions;
    if !list.is_sorted_by(|a, b| a.start < b.start) {
        list.sort_unstable_by_key(|f| (f.start, Reverse(f.end), f.first_row));
        list.dedup_by_key(|f| f.start);
    }
    let pages = (text.end() >> PAGE_SHIFT) + 1;
    let directory = pages as usize + 1;
    let mut table = Builder {
        words: vec![0; directory],
        last: None,
    };
    table.words.reserve_exact(rows.len() + rows.len() / 8);
    let mut known_to = None;
    for (index, function) in list.iter().enumerate() {
        if let Some(known_to) = known_to
            && function.start - known_to > MAX_PADDING
        {
            stats.gaps += 1;
            table.push(known_to, Rule::UNKNOWN);
        }
        let next = list.get(index + 1).map_or(u32::MAX, |next| next.start);
        let end = function.end.min(next);
        table.push_function(function, end, &rows);
        known_to = Some(end);
        if table.words.len() - directory > MAX_ROWS {
            return Err(UnwindError::TooManyRows(MAX_ROWS));
        }
    }
    if let Some(end) = known_to {
        table.push(end, Rule::UNKNOWN);
    }
    let mut words = table.words;
    words.shrink_to_fit();
    let (head, rows) = words.split_at_mut(directory);
    fill_directory(head, rows);
    stats.rows = rows.len() as u64;
    Ok(Table {
        base: text.base,
        pages,
        words,
        stats,
    })
}

struct Builder {
    words: Vec<u64>,
    last: Option<Rule>,
}

impl Builder {
    fn push(&mut self, address: u32, rule: Rule) {
        if self.last != Some(rule) {
            self.words.push(rows::row(address, rule));
            self.last = Some(rule);
        }
    }

    /// The function's rows before `end`.
    fn push_function(&mut self, function: &Function, end: u32, rows: &[u64]) {
        let range = function.first_row as usize..function.end_row as usize;
        for row in rows.get(range).unwrap_or_default() {
            let address = rows::row_address(*row);
            if address >= end {
                break;
            }
            self.push(address, rows::row_rule(*row));
        }
    }
}

/// Word `p` becomes the index of the first row at or behind page `p`.
fn fill_directory(directory: &mut [u64], rows: &[u64]) {
    let mut page = 0;
    for (index, row) in rows.iter().enumerate() {
        let own = (rows::row_address(*row) >> PAGE_SHIFT) as usize;
        while page <= own && page < directory.len() {
            directory[page] = index as u64;
            page += 1;
        }
    }
    directory[page..].fill(rows.len() as u64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unwind::elf::Text;
    use profiler_ebpf::rows::{CfaKind, FpKind};

    fn rule(offset: u64) -> Rule {
        Rule::new(CfaKind::Sp, offset, FpKind::Same, 0).unwrap()
    }

    /// Start, end and rows (address, offset).
    type Given<'a> = (u32, u32, &'a [(u32, u64)]);

    fn table(functions: &[Given]) -> Table {
        let mut all = Functions::new(Text {
            base: 0x40_0000,
            ranges: vec![(0, 0x4_0000)],
        });
        for (start, end, rows) in functions {
            let first_row = all.rows.len() as u32;
            all.rows.extend(
                rows.iter()
                    .map(|(at, offset)| rows::row(*at, rule(*offset))),
            );
            all.list.push(Function {
                start: *start,
                end: *end,
                first_row,
                end_row: all.rows.len() as u32,
            });
        }
        assemble(all).unwrap()
    }

    fn offset(table: &Table, address: u64) -> Option<u64> {
        let rule = table.find(0x40_0000 + address)?;
        (rule != Rule::UNKNOWN).then(|| rule.cfa_offset())
    }

    /// Padding takes the rule before it, a gap says that nothing is known, as does what lies behind the last.
    #[test]
    fn gaps_are_said() {
        let table = table(&[
            (0x100, 0x111, &[(0x100, 8), (0x101, 16)]),
            (0x120, 0x130, &[(0x120, 8)]),
            (0x140, 0x150, &[(0x140, 8)]),
        ]);
        assert_eq!(table.find(0x40_00ff), None);
        assert_eq!(offset(&table, 0x110), Some(16));
        assert_eq!(offset(&table, 0x11f), Some(16));
        assert_eq!(offset(&table, 0x12f), Some(8));
        assert_eq!(table.find(0x40_0130), Some(Rule::UNKNOWN));
        assert_eq!(offset(&table, 0x140), Some(8));
        assert_eq!(table.find(0x40_0150), Some(Rule::UNKNOWN));
        assert_eq!(table.stats.gaps, 1);
        assert_eq!(table.stats.rows, 6);
    }

    /// Functions are sorted; a later start wins, then the longer one.
    #[test]
    fn overlaps_are_decided() {
        let table = table(&[
            (0x2_0000, 0x2_0010, &[(0x2_0000, 64)]),
            (0x200, 0x220, &[(0x200, 32), (0x21c, 40)]),
            (0x100, 0x300, &[(0x100, 8), (0x180, 16), (0x250, 24)]),
            (0x200, 0x210, &[(0x200, 48)]),
        ]);
        assert_eq!(offset(&table, 0x1ff), Some(16));
        assert_eq!(offset(&table, 0x210), Some(32));
        assert_eq!(offset(&table, 0x21f), Some(40));
        assert_eq!(table.find(0x40_0250), Some(Rule::UNKNOWN));
        assert_eq!(offset(&table, 0x2_000f), Some(64));
        assert_eq!(table.find(0x42_0010), Some(Rule::UNKNOWN));
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
