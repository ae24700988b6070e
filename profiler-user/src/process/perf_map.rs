//! The file in which a process lists the code it generated: `/tmp/perf-PID.map`, as perf's
//! `tools/perf/Documentation/jit-interface.txt` describes it.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;

use super::in_root::TargetRoot;
use super::proc_fs::{self, Identity};

/// What tells whether a file is still the one that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerfMapVersion {
    device: u64,
    inode: u64,
    changed: (i64, i64),
    /// Size in bytes.
    pub bytes: u64,
}

impl PerfMapVersion {
    /// Of a file as it is now.
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
            bytes: metadata.len(),
        }
    }
}

/// What is to be had of a process.
#[derive(Debug)]
pub enum PerfMapFile {
    /// No such file, or the process is gone.
    Missing,
    /// There is one, but it belongs to neither the process's user nor root: anyone may have put it there.
    Strangers,
    /// The file as it is now.
    Found(File, PerfMapVersion),
}

/// Opens the list of a process: in its own root, under the pid by which it knows itself.
pub fn open_perf_map(pid: u32) -> PerfMapFile {
    let found = proc_fs::identity(pid).zip(TargetRoot::of(pid));
    found.map_or(PerfMapFile::Missing, |(identity, root)| {
        open(&root, identity)
    })
}

fn open(root: &TargetRoot, identity: Identity) -> PerfMapFile {
    let path = format!("/tmp/perf-{}.map", identity.inner_pid);
    // Not by a link: `/tmp` is everyone's, and root may read what its owner may not.
    let Some(file) = root.open_no_link(path.as_bytes()) else {
        return PerfMapFile::Missing;
    };
    let Ok(metadata) = file.metadata() else {
        return PerfMapFile::Missing;
    };
    if metadata.uid() != identity.user && metadata.uid() != 0 {
        return PerfMapFile::Strangers;
    }
    PerfMapFile::Found(file, PerfMapVersion::of(&metadata))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The list is found under the inner pid; a link or a stranger's file is not taken for it.
    #[test]
    fn finds_the_list() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        let path = folder.path().join("tmp/perf-7.map");
        std::fs::write(&path, "1000 10 f\n").unwrap();
        let root = TargetRoot::at(folder.path().to_string_lossy().into_owned()).unwrap();
        let ours = std::fs::metadata(&path).unwrap().uid();
        let find = |inner_pid, user| open(&root, Identity { inner_pid, user });
        let PerfMapFile::Found(_, version) = find(7, ours) else {
            panic!("not found")
        };
        assert_eq!(version.bytes, 10);
        assert!(matches!(find(8, ours), PerfMapFile::Missing));
        if ours == 0 {
            assert!(matches!(find(7, 9), PerfMapFile::Found(..)));
            std::os::unix::fs::chown(&path, Some(9), None).unwrap();
        }
        let stranger = find(7, ours + 1);
        assert!(matches!(stranger, PerfMapFile::Strangers), "{stranger:?}");
        std::fs::rename(&path, folder.path().join("tmp/real")).unwrap();
        std::os::unix::fs::symlink("real", &path).unwrap();
        assert!(matches!(find(7, ours), PerfMapFile::Missing));
    }

    /// A process that is gone has none.
    #[test]
    fn nothing_of_nobody() {
        assert!(matches!(open_perf_map(u32::MAX), PerfMapFile::Missing));
    }
}
