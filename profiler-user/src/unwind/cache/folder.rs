//! The folder that entries lie in: only ours to write, bounded in size, each entry whole or not there.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How entries' names end.
const SUFFIX: &str = ".rows";
/// How the names of entries being written begin.
const UNFINISHED: &str = ".unfinished-";
/// An entry that is being written for so long never will be.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A folder of entries.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    limit: u64,
}

impl Folder {
    /// Opens or creates it; `None` if it cannot be had or others could write to it or swap it.
    pub fn open(path: PathBuf, limit: u64) -> Option<Self> {
        let parent = path.parent()?;
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true).create(&path).ok()?;
        let usable =
            is_ours(&fs::metadata(parent).ok()?) && is_ours(&fs::symlink_metadata(&path).ok()?);
        usable.then_some(Self { path, limit })
    }

    /// The entry of that name.
    pub fn find(&self, name: &str) -> Option<File> {
        let path = self.path_of(name);
        let is_file = fs::symlink_metadata(&path).ok()?.is_file();
        if is_file { File::open(path).ok() } else { None }
    }

    /// Notes that an entry was of use: those that were not are removed first.
    pub fn touch(&self, entry: &File) {
        // An entry whose time cannot be set is only removed earlier.
        let _ = entry.set_modified(SystemTime::now());
    }

    /// Writes an entry, in place of one that is there.
    pub fn store(
        &self,
        name: &str,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut unfinished = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .tempfile_in(&self.path)?;
        write(unfinished.as_file_mut())?;
        unfinished
            .persist(self.path_of(name))
            .map_err(|cause| cause.error)?;
        Ok(())
    }

    /// Removes what was of no use for longest until the rest is below the limit, never the one named; says how
    /// many entries that were.
    pub fn evict(&self, keep: &str) -> u64 {
        let keep = self.path_of(keep);
        let mut entries = self.entries();
        let mut size: u64 = entries.iter().map(|entry| entry.size).sum();
        entries.sort_by_key(|entry| entry.used);
        let mut evicted = 0;
        for entry in entries {
            if size <= self.limit {
                break;
            }
            if entry.path != keep && fs::remove_file(&entry.path).is_ok() {
                size -= entry.size;
                evicted += 1;
            }
        }
        evicted
    }

    /// Entries; what was left unfinished long ago is removed on the way.
    fn entries(&self) -> Vec<Listed> {
        let mut entries = Vec::new();
        for found in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let (path, Ok(metadata)) = (found.path(), found.metadata()) else {
                continue;
            };
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if is_named(&path, |name| name.ends_with(SUFFIX)) && metadata.is_file() {
                entries.push(Listed {
                    path,
                    size: metadata.len(),
                    used,
                });
            } else if is_named(&path, |name| name.starts_with(UNFINISHED))
                && used.elapsed().is_ok_and(|age| age > ABANDONED)
            {
                // One that cannot be removed costs space, nothing else.
                let _ = fs::remove_file(path);
            }
        }
        entries
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}{SUFFIX}"))
    }
}

/// An entry, as listed.
struct Listed {
    path: PathBuf,
    size: u64,
    used: SystemTime,
}

fn is_named(path: &Path, test: impl FnOnce(&str) -> bool) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(test)
}

/// Whether a folder belongs to us and no one else can write to it.
fn is_ours(metadata: &Metadata) -> bool {
    let owner = rustix::process::geteuid().as_raw();
    metadata.is_dir() && metadata.uid() == owner && metadata.mode() & 0o022 == 0
}
