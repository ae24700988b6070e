//! Unwind tables for every mapped file, and each process's mappings, kept up to date in the kernel.
//!
//! Tables are built on a thread of their own, small files first, so that a library of a gigabyte delays
//! nobody. Until a file's table is there the kernel side walks its code by frame pointer, or says why not.

use std::collections::{HashMap, HashSet};

use profiler_ebpf::wire::{MAX_SPACE_ENTRIES, NO_TABLE_EVER, SpaceEntry, SpaceRef};

use super::places::{Place, Places};
use crate::kernel::{Kernel, KernelError};
use crate::process::{AddressSpace, ElfLoad, FileId, Mapping};
use crate::unwind::Table;

/// A table in the kernel.
#[derive(Debug, Clone)]
struct ReadyTable {
    start: u32,
    base: u64,
    pages: u32,
    load: ElfLoad,
}

/// The mappings of one process, and where they lie in the kernel.
#[derive(Debug, Default)]
struct Space {
    mappings: AddressSpace,
    place: Option<Place>,
}

/// What the kernel side was told about unwinding.
#[derive(Debug)]
pub(super) struct Unwinding {
    spaces: HashMap<u32, Space>,
    places: Places,
    /// Tables by file; `None` for one whose table cannot be had.
    tables: HashMap<FileId, Option<ReadyTable>>,
    /// Processes whose mappings in the kernel are out of date.
    dirty: HashSet<u32>,
    /// What was not kept, and why.
    pub limits: UnwindLimits,
}

/// What was not kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct UnwindLimits {
    pub tables_over_limit: u64,
    pub mappings_over_limit: u64,
    pub spaces_over_limit: u64,
    pub tables_failed: u64,
    pub table_bytes: u64,
}

impl Unwinding {
    pub fn new() -> Self {
        Self {
            spaces: HashMap::new(),
            places: Places::default(),
            tables: HashMap::new(),
            dirty: HashSet::new(),
            limits: UnwindLimits::default(),
        }
    }

    /// Files whose table is there, or known not to be had.
    pub fn tables_known(&self) -> usize {
        self.tables.len()
    }

    /// A process made a mapping.
    pub fn map(&mut self, pid: u32, mapping: Mapping) {
        let space = self.spaces.entry(pid).or_default();
        if !space.mappings.insert(mapping) {
            self.limits.mappings_over_limit += 1;
        }
        self.dirty.insert(pid);
    }

    /// A process was made by fork: the kernel side has copied what it knew of its parent.
    pub fn fork(&mut self, parent: u32, child: u32) {
        let Some(space) = self.spaces.get(&parent) else {
            return;
        };
        let copy = Space {
            mappings: space.mappings.clone(),
            place: space.place,
        };
        if let Some(place) = copy.place {
            self.places.share(place);
        }
        // The parent's mappings may have been on their way.
        if self.dirty.contains(&parent) || copy.place.is_none() {
            self.dirty.insert(child);
        }
        self.spaces.insert(child, copy);
    }

    /// A process ended or became another program.
    pub fn forget(&mut self, kernel: &mut Kernel, pid: u32) {
        self.dirty.remove(&pid);
        if let Some(space) = self.spaces.remove(&pid) {
            kernel.unbind_space(pid);
            if let Some(place) = space.place {
                self.places.give_back(place);
            }
        }
    }

    /// A file's table was built, or cannot be.
    pub fn built(&mut self, kernel: &mut Kernel, file: FileId, table: Option<(Table, ElfLoad)>) {
        let ready = table.and_then(|(table, load)| self.put(kernel, &table, load));
        if ready.is_none() {
            self.limits.tables_failed += 1;
        } else {
            let uses = |space: &Space| {
                space
                    .mappings
                    .iter()
                    .any(|mapping| mapping.file == Some(file))
            };
            self.dirty.extend(
                self.spaces
                    .iter()
                    .filter(|(_, space)| uses(space))
                    .map(|(pid, _)| *pid),
            );
        }
        self.tables.insert(file, ready);
    }

    fn put(&mut self, kernel: &mut Kernel, table: &Table, load: ElfLoad) -> Option<ReadyTable> {
        let count = u32::try_from(table.words.len()).ok()?;
        let start = match kernel.allocate(count) {
            Ok(Some(start)) => start,
            Ok(None) => {
                self.limits.tables_over_limit += 1;
                return None;
            }
            Err(error) => {
                tracing::debug!("unwind table: {error}");
                return None;
            }
        };
        kernel.write_words(start, &table.words);
        self.limits.table_bytes += 8 * u64::from(count);
        Some(ReadyTable {
            start,
            base: table.base,
            pages: table.pages,
            load,
        })
    }

    /// Brings the kernel up to date.
    pub fn flush(&mut self, kernel: &mut Kernel) {
        for pid in std::mem::take(&mut self.dirty) {
            if let Err(error) = self.flush_one(kernel, pid) {
                tracing::debug!("mappings of {pid}: {error}");
                self.limits.spaces_over_limit += 1;
            }
        }
    }

    fn flush_one(&mut self, kernel: &mut Kernel, pid: u32) -> Result<(), KernelError> {
        let Some(space) = self.spaces.get_mut(&pid) else {
            return Ok(());
        };
        let mut entries: Vec<SpaceEntry> = space
            .mappings
            .iter()
            .map(|mapping| entry(&self.tables, mapping))
            .collect();
        let limit = MAX_SPACE_ENTRIES as usize;
        if entries.len() > limit {
            self.limits.mappings_over_limit += (entries.len() - limit) as u64;
            entries.truncate(limit);
        }
        // Written beside the old, which a sample may be walking with, and which a fork may use too.
        let Some(place) = self.places.take(kernel, entries.len())? else {
            self.limits.spaces_over_limit += 1;
            return Ok(());
        };
        kernel.write_words(place.start, bytemuck::cast_slice(&entries));
        let count = u32::try_from(entries.len()).unwrap_or(MAX_SPACE_ENTRIES);
        kernel.bind_space(
            pid,
            SpaceRef {
                start: place.start,
                count,
            },
        )?;
        if let Some(old) = space.place.replace(place) {
            self.places.give_back(old);
        }
        Ok(())
    }
}

/// A mapping as the kernel side looks it up.
fn entry(tables: &HashMap<FileId, Option<ReadyTable>>, mapping: &Mapping) -> SpaceEntry {
    let none = SpaceEntry {
        start: mapping.start,
        end: mapping.end,
        pages: NO_TABLE_EVER,
        ..SpaceEntry::default()
    };
    let Some(file) = mapping.file else {
        return none;
    };
    let table = match tables.get(&file) {
        Some(Some(table)) => table,
        Some(None) => return none,
        None => return SpaceEntry { pages: 0, ..none },
    };
    let Some(bias) = table.load.bias(mapping.start, mapping.file_offset) else {
        return none;
    };
    SpaceEntry {
        origin: bias.wrapping_add(table.base),
        table: table.start,
        pages: table.pages,
        ..none
    }
}
