//! Unwind tables in the memory both sides see: which file's are there, which nobody uses, which have to go.
//!
//! Tables of files that no process maps any more stay until memory is short: the next process may map them again. The
//! one unused for longest goes first, and none before it has been unused for a while, since a sample may be walking
//! with it. A file whose table is gone is built again, from the disk cache as a rule, when it is mapped again.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::kernel::SharedMemory;
use crate::process::{ElfLoad, FileId};
use crate::unwind::Table;

/// Words that tables may take before those that nobody uses go: 256 MiB. What is used stays, up to all there is.
pub(super) const BUDGET_WORDS: u64 = (256 << 20) / 8;
/// A table goes at the earliest when it has been unused for so long: no walk takes a hundredth of it.
pub(super) const REST: Duration = Duration::from_secs(2);

/// A table in the kernel.
#[derive(Debug, Clone)]
pub(super) struct ReadyTable {
    /// First word.
    pub start: u32,
    /// Words.
    pub words: u32,
    /// Address in the file that row addresses count from.
    pub base: u64,
    /// Pages of the directory.
    pub pages: u32,
    /// How the file is loaded.
    pub load: ElfLoad,
}

/// How it stands with a file's table.
#[derive(Debug)]
enum State {
    /// It is being built.
    Building,
    /// It cannot be had.
    Absent,
    /// It was given back, or there was no room: it can be built again.
    Gone,
    /// It is there.
    Ready(ReadyTable),
}

/// A file's table, and since when nobody uses the file.
#[derive(Debug)]
struct Entry {
    state: State,
    unused_since: Option<Instant>,
}

/// The tables of all files.
#[derive(Debug)]
pub(super) struct Tables {
    entries: HashMap<FileId, Entry>,
    budget_words: u64,
    words: u64,
    /// There was no room for a table since tables were last given back.
    starved: bool,
    /// Figures for the reader.
    pub figures: TableFigures,
}

/// What became of tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TableFigures {
    /// Tables that were there at a time, at most.
    pub most_tables: u64,
    /// Bytes that tables took at a time, at most.
    pub most_bytes: u64,
    /// Tables given back.
    pub given_back: u64,
    /// Tables for which there was no room.
    pub no_room: u64,
}

impl Tables {
    /// No tables. Those that nobody uses go when all together take more than so many words.
    pub fn new(budget_words: u64) -> Self {
        Self {
            entries: HashMap::new(),
            budget_words,
            words: 0,
            starved: false,
            figures: TableFigures::default(),
        }
    }

    /// A file's table is being built.
    pub fn begin(&mut self, file: FileId) {
        self.set(file, State::Building);
    }

    /// A file's table cannot be had.
    pub fn cannot_be_had(&mut self, file: FileId) {
        self.set(file, State::Absent);
    }

    /// Whether any table is being built.
    pub fn is_building(&self) -> bool {
        let mut entries = self.entries.values();
        entries.any(|entry| matches!(entry.state, State::Building))
    }

    /// The table of a file, if it is there.
    pub fn get(&self, file: FileId) -> Option<&ReadyTable> {
        match &self.entries.get(&file)?.state {
            State::Ready(table) => Some(table),
            _ => None,
        }
    }

    /// Whether a file's table cannot be had.
    pub fn is_absent(&self, file: FileId) -> bool {
        let entry = self.entries.get(&file);
        entry.is_some_and(|entry| matches!(entry.state, State::Absent))
    }

    /// Whether a file's table was there, or would have been, and can be built again.
    pub fn is_gone(&self, file: FileId) -> bool {
        let entry = self.entries.get(&file);
        entry.is_some_and(|entry| matches!(entry.state, State::Gone))
    }

    /// Whether so many more words are more than there should be.
    pub fn is_short(&self, more_words: u64) -> bool {
        self.starved || self.words + more_words > self.budget_words
    }

    /// Puts a table into memory; false if it cannot be.
    pub fn put(
        &mut self,
        memory: &mut impl SharedMemory,
        file: FileId,
        table: &Table,
        load: ElfLoad,
    ) -> bool {
        let words = u32::try_from(table.words.len()).unwrap_or(u32::MAX);
        let start = match memory.allocate(words) {
            Ok(start) => start,
            Err(error) => {
                tracing::debug!("unwind table: {error}");
                None
            }
        };
        let Some(start) = start else {
            self.starved = true;
            self.figures.no_room += 1;
            self.set(file, State::Gone);
            return false;
        };
        memory.write_words(start, &table.words);
        self.words += u64::from(words);
        self.set(
            file,
            State::Ready(ReadyTable {
                start,
                words,
                base: table.base,
                pages: table.pages,
                load,
            }),
        );
        let is_ready = |entry: &&Entry| matches!(entry.state, State::Ready(_));
        let tables = self.entries.values().filter(is_ready).count() as u64;
        self.figures.most_tables = self.figures.most_tables.max(tables);
        self.figures.most_bytes = self.figures.most_bytes.max(8 * self.words);
        true
    }

    fn set(&mut self, file: FileId, state: State) {
        // Whoever has it built maps it.
        let unused_since = None;
        let entry = Entry {
            state,
            unused_since,
        };
        let before = self.entries.insert(file, entry);
        debug_assert!(
            !before.is_some_and(|entry| matches!(entry.state, State::Ready(_))),
            "a table that is there is built once"
        );
    }

    /// Notes that a walk may find a file's table from now on.
    pub fn uses(&mut self, file: FileId) {
        if let Some(entry) = self.entries.get_mut(&file) {
            entry.unused_since = None;
        }
    }

    /// Notes which files are used at this moment: those of all live processes, and those whose table a walk may find.
    pub fn observe(&mut self, used: &HashSet<FileId>, now: Instant) {
        for (file, entry) in &mut self.entries {
            match &mut entry.unused_since {
                _ if used.contains(file) => entry.unused_since = None,
                since => _ = since.get_or_insert(now),
            }
        }
    }

    /// Gives tables back that were found unused and have rested, until there is enough room again. Returns the files
    /// that are used and can be built again now.
    pub fn make_room(&mut self, memory: &mut impl SharedMemory, now: Instant) -> Vec<FileId> {
        let mut rested: Vec<(Instant, FileId)> = self
            .rested(REST, now)
            .filter(|(_, _, state)| matches!(state, State::Ready(_)))
            .map(|(since, file, _)| (since, file))
            .collect();
        rested.sort_unstable();
        let mut freed = false;
        for (_, file) in rested {
            if !self.is_short(0) {
                break;
            }
            freed |= self.give_back(memory, file);
        }
        if !freed || !std::mem::take(&mut self.starved) {
            return Vec::new();
        }
        let wanted = |(_, entry): &(&FileId, &Entry)| {
            entry.unused_since.is_none() && matches!(entry.state, State::Gone)
        };
        self.entries
            .iter()
            .filter(wanted)
            .map(|(file, _)| *file)
            .collect()
    }

    fn rested(
        &self,
        rest: Duration,
        now: Instant,
    ) -> impl Iterator<Item = (Instant, FileId, &State)> {
        self.entries.iter().filter_map(move |(file, entry)| {
            let since = entry.unused_since?;
            let rested = now.saturating_duration_since(since) >= rest;
            rested.then_some((since, *file, &entry.state))
        })
    }

    fn give_back(&mut self, memory: &mut impl SharedMemory, file: FileId) -> bool {
        let Some(entry) = self.entries.get_mut(&file) else {
            return false;
        };
        let State::Ready(table) = std::mem::replace(&mut entry.state, State::Gone) else {
            return false;
        };
        memory.free(table.start, table.words);
        self.words -= u64::from(table.words);
        self.figures.given_back += 1;
        true
    }

    /// Forgets at most so many files that have been unused for so long, longest first, with their tables. Returns them.
    pub fn forget_unused(
        &mut self,
        memory: &mut impl SharedMemory,
        most: usize,
        rest: Duration,
        now: Instant,
        kept: impl Fn(FileId) -> bool,
    ) -> Vec<FileId> {
        let mut rested: Vec<(Instant, FileId)> = self
            .rested(rest.max(REST), now)
            .filter(|(_, file, state)| !matches!(state, State::Building) && !kept(*file))
            .map(|(since, file, _)| (since, file))
            .collect();
        rested.sort_unstable();
        rested.truncate(most);
        for (_, file) in &rested {
            self.give_back(memory, *file);
            self.entries.remove(file);
        }
        rested.into_iter().map(|(_, file)| file).collect()
    }
}
