//! The repository the chores work on: its root, its build folder, its files.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command;

/// A checkout of wholestack.
#[derive(Debug)]
pub struct Repo {
    root: PathBuf,
}

impl Repo {
    /// The checkout around the current directory, so that a chore works from any folder in it.
    pub fn find() -> Result<Self> {
        let start = env::current_dir().context("no current directory")?;
        let root = start
            .ancestors()
            .find(|folder| {
                folder.join("xtask/Cargo.toml").is_file() && folder.join("Cargo.lock").is_file()
            })
            .with_context(|| {
                format!("{} is not inside a checkout of wholestack", start.display())
            })?;
        Ok(Self {
            root: root.canonicalize()?,
        })
    }

    /// The folder with the workspace's Cargo.toml.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path inside the checkout.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// Where cargo puts what it builds.
    pub fn target(&self) -> PathBuf {
        env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| self.root.join("target"), |folder| self.root.join(folder))
    }

    /// A file's text.
    pub fn read(&self, relative: &str) -> Result<String> {
        fs::read_to_string(self.path(relative)).with_context(|| format!("cannot read {relative}"))
    }

    /// The cargo that runs this chore, in the root.
    pub fn cargo(&self) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.root);
        cargo
    }

    /// Every file a commit of this tree would hold: tracked, or new and not ignored. Sorted.
    pub fn files(&self) -> Result<Vec<String>> {
        let mut git = Command::new("git");
        git.current_dir(&self.root).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]);
        let mut files: Vec<String> = command::output(&mut git)?
            .split('\0')
            .filter(|name| !name.is_empty() && self.path(name).is_file())
            .map(str::to_owned)
            .collect();
        files.sort();
        files.dedup();
        if files.is_empty() {
            bail!("git lists no file in {}", self.root.display());
        }
        Ok(files)
    }
}
