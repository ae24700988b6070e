//! A cache in a folder of its own: kept, found again, damaged, forged, full.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::*;
use crate::unwind::tests::Fixture;
use crate::unwind::{build, build_with_debug};

/// A folder, gone at the end.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o700)).unwrap();
        Self(place)
    }

    /// A cache in it that keeps tables of any size.
    fn cache(&self, limit: u64) -> Cache {
        Cache::first_of(vec![self.0.path().join("wholestack")], limit, 0)
    }

    fn entries(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.path().join("wholestack")).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }
}

/// A program.
fn program(test: &str, flags: &[&str]) -> Option<(Fixture, File)> {
    let fixture = Fixture::build(test, flags)?;
    let file = File::open(&fixture.path).unwrap();
    Some((fixture, file))
}

fn stats(hits: u64, stored: u64, rejected: u64) -> CacheStats {
    CacheStats {
        hits,
        stored,
        rejected,
        ..CacheStats::default()
    }
}

/// A second start takes the table from the cache, and it is the same.
#[test]
fn keeps_tables() {
    let Some((_fixture, file)) = program("unwind::cache::keeps_tables", &[]) else {
        return;
    };
    let (place, built) = (Place::new(), build(&file).unwrap());
    let mut first = place.cache(LIMIT);
    assert_eq!(first.build(&file).as_ref(), Ok(&built));
    assert_eq!(first.stats(), stats(0, 1, 0));
    assert_eq!(place.entries().len(), 1);
    let mut second = place.cache(LIMIT);
    assert_eq!(second.build(&file), Ok(built));
    assert_eq!(second.stats(), stats(1, 0, 0));
}

/// However an entry is damaged, the table is built again and the entry replaced.
#[test]
fn damaged_entries() {
    let Some((_fixture, file)) = program("unwind::cache::damaged_entries", &[]) else {
        return;
    };
    let (place, built) = (Place::new(), build(&file).unwrap());
    let mut cache = place.cache(LIMIT);
    assert_eq!(cache.build(&file).as_ref(), Ok(&built));
    let entry = &place.entries()[0];
    let whole = fs::read(entry).unwrap();
    let mut damaged = vec![
        Vec::new(),
        whole[..100].to_vec(),
        whole[..whole.len() - 8].to_vec(),
    ];
    damaged.push([&whole[..], &[0; 8]].concat());
    for at in (0..whole.len()).step_by(13) {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        damaged.push(changed);
    }
    for (index, data) in damaged.iter().enumerate() {
        fs::write(entry, data).unwrap();
        assert_eq!(cache.build(&file).as_ref(), Ok(&built));
        let times = index as u64 + 1;
        assert_eq!(cache.stats(), stats(0, times + 1, times));
        assert_eq!(fs::read(entry).unwrap(), whole);
    }
}

/// Another file with the same build id does not get a table that is not its own.
#[test]
fn forged_build_id() {
    let test = "unwind::cache::forged_build_id";
    let id = "-Wl,--build-id=0xaaaaaaaaaaaaaaaa";
    let Some((_fixture, one)) = program(test, &[id]) else {
        return;
    };
    let Some((_fixture, other)) = program(test, &[id, "-fno-omit-frame-pointer"]) else {
        return;
    };
    let place = Place::new();
    let mut cache = place.cache(LIMIT);
    for file in [&one, &other, &one] {
        assert_eq!(cache.build(file), build(file));
    }
    assert_eq!(cache.stats(), stats(1, 2, 0));
}

/// The entry of least use goes first; the one just written stays.
#[test]
fn bounded_size() {
    let test = "unwind::cache::bounded_size";
    let place = Place::new();
    let mut files = Vec::new();
    for flag in ["-g0", "-fno-omit-frame-pointer", "-mavx2"] {
        let Some(program) = program(test, &[flag]) else {
            return;
        };
        files.push(program.1);
    }
    let mut cache = place.cache(LIMIT);
    cache.build(&files[0]).unwrap();
    let first = place.entries();
    cache.build(&files[1]).unwrap();
    let older = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    for entry in place.entries() {
        File::open(entry).unwrap().set_modified(older).unwrap();
    }
    let size = fs::metadata(&first[0]).unwrap().len();
    let mut cache = place.cache(size * 5 / 2);
    cache.build(&files[0]).unwrap();
    cache.build(&files[2]).unwrap();
    assert_eq!((cache.stats().hits, cache.stats().evicted), (1, 1));
    assert_eq!(place.entries().len(), 2);
    assert!(first[0].exists());
    let mut cache = place.cache(1);
    cache.build(&files[1]).unwrap();
    assert_eq!((place.entries().len(), cache.stats().stored), (1, 1));
}

/// A folder that others can write to is not used; nor is anything that is no file.
#[test]
fn unsafe_places() {
    let Some((_fixture, file)) = program("unwind::cache::unsafe_places", &[]) else {
        return;
    };
    let place = Place::new();
    fs::set_permissions(place.0.path(), Permissions::from_mode(0o777)).unwrap();
    assert!(place.cache(LIMIT).folder.is_none());
    fs::set_permissions(place.0.path(), Permissions::from_mode(0o700)).unwrap();
    let mut cache = place.cache(LIMIT);
    cache.build(&file).unwrap();
    let entry = &place.entries()[0];
    fs::remove_file(entry).unwrap();
    fs::create_dir(entry).unwrap();
    assert_eq!(cache.build(&file), build(&file));
    assert_eq!(cache.stats().not_stored, 1);
}

/// A table made with a debug file and one made without are kept apart.
#[test]
fn debug_files_apart() {
    let test = "unwind::cache::debug_files_apart";
    let flags = ["-g", "-fno-asynchronous-unwind-tables"];
    let Some((fixture, debug)) = program(test, &flags) else {
        return;
    };
    let Some(stripped) = fixture.changed(test, &["objcopy", "--strip-all"]) else {
        return;
    };
    let stripped = File::open(stripped).unwrap();
    let place = Place::new();
    let mut cache = place.cache(LIMIT);
    let with = build_with_debug(&stripped, &debug);
    assert_ne!(with, build(&stripped));
    for _ in 0..2 {
        assert_eq!(cache.build(&stripped), build(&stripped));
        assert_eq!(cache.build_with_debug(&stripped, &debug), with);
    }
    assert_eq!(cache.stats(), stats(2, 2, 0));
}

/// Small files are left out, and a cache that is off keeps nothing.
#[test]
fn what_is_not_kept() {
    let test = "unwind::cache::what_is_not_kept";
    let Some((_fixture, file)) = program(test, &[]) else {
        return;
    };
    let place = Place::new();
    let mut cache = place.cache(LIMIT);
    cache.min_bytes = MIN_BYTES;
    cache.build(&file).unwrap();
    assert!(place.entries().is_empty());
    let mut off = Cache::off();
    assert_eq!(off.build(&file), build(&file));
    assert_eq!(off.stats(), CacheStats::default());
}
