//! Nothing half done is committed: no notes to self, no debugging left in, no test switched off.

use super::Finding;
use super::code::{line_of, words};
use super::rules::Rules;
use super::tree::{File, Tree};

/// Notes to self, looked for in comments too. Written in two parts, so that this file has none.
const NOTES: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME")];

/// Macros that mark code as unfinished or are for debugging only.
const MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

/// Files in which a note to self would be one.
const NOTED: &[&str] = &[
    "rs", "py", "c", "h", "cc", "cpp", "hpp", "cu", "sh", "toml", "yml", "yaml", "proto", "js",
];

/// Notes, macros and ignored tests.
pub fn check(tree: &Tree, _: &Rules) -> Vec<Finding> {
    let noted = tree
        .files
        .iter()
        .filter(|file| NOTED.contains(&file.extension()));
    noted
        .flat_map(notes)
        .chain(tree.rust().flat_map(unfinished))
        .collect()
}

fn notes(file: &File) -> Vec<Finding> {
    let found = NOTES
        .iter()
        .flat_map(|note| words(&file.text, note).map(move |at| (note, at)));
    let finding = |(note, at): (&&str, usize)| {
        Finding::new(
            &file.path,
            line_of(&file.text, at),
            format!("a {note}"),
            "do it, or file an issue and say so",
        )
    };
    found.map(finding).collect()
}

fn unfinished(file: &File) -> Vec<Finding> {
    let code = file.code();
    let mut findings = Vec::new();
    for name in MACROS {
        let calls = words(code, name).filter(|at| code[at + name.len()..].starts_with('!'));
        findings.extend(calls.map(|at| {
            Finding::new(
                &file.path,
                line_of(code, at),
                format!("{name}! is left in"),
                "take it out",
            )
        }));
    }
    let ignored = words(code, "ignore").filter(|at| code[..*at].trim_end().ends_with("#["));
    findings.extend(ignored.map(|at| {
        let mend = "let it run, or let it skip with a reason through WHOLESTACK_SKIPS";
        Finding::new(&file.path, line_of(code, at), "an ignored test", mend)
    }));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes are found in comments of all languages; macros and attributes in code only.
    #[test]
    fn leftovers_are_found() {
        let rust = format!(
            "// {}: x\nfn f() {{ dbg!(1); }} // todo!()\n#[ignore = \"slow\"]\nlet ignore = dbg;\n",
            NOTES[0]
        );
        let python = format!("x = 1  # {}\n", NOTES[1]);
        let tree = Tree::of(&[("a.rs", &rust), ("b.py", &python), ("c.md", &python)]);
        let found: Vec<_> = check(&tree, &Rules::default())
            .into_iter()
            .map(|f| (f.file, f.line))
            .collect();
        let expected = [("a.rs", 1), ("b.py", 1), ("a.rs", 2), ("a.rs", 3)];
        assert_eq!(found, expected.map(|(file, line)| (file.to_owned(), line)));
    }
}
