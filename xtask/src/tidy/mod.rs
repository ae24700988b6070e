//! `cargo xtask tidy`: what no compiler checks, as plain functions over the files a commit would hold.

mod changelog;
mod code;
mod dependencies;
mod lengths;
mod licences;
mod links;
mod markers;
mod module_docs;
mod places;
mod rooms;
mod rules;
mod spdx;
mod tree;
mod unsafe_code;

use std::fmt;

use anyhow::{Result, bail};

use crate::repo::Repo;
use rules::Rules;
use tree::Tree;

/// A rule broken somewhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    file: String,
    line: usize,
    /// What is wrong.
    what: String,
    /// What to do about it.
    mend: String,
}

impl Finding {
    fn new(file: &str, line: usize, what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            what: what.into(),
            mend: mend.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}; {}",
            self.file, self.line, self.what, self.mend
        )
    }
}

type Check = fn(&Tree, &Rules) -> Vec<Finding>;

/// The checks that need only the files.
const CHECKS: &[Check] = &[
    lengths::check,
    rooms::check,
    unsafe_code::check,
    markers::check,
    module_docs::check,
    places::check,
    changelog::check,
    links::check,
];

/// Runs every check and prints every finding.
pub fn run(repo: &Repo) -> Result<()> {
    let tree = Tree::read(repo)?;
    let rules = Rules::read(repo)?;
    let mut findings: Vec<Finding> = CHECKS
        .iter()
        .flat_map(|check| check(&tree, &rules))
        .collect();
    findings.extend(licences::check(
        &dependencies::compiled(repo)?,
        &tree,
        &rules,
    ));
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => println!("tidy: {} files, nothing to mend", tree.files.len()),
        count => bail!("tidy: {count} to mend"),
    }
    Ok(())
}
