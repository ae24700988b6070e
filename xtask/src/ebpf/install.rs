//! Brings the eBPF toolchain in: the commands to type, or the same commands run.
//!
//! On Debian: rustc and its library's source from packages, bpf-linker built against the packaged LLVM of the same
//! version. Elsewhere: rustup's nightly; there nothing is run, only said.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::toolchain::Missing;
use crate::{apt, command, privilege};

/// A rustc new enough, and the source that `-Z build-std` compiles.
const RUST_PACKAGES: &[&str] = &["rustc-web", "cargo-web", "rust-web-src"];

/// The LLVM that this rustc uses, and what bpf-linker links besides.
const LLVM_PACKAGES: &[&str] = &[
    "llvm-22-dev",
    "libpolly-22-dev",
    "libzstd-dev",
    "zlib1g-dev",
    "libxml2-dev",
    "g++",
];

/// Where that LLVM lies; left alone, bpf-linker's build picks any other.
const LLVM_PREFIX: &str = "/usr/lib/llvm-22";
const LINKER_FEATURE: &str = "llvm-22";
const LINKER_VERSION: &str = "0.13.0";

/// Where `--install` puts bpf-linker: outlives `cargo clean`, serves every checkout, disturbs nothing else.
pub fn linker_folder() -> Option<PathBuf> {
    let set = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("wholestack/ebpf-toolchain"))
}

/// The commands that bring in what is missing, one a line, ready to type.
pub fn commands(missing: &Missing) -> String {
    let mut lines = Vec::new();
    if apt::is_debian() {
        lines.extend(apt::commands(&packages(missing)));
        if missing.lacks_linker() {
            lines.push(format!(
                "LLVM_PREFIX={LLVM_PREFIX} {}",
                command::shown(&linker_install())
            ));
        }
    } else {
        if missing.lacks_compiler() {
            lines.push(
                "rustup toolchain install nightly --profile minimal --component rust-src"
                    .to_owned(),
            );
        }
        if missing.lacks_linker() {
            lines.push(format!(
                "LLVM_PREFIX=/where/llvm/22/is {}",
                command::shown(&linker_install())
            ));
        }
    }
    lines
        .iter()
        .map(|line| format!("  {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Installs what is missing, saying what.
pub fn install(missing: &Missing) -> Result<()> {
    println!("The eBPF toolchain is not complete: {missing}.");
    if !apt::is_debian() {
        bail!(
            "it cannot be installed here without you; type:\n{}",
            commands(missing)
        );
    }
    if !privilege::is_root() {
        bail!("only root installs packages; type:\n{}", commands(missing));
    }
    apt::install(&packages(missing))?;
    if missing.lacks_linker() {
        println!("Building bpf-linker {LINKER_VERSION} against {LLVM_PREFIX}.");
        command::run(linker_install().env("LLVM_PREFIX", LLVM_PREFIX))
            .context("cannot build bpf-linker")?;
    }
    Ok(())
}

fn packages(missing: &Missing) -> Vec<&'static str> {
    let rust = RUST_PACKAGES.iter().filter(|_| missing.lacks_compiler());
    let llvm = LLVM_PACKAGES.iter().filter(|_| missing.lacks_linker());
    rust.chain(llvm).copied().collect()
}

fn linker_install() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([
        "install",
        "--locked",
        "bpf-linker",
        "--version",
        LINKER_VERSION,
        "--no-default-features",
    ]);
    cargo.args(["--features", LINKER_FEATURE, "--root"]);
    cargo.arg(linker_folder().map_or_else(|| OsString::from("DIR"), PathBuf::into_os_string));
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only what is missing is installed.
    #[test]
    fn asks_for_no_more_than_is_missing() {
        let compiler = Missing {
            compilers: vec!["x".into()],
            linkers: Vec::new(),
        };
        assert_eq!(packages(&compiler), RUST_PACKAGES);
        let linker = Missing {
            compilers: Vec::new(),
            linkers: vec!["x".into()],
        };
        assert_eq!(packages(&linker), LLVM_PACKAGES);
        assert!(
            commands(&linker).contains("install --locked bpf-linker"),
            "{}",
            commands(&linker)
        );
        assert!(
            !commands(&compiler).contains("bpf-linker"),
            "{}",
            commands(&compiler)
        );
    }
}
