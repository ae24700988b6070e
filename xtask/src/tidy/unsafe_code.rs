//! `unsafe` only where it is listed, with the reason.

use super::Finding;
use super::code::{line_of, words};
use super::rules::{FILE, Rules};
use super::tree::Tree;

/// Every `unsafe` in a place not listed.
pub fn check(tree: &Tree, rules: &Rules) -> Vec<Finding> {
    let places: Vec<&String> = rules.unsafe_code.keys().collect();
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| !file.is_in(&places)) {
        let mend =
            format!("do it safely or in kernel/ (the places are in {FILE} under unsafe_code)");
        let found = words(file.code(), "unsafe");
        findings.extend(found.map(|at| {
            Finding::new(
                &file.path,
                line_of(&file.text, at),
                "unsafe code",
                mend.as_str(),
            )
        }));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks and attributes count, words in comments and lints do not, listed folders may.
    #[test]
    fn unsafe_is_found() {
        let text = "//! unsafe\n#![deny(unsafe_code)]\nfn f() { unsafe { g() } }\n#[unsafe(no_mangle)]\nfn h() {}\n";
        let tree = Tree::of(&[("a/b.rs", text), ("kernel/b.rs", text)]);
        let rules = Rules {
            unsafe_code: [("kernel/".to_owned(), "why".to_owned())].into(),
            ..Rules::default()
        };
        let found: Vec<_> = check(&tree, &rules)
            .into_iter()
            .map(|finding| (finding.file, finding.line))
            .collect();
        assert_eq!(found, [("a/b.rs".to_owned(), 3), ("a/b.rs".to_owned(), 4)]);
    }
}
