//! Files opened by a path of a target: in the target's own root, never in ours.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};

/// The root folder of a process, held: paths can be looked up in it also when the process is gone.
#[derive(Debug)]
pub struct TargetRoot(OwnedFd);

impl TargetRoot {
    /// The root of a process; `None` if it is gone.
    pub fn of(pid: u32) -> Option<Self> {
        Self::at(format!("/proc/{pid}/root"))
    }

    /// Our own.
    pub(super) fn ours() -> Option<Self> {
        Self::at("/".to_owned())
    }

    /// A folder as a root.
    pub(super) fn at(path: String) -> Option<Self> {
        let root = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        Some(Self(root))
    }

    /// Opens a regular file, links on the way followed inside this root.
    pub fn open(&self, path: &[u8]) -> Option<File> {
        self.open_with(path, OFlags::empty())
    }

    /// As [`TargetRoot::open`], but not if the path's last part is a link.
    pub fn open_no_link(&self, path: &[u8]) -> Option<File> {
        self.open_with(path, OFlags::NOFOLLOW)
    }

    fn open_with(&self, path: &[u8], flags: OFlags) -> Option<File> {
        let found = rustix::fs::openat2(
            &self.0,
            path,
            OFlags::PATH | OFlags::CLOEXEC | flags,
            Mode::empty(),
            ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
        )
        .ok()?;
        // To open a device or a pipe may do something or wait: look before opening.
        let stat = rustix::fs::fstat(&found).ok()?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return None;
        }
        File::open(format!("/proc/self/fd/{}", found.as_raw_fd())).ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Links lead inside the root, however many `..` they have; nothing but a regular file is opened.
    #[test]
    fn stays_inside() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("etc")).unwrap();
        std::fs::write(path("etc/name"), "inner").unwrap();
        symlink("../../../../etc/name", path("up")).unwrap();
        symlink("/etc/passwd", path("out")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), Mode::RUSR).unwrap();
        let root = TargetRoot::at(folder.path().to_string_lossy().into_owned()).unwrap();
        let text = |file: File| std::io::read_to_string(file).unwrap();
        assert_eq!(root.open(b"/etc/name").map(text).as_deref(), Some("inner"));
        assert_eq!(root.open(b"/up").map(text).as_deref(), Some("inner"));
        assert!(root.open_no_link(b"/etc/name").is_some());
        assert!(root.open_no_link(b"/up").is_none());
        for other in ["out", "pipe", "etc", "missing", ""] {
            assert!(root.open(other.as_bytes()).is_none(), "{other}");
        }
    }

    /// A process that is gone has no root.
    #[test]
    fn nothing_of_nobody() {
        assert!(TargetRoot::of(u32::MAX).is_none());
        assert!(TargetRoot::of(std::process::id()).is_some());
    }
}
