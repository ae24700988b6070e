//! The user behind the recording, and the command that is started for it.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use nix::unistd::{Uid, User};
use tokio::process::{Child, Command};

use super::RecordError;
use crate::kernel::run_as;

/// The user who called sudo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invoker {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// The user behind sudo, if this is root called through it.
pub fn invoker() -> Option<Invoker> {
    let id = |name| std::env::var(name).ok()?.parse().ok();
    if !Uid::effective().is_root() {
        return None;
    }
    Some(Invoker {
        uid: id("SUDO_UID")?,
        gid: id("SUDO_GID")?,
    })
    .filter(|user| user.uid != 0)
}

/// Whether the command's program is there to be started: looked up as the shell would.
pub(super) fn find(command: &[OsString]) -> Result<(), RecordError> {
    let program = Path::new(command.first().ok_or(RecordError::Worker)?);
    let runs = |path: &Path| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    let found = if program.components().count() > 1 {
        runs(program)
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| runs(&directory.join(program)))
    };
    if found {
        return Ok(());
    }
    let source = io::Error::new(
        io::ErrorKind::NotFound,
        "no such program, or not executable",
    );
    Err(RecordError::Start {
        program: program.into(),
        source,
    })
}

/// Starts the command, as the user behind sudo if there is one.
pub(super) fn start(command: &[OsString]) -> Result<Child, RecordError> {
    let (program, arguments) = command.split_first().ok_or(RecordError::Worker)?;
    let mut builder = std::process::Command::new(program);
    builder.args(arguments);
    if let Some(user) = invoker() {
        as_user(&mut builder, user);
    }
    let mut builder = Command::from(builder);
    builder
        .kill_on_drop(false)
        .spawn()
        .map_err(|source| RecordError::Start {
            program: program.into(),
            source,
        })
}

/// Gives the command its user's ids, groups and home.
fn as_user(builder: &mut std::process::Command, user: Invoker) {
    let entry = User::from_uid(Uid::from_raw(user.uid)).ok().flatten();
    if let Some(entry) = &entry {
        builder
            .env("HOME", &entry.dir)
            .env("USER", &entry.name)
            .env("LOGNAME", &entry.name);
    }
    let name = entry.as_ref().map(|entry| entry.name.as_str());
    run_as(builder, user.uid, user.gid, name);
}
