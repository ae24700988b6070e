//! The crates that are compiled into what ships, with their licences, as cargo sees them.

use anyhow::{Context, Result};

use crate::command;
use crate::repo::Repo;

/// A compiled crate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dependency {
    pub name: String,
    /// The licence field; empty where there is none.
    pub licence: String,
}

/// Normal and build dependencies of every package with every feature, on this machine's target.
pub fn compiled(repo: &Repo) -> Result<Vec<Dependency>> {
    let mut cargo = repo.cargo();
    cargo.args([
        "tree",
        "--locked",
        "--workspace",
        "--all-features",
        "--edges",
        "normal,build",
    ]);
    cargo.args(["--prefix", "none", "--no-dedupe", "--format", "{p}\t{l}"]);
    parse(&command::output(&mut cargo)?)
}

/// Lines of `name version (place)`, a tab, and the licence; each crate once.
fn parse(tree: &str) -> Result<Vec<Dependency>> {
    let mut found = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let (package, licence) = line
            .split_once('\t')
            .with_context(|| format!("cargo tree printed {line}"))?;
        let name = package.split(' ').next().unwrap_or(package);
        found.push(Dependency {
            name: name.to_owned(),
            licence: licence.trim().to_owned(),
        });
    }
    found.sort();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate seen twice counts once; a missing licence is empty.
    #[test]
    fn each_crate_once() {
        let found = parse("b v1.0.0\tMIT\n\na v0.1.0 (proc-macro)\t\nb v1.0.0\tMIT\n").unwrap();
        let crate_of = |name: &str, licence: &str| Dependency {
            name: name.into(),
            licence: licence.into(),
        };
        assert_eq!(found, [crate_of("a", ""), crate_of("b", "MIT")]);
    }
}
