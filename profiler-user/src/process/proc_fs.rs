//! What `/proc` says of a process.

use std::fs;

use procfs::process::{MMPermissions, MMapPath, Process};

use crate::kernel::sideband::MappingRecord;

/// Whether there is a process with this id.
pub fn exists(pid: u32) -> bool {
    fs::metadata(format!("/proc/{pid}")).is_ok()
}

/// Whether a process is over: gone, its id now a thread's of another process, or its main thread a zombie that
/// nothing else runs beside.
pub fn has_ended(pid: u32) -> bool {
    let status = process(pid).and_then(|process| process.status().ok());
    let Some(status) = status.filter(|status| u32::try_from(status.tgid) == Ok(pid)) else {
        return true;
    };
    status.state.starts_with(['Z', 'X']) && thread_ids(pid).len() <= 1
}

/// Who a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    /// The pid by which it knows itself: in the innermost pid namespace.
    pub inner_pid: u32,
    /// Its effective user.
    pub user: u32,
}

/// Who a process is; `None` if it is gone.
pub(super) fn identity(pid: u32) -> Option<Identity> {
    let status = process(pid)?.status().ok()?;
    let innermost = status.nstgid.as_deref().and_then(<[i32]>::last);
    Some(Identity {
        inner_pid: u32::try_from(*innermost.unwrap_or(&status.tgid)).ok()?,
        user: status.euid,
    })
}

/// The kernel's name of the process's main thread.
pub(super) fn name(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name)).into_owned())
}

/// The command line, arguments separated by a space; empty for kernel threads and processes that are gone.
pub(super) fn command(pid: u32) -> String {
    /// Longer ones are cut: a report needs no more.
    const MAX_BYTES: usize = 4096;
    let mut bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    bytes.truncate(MAX_BYTES);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    text.trim_end_matches('\0').replace('\0', " ")
}

/// The executable mappings of a process.
pub fn executable_mappings(pid: u32) -> Vec<MappingRecord> {
    let maps = process(pid).and_then(|process| process.maps().ok());
    let Some(maps) = maps else { return Vec::new() };
    maps.iter()
        .filter(|map| map.perms.contains(MMPermissions::EXECUTE))
        .map(|map| MappingRecord {
            start: map.address.0,
            bytes: map.address.1.saturating_sub(map.address.0),
            file_offset: map.offset,
            device: (map.dev.0.unsigned_abs(), map.dev.1.unsigned_abs()),
            inode: map.inode,
            path: path(&map.pathname),
        })
        .collect()
}

fn path(path: &MMapPath) -> Vec<u8> {
    match path {
        MMapPath::Path(path) => {
            use std::os::unix::ffi::OsStrExt as _;
            // The kernel marks a file without a name left; the side-band does not.
            let bytes = path.as_os_str().as_bytes();
            bytes.strip_suffix(b" (deleted)").unwrap_or(bytes).to_vec()
        }
        MMapPath::Vdso => b"[vdso]".to_vec(),
        MMapPath::Vsyscall => b"[vsyscall]".to_vec(),
        _ => b"//anon".to_vec(),
    }
}

/// The threads of a process.
pub fn thread_ids(pid: u32) -> Vec<u32> {
    fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// CPU time a thread has used in its life, by the scheduler.
pub fn thread_runtime_ns(pid: u32, tid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// All processes there are.
pub fn all_pids() -> Vec<u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// A process and all its descendants, as they are now.
pub fn children_of(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = all_pids()
        .into_iter()
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        found.extend(
            parents
                .iter()
                .filter(|(_, parent)| *parent == pid)
                .map(|(child, _)| *child),
        );
        next += 1;
    }
    found
}

fn parent(pid: u32) -> Option<u32> {
    process(pid)?.stat().ok()?.ppid.try_into().ok()
}

fn process(pid: u32) -> Option<Process> {
    Process::new(i32::try_from(pid).ok()?).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// This very process is there, with code mapped, threads and CPU time.
    #[test]
    fn reads_ourselves() {
        let pid = std::process::id();
        assert!(exists(pid) && !has_ended(pid));
        assert!(
            executable_mappings(pid)
                .iter()
                .any(|map| map.path == b"[vdso]")
        );
        assert!(thread_ids(pid).contains(&pid));
        assert!(thread_runtime_ns(pid, pid).is_some());
        assert!(children_of(pid).contains(&pid));
        assert!(!command(pid).is_empty());
        let user = rustix::process::geteuid().as_raw();
        assert_eq!(identity(pid).map(|identity| identity.user), Some(user));
    }

    /// A process that is not there has nothing.
    #[test]
    fn nothing_of_nobody() {
        assert!(!exists(u32::MAX));
        assert!(has_ended(u32::MAX));
        assert!(executable_mappings(u32::MAX).is_empty());
        assert_eq!(command(u32::MAX), "");
        assert_eq!(identity(u32::MAX), None);
        assert_eq!(thread_runtime_ns(u32::MAX, 1), None);
    }
}
