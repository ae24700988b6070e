//! Names of generated code: the lines of a perf map, `START SIZE NAME`, numbers in hexadecimal.
//!
//! A program that generates code appends to the list and takes nothing back. Where entries overlap, the later one
//! holds: its code was written over the earlier one's. What is not understood, is too long or has no end of line yet
//! is left out and counted: a name cut short would be a wrong one.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;

/// Bytes read of one list: of a longer one its end, which holds where the two disagree.
const MAX_BYTES: u64 = 64 << 20;
/// Entries kept of one list: the last ones.
const MAX_ENTRIES: usize = 1_000_000;
/// Bytes of one name.
const MAX_NAME: usize = 1 << 16;

/// Functions of generated code by address.
#[derive(Debug, Default)]
pub struct PerfMap {
    /// What was read, names included.
    text: Vec<u8>,
    /// Where each name lies in it.
    names: Vec<Range<u32>>,
    /// First addresses of stretches, in order, and which name holds there; none in gaps.
    stretches: Vec<(u64, Option<u32>)>,
    /// Lines that were not understood.
    pub not_understood: u64,
    /// Whether there was more than is kept.
    pub cut: bool,
}

/// One line, understood.
struct Entry {
    start: u64,
    end: u64,
}

impl PerfMap {
    /// Reads a list that has so many bytes. What is appended meanwhile is for the next time.
    pub fn read(mut file: &File, bytes: u64) -> io::Result<Self> {
        let skipped = bytes.saturating_sub(MAX_BYTES);
        file.seek(SeekFrom::Start(skipped))?;
        let mut text = Vec::new();
        file.take(bytes - skipped).read_to_end(&mut text)?;
        if skipped > 0 {
            // The line it begins in is not whole.
            let first = text.iter().position(|byte| *byte == b'\n');
            text.drain(..first.map_or(text.len(), |at| at + 1));
        }
        let mut map = Self::parse(text, MAX_ENTRIES);
        map.cut |= skipped > 0;
        Ok(map)
    }

    /// Takes a list apart, keeping so many entries at most.
    fn parse(text: Vec<u8>, max_entries: usize) -> Self {
        let mut map = Self::default();
        let mut entries = Vec::new();
        // What follows the last line's end is being written.
        let whole = text.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        for line in text[..whole].rsplit(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let Some((entry, name)) = entry(line) else {
                map.not_understood += 1;
                continue;
            };
            if entries.len() == max_entries {
                map.cut = true;
                break;
            }
            // The text is far smaller than 4 GiB.
            let at = (name.as_ptr().addr() - text.as_ptr().addr()) as u32;
            map.names.push(at..at + name.len() as u32);
            entries.push(entry);
        }
        map.stretches = settle(&entries);
        map.text = text;
        map
    }

    /// The function at an address.
    pub fn name(&self, address: u64) -> Option<Cow<'_, str>> {
        let next = self
            .stretches
            .partition_point(|(start, _)| *start <= address);
        let (_, name) = *self.stretches.get(next.checked_sub(1)?)?;
        let range = self.names.get(name? as usize)?;
        let bytes = self.text.get(range.start as usize..range.end as usize)?;
        Some(String::from_utf8_lossy(bytes))
    }

    /// Bytes of memory it takes.
    pub fn size(&self) -> usize {
        self.text.capacity()
            + self.names.capacity() * size_of::<Range<u32>>()
            + self.stretches.capacity() * size_of::<(u64, Option<u32>)>()
    }
}

/// A line's parts: start, size, and all of the rest as the name.
fn entry(line: &[u8]) -> Option<(Entry, &[u8])> {
    let (start, rest) = number(line)?;
    let (size, name) = number(rest)?;
    let end = start.checked_add(size).filter(|end| *end > start)?;
    let name = name.trim_ascii();
    (!name.is_empty() && name.len() <= MAX_NAME).then_some((Entry { start, end }, name))
}

/// A hexadecimal number and what follows the blank behind it.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let text = text.strip_prefix(b"0x").unwrap_or(text);
    let digits = text
        .iter()
        .position(|byte| *byte == b' ' || *byte == b'\t')?;
    let mut value = 0;
    for digit in text.get(..digits).filter(|digits| !digits.is_empty())? {
        let digit = char::from(*digit).to_digit(16)?;
        value = u64::checked_mul(value, 16)? + u64::from(digit);
    }
    Some((value, text.get(digits + 1..)?))
}

/// Which entry holds from where on. Entries come last first: a lower index wins.
fn settle(entries: &[Entry]) -> Vec<(u64, Option<u32>)> {
    let mut by_start: Vec<u32> = (0..entries.len() as u32).collect();
    by_start.sort_unstable_by_key(|index| entries[*index as usize].start);
    let mut borders: Vec<u64> = entries
        .iter()
        .flat_map(|entry| [entry.start, entry.end])
        .collect();
    borders.sort_unstable();
    borders.dedup();
    let mut stretches: Vec<(u64, Option<u32>)> = Vec::with_capacity(borders.len());
    let mut open: BinaryHeap<Reverse<u32>> = BinaryHeap::new();
    let mut begun = by_start.into_iter().peekable();
    for at in borders {
        while let Some(index) = begun.next_if(|index| entries[*index as usize].start <= at) {
            open.push(Reverse(index));
        }
        while let Some(Reverse(index)) = open.peek()
            && entries[*index as usize].end <= at
        {
            open.pop();
        }
        let holds = open.peek().map(|Reverse(index)| *index);
        if stretches.last().is_none_or(|(_, before)| *before != holds) {
            stretches.push((at, holds));
        }
    }
    stretches
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn map(text: impl AsRef<[u8]>) -> PerfMap {
        PerfMap::parse(text.as_ref().to_vec(), 1000)
    }

    fn name(map: &PerfMap, address: u64) -> Option<String> {
        map.name(address).map(Cow::into_owned)
    }

    /// Addresses from an entry's start up to its end have its name, blanks and all, and others none.
    #[test]
    fn names_what_is_listed() {
        let map = map("7f00 10 JS:~f /a b.js:1\n0x8000 0x8 La/b/C;::m\r\n\n8010 1 x\n");
        for (address, expected) in [
            (0x7eff, None),
            (0x7f00, Some("JS:~f /a b.js:1")),
            (0x7f0f, Some("JS:~f /a b.js:1")),
            (0x7f10, None),
            (0x8007, Some("La/b/C;::m")),
            (0x8008, None),
            (0x8010, Some("x")),
            (u64::MAX, None),
        ] {
            assert_eq!(name(&map, address).as_deref(), expected, "{address:#x}");
        }
        assert_eq!((map.not_understood, map.cut), (0, false));
    }

    /// A later entry holds where it lies; around it the earlier one does.
    #[test]
    fn later_entries_hold() {
        let map = map("1000 100 old\n1040 20 new\n10f0 40 last\n1000 8 first\n");
        let at = |address| name(&map, address).unwrap_or_default();
        assert_eq!(at(0x1000), "first");
        assert_eq!(at(0x1008), "old");
        assert_eq!(at(0x1040), "new");
        assert_eq!(at(0x1060), "old");
        assert_eq!(at(0x10f0), "last");
        assert_eq!(at(0x112f), "last");
        assert_eq!(at(0x1130), "");
    }

    /// What is no line of a perf map is counted and names nothing; what is around it stands.
    #[test]
    fn other_lines_are_counted() {
        let long = format!("5000 10 {}\n", "x".repeat(MAX_NAME + 1));
        let text = [
            &b"1000 10 good\nrubbish\n1000\n1000 10\n1000 10 \n 1000 10 f\n10 0 empty\n"[..],
            b"ffffffffffffffff 2 beyond\n11111111111111111 1 long\n-1 1 f\n+1 1 f\n\0\0\n",
            long.as_bytes(),
            b"2000 10 \xff\xfe;\x1b[2J\n3000 10 not fini",
        ]
        .concat();
        let map = map(&text);
        assert_eq!(map.not_understood, 12);
        assert_eq!(name(&map, 0x1000).as_deref(), Some("good"));
        assert_eq!(
            name(&map, 0x2000).as_deref(),
            Some("\u{fffd}\u{fffd};\u{1b}[2J")
        );
        assert_eq!(name(&map, 0x3000), None);
        assert_eq!(name(&map, 0x5000), None);
    }

    /// Of more entries than are kept the last ones are, and it says so.
    #[test]
    fn too_many_entries() {
        let text: String = (0..20).map(|at| format!("{at:x}0 10 f{at}\n")).collect();
        let map = PerfMap::parse(text.into_bytes(), 5);
        assert!(map.cut);
        assert_eq!(name(&map, 0xe0), None);
        assert_eq!(name(&map, 0xf0).as_deref(), Some("f15"));
        assert!(map.size() < 2000);
    }

    /// A list is read up to the size it was found with; of one that is too long, the end.
    #[test]
    fn bounded_in_bytes() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"1000 10 f\n2000 10 g\n3000 10 h\n")
            .unwrap();
        let map = PerfMap::read(&file, 20).unwrap();
        assert_eq!(name(&map, 0x2000).as_deref(), Some("g"));
        assert_eq!(name(&map, 0x3000), None);
        assert_eq!(PerfMap::read(&file, 0).unwrap().size(), 0);
        file.set_len(MAX_BYTES + 25).unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(b"\n4000 10 i\n").unwrap();
        let map = PerfMap::read(&file, file.metadata().unwrap().len()).unwrap();
        assert!(map.cut);
        assert_eq!(name(&map, 0x1000), None);
        assert_eq!(name(&map, 0x4000).as_deref(), Some("i"));
    }

    proptest! {
        /// Every address has the name of the last entry that covers it.
        #[test]
        fn the_last_that_covers(entries in prop::collection::vec((0_u64..60, 1_u64..40), 0..30)) {
            let lines: String = entries
                .iter()
                .enumerate()
                .map(|(index, (start, size))| format!("{start:x} {size:x} f{index}\n"))
                .collect();
            let map = map(&lines);
            for address in 0..110 {
                let last = entries
                    .iter()
                    .rposition(|(start, size)| (*start..start + size).contains(&address));
                prop_assert_eq!(name(&map, address), last.map(|index| format!("f{index}")));
            }
        }

        /// No bytes are too strange.
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200), address in any::<u64>()) {
            map(&bytes).name(address);
        }
    }
}
