//! Who runs this chore, and how tests that need root get it.

use std::env;
use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use crate::command;

/// Whether this process is root's: its folder in /proc belongs to its effective user.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|folder| folder.uid() == 0)
}

/// How test binaries are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// As root already.
    Root,
    /// Through sudo, which lets us in.
    Sudo,
    /// Without root: tests that need it skip.
    Unprivileged,
}

impl Way {
    /// Finds the way; may ask for sudo's password when there is someone to ask.
    pub fn find() -> Self {
        if is_root() {
            return Self::Root;
        }
        if command::on_path("sudo").is_none() {
            return Self::Unprivileged;
        }
        let silent = command::succeeds(Command::new("sudo").args(["-n", "true"]));
        let asked = || {
            println!(
                "The end-to-end tests load kernel programs and need root; sudo may ask for your password."
            );
            Command::new("sudo")
                .arg("-v")
                .status()
                .is_ok_and(|status| status.success())
        };
        if silent || (io::stdin().is_terminal() && asked()) {
            Self::Sudo
        } else {
            Self::Unprivileged
        }
    }

    /// What cargo needs to be told: compile as ourselves, start the test binaries as root.
    pub fn cargo_arguments(self) -> Vec<String> {
        if self != Self::Sudo {
            return Vec::new();
        }
        let path = env::var("PATH")
            .unwrap_or_default()
            .replace(['\\', '"'], "");
        let runner =
            format!("target.'cfg(unix)'.runner = [\"sudo\", \"-E\", \"env\", \"PATH={path}\"]");
        vec!["--config".to_owned(), runner]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the test binaries go through sudo, never the compiler, so that no build output belongs to root.
    #[test]
    fn sudo_is_cargos_runner() {
        assert!(Way::Root.cargo_arguments().is_empty());
        let arguments = Way::Sudo.cargo_arguments();
        assert_eq!(arguments[0], "--config");
        assert!(
            arguments[1].starts_with("target.'cfg(unix)'.runner = [\"sudo\", \"-E\""),
            "{}",
            arguments[1]
        );
    }
}
