//! No source file over 600 lines, save those listed with a reason; and no reason left over.

use super::Finding;
use super::rules::{FILE, Rules};
use super::tree::Tree;

const LONGEST: usize = 600;

const SOURCES: &[&str] = &[
    "rs", "py", "c", "h", "cc", "cpp", "hpp", "cu", "sh", "js", "css", "proto",
];

/// Files too long, and exceptions no longer needed.
pub fn check(tree: &Tree, rules: &Rules) -> Vec<Finding> {
    let sources = tree
        .files
        .iter()
        .filter(|file| SOURCES.contains(&file.extension()));
    let mut findings = Vec::new();
    let mut long = Vec::new();
    for file in sources {
        let lines = file.text.lines().count();
        if lines <= LONGEST {
            continue;
        }
        long.push(&file.path);
        if !rules.long_files.contains_key(&file.path) {
            let what = format!("{lines} lines, more than {LONGEST}");
            let mend =
                format!("split it by ideas, or list it in {FILE} under long_files with the reason");
            findings.push(Finding::new(&file.path, LONGEST + 1, what, mend));
        }
    }
    for path in rules.long_files.keys().filter(|path| !long.contains(path)) {
        findings.push(Finding::new(
            FILE,
            1,
            format!("{path} is not long"),
            "take it out of long_files",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 600 lines pass, 601 do not, a listed file may, and a stale entry is found.
    #[test]
    fn long_files_are_found() {
        let (fits, long) = ("x\n".repeat(600), "x\n".repeat(601));
        let tree = Tree::of(&[
            ("a.rs", &fits),
            ("b.rs", &long),
            ("c.py", &long),
            ("d.md", &long),
        ]);
        let reason = |path: &str| (path.to_owned(), "a table".to_owned());
        let rules = Rules {
            long_files: [reason("c.py"), reason("gone.rs")].into(),
            ..Rules::default()
        };
        let found: Vec<_> = check(&tree, &rules)
            .into_iter()
            .map(|finding| (finding.file, finding.line))
            .collect();
        assert_eq!(found, [("b.rs".to_owned(), 601), (FILE.to_owned(), 1)]);
    }
}
