//! The interpreters on this machine, and which are missing.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Minor versions whose frames are decoded.
pub const MINORS: std::ops::RangeInclusive<u32> = 8..=14;

/// An interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// Its file, links and shims resolved.
    pub path: PathBuf,
    /// As in `3.11.2`.
    pub version: String,
    /// As in 11; `None` for another major version.
    pub minor: Option<u32>,
}

/// The interpreters whose frames are decoded: the distribution's first, of the version it has, then one for each version
/// and way of building that is here: pyenv's, in a shared library, and those of other Debian releases, all in one
/// stripped file (`cargo xtask interpreters`).
pub fn pythons() -> &'static [Python] {
    static FOUND: LazyLock<Vec<Python>> = LazyLock::new(|| {
        let understood =
            |python: &Python| python.minor.is_some_and(|minor| MINORS.contains(&minor));
        everything().into_iter().filter(understood).collect()
    });
    &FOUND
}

/// One of each of these minor versions, where it is here: for what takes long.
pub fn some_pythons(minors: &[u32]) -> Vec<&'static Python> {
    let first = |minor: &u32| pythons().iter().find(|python| python.minor == Some(*minor));
    minors.iter().filter_map(first).collect()
}

/// Interpreters whose frames are not decoded.
pub fn strange_pythons() -> Vec<Python> {
    let strange = |python: &Python| python.minor.is_none_or(|minor| !MINORS.contains(&minor));
    everything().into_iter().filter(strange).collect()
}

/// Decoded versions that no interpreter here has.
pub fn missing_minors() -> Vec<u32> {
    let is_here = |minor: &u32| pythons().iter().any(|python| python.minor == Some(*minor));
    MINORS.filter(|minor| !is_here(minor)).collect()
}

/// The one that `cargo xtask bench torch` has installed PyTorch for, where it has.
pub fn python_with_torch() -> Option<PathBuf> {
    let python = cache()?.join("wholestack/torch/bin/python");
    let mut command = Command::new(&python);
    let has = command.args(["-c", "import torch"]).output();
    has.is_ok_and(|said| said.status.success())
        .then_some(python)
}

fn everything() -> Vec<Python> {
    let mut found: Vec<Python> = Vec::new();
    let named = ["/usr/bin/python3.11", "python3"].map(PathBuf::from);
    for path in named.into_iter().chain(pyenv()).chain(fetched()) {
        let Some(python) = ask(&path) else { continue };
        if found.iter().all(|known| known.path != python.path) {
            found.push(python);
        }
    }
    found
}

fn home() -> Option<PathBuf> {
    env::var_os("HOME").map(PathBuf::from)
}

fn cache() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    cache.or_else(|| Some(home()?.join(".cache")))
}

/// pyenv's, oldest first.
fn pyenv() -> Vec<PathBuf> {
    let root = env::var_os("PYENV_ROOT").map(PathBuf::from);
    let versions = root
        .or_else(|| Some(home()?.join(".pyenv")))
        .map(|root| root.join("versions"));
    folders(versions.as_deref())
        .iter()
        .map(|version| version.join("bin/python"))
        .collect()
}

/// Those that `cargo xtask interpreters` has fetched.
fn fetched() -> Vec<PathBuf> {
    let place = cache().map(|cache| cache.join("wholestack/interpreters"));
    folders(place.as_deref())
        .iter()
        .filter_map(|root| {
            let version = root.file_name()?.to_str()?.rsplit('-').next()?;
            Some(root.join("usr/bin").join(format!("python{version}")))
        })
        .collect()
}

fn folders(place: Option<&Path>) -> Vec<PathBuf> {
    let entries = place.and_then(|place| fs::read_dir(place).ok());
    let mut found: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

fn ask(name: impl AsRef<OsStr>) -> Option<Python> {
    let script = "import os, platform, sys; print(os.path.realpath(sys.executable)); print(platform.python_version())";
    let said = Command::new(name).args(["-c", script]).output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    let (path, version) = text.split_once('\n')?;
    let version = version.trim().to_owned();
    let minor = version
        .strip_prefix("3.")
        .and_then(|rest| rest.split('.').next()?.parse().ok());
    said.status.success().then(|| Python {
        path: path.into(),
        version,
        minor,
    })
}

/// Ends the test, counted as skipped, where no Python can be decoded; else gives the first one.
#[macro_export]
macro_rules! require_python {
    () => {
        match $crate::pythons::pythons().first() {
            Some(python) => python,
            None => {
                return $crate::rights::skip(
                    "no CPython 3.8 to 3.14 on this machine: apt-get install python3",
                )
            }
        }
    };
}
