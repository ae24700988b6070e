//! Whether words are a table: what a search relies on, checked before any are trusted.

use profiler_ebpf::rows::{self, CfaKind, PAGE_SHIFT};

use super::{MAX_ROWS, Table};

/// The most pages a table can have: row addresses have 32 bits.
const MAX_PAGES: u32 = 1 << (32 - PAGE_SHIFT);

/// Why words are no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Flaw {
    /// The base is not at a border of 64 KiB.
    #[error("base is not aligned")]
    Base,
    /// There is no directory, or there are too many rows.
    #[error("number of words")]
    Size,
    /// Rows are out of order or behind the last page.
    #[error("order of rows")]
    Order,
    /// A directory word is not the index of the page's first row.
    #[error("page directory")]
    Directory,
    /// A rule of no known kind.
    #[error("kind of a rule")]
    Rule,
}

/// Checks a table.
pub(super) fn check(table: &Table) -> Result<(), Flaw> {
    if table.base & ((1 << PAGE_SHIFT) - 1) != 0 {
        return Err(Flaw::Base);
    }
    let pages = table.pages as usize;
    if table.pages == 0 || table.pages > MAX_PAGES || table.words.len() <= pages {
        return Err(Flaw::Size);
    }
    let (directory, rest) = table.words.split_at(pages + 1);
    let rows = *directory.last().ok_or(Flaw::Size)? as u32 as usize;
    let row_words = rows.div_ceil(2);
    if rows > MAX_ROWS || row_words > rest.len() {
        return Err(Flaw::Size);
    }
    let (row_words, rule_words) = rest.split_at(row_words);
    let rules_at = (directory.len() + row_words.len()) as u64;
    if directory.iter().any(|word| word >> 32 != rules_at) {
        return Err(Flaw::Directory);
    }
    check_order(directory, row_words, 2 * rule_words.len())?;
    let halves = rule_words
        .iter()
        .flat_map(|word| [*word as u32, (*word >> 32) as u32]);
    for rule in halves {
        if rule & 15 > CfaKind::SpLarge as u32 {
            return Err(Flaw::Rule);
        }
    }
    Ok(())
}

/// Checks the directory, and the rows of each page.
fn check_order(directory: &[u64], row_words: &[u64], rules: usize) -> Result<(), Flaw> {
    let mut next = 0;
    for (first, end) in directory.iter().zip(&directory[1..]) {
        let (first, end) = (*first as u32, *end as u32);
        if first != next || end < first {
            return Err(Flaw::Directory);
        }
        next = end;
        let mut last = None;
        for index in first..end {
            let word = row_words.get(index as usize / 2).ok_or(Flaw::Size)?;
            let row = rows::half(*word, index);
            let address = rows::row_address(row);
            if last.is_some_and(|last| address <= last) {
                return Err(Flaw::Order);
            }
            if rows::row_rule(row) as usize >= rules {
                return Err(Flaw::Rule);
            }
            last = Some(address);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unwind::TableStats;
    use profiler_ebpf::rows::{Rule, directory_word, row};

    /// Rows at 0x10, 0x20 and 0x20004, of two rules.
    fn table() -> Table {
        let mut words: Vec<u64> = [0, 2, 2, 3].map(|first| directory_word(first, 6)).into();
        words.push(u64::from(row(0x20, 1)) << 32 | u64::from(row(0x10, 0)));
        words.push(u64::from(row(0x2_0004, 0)));
        words.push(u64::from(Rule::SIGNAL.0) << 32 | u64::from(Rule::END.0));
        Table {
            base: 0x40_0000,
            pages: 3,
            words,
            stats: TableStats::default(),
        }
    }

    /// Each flaw is found.
    #[test]
    fn finds_flaws() {
        assert_eq!(check(&table()), Ok(()));
        let flawed = |change: fn(&mut Table)| {
            let mut table = table();
            change(&mut table);
            check(&table).err()
        };
        assert_eq!(flawed(|table| table.base += 1), Some(Flaw::Base));
        assert_eq!(flawed(|table| table.pages = 0), Some(Flaw::Size));
        assert_eq!(flawed(|table| table.pages = u32::MAX), Some(Flaw::Size));
        assert_eq!(flawed(|table| table.words.truncate(5)), Some(Flaw::Size));
        assert_eq!(flawed(|table| table.words[3] += 2), Some(Flaw::Directory));
        assert_eq!(flawed(|table| table.words[3] += 9), Some(Flaw::Size));
        let swapped = |table: &mut Table| table.words[4] = table.words[4].rotate_left(32);
        assert_eq!(flawed(swapped), Some(Flaw::Order));
        assert_eq!(flawed(|table| table.words[1] = 1), Some(Flaw::Directory));
        assert_eq!(flawed(|table| table.words[1] += 1), Some(Flaw::Order));
        assert_eq!(flawed(|table| table.words[0] += 1), Some(Flaw::Directory));
        assert_eq!(flawed(|table| table.words[4] += 2), Some(Flaw::Rule));
        assert_eq!(flawed(|table| table.words[6] |= 15), Some(Flaw::Rule));
    }
}
