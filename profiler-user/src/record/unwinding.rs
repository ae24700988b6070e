//! Unwind tables for every mapped file, and each process's mappings, kept up to date in the kernel.
//!
//! Tables are built on a thread of their own, small files first, so that a library of a gigabyte delays
//! nobody. Until a file's table is there the kernel side walks its code by frame pointer, or says why not.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use profiler_ebpf::wire::{GENERATED, MAX_SPACE_ENTRIES, NO_TABLE_EVER, SpaceEntry, SpaceRef};

use super::builder::NoTable;
use super::places::{Place, Places};
use super::tables::{BUDGET_WORDS, TableFigures, Tables};
use crate::kernel::{KernelError, SharedMemory};
use crate::process::{AddressSpace, ElfLoad, FileId, Mapping};
use crate::unwind::Table;

/// How often it is looked which tables nobody uses, while memory is short.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The mappings of one process, and where they lie in the kernel.
#[derive(Debug, Default)]
struct Space {
    mappings: AddressSpace,
    bound: Option<Bound>,
}

impl Space {
    fn maps(&self, file: FileId) -> bool {
        let mut mappings = self.mappings.iter();
        mappings.any(|mapping| mapping.file == Some(file))
    }
}

/// What a process's entry in the kernel says.
#[derive(Debug, Clone, Copy)]
struct Bound {
    place: Place,
    count: u32,
}

impl Bound {
    fn space(self) -> SpaceRef {
        SpaceRef {
            start: self.place.start,
            count: self.count,
        }
    }
}

/// What the kernel side was told about unwinding.
#[derive(Debug)]
pub(super) struct Unwinding {
    spaces: HashMap<u32, Space>,
    places: Places,
    tables: Tables,
    /// Those that stand for code made at run time.
    made: HashSet<FileId>,
    /// Processes whose mappings in the kernel are out of date.
    dirty: HashSet<u32>,
    /// New processes: the kernel side gave each the place that its parent had at the fork, and may have left since.
    new: HashSet<u32>,
    looked: Option<Instant>,
    limits: UnwindLimits,
}

/// What was not kept, and what was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct UnwindLimits {
    pub mappings_over_limit: u64,
    pub spaces_over_limit: u64,
    pub tables_failed: u64,
    pub tables: TableFigures,
}

impl Unwinding {
    pub fn new() -> Self {
        Self::with_budget(BUDGET_WORDS)
    }

    fn with_budget(words: u64) -> Self {
        Self {
            spaces: HashMap::new(),
            places: Places::default(),
            tables: Tables::new(words),
            made: HashSet::new(),
            dirty: HashSet::new(),
            new: HashSet::new(),
            looked: None,
            limits: UnwindLimits::default(),
        }
    }

    /// What was not kept.
    pub fn limits(&self) -> UnwindLimits {
        UnwindLimits {
            tables: self.tables.figures,
            ..self.limits
        }
    }

    /// Whether any table is being built.
    pub fn is_building(&self) -> bool {
        self.tables.is_building()
    }

    /// A process that maps a file.
    pub fn user_of(&self, file: FileId) -> Option<u32> {
        let user = self.spaces.iter().find(|(_, space)| space.maps(file));
        user.map(|(pid, _)| *pid)
    }

    /// The processes that are known.
    pub fn pids(&self) -> Vec<u32> {
        self.spaces.keys().copied().collect()
    }

    /// A file's table is being built.
    pub fn building(&mut self, file: FileId) {
        self.tables.begin(file);
    }

    /// A file cannot be read.
    pub fn unreadable(&mut self, file: FileId) {
        self.tables.cannot_be_had(file);
    }

    /// Whether a file's table was given back, and is to be built again if it is needed.
    pub fn is_gone(&self, file: FileId) -> bool {
        self.tables.is_gone(file)
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
        self.new.insert(child);
        let Some(space) = self.spaces.get(&parent) else {
            return;
        };
        let copy = Space {
            mappings: space.mappings.clone(),
            bound: space.bound,
        };
        if let Some(bound) = copy.bound {
            self.places.share(bound.place);
        }
        // The parent's mappings may have been on their way.
        if self.dirty.contains(&parent) || copy.bound.is_none() {
            self.dirty.insert(child);
        }
        self.spaces.insert(child, copy);
    }

    /// A process ended or became another program.
    pub fn forget(&mut self, memory: &mut impl SharedMemory, pid: u32, now: Instant) {
        self.dirty.remove(&pid);
        self.new.remove(&pid);
        if let Some(space) = self.spaces.remove(&pid) {
            memory.unbind_space(pid);
            if let Some(bound) = space.bound {
                self.places.give_back(bound.place, now);
            }
        }
    }

    /// A file's table was built, or cannot be.
    pub fn built(
        &mut self,
        memory: &mut impl SharedMemory,
        file: FileId,
        table: Result<(Table, ElfLoad), NoTable>,
    ) {
        let known = match table {
            Ok((table, load)) => self.tables.put(memory, file, &table, load),
            Err(reason) => {
                self.limits.tables_failed += u64::from(reason == NoTable::Failed);
                self.tables.cannot_be_had(file);
                true
            }
        };
        if !known {
            return;
        }
        let users = self.spaces.iter().filter(|(_, space)| space.maps(file));
        self.dirty.extend(users.map(|(pid, _)| *pid));
    }

    /// Code made at run time has this table; it stands for so many bytes.
    pub fn made(
        &mut self,
        memory: &mut impl SharedMemory,
        file: FileId,
        table: &Table,
        bytes: u64,
    ) {
        self.tables.begin(file);
        self.tables
            .put(memory, file, table, ElfLoad::of_bytes(bytes));
        self.made.insert(file);
    }

    /// Brings the kernel up to date.
    pub fn flush(&mut self, memory: &mut impl SharedMemory, now: Instant) {
        for pid in std::mem::take(&mut self.new) {
            let bound = self.spaces.get(&pid).and_then(|space| space.bound);
            match bound.map(|bound| memory.bind_space(pid, bound.space())) {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    tracing::debug!("mappings of {pid}: {error}");
                    self.unbind(memory, pid, now);
                }
                // Its mappings follow; what the kernel side gave it nobody keeps up to date.
                None => memory.unbind_space(pid),
            }
        }
        for pid in std::mem::take(&mut self.dirty) {
            let bound = self.flush_one(memory, pid, now).unwrap_or_else(|error| {
                tracing::debug!("mappings of {pid}: {error}");
                false
            });
            if !bound {
                self.unbind(memory, pid, now);
            }
        }
    }

    /// Takes back what the kernel side was told of a process: nothing is better than what holds no more.
    fn unbind(&mut self, memory: &mut impl SharedMemory, pid: u32, now: Instant) {
        let Some(space) = self.spaces.get_mut(&pid) else {
            return;
        };
        memory.unbind_space(pid);
        if let Some(bound) = space.bound.take() {
            self.places.give_back(bound.place, now);
        }
        self.limits.spaces_over_limit += 1;
    }

    /// Tells the kernel side about a process's mappings; false if there is no room.
    fn flush_one(
        &mut self,
        memory: &mut impl SharedMemory,
        pid: u32,
        now: Instant,
    ) -> Result<bool, KernelError> {
        let Some(space) = self.spaces.get_mut(&pid) else {
            return Ok(true);
        };
        let mut files = Vec::new();
        let mut entries: Vec<SpaceEntry> = Vec::new();
        for mapping in space.mappings.iter() {
            let entry = entry(&self.tables, &self.made, mapping);
            files.extend(mapping.file.filter(|_| entry.table != 0));
            entries.push(entry);
        }
        let limit = MAX_SPACE_ENTRIES as usize;
        if entries.len() > limit {
            self.limits.mappings_over_limit += (entries.len() - limit) as u64;
            entries.truncate(limit);
        }
        // Written beside the old, which a sample may be walking with, and which a fork may use too.
        let Some(place) = self.places.take(memory, entries.len(), now)? else {
            return Ok(false);
        };
        files.sort_unstable();
        files.dedup();
        files.iter().for_each(|file| self.tables.uses(*file));
        self.places.lead_to(place, files.into());
        memory.write_words(place.start, bytemuck::cast_slice(&entries));
        let count = u32::try_from(entries.len()).unwrap_or(MAX_SPACE_ENTRIES);
        let bound = Bound { place, count };
        if let Err(error) = memory.bind_space(pid, bound.space()) {
            self.places.give_back(place, now);
            return Err(error);
        }
        if let Some(old) = space.bound.replace(bound) {
            self.places.give_back(old.place, now);
        }
        Ok(true)
    }

    /// Whether tables take more memory than they should, or did not get what they need.
    pub fn is_short(&self) -> bool {
        self.tables.is_short(0)
    }

    /// Whether it was some time ago that it was looked which files are used.
    pub fn is_time_to_look(&self, now: Instant) -> bool {
        let is_time = |looked| now.saturating_duration_since(looked) >= LOOK_EVERY;
        self.looked.is_none_or(is_time)
    }

    /// Looks which files nobody uses; false if that could not be found out. `exists` says whether there is a process.
    pub fn look(
        &mut self,
        memory: &mut impl SharedMemory,
        now: Instant,
        exists: impl Fn(u32) -> bool,
    ) -> bool {
        self.looked = Some(now);
        match self.used(memory, exists) {
            Ok(used) => self.tables.observe(&used, now),
            Err(error) => {
                tracing::debug!("mappings in the kernel: {error}");
                return false;
            }
        }
        true
    }

    /// The files that are mapped, and those whose tables a walk may find.
    fn used(
        &mut self,
        memory: &mut impl SharedMemory,
        exists: impl Fn(u32) -> bool,
    ) -> Result<HashSet<FileId>, KernelError> {
        let spaces = self.spaces.values();
        let mut used: HashSet<FileId> = spaces
            .flat_map(|space| space.mappings.iter())
            .filter_map(|mapping| mapping.file)
            .collect();
        for (pid, space) in memory.bound_spaces()? {
            // A child whose fork was not reported has its parent's place, which was perhaps left since.
            let is_child = self.places.is_in_use(space.start) && exists(pid);
            if self.spaces.contains_key(&pid) || is_child {
                used.extend(self.places.files_from(space.start));
            } else {
                memory.unbind_space(pid);
            }
        }
        Ok(used)
    }

    /// Gives tables back that nobody uses, if memory is short. Returns files whose table is to be built again now.
    pub fn make_room(&mut self, memory: &mut impl SharedMemory, now: Instant) -> Vec<FileId> {
        self.tables.make_room(memory, now)
    }

    /// Forgets at most so many files that have been unused for so long and are not to be kept, and returns them.
    pub fn forget_unused(
        &mut self,
        memory: &mut impl SharedMemory,
        most: usize,
        rest: Duration,
        now: Instant,
        kept: impl Fn(FileId) -> bool,
    ) -> Vec<FileId> {
        let forgotten = self.tables.forget_unused(memory, most, rest, now, kept);
        for file in &forgotten {
            self.made.remove(file);
        }
        forgotten
    }
}

/// A mapping as the kernel side looks it up.
fn entry(tables: &Tables, made: &HashSet<FileId>, mapping: &Mapping) -> SpaceEntry {
    let none = SpaceEntry {
        start: mapping.start,
        end: mapping.end,
        pages: NO_TABLE_EVER,
        ..SpaceEntry::default()
    };
    let Some(file) = mapping.file else {
        return none;
    };
    let Some(table) = tables.get(file) else {
        let pages = if tables.is_absent(file) {
            none.pages
        } else {
            0
        };
        return SpaceEntry { pages, ..none };
    };
    let Some(bias) = table.load.bias(mapping.start, mapping.file_offset) else {
        return none;
    };
    let mark = if made.contains(&file) { GENERATED } else { 0 };
    SpaceEntry {
        origin: bias.wrapping_add(table.base),
        table: table.start,
        pages: table.pages | mark,
        ..none
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
