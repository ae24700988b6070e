//! Where functions without a name begin and end, from a file's unwind data (`.eh_frame`).
//!
//! Stripped code keeps it: so a place in it can at least be told to be in one function or another.

use std::fs::File;
use std::ops::ControlFlow;

use object::read::elf::ElfFile64;
use object::{Endianness, ReadCache};
use rustc_hash::FxHashMap;

use crate::process::{ElfLoad, FileId};
use crate::unwind::{FrameEntry, for_each_frame_entry};

/// Functions kept per file; a file with more is not told apart.
const MAX_FUNCTIONS: usize = 1 << 21;
/// Functions kept of all files together: 64 MiB. When there are more all are forgotten and read again.
const MAX_KEPT: usize = 1 << 22;

/// Functions of all files in which unnamed code was met.
#[derive(Debug, Default)]
pub(super) struct AllExtents {
    files: FxHashMap<FileId, Extents>,
    functions: usize,
    /// How often everything was forgotten.
    pub forgotten: u64,
}

impl AllExtents {
    /// The file offset at which the function around `offset` begins.
    pub fn start_of(&mut self, id: FileId, file: Option<&File>, offset: u64) -> Option<u64> {
        self.start_with(id, offset, MAX_KEPT, || {
            file.map(Extents::read).unwrap_or_default()
        })
    }

    fn start_with(
        &mut self,
        id: FileId,
        offset: u64,
        most: usize,
        read: impl FnOnce() -> Extents,
    ) -> Option<u64> {
        if let Some(known) = self.files.get(&id) {
            return known.start_of(offset);
        }
        let extents = read();
        let functions = extents.0.len();
        if !self.files.is_empty() && self.functions + functions > most {
            self.files.clear();
            self.functions = 0;
            self.forgotten += 1;
        }
        self.functions += functions;
        self.files.entry(id).or_insert(extents).start_of(offset)
    }
}

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
    let mut functions = Vec::new();
    for_each_frame_entry(&elf, |FrameEntry { entry, .. }| {
        if let Some(start) = load.code_offset(entry.initial_address()) {
            functions.push((start, start.saturating_add(entry.len())));
        }
        if functions.len() > MAX_FUNCTIONS {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    if functions.len() > MAX_FUNCTIONS {
        return None;
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

    /// When there are too many functions, all are forgotten, that is counted, and they are read again.
    #[test]
    fn bounded_together() {
        let mut table = crate::process::FileTable::default();
        let mut id = |inode| {
            let record = crate::kernel::sideband::MappingRecord {
                start: 0,
                bytes: 1,
                file_offset: 0,
                device: (0, 0),
                inode,
                path: Vec::new(),
            };
            table.intern_record(u32::MAX, &record).unwrap()
        };
        let ids = [id(1), id(2), id(3)];
        let mut all = AllExtents::default();
        let mut reads = 0;
        for id in [ids[0], ids[1], ids[0], ids[2], ids[0], ids[2]] {
            let start = all.start_with(id, 7, 5, || {
                reads += 1;
                Extents(vec![(5, 8), (10, 20)])
            });
            assert_eq!(start, Some(5));
        }
        assert_eq!((reads, all.forgotten, all.functions), (4, 1, 4));
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
