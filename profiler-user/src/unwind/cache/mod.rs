//! Tables kept on disk: a second start does not build those of large files again.
//!
//! An entry is named by a digest of the information its table was made from. The build id would do for
//! honest files that have one; but it can be forged, and many files have none. What is kept is never trusted:
//! an entry is used only if it is whole (checksum) and a table by every rule a search relies on. Anything else
//! is counted and built again. Nothing here can fail: without a place to keep tables, all are built.

mod entry;
mod folder;
mod place;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::PathBuf;

use object::ReadCache;

use super::complete::Uncovered;
use super::input::{Fingerprint, Input};
use super::{Make, Table, UnwindError, build_from};
use entry::Entry;
use folder::Folder;

/// What is made from less is left out: building a table of 20,000 rows takes a millisecond.
const MIN_BYTES: usize = 128 << 10;
/// Code without such information from which this follows: deriving rows for it takes a millisecond too.
const MIN_CODE_BYTES: usize = 64 << 10;
/// Kept on disk at most, in bytes.
const LIMIT: u64 = 512 << 20;

/// What the cache did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CacheStats {
    /// Tables taken from it.
    pub hits: u64,
    /// Tables built and kept.
    pub stored: u64,
    /// Entries that were damaged or of another version.
    pub rejected: u64,
    /// Tables that could not be kept.
    pub not_stored: u64,
    /// Entries removed to stay below the limit.
    pub evicted: u64,
}

/// Tables kept on disk.
#[derive(Debug)]
pub struct Cache {
    folder: Option<Folder>,
    min_bytes: usize,
    stats: CacheStats,
}

impl Cache {
    /// In the usual place: `wholestack` in `$XDG_CACHE_HOME`, in `/var/cache` for root, or in `~/.cache`;
    /// the first that only we can write to.
    pub fn open() -> Self {
        Self::first_of(place::usual(), LIMIT, MIN_BYTES)
    }

    /// That keeps nothing.
    pub fn off() -> Self {
        Self::first_of(Vec::new(), 0, 0)
    }

    fn first_of(places: Vec<PathBuf>, limit: u64, min_bytes: usize) -> Self {
        Self {
            folder: places
                .into_iter()
                .find_map(|place| Folder::open(place, limit)),
            min_bytes,
            stats: CacheStats::default(),
        }
    }

    /// What it did so far.
    pub fn stats(&self) -> CacheStats {
        self.stats
    }

    /// As [`super::build`], kept or built.
    pub fn build(&mut self, file: &File) -> Result<Table, UnwindError> {
        build_from(&ReadCache::new(file), None, self)
    }

    /// As [`super::build_with_debug`], kept or built.
    pub fn build_with_debug(&mut self, file: &File, debug: &File) -> Result<Table, UnwindError> {
        let debug = ReadCache::new(debug);
        build_from(&ReadCache::new(file), Some(&debug), self)
    }

    /// Kept or made.
    fn get(
        &mut self,
        keep: bool,
        fingerprint: impl FnOnce() -> Fingerprint,
        make: impl FnOnce() -> Result<Option<Table>, UnwindError>,
    ) -> Result<Option<Table>, UnwindError> {
        let Some(folder) = self.folder.as_ref().filter(|_| keep) else {
            return make();
        };
        let fingerprint = fingerprint();
        let name = entry::name(&fingerprint);
        if let Some(file) = folder.find(&name) {
            if let Some(table) = Entry::read(&file, &fingerprint) {
                folder.touch(&file);
                self.stats.hits += 1;
                return Ok(Some(table));
            }
            self.stats.rejected += 1;
        }
        let Some(table) = make()? else {
            return Ok(None);
        };
        match folder.store(&name, |file| Entry::write(file, &table, &fingerprint)) {
            Ok(()) => {
                self.stats.stored += 1;
                self.stats.evicted += folder.evict(&name);
            }
            Err(_) => self.stats.not_stored += 1,
        }
        Ok(Some(table))
    }
}

impl Make for Cache {
    fn described(&mut self, input: &Input) -> Result<Option<Table>, UnwindError> {
        let keep = input.bytes() >= self.min_bytes;
        self.get(keep, || input.fingerprint(), || input.build())
    }

    fn derived(&mut self, uncovered: &Uncovered) -> Result<Option<Table>, UnwindError> {
        let keep = uncovered.bytes() >= MIN_CODE_BYTES;
        self.get(keep, || uncovered.fingerprint(), || uncovered.derive())
    }
}
