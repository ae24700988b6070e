//! Whose a new file is. Behind sudo it belongs to the user who called, not to root.

use std::fs::File;

use rustix::fs::{Gid, Uid, fchown};

/// Gives a new file to the user behind sudo, if there is one. A file system without owners (FAT, some network
/// mounts) refuses; then the file stays root's, which is no reason not to write it.
pub(super) fn give_to_caller(file: &File) {
    let variable = |name| std::env::var(name).ok();
    let root = rustix::process::geteuid().is_root();
    if let Some((uid, gid)) = caller(root, variable("SUDO_UID"), variable("SUDO_GID"))
        && let Err(error) = fchown(file, Some(uid), Some(gid))
    {
        tracing::debug!(%error, "an output file stays root's");
    }
}

/// The user and group behind sudo: both variables, both numbers, and only for root.
fn caller(root: bool, uid: Option<String>, gid: Option<String>) -> Option<(Uid, Gid)> {
    let id = |text: Option<String>| text?.parse().ok().filter(|id| *id != u32::MAX);
    let (uid, gid) = (id(uid)?, id(gid)?);
    root.then(|| (Uid::from_raw(uid), Gid::from_raw(gid)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only root behind sudo gives files away, and only to what really are ids.
    #[test]
    fn callers() {
        let text = |id: &str| Some(id.to_owned());
        let (uid, gid) = (Uid::from_raw(1000), Gid::from_raw(100));
        assert_eq!(caller(true, text("1000"), text("100")), Some((uid, gid)));
        assert_eq!(caller(false, text("1000"), text("100")), None);
        assert_eq!(caller(true, text("1000"), None), None);
        assert_eq!(caller(true, text("me"), text("100")), None);
        assert_eq!(caller(true, text("4294967295"), text("100")), None);
        assert_eq!(caller(true, None, None), None);
    }
}
