//! The changelog has a section for what the tree holds: unreleased changes, or the current version.

use super::Finding;
use super::rules::Rules;
use super::tree::Tree;

const FILE: &str = "CHANGELOG.md";

/// A changelog that is missing or behind.
pub fn check(tree: &Tree, _: &Rules) -> Vec<Finding> {
    let Some(version) = tree.file("Cargo.toml").and_then(|file| version(&file.text)) else {
        return vec![Finding::new(
            "Cargo.toml",
            1,
            "workspace.package has no version",
            "give it one",
        )];
    };
    let Some(changelog) = tree.file(FILE) else {
        return vec![Finding::new(
            FILE,
            1,
            "there is no changelog",
            "write one with a section `## [Unreleased]`",
        )];
    };
    let sections = changelog
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("## "));
    let mut names = sections.map(|title| {
        title
            .trim_start_matches('[')
            .split([']', ' '])
            .next()
            .unwrap_or_default()
    });
    if names.any(|name| name.eq_ignore_ascii_case("unreleased") || name == version) {
        return Vec::new();
    }
    let what = format!("no section for {version} or unreleased changes");
    vec![Finding::new(
        FILE,
        1,
        what,
        "add `## [Unreleased]` and say there what changes for the user",
    )]
}

fn version(manifest: &str) -> Option<String> {
    let manifest: toml::Table = toml::from_str(manifest).ok()?;
    manifest
        .get("workspace")?
        .get("package")?
        .get("version")?
        .as_str()
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(changelog: &str) -> usize {
        let tree = Tree::of(&[
            ("Cargo.toml", "[workspace.package]\nversion = '0.2.0'\n"),
            (FILE, changelog),
        ]);
        check(&tree, &Rules::default()).len()
    }

    /// The current version or "Unreleased" must head a section, with or without brackets.
    #[test]
    fn a_section_is_wanted() {
        assert_eq!(findings("# Changes\n\n## [Unreleased]\n"), 0);
        assert_eq!(findings("## 0.2.0 - today\n"), 0);
        assert_eq!(findings("## [0.1.0]\nUnreleased\n"), 1);
        assert_eq!(
            check(
                &Tree::of(&[("Cargo.toml", "[workspace.package]\nversion = '1.0.0'\n")]),
                &Rules::default()
            )
            .len(),
            1
        );
    }
}
