//! Where functions without a name begin and end, from a file's unwind data (`.eh_frame`).
//!
//! Stripped code keeps it: so a place in it can at least be told to be in one function or another.

use std::fs::File;

use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection as _};
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _, ReadCache};

use crate::process::ElfLoad;

/// Functions kept per file; a file with more is not told apart.
const MAX_FUNCTIONS: usize = 1 << 21;

/// Function starts and ends of one file, as file offsets, in order.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Extents(Vec<(u64, u64)>);

impl Extents {
    /// Reads them; empty where the file has none that can be read.
    pub fn read(file: &File) -> Self {
        Self(read(file).unwrap_or_default())
    }

    /// The file offset at which the function around `offset` begins.
    pub fn start_of(&self, offset: u64) -> Option<u64> {
        let next = self.0.partition_point(|(start, _)| *start <= offset);
        let (start, end) = *self.0.get(next.checked_sub(1)?)?;
        (offset < end).then_some(start)
    }
}

fn read(file: &File) -> Option<Vec<(u64, u64)>> {
    let cache = ReadCache::new(file);
    let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    let load = ElfLoad::of(&elf);
    let section = elf.section_by_name(".eh_frame")?;
    let frames = EhFrame::new(section.data().ok()?, LittleEndian);
    let bases = BaseAddresses::default()
        .set_eh_frame(section.address())
        .set_text(
            elf.section_by_name(".text")
                .map_or(0, |text| text.address()),
        );
    let mut functions = Vec::new();
    let mut entries = frames.entries(&bases);
    // An entry that cannot be read ends the list: what came before it stands.
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let Ok(entry) =
            partial.parse(|section, bases, offset| section.cie_from_offset(bases, offset))
        else {
            continue;
        };
        let Some(start) = load.code_offset(entry.initial_address()) else {
            continue;
        };
        functions.push((start, start.saturating_add(entry.len())));
        if functions.len() > MAX_FUNCTIONS {
            return None;
        }
    }
    functions.sort_unstable();
    Some(functions)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Offsets between functions belong to none.
    #[test]
    fn finds_the_function_around() {
        let extents = Extents(vec![(100, 120), (120, 130), (200, 210)]);
        assert_eq!(extents.start_of(99), None);
        assert_eq!(extents.start_of(119), Some(100));
        assert_eq!(extents.start_of(120), Some(120));
        assert_eq!(extents.start_of(150), None);
        assert_eq!(extents.start_of(209), Some(200));
        assert_eq!(Extents::default().start_of(0), None);
    }

    /// This very program has functions; a text file has none.
    #[test]
    fn reads_files() {
        assert!(
            Extents::read(&File::open("/proc/self/exe").unwrap())
                .0
                .len()
                > 100
        );
        assert!(
            Extents::read(&File::open("/proc/version").unwrap())
                .0
                .is_empty()
        );
    }
}
