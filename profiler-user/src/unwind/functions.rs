//! Where functions lie and which entry describes each: the first pass over call frame information.

use std::cmp::Reverse;

use gimli::{BaseAddresses, CieOrFde, UnwindSection};

use super::common::CommonEntries;
use super::expression::Bytes;
use super::text::Text;
use super::{MAX_ROWS, UnwindError, trampoline};

/// A stretch of code that one entry describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Function {
    /// First address, from the table's base on.
    pub start: u32,
    /// End address.
    pub end: u32,
    /// Its entry (FDE); `None` for a signal trampoline known by its code.
    pub entry: Option<Entry>,
}

/// Where an entry lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    /// Which of the sections, best first.
    pub section: u8,
    /// The offset in it.
    pub offset: u32,
}

/// The functions of a file.
#[derive(Debug, Default)]
pub(super) struct Functions {
    /// In the order of the file until they are settled.
    pub list: Vec<Function>,
    /// Entries that could not be read.
    pub malformed: u64,
}

/// Average size of an entry in big files, for reserving.
const BYTES_PER_ENTRY: usize = 48;

impl Functions {
    /// Lists what a section describes of the code. `number` tells it from other sections.
    pub fn read<'d, S>(
        section: &S,
        number: u8,
        bases: &BaseAddresses,
        text: &Text,
    ) -> Result<Self, UnwindError>
    where
        S: UnwindSection<Bytes<'d>>,
    {
        let mut functions = Self::default();
        let expected = section.section().len() / BYTES_PER_ENTRY;
        functions.list.reserve(expected.min(MAX_ROWS));
        let mut common = CommonEntries::default();
        let mut entries = section.entries(bases);
        loop {
            let partial = match entries.next() {
                Ok(Some(CieOrFde::Fde(partial))) => partial,
                Ok(Some(CieOrFde::Cie(_))) => continue,
                Ok(None) => break,
                // An entry whose length is wrong hides those behind it; what came before stands.
                Err(_) => {
                    functions.malformed += 1;
                    break;
                }
            };
            let Ok(entry) = common.parse(&partial) else {
                functions.malformed += 1;
                continue;
            };
            // Functions the linker threw away are left at address 0.
            let start = entry.initial_address();
            let Some((start, end)) = text.clip(start, entry.end_address()).filter(|_| start != 0)
            else {
                continue;
            };
            if functions.list.len() == MAX_ROWS {
                return Err(UnwindError::TooManyRows(MAX_ROWS));
            }
            functions.list.push(Function {
                start,
                end,
                entry: u32::try_from(entry.offset()).ok().map(|offset| Entry {
                    section: number,
                    offset,
                }),
            });
        }
        Ok(functions)
    }

    /// Adds functions of another section, where these settled ones say nothing. They are to be settled again.
    pub fn add_missing(&mut self, others: Self) {
        self.malformed += others.malformed;
        let known = self.list.len();
        for other in others.list {
            let next = self.list[..known].partition_point(|known| known.start <= other.start);
            let before = next.checked_sub(1).map(|index| self.list[index]);
            if before.is_none_or(|known| known.end <= other.start) {
                self.list.push(other);
            }
        }
    }

    /// Adds signal trampolines, given by their addresses in the file. They replace what begins inside them.
    pub fn add_trampolines(&mut self, addresses: &[u64], text: &Text) {
        for address in addresses {
            // A caller is looked up by the address before the one it returns to, here the first.
            let end = address.saturating_add(trampoline::CODE.len() as u64);
            if let Some((start, end)) = text.clip(address.saturating_sub(1), end) {
                self.list
                    .retain(|other| !(start..end).contains(&other.start));
                self.list.push(Function {
                    start,
                    end,
                    entry: None,
                });
            }
        }
    }

    /// Sorts, and ends each function where the next one starts.
    ///
    /// Where functions overlap, the one that starts later holds from there on, as it does for whoever
    /// searches by start; of several with the same start, the longest, then the first in the file.
    pub fn settle(&mut self) {
        if !self.list.is_sorted_by(|a, b| a.start < b.start) {
            self.list
                .sort_unstable_by_key(|f| (f.start, Reverse(f.end), f.entry));
            self.list.dedup_by_key(|f| f.start);
        }
        let mut next = u32::MAX;
        for function in self.list.iter_mut().rev() {
            function.end = function.end.min(next);
            next = function.start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(start: u32, end: u32, offset: u32) -> Function {
        let entry = Some(Entry { section: 0, offset });
        Function { start, end, entry }
    }

    /// Functions are sorted; a later start wins, then the longer one, then the first in the file.
    #[test]
    fn overlaps_are_decided() {
        let mut functions = Functions {
            list: vec![
                function(0x900, 0x910, 1),
                function(0x200, 0x220, 3),
                function(0x100, 0x300, 2),
                function(0x200, 0x210, 0),
                function(0x200, 0x220, 4),
            ],
            malformed: 0,
        };
        functions.settle();
        let expected = [
            function(0x100, 0x200, 2),
            function(0x200, 0x220, 3),
            function(0x900, 0x910, 1),
        ];
        assert_eq!(functions.list, expected);
    }

    /// Another section counts only where the first one says nothing.
    #[test]
    fn missing_ones_are_added() {
        let list = vec![function(0x100, 0x200, 0), function(0x300, 0x400, 1)];
        let mut functions = Functions { list, malformed: 1 };
        let others = [
            function(0x80, 0x180, 2),
            function(0x100, 0x200, 3),
            function(0x140, 0x240, 4),
            function(0x200, 0x220, 5),
            function(0x400, 0x420, 6),
        ];
        functions.add_missing(Functions {
            list: others.to_vec(),
            malformed: 2,
        });
        functions.settle();
        let expected = [
            function(0x80, 0x100, 2),
            function(0x100, 0x200, 0),
            function(0x200, 0x220, 5),
            function(0x300, 0x400, 1),
            function(0x400, 0x420, 6),
        ];
        assert_eq!(
            (&functions.list[..], functions.malformed),
            (&expected[..], 3)
        );
    }

    /// A trampoline begins a byte early and replaces what is said of its code.
    #[test]
    fn trampolines_replace() {
        let text = Text {
            base: 0x40_0000,
            ranges: vec![(0, 0x1000)],
        };
        let mut functions = Functions {
            list: vec![function(0x100, 0x200, 0), function(0x120, 0x130, 1)],
            malformed: 0,
        };
        functions.add_trampolines(&[0x40_0120, 0x50_0000], &text);
        functions.settle();
        let trampoline = Function {
            start: 0x11f,
            end: 0x129,
            entry: None,
        };
        assert_eq!(functions.list, [function(0x100, 0x11f, 0), trampoline]);
    }
}
