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

use super::input::Input;
use super::{Table, UnwindError, build_from};
use entry::Entry;
use folder::Folder;

/// Files with less call frame information are left out: building a table of 20,000 rows takes a millisecond.
const MIN_BYTES: usize = 128 << 10;
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
        build_from(&ReadCache::new(file), None, |input| self.get(input))
    }

    /// As [`super::build_with_debug`], kept or built.
    pub fn build_with_debug(&mut self, file: &File, debug: &File) -> Result<Table, UnwindError> {
        let debug = ReadCache::new(debug);
        build_from(&ReadCache::new(file), Some(&debug), |input| self.get(input))
    }

    fn get(&mut self, input: &Input) -> Result<Option<Table>, UnwindError> {
        match &self.folder {
            Some(folder) if input.bytes() >= self.min_bytes => get(folder, &mut self.stats, input),
            _ => input.build(),
        }
    }
}

fn get(
    folder: &Folder,
    stats: &mut CacheStats,
    input: &Input,
) -> Result<Option<Table>, UnwindError> {
    let fingerprint = input.fingerprint();
    let name = entry::name(&fingerprint);
    if let Some(file) = folder.find(&name) {
        if let Some(table) = Entry::read(&file, &fingerprint) {
            folder.touch(&file);
            stats.hits += 1;
            return Ok(Some(table));
        }
        stats.rejected += 1;
    }
    let Some(table) = input.build()? else {
        return Ok(None);
    };
    match folder.store(&name, |file| Entry::write(file, &table, &fingerprint)) {
        Ok(()) => {
            stats.stored += 1;
            stats.evicted += folder.evict(&name);
        }
        Err(_) => stats.not_stored += 1,
    }
    Ok(Some(table))
}
