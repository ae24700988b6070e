//! Executable mappings of one process.

use std::collections::BTreeMap;

use super::FileId;

/// Mappings kept per process; further ones are counted.
const MAX_MAPPINGS: usize = 65536;

/// One executable mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// First run-time address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Offset in the file of `start`.
    pub file_offset: u64,
    /// The file; `None` for memory without one.
    pub file: Option<FileId>,
}

impl Mapping {
    /// The file offset of a run-time address inside the mapping.
    pub fn file_offset_of(&self, address: u64) -> u64 {
        address - self.start + self.file_offset
    }
}

/// All executable mappings of one process, by address.
#[derive(Debug, Clone, Default)]
pub struct AddressSpace(BTreeMap<u64, Mapping>);

impl AddressSpace {
    /// Adds a mapping; what it covers of older ones is gone. False when there is no room.
    pub fn insert(&mut self, mapping: Mapping) -> bool {
        if mapping.start >= mapping.end {
            return true;
        }
        let covered: Vec<Mapping> = self
            .0
            .range(..mapping.end)
            .rev()
            .take_while(|(_, old)| old.end > mapping.start)
            .map(|(_, old)| *old)
            .collect();
        for old in covered {
            self.0.remove(&old.start);
            if old.start < mapping.start {
                self.0.insert(
                    old.start,
                    Mapping {
                        end: mapping.start,
                        ..old
                    },
                );
            }
            if old.end > mapping.end {
                let file_offset = old.file_offset_of(mapping.end);
                self.0.insert(
                    mapping.end,
                    Mapping {
                        start: mapping.end,
                        file_offset,
                        ..old
                    },
                );
            }
        }
        if self.0.len() >= MAX_MAPPINGS {
            return false;
        }
        self.0.insert(mapping.start, mapping);
        true
    }

    /// The mapping that holds an address.
    pub fn find(&self, address: u64) -> Option<&Mapping> {
        let (_, mapping) = self.0.range(..=address).next_back()?;
        (address < mapping.end).then_some(mapping)
    }

    /// All mappings in order of address.
    pub fn iter(&self) -> impl Iterator<Item = &Mapping> {
        self.0.values()
    }

    /// Forgets all mappings.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, file_offset: u64) -> Mapping {
        Mapping {
            start,
            end,
            file_offset,
            file: None,
        }
    }

    /// A new mapping in the middle of an old one leaves both ends, with the right offsets.
    #[test]
    fn splits_what_it_covers() {
        let mut space = AddressSpace::default();
        space.insert(mapping(0x1000, 0x9000, 0x100));
        space.insert(mapping(0x3000, 0x5000, 0));
        let all: Vec<_> = space.iter().copied().collect();
        assert_eq!(
            all,
            [
                mapping(0x1000, 0x3000, 0x100),
                mapping(0x3000, 0x5000, 0),
                mapping(0x5000, 0x9000, 0x4100)
            ]
        );
    }

    /// Several old mappings under one new one are gone.
    #[test]
    fn replaces_several() {
        let mut space = AddressSpace::default();
        for start in [0x1000, 0x2000, 0x3000] {
            space.insert(mapping(start, start + 0x1000, 0));
        }
        space.insert(mapping(0x1800, 0x3800, 7));
        assert_eq!(space.iter().count(), 3);
        assert_eq!(space.find(0x2000).unwrap().file_offset, 7);
        assert_eq!(space.find(0x3800).unwrap().file_offset, 0x800);
    }

    /// Addresses outside every mapping are in none.
    #[test]
    fn finds_only_inside() {
        let mut space = AddressSpace::default();
        space.insert(mapping(0x1000, 0x2000, 0x40));
        assert_eq!(space.find(0xfff), None);
        assert_eq!(space.find(0x2000), None);
        assert_eq!(space.find(0x1fff).unwrap().file_offset_of(0x1fff), 0x103f);
    }
}
