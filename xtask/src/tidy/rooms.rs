//! The rooms of `profiler-user`: which crates each may know.

use super::Finding;
use super::code::{line_of, words};
use super::rules::Rules;
use super::tree::{File, Tree};

const HOUSE: &str = "profiler-user/src/";

/// Crates that only some rooms may name.
struct Rule {
    crates: &'static [&'static str],
    rooms: &'static [&'static str],
    mend: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        crates: &["clap", "clap_complete", "clap_mangen"],
        rooms: &["profiler-user/src/cli/", "profiler-user/src/main.rs"],
        mend: "turn it into plain settings in cli/ and take those",
    },
    Rule {
        crates: &["aya", "aya_obj", "aya_log"],
        rooms: &["profiler-user/src/kernel/"],
        mend: "only kernel/ talks to the kernel: give it a function for this",
    },
    Rule {
        crates: &["prost", "inferno"],
        rooms: &["profiler-user/src/recording/", "profiler-user/src/export/"],
        mend: "file formats stay in recording/ and export/",
    },
];

/// Rooms past stack/: to them a sample is a domain type, not bytes from the kernel.
const PAST_STACK: &[&str] = &[
    "profiler-user/src/profile/",
    "profiler-user/src/recording/",
    "profiler-user/src/evidence/",
    "profiler-user/src/export/",
    "profiler-user/src/ui/",
];

/// Names used in a room that must not know them.
pub fn check(tree: &Tree, _: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| file.path.starts_with(HOUSE)) {
        for rule in RULES.iter().filter(|rule| !file.is_in(rule.rooms)) {
            for name in rule.crates {
                let what = format!("`{name}` is named outside its room");
                findings.extend(uses(file, name).map(|at| finding(file, at, &what, rule.mend)));
            }
        }
        if file.is_in(PAST_STACK) {
            let wire = uses(file, "profiler_ebpf").filter(|at| names_wire(&file.code()[*at..]));
            let mend = "turn it into a domain type before profile/";
            findings
                .extend(wire.map(|at| finding(file, at, "wire types are used past stack/", mend)));
        }
    }
    findings
}

fn finding(file: &File, at: usize, what: &str, mend: &str) -> Finding {
    Finding::new(&file.path, line_of(file.code(), at), what, mend)
}

/// Where the code names this crate: at the root of a path or in a `use` or `extern crate`.
fn uses<'a>(file: &'a File, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    let code = file.code();
    words(code, name).filter(move |at| {
        let before = code[..*at].trim_end();
        let is_inner = before
            .strip_suffix("::")
            .is_some_and(|path| path.ends_with(|c: char| c.is_alphanumeric() || c == '_'));
        let is_imported = before.ends_with("use") || before.ends_with("crate");
        let is_path = code[at + name.len()..].trim_start().starts_with("::");
        !is_inner && !before.ends_with('.') && (is_path || is_imported)
    })
}

/// Whether a path that starts here leads to `wire`, directly or in braces.
fn names_wire(path: &str) -> bool {
    let Some((_, inner)) = path.split_once("::") else {
        return false;
    };
    let inner = inner.trim_start();
    let reach = if inner.starts_with('{') {
        inner.find(';').unwrap_or(inner.len())
    } else {
        inner.len().min(5)
    };
    let reach = inner.get(..reach).unwrap_or(inner);
    words(reach, "wire").next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)]), &Rules::default())
            .into_iter()
            .map(|finding| finding.line)
            .collect()
    }

    /// Each crate has its rooms; other crates of the workspace are not bound by them.
    #[test]
    fn crates_stay_in_their_rooms() {
        let text = "//! aya:: in words\nuse aya::Ebpf;\nfn f() { let x = \"clap::\"; }\n#[derive(clap::Parser)]\nstruct A;\n";
        assert_eq!(lines("profiler-user/src/kernel/load.rs", text), [4]);
        assert_eq!(lines("profiler-user/src/cli/record.rs", text), [2]);
        assert_eq!(lines("profiler-user/src/ui/table.rs", text), [4, 2]);
        assert_eq!(lines("xtask/src/main.rs", text), []);
    }

    /// A module of one's own, a field or a method may have a crate's name.
    #[test]
    fn only_crates_count() {
        let text = "use crate::export::inferno::write;\nfn f() { self.prost(); let clap = 1; }\nuse inferno;\n";
        assert_eq!(lines("profiler-user/src/evidence/rank.rs", text), [3]);
    }

    /// Wire types are found however they are imported; the crate's other modules may be used anywhere.
    #[test]
    fn wire_stops_at_stack() {
        let text = "use profiler_ebpf::latency::bucket;\nuse profiler_ebpf::wire::Sample;\n\
                    use profiler_ebpf::{latency, wire};\nuse profiler_ebpf::{latency::{a, b}};\n";
        assert_eq!(lines("profiler-user/src/profile/sample.rs", text), [2, 3]);
        assert_eq!(lines("profiler-user/src/stack/merge.rs", text), []);
    }
}
