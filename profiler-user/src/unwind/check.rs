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
    let (directory, rows) = table.words.split_at(pages + 1);
    if rows.len() > MAX_ROWS {
        return Err(Flaw::Size);
    }
    let mut page = 0;
    let mut last = None;
    for (index, row) in rows.iter().enumerate() {
        let address = rows::row_address(*row);
        let own = (address >> PAGE_SHIFT) as usize;
        if last.is_some_and(|last| address <= last) || own >= pages {
            return Err(Flaw::Order);
        }
        while page <= own {
            if directory[page] != index as u64 {
                return Err(Flaw::Directory);
            }
            page += 1;
        }
        if row & 15 > CfaKind::SpLarge as u64 {
            return Err(Flaw::Rule);
        }
        last = Some(address);
    }
    if directory[page..]
        .iter()
        .any(|word| *word != rows.len() as u64)
    {
        return Err(Flaw::Directory);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unwind::TableStats;
    use profiler_ebpf::rows::{Rule, row};

    fn table() -> Table {
        let rows = [0x10, 0x20, 0x2_0004].map(|address| row(address, Rule::END));
        let mut words = vec![0, 2, 2, 3];
        words.extend(rows);
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
        assert_eq!(flawed(|table| table.words.truncate(3)), Some(Flaw::Size));
        assert_eq!(flawed(|table| table.words.swap(4, 5)), Some(Flaw::Order));
        let last = |table: &mut Table| table.words[6] = row(0x3_0000, Rule::END);
        assert_eq!(flawed(last), Some(Flaw::Order));
        assert_eq!(flawed(|table| table.words[1] = 1), Some(Flaw::Directory));
        assert_eq!(flawed(|table| table.words[3] = 2), Some(Flaw::Directory));
        assert_eq!(flawed(|table| table.words[4] |= 15), Some(Flaw::Rule));
    }
}
