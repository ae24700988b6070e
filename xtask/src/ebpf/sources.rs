//! One hash over all that decides the object's bytes, apart from the toolchain.
//!
//! That is: the kernel crate's files, the versions of the crates it is built from, and the recipe. The rest of the
//! workspace's lock file may change without the object having to be built again.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::recipe;
use crate::repo::Repo;

/// The kernel side's package.
const PACKAGE: &str = "profiler-ebpf";

/// The hash, in hexadecimal.
pub fn hash(repo: &Repo) -> Result<String> {
    let manifest = format!("{PACKAGE}/Cargo.toml");
    let mut files = files_below(repo.root(), Path::new(PACKAGE).join("src").as_path())?;
    files.push(manifest.clone());
    files.sort();
    let mut digest = Sha256::new();
    for file in &files {
        let content = fs::read(repo.path(file)).with_context(|| format!("cannot read {file}"))?;
        add(&mut digest, file.as_bytes());
        add(&mut digest, &content);
    }
    for package in locked(&repo.read("Cargo.lock")?, &repo.read(&manifest)?)? {
        add(&mut digest, package.as_bytes());
    }
    for flag in recipe::FLAGS {
        add(&mut digest, flag.as_bytes());
    }
    for (name, value) in recipe::PROFILE {
        add(&mut digest, format!("{name}={value}").as_bytes());
    }
    Ok(hex(&digest.finalize()))
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Adds one item with its length in front, so that no two lists of items give the same bytes.
fn add(digest: &mut Sha256, item: &[u8]) {
    digest.update((item.len() as u64).to_le_bytes());
    digest.update(item);
}

/// Every file below a folder, relative to the root.
fn files_below(root: &Path, folder: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    let listing = root
        .join(folder)
        .read_dir()
        .with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in listing {
        let entry = entry?;
        let relative = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            files.extend(files_below(root, &relative)?);
        } else {
            files.push(
                relative
                    .to_str()
                    .context("a source file's name is not UTF-8")?
                    .to_owned(),
            );
        }
    }
    Ok(files)
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    dependencies: toml::Table,
}

/// The package itself and all it is built from, each as `name version checksum`, sorted. Its dev-dependencies, which
/// the lock file lists with the others, are not in the object and so not here.
fn locked(lock: &str, manifest: &str) -> Result<BTreeSet<String>> {
    let lock: Lock = toml::from_str(lock).context("Cargo.lock")?;
    let manifest: Manifest = toml::from_str(manifest).context("profiler-ebpf/Cargo.toml")?;
    let mut seen = BTreeSet::new();
    let mut open = vec![(PACKAGE.to_owned(), true)];
    while let Some((wanted, own)) = open.pop() {
        let package =
            find(&lock, &wanted).with_context(|| format!("Cargo.lock has no package {wanted}"))?;
        let checksum = package.checksum.as_deref().unwrap_or("-");
        if seen.insert(format!("{} {} {checksum}", package.name, package.version)) {
            let built =
                |name: &&String| !own || manifest.dependencies.contains_key(first_word(name));
            open.extend(
                package
                    .dependencies
                    .iter()
                    .filter(built)
                    .map(|name| (name.clone(), false)),
            );
        }
    }
    Ok(seen)
}

/// The package a dependency entry means: `name`, or `name version` where the lock file holds several.
fn find<'a>(lock: &'a Lock, entry: &str) -> Option<&'a Locked> {
    let mut words = entry.split(' ');
    let (name, version) = (words.next()?, words.next());
    lock.package
        .iter()
        .find(|package| package.name == name && version.is_none_or(|v| v == package.version))
}

fn first_word(text: &str) -> &str {
    text.split(' ').next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[dependencies]\nb = '1'\n[dev-dependencies]\nd = '1'\n";

    fn lock(other: &str, deep: &str) -> String {
        let package = |name: &str, version: &str, needs: &str| {
            format!(
                "[[package]]\nname = '{name}'\nversion = '{version}'\nchecksum = 'x{version}'\ndependencies = [{needs}]\n"
            )
        };
        package("profiler-ebpf", "0.1.0", "'b', 'd'")
            + &package("b", "1.0.0", "'c 2.0.0'")
            + &package("c", "1.0.0", "")
            + &package("c", deep, "")
            + &package("d", other, "")
    }

    /// Dependencies of dependencies count, in the version meant; dev-dependencies and strangers do not.
    #[test]
    fn only_what_is_built_in_counts() {
        let found = locked(&lock("3.0.0", "2.0.0"), MANIFEST).unwrap();
        let found: Vec<_> = found.iter().map(String::as_str).collect();
        assert_eq!(
            found,
            [
                "b 1.0.0 x1.0.0",
                "c 2.0.0 x2.0.0",
                "profiler-ebpf 0.1.0 x0.1.0"
            ]
        );
    }

    /// The order and the borders of items matter to the hash.
    #[test]
    fn items_have_borders() {
        let of = |items: &[&str]| {
            let mut digest = Sha256::new();
            items
                .iter()
                .for_each(|item| add(&mut digest, item.as_bytes()));
            hex(&digest.finalize())
        };
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_eq!(hex(&[0, 255, 16]), "00ff10");
    }
}
