//! How the kernel object is compiled: every flag that decides its bytes, in one place.
//!
//! The recipe overrides the workspace's release profile, so that tuning the profile for the user side cannot change
//! the object; the recipe itself is part of what the manifest hashes.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::elf;
use super::toolchain::Toolchain;
use crate::command;
use crate::repo::Repo;

/// Flags for every crate in the object.
pub const FLAGS: &[&str] = &[
    "-Clinker=bpf-linker",
    "-Clink-arg=--btf",
    "-Cdebuginfo=2",
    "-Copt-level=3",
    "-Ccodegen-units=1",
    "-Coverflow-checks=off",
    "-Cdebug-assertions=off",
];

/// Parts of the release profile that flags cannot override.
pub const PROFILE: &[(&str, &str)] = &[
    ("CARGO_PROFILE_RELEASE_LTO", "false"),
    ("CARGO_PROFILE_RELEASE_STRIP", "none"),
    ("CARGO_PROFILE_RELEASE_INCREMENTAL", "false"),
];

const TARGET: &str = "bpfel-unknown-none";
const BINARY: &str = "wholestack-bpf";

/// Which object to build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// The one that ships.
    Plain,
    /// The one with aya-log's lines.
    Log,
}

impl Variant {
    fn feature(self) -> &'static str {
        match self {
            Self::Plain => "programs",
            Self::Log => "bpf-log",
        }
    }
}

/// Builds the object in `folder` (below target/) and gives its bytes, debug sections removed.
pub fn build(
    repo: &Repo,
    toolchain: &Toolchain,
    variant: Variant,
    folder: &Path,
) -> Result<Vec<u8>> {
    forget_own_crate(folder)?;
    command::run(&mut cargo(repo, toolchain, variant, folder)?)?;
    let linked = release_folder(folder).join(BINARY);
    let bytes =
        std::fs::read(&linked).with_context(|| format!("cannot read {}", linked.display()))?;
    elf::without_debug_sections(&bytes).context("cannot strip the linked object")
}

fn cargo(repo: &Repo, toolchain: &Toolchain, variant: Variant, folder: &Path) -> Result<Command> {
    let mut cargo = Command::new(&toolchain.compiler.cargo);
    cargo.current_dir(repo.root());
    for (name, _) in env::vars_os().filter(|(name, _)| steers_cargo(&name.to_string_lossy())) {
        cargo.env_remove(name);
    }
    cargo
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTC", &toolchain.compiler.rustc)
        .env("PATH", path_with(&toolchain.linker.file)?)
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            flags(repo, toolchain).join("\u{1f}"),
        )
        .envs(PROFILE.iter().copied())
        .args([
            "build",
            "--locked",
            "--release",
            "-Z",
            "build-std=core",
            "--target",
            TARGET,
        ])
        .args([
            "--package",
            "profiler-ebpf",
            "--bin",
            BINARY,
            "--features",
            variant.feature(),
        ])
        .arg("--target-dir")
        .arg(folder);
    Ok(cargo)
}

/// Variables that would change how cargo builds, or that only belong to the cargo that runs this chore.
fn steers_cargo(name: &str) -> bool {
    const PREFIXES: &[&str] = &[
        "CARGO_PROFILE_",
        "CARGO_BUILD_",
        "CARGO_TARGET_",
        "CARGO_UNSTABLE_",
        "RUSTC",
    ];
    const NAMES: &[&str] = &[
        "CARGO",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_INCREMENTAL",
        "RUSTFLAGS",
        "RUSTUP_TOOLCHAIN",
    ];
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The recipe's flags, and where this machine keeps things mapped to names that are the same on all.
fn flags(repo: &Repo, toolchain: &Toolchain) -> Vec<String> {
    let mut flags: Vec<String> = FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
    let mut remap =
        |from: &Path, to: &str| flags.push(format!("--remap-path-prefix={}={to}", from.display()));
    remap(repo.root(), "/wholestack");
    for registry in registries() {
        remap(&registry, "/crates");
    }
    let source = &toolchain.compiler.source;
    remap(source, "/rust");
    if let Ok(real) = source.canonicalize() {
        remap(&real, "/rust");
    }
    flags
}

/// Where cargo has unpacked the sources of crates: one folder for each registry.
fn registries() -> Vec<PathBuf> {
    let home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let Some(Ok(folders)) = home.map(|home| home.join("registry/src").read_dir()) else {
        return Vec::new();
    };
    folders.flatten().map(|folder| folder.path()).collect()
}

/// PATH with bpf-linker's folder in front, since cargo hands the linker's name on as it is.
fn path_with(linker: &Path) -> Result<OsString> {
    let folder = linker.parent().map(Path::to_path_buf);
    let path = env::var_os("PATH").unwrap_or_default();
    Ok(env::join_paths(
        folder.into_iter().chain(env::split_paths(&path)),
    )?)
}

fn release_folder(folder: &Path) -> PathBuf {
    folder.join(TARGET).join("release")
}

/// Makes cargo compile the kernel crate anew: its idea of "unchanged" rests on file times, ours on bytes.
fn forget_own_crate(folder: &Path) -> Result<()> {
    let Ok(entries) = release_folder(folder).join(".fingerprint").read_dir() else {
        return Ok(());
    };
    for entry in entries.flatten() {
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with("profiler-ebpf-")
        {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What only tells cargo where its home and its registry are is kept; what changes a build is not.
    #[test]
    fn environment_that_changes_builds_is_dropped() {
        for name in [
            "RUSTFLAGS",
            "RUSTC_WRAPPER",
            "CARGO_BUILD_TARGET",
            "CARGO_PROFILE_RELEASE_DEBUG",
            "CARGO",
        ] {
            assert!(steers_cargo(name), "{name}");
        }
        for name in ["CARGO_HOME", "CARGO_HTTP_PROXY", "RUSTUP_HOME", "PATH"] {
            assert!(!steers_cargo(name), "{name}");
        }
    }
}
