//! What is compiled in may be: every crate's licence is one we accept.

use super::Finding;
use super::dependencies::Dependency;
use super::rules::{FILE, Rules};
use super::spdx;
use super::tree::Tree;

const LOCK: &str = "Cargo.lock";

/// Crates under other licences or none, and exceptions no longer needed.
pub fn check(dependencies: &[Dependency], tree: &Tree, rules: &Rules) -> Vec<Finding> {
    let accepted = |name: &str| rules.licences.iter().any(|licence| licence == name);
    let refused = dependencies
        .iter()
        .filter(|dependency| !spdx::is_met(&dependency.licence, accepted));
    let (listed, unlisted): (Vec<_>, Vec<_>) =
        refused.partition(|dependency| rules.licence_exceptions.contains_key(&dependency.name));
    let mut findings: Vec<Finding> = unlisted
        .into_iter()
        .map(|dependency| finding(dependency, tree))
        .collect();
    for name in rules.licence_exceptions.keys() {
        if !listed.iter().any(|dependency| dependency.name == *name) {
            let what = format!("{name} needs no exception for its licence");
            findings.push(Finding::new(
                FILE,
                1,
                what,
                "take it out of licence_exceptions",
            ));
        }
    }
    findings
}

fn finding(dependency: &Dependency, tree: &Tree) -> Finding {
    let Dependency { name, licence } = dependency;
    let entry = format!("name = \"{name}\"");
    let lock = tree.file(LOCK).map_or("", |file| &file.text);
    let line = lock
        .lines()
        .position(|line| line == entry)
        .map_or(1, |index| index + 1);
    let licence = if licence.is_empty() {
        "no licence"
    } else {
        licence
    };
    let mend = format!("do without it, or add to {FILE} what may be accepted and why");
    Finding::new(LOCK, line, format!("{name} comes under {licence}"), mend)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A refused licence is found at the crate's line of the lock file; an exception excuses it; a stale one is found.
    #[test]
    fn refused_licences_are_found() {
        let tree = Tree::of(&[(LOCK, "[[package]]\nname = \"odd\"\n")]);
        let dependency = |name: &str, licence: &str| Dependency {
            name: name.into(),
            licence: licence.into(),
        };
        let dependencies = [
            dependency("fine", "MIT"),
            dependency("odd", "GPL-3.0"),
            dependency("none", ""),
        ];
        let exception = |name: &str| (name.to_owned(), "why".to_owned());
        let rules = Rules {
            licences: vec!["MIT".to_owned()],
            licence_exceptions: [exception("none"), exception("fine")].into(),
            ..Rules::default()
        };
        let found: Vec<_> = check(&dependencies, &tree, &rules)
            .into_iter()
            .map(|f| (f.file, f.line))
            .collect();
        assert_eq!(found, [(LOCK.to_owned(), 2), (FILE.to_owned(), 1)]);
    }
}
