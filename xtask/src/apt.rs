//! Debian's packages: installed where we may, else the command to type.

use std::fs;
use std::process::Command;

use anyhow::{Result, bail};

use crate::command;
use crate::privilege;

/// Whether this machine's packages come by apt-get.
pub fn is_here() -> bool {
    command::on_path("apt-get").is_some()
}

/// Whether they are Debian's own, not those of a relative with other packages.
pub fn is_debian() -> bool {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    is_here() && release.lines().any(|line| line == "ID=debian")
}

/// The commands that install these packages, ready to type.
pub fn commands(packages: &[&str]) -> [String; 2] {
    let sudo = if privilege::is_root() { "" } else { "sudo " };
    [
        format!("{sudo}apt-get update"),
        format!("{sudo}{}", command::shown(&install_command(packages))),
    ]
}

/// Installs these packages, or says what to type when only root could.
pub fn install(packages: &[&str]) -> Result<()> {
    let typed = commands(packages).join(" && ");
    if !is_here() {
        bail!(
            "this machine has no apt-get; install what Debian calls {}",
            packages.join(", ")
        );
    }
    if !privilege::is_root() {
        bail!("only root installs packages; type:\n  {typed}");
    }
    println!("Installing {}.", packages.join(", "));
    // One of several lists may be out of reach; whether that matters, the installation will tell.
    if let Err(error) = command::run(Command::new("apt-get").args(["update", "-q"])) {
        println!("{error}; going on with the lists that are here");
    }
    command::run(install_command(packages).env("DEBIAN_FRONTEND", "noninteractive"))
}

fn install_command(packages: &[&str]) -> Command {
    let mut apt = Command::new("apt-get");
    apt.args(["install", "-q", "-y", "--no-install-recommends"])
        .args(packages);
    apt
}
