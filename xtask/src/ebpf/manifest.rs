//! `profiler-ebpf/prebuilt/manifest.toml`: what the committed object was made from, and what it holds.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::elf::{self, Function};
use super::sources::{self, hex};
use super::toolchain::Versions;
use super::{MEND, OBJECT};
use crate::repo::Repo;
use crate::table;

const FILE: &str = "profiler-ebpf/prebuilt/manifest.toml";

const HEADER: &str = "\
# Written by `cargo xtask ebpf build`, compared by `cargo xtask ebpf check`. Not to be edited.
# `sources` covers the kernel crate's files, its locked dependencies and the recipe in xtask.
";

/// The manifest, as written.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// SHA-256 over all sources.
    pub sources: String,
    pub object: Object,
    pub toolchain: Versions,
    /// Instructions of each program.
    pub programs: BTreeMap<String, u64>,
    /// Instructions of each function that programs call.
    pub functions: BTreeMap<String, u64>,
}

/// The object's identity.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Object {
    pub sha256: String,
    pub bytes: usize,
}

impl Object {
    /// The identity of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self {
            sha256: hex(&Sha256::digest(bytes)),
            bytes: bytes.len(),
        }
    }
}

impl Manifest {
    /// Describes an object built from the sources as they are.
    pub fn of(repo: &Repo, object: &[u8], toolchain: &Versions) -> Result<Self> {
        let counts = |program: bool| -> Result<BTreeMap<String, u64>> {
            let functions = elf::functions(object)?.into_iter();
            let chosen = functions.filter(|(_, function)| function.is_program() == program);
            Ok(chosen
                .map(|(name, function)| (name, function.instructions))
                .collect())
        };
        Ok(Self {
            sources: sources::hash(repo)?,
            object: Object::of(object),
            toolchain: toolchain.clone(),
            programs: counts(true)?,
            functions: counts(false)?,
        })
    }

    /// Reads the committed manifest.
    pub fn read(repo: &Repo) -> Result<Self> {
        let text = repo
            .read(FILE)
            .with_context(|| format!("the kernel object has no manifest; {MEND}"))?;
        toml::from_str(&text).with_context(|| format!("{FILE} cannot be understood; {MEND}"))
    }

    /// Writes the object and this manifest side by side.
    pub fn write(&self, repo: &Repo, object: &[u8]) -> Result<()> {
        fs::create_dir_all(repo.path("profiler-ebpf/prebuilt"))?;
        fs::write(repo.path(OBJECT), object).with_context(|| format!("cannot write {OBJECT}"))?;
        let text = format!("{HEADER}{}", toml::to_string(self)?);
        fs::write(repo.path(FILE), text).with_context(|| format!("cannot write {FILE}"))
    }
}

/// The object's functions as a table: programs first, each kind by name.
pub fn instruction_table(object: &[u8]) -> Result<String> {
    let mut functions: Vec<(String, Function)> = elf::functions(object)?.into_iter().collect();
    functions.sort_by_key(|(name, function)| {
        (
            !function.is_program(),
            function.section.clone(),
            name.clone(),
        )
    });
    let mut rows = vec![vec![
        "program or function".to_owned(),
        "section".to_owned(),
        "instructions".to_owned(),
    ]];
    rows.extend(
        functions.into_iter().map(|(name, function)| {
            vec![name, function.section, function.instructions.to_string()]
        }),
    );
    Ok(table::aligned(&rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written is what is read.
    #[test]
    fn round_trip() {
        let manifest = Manifest {
            sources: "ab".into(),
            object: Object::of(b"bytes"),
            toolchain: Versions {
                rustc: "rustc 1.96.0".into(),
                linker: "bpf-linker 0.13.0".into(),
            },
            programs: BTreeMap::from([("sample".to_owned(), 120)]),
            functions: BTreeMap::new(),
        };
        let text = format!("{HEADER}{}", toml::to_string(&manifest).unwrap());
        assert_eq!(toml::from_str::<Manifest>(&text).unwrap(), manifest);
    }
}
