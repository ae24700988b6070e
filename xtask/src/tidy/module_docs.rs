//! Every Rust file says first what it is for.

use super::Finding;
use super::rules::Rules;
use super::tree::Tree;

/// Files that do not begin with `//!`; inner attributes may come before it.
pub fn check(tree: &Tree, _: &Rules) -> Vec<Finding> {
    let undocumented = tree.rust().filter(|file| {
        let first = file
            .text
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty() && !line.starts_with("#!["));
        !first.is_some_and(|line| line.starts_with("//!") && line.len() > "//! x".len())
    });
    let mend = "begin it with `//!` and a sentence: what it does, why, what it must not do";
    undocumented
        .map(|file| Finding::new(&file.path, 1, "the file does not say what it is for", mend))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sentence is wanted, at the top; attributes may come first.
    #[test]
    fn undocumented_files_are_found() {
        let tree = Tree::of(&[
            ("good.rs", "//! Says it.\n"),
            ("attribute.rs", "#![no_std]\n//! Says it.\n"),
            ("late.rs", "use a;\n//! Says it.\n"),
            ("dummy.rs", "//! x\n"),
            ("empty.rs", ""),
        ]);
        let found: Vec<_> = check(&tree, &Rules::default())
            .into_iter()
            .map(|finding| finding.file)
            .collect();
        assert_eq!(found, ["late.rs", "dummy.rs", "empty.rs"]);
    }
}
