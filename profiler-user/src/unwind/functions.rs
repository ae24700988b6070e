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
    /// Where its entry (FDE) lies in the section; `None` for a signal trampoline known by its code.
    pub entry: Option<u32>,
    /// Which section that is, by its place among the sources.
    pub source: u8,
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
    /// Lists what a section describes of the code.
    pub fn read<'d, S>(section: &S, bases: &BaseAddresses, text: &Text) -> Result<Self, UnwindError>
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
                entry: u32::try_from(entry.offset()).ok(),
                source: 0,
            });
        }
        Ok(functions)
    }

    /// Adds what a further source describes of code of which nothing has been said, and settles.
    pub fn fill(&mut self, mut more: Self, source: u8) -> Result<(), UnwindError> {
        more.settle();
        self.malformed += more.malformed;
        // Both are in order and without overlaps.
        let mut known = self.list.iter().peekable();
        more.list.retain_mut(|function| {
            function.source = source;
            while known.next_if(|known| known.end <= function.start).is_some() {}
            known.peek().is_none_or(|known| known.start >= function.end)
        });
        if self.list.is_empty() {
            self.list = more.list;
        } else if !more.list.is_empty() {
            self.list.append(&mut more.list);
            self.list.sort_unstable_by_key(|function| function.start);
        }
        if self.list.len() > MAX_ROWS {
            return Err(UnwindError::TooManyRows(MAX_ROWS));
        }
        Ok(())
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
                    source: 0,
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn function(start: u32, end: u32, entry: u32) -> Function {
        Function {
            start,
            end,
            entry: Some(entry),
            source: 0,
        }
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
            ..Functions::default()
        };
        functions.settle();
        let expected = [
            function(0x100, 0x200, 2),
            function(0x200, 0x220, 3),
            function(0x900, 0x910, 1),
        ];
        assert_eq!(functions.list, expected);
    }

    /// A further source is heard only about code of which the first says nothing.
    #[test]
    fn further_sources_fill() {
        let of = |list: &[(u32, u32, u32)]| Functions {
            list: list.iter().map(|f| function(f.0, f.1, f.2)).collect(),
            ..Functions::default()
        };
        let mut functions = of(&[]);
        let first = of(&[(0x300, 0x400, 1), (0x100, 0x200, 0)]);
        functions.fill(first, 0).unwrap();
        let more = of(&[
            (0x80, 0x100, 5),
            (0x1f0, 0x210, 6),
            (0x210, 0x300, 7),
            (0x2f0, 0x500, 8),
            (0x320, 0x330, 9),
            (0x600, 0x700, 10),
        ]);
        functions.fill(more, 1).unwrap();
        let found: Vec<_> = functions
            .list
            .iter()
            .map(|function| (function.start, function.end, function.source))
            .collect();
        let expected = [
            (0x80, 0x100, 1),
            (0x100, 0x200, 0),
            (0x210, 0x2f0, 1),
            (0x300, 0x400, 0),
            (0x600, 0x700, 1),
        ];
        assert_eq!(found, expected);
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
            ..Functions::default()
        };
        functions.add_trampolines(&[0x40_0120, 0x50_0000], &text);
        functions.settle();
        let trampoline = Function {
            start: 0x11f,
            end: 0x129,
            entry: None,
            source: 0,
        };
        assert_eq!(functions.list, [function(0x100, 0x11f, 0), trampoline]);
    }
}
