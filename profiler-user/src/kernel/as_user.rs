//! Starting a command as another user: ids and groups are set in the child, before it becomes the command.

use std::ffi::CString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::unistd::{Gid, Uid, getgrouplist, setgid, setgroups, setuid};

/// Has the command run with this user's ids and groups; `name` as the user database knows the user, if it does.
pub fn run_as(command: &mut Command, uid: u32, gid: u32, name: Option<&str>) {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    let name = name.and_then(|name| CString::new(name).ok());
    let groups = name
        .and_then(|name| getgrouplist(&name, gid).ok())
        .unwrap_or_else(|| vec![gid]);
    let become_user = move || {
        setgroups(&groups)?;
        setgid(gid)?;
        setuid(uid)?;
        Ok(())
    };
    // SAFETY: the closure runs in the child between fork and exec: it only makes system calls, on memory that was
    // prepared before the fork.
    unsafe { command.pre_exec(become_user) };
}
