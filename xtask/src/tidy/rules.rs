//! The parts of the rules that change with the tree: `xtask/tidy.toml`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::repo::Repo;

/// The file, for messages.
pub const FILE: &str = "xtask/tidy.toml";

/// What `xtask/tidy.toml` says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Files that may be long, each with the reason.
    #[serde(default)]
    pub long_files: BTreeMap<String, String>,
    /// Files and folders that may hold `unsafe`, each with the reason.
    #[serde(default)]
    pub unsafe_code: BTreeMap<String, String>,
    /// SPDX identifiers of licences that may be compiled in.
    #[serde(default)]
    pub licences: Vec<String>,
    /// Crates whose licence field cannot be judged, each with what was found out about it.
    #[serde(default)]
    pub licence_exceptions: BTreeMap<String, String>,
}

impl Rules {
    /// Reads the checkout's rules.
    pub fn read(repo: &Repo) -> Result<Self> {
        toml::from_str(&repo.read(FILE)?).with_context(|| format!("{FILE} cannot be understood"))
    }
}
