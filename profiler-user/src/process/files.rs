//! Files seen mapped, by identity, opened as the process maps them.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::in_root::TargetRoot;
use crate::kernel::sideband::MappingRecord;

/// Number of a file in a [`FileTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(u32);

/// Files kept; further ones are counted and stay unnamed.
const MAX_FILES: usize = 65536;

/// The path of the small library that the kernel maps into every process.
const VDSO: &[u8] = b"[vdso]";

/// What makes two mapped files the same. The path is part of it since an inode number alone can be used
/// again once its file is gone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// Device as `/proc/PID/maps` shows it.
    pub device: (u32, u32),
    /// Inode.
    pub inode: u64,
    /// Path as the process sees it.
    pub path: Vec<u8>,
}

/// A file seen mapped.
#[derive(Debug)]
pub struct MappedFile {
    /// Path as the process sees it, for people.
    pub path: String,
    /// What makes it this file.
    pub key: Arc<FileKey>,
    /// The open file; `None` if it could not be opened (the process was gone, or too many are open).
    file: Option<File>,
}

impl MappedFile {
    /// The open file.
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// A path of ours that leads to exactly this file, whatever has become of its name.
    pub fn handle_path(&self) -> Option<PathBuf> {
        Some(PathBuf::from(format!(
            "/proc/self/fd/{}",
            self.file()?.as_raw_fd()
        )))
    }
}

/// All files seen mapped. An id is never given out for a second file.
#[derive(Debug, Default)]
pub struct FileTable {
    ids: HashMap<Arc<FileKey>, FileId>,
    files: HashMap<FileId, MappedFile>,
    next: u32,
    open: usize,
    max_open: usize,
    /// Files that were not opened since too many are open.
    pub not_opened: u64,
    /// Files that were not even kept.
    pub over_limit: u64,
}

impl FileTable {
    /// A table that keeps at most a quarter of the descriptors this process may have.
    pub fn new() -> Self {
        Self {
            max_open: max_open_files() / 4,
            ..Self::default()
        }
    }

    /// The file with this identity, opened through process `pid` (where it is mapped from `start` to
    /// `end`) if it is new or could not be opened before.
    pub fn intern(&mut self, key: FileKey, pid: u32, start: u64, end: u64) -> Option<FileId> {
        if let Some(id) = self.ids.get(&key) {
            let known = self.files.get_mut(id)?;
            if known.file.is_none() && self.open < self.max_open {
                known.file = open_mapped(&key, pid, start, end);
                self.open += usize::from(known.file.is_some());
            }
            return Some(*id);
        }
        let next = self.next.checked_add(1);
        if self.files.len() >= MAX_FILES || next.is_none() {
            self.over_limit += 1;
            return None;
        }
        let id = FileId(self.next);
        self.next = next?;
        let file = if self.open < self.max_open {
            open_mapped(&key, pid, start, end)
        } else {
            self.not_opened += 1;
            None
        };
        self.open += usize::from(file.is_some());
        let path = String::from_utf8_lossy(&key.path).into_owned();
        let key = Arc::new(key);
        self.ids.insert(Arc::clone(&key), id);
        self.files.insert(id, MappedFile { path, key, file });
        Some(id)
    }

    /// The file of a mapping of process `pid`; `None` for memory without one.
    pub fn intern_record(&mut self, pid: u32, record: &MappingRecord) -> Option<FileId> {
        if record.inode == 0 && record.path != VDSO {
            return None;
        }
        let key = FileKey {
            device: record.device,
            inode: record.inode,
            path: record.path.clone(),
        };
        let end = record.start.checked_add(record.bytes)?;
        self.intern(key, pid, record.start, end)
    }

    /// The file behind an id, unless it was forgotten.
    pub fn get(&self, id: FileId) -> Option<&MappedFile> {
        self.files.get(&id)
    }

    /// How many files could be forgotten with profit: more than none when the table or the open files come near
    /// their limit.
    pub fn crowd(&self) -> usize {
        let over = |count: usize, limit: usize| count.saturating_sub(limit / 4 * 3);
        over(self.files.len(), MAX_FILES).max(over(self.open, self.max_open))
    }

    /// Forgets a file, and closes it.
    pub fn forget(&mut self, id: FileId) {
        if let Some(file) = self.files.remove(&id) {
            self.ids.remove(&file.key);
            self.open -= usize::from(file.file.is_some());
        }
    }
}

fn max_open_files() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Raising the soft limit to the hard one needs no right; if it fails, the soft one stands.
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    )
    .is_ok();
    let limit = if raised { limit.maximum } else { limit.current };
    limit
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(1024)
        .min(2 * MAX_FILES)
}

/// Whether a file opened by its mapping is the one that was mapped: another may have been mapped there since.
fn is_same(file: &File, key: &FileKey) -> bool {
    rustix::fs::fstat(file).is_ok_and(|stat| stat.st_ino == key.inode)
}

/// Opens a mapped file: by the mapping itself, which also finds deleted and replaced files; else by its
/// path in the process's own root, if what lies there has the same inode.
fn open_mapped(key: &FileKey, pid: u32, start: u64, end: u64) -> Option<File> {
    if key.path == VDSO {
        return vdso_image();
    }
    if key.inode == 0 {
        return None;
    }
    let link = format!("/proc/{pid}/map_files/{start:x}-{end:x}");
    if let Ok(file) = File::open(&link)
        && is_same(&file, key)
    {
        return Some(file);
    }
    let (root, ours) = match TargetRoot::of(pid) {
        Some(root) => (root, false),
        // The process is gone: the same path in our own root may still be the same file.
        None => (TargetRoot::ours()?, true),
    };
    let file = root.open(&key.path)?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let device = (
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev),
    );
    // In the process's own root the path has led there; overlays show another device than the maps. In ours an
    // inode number alone proves nothing.
    let same = stat.st_ino == key.inode && (!ours || device == key.device);
    same.then_some(file)
}

/// A copy of the vDSO, the small library the kernel maps into every process: the same image in each.
fn vdso_image() -> Option<File> {
    use std::os::unix::fs::FileExt as _;
    let maps = procfs::process::Process::myself().ok()?.maps().ok()?;
    let vdso = maps
        .iter()
        .find(|map| map.pathname == procfs::process::MMapPath::Vdso)?;
    let (start, end) = vdso.address;
    let mut image = vec![0; usize::try_from(end.checked_sub(start)?).ok()?];
    File::open("/proc/self/mem")
        .ok()?
        .read_exact_at(&mut image, start)
        .ok()?;
    let mut file =
        File::from(rustix::fs::memfd_create("vdso", rustix::fs::MemfdFlags::CLOEXEC).ok()?);
    file.write_all(&image).ok()?;
    Some(file)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::io::{Read as _, Seek as _};

    /// The vDSO's copy is an ELF file.
    #[test]
    fn copies_the_vdso() {
        let mut file = vdso_image().unwrap();
        let mut magic = [0; 4];
        file.rewind().unwrap();
        file.read_exact(&mut magic).unwrap();
        assert_eq!(&magic, b"\x7fELF");
    }

    /// A file that is forgotten leaves room, and comes back as another one.
    #[test]
    fn forgets() {
        let mut table = FileTable {
            max_open: 4,
            ..FileTable::default()
        };
        let intern = |table: &mut FileTable, inode| {
            let key = FileKey {
                device: (0, 0),
                inode,
                path: VDSO.to_vec(),
            };
            table.intern(key, 1, 0, 0x1000).unwrap()
        };
        let ids: Vec<FileId> = (0..4).map(|inode| intern(&mut table, inode)).collect();
        assert_eq!((table.open, table.crowd()), (4, 1));
        table.forget(ids[1]);
        table.forget(ids[1]);
        assert_eq!((table.open, table.crowd()), (3, 0));
        assert!(table.get(ids[1]).is_none());
        assert!(table.get(ids[2]).is_some());
        let again = intern(&mut table, 1);
        assert!(!ids.contains(&again));
        assert_eq!(intern(&mut table, 1), again);
    }

    /// A path whose inode is another one is not taken for the file that was mapped.
    #[test]
    fn refuses_a_replaced_file() {
        let key = |inode| FileKey {
            device: (0, 0),
            inode,
            path: b"/proc/version".to_vec(),
        };
        assert!(open_mapped(&key(u64::MAX), u32::MAX, 0, 0x1000).is_none());
        assert!(open_mapped(&key(0), u32::MAX, 0, 0x1000).is_none());
    }
}
