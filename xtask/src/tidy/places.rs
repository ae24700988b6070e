//! No file names a place that only one machine has: someone's home, a workspace, a registry's host.

use super::Finding;
use super::code::line_of;
use super::rules::Rules;
use super::tree::{File, Tree};

/// Beginnings of such places. Written in parts, so that this file names none.
const FOLDERS: &[&str] = &[
    concat!("/", "home/"),
    concat!("/", "root/"),
    concat!("/", "Users/"),
    concat!("/", "work/"),
];

/// Homes of nobody, for examples.
const NOBODY: &[&str] = &["user", "me", "you"];

const HOSTS: &[&str] = &[
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("deb.", "debian.org"),
    concat!("files.", "pythonhosted.org"),
    concat!("pypi.", "org"),
];

/// Every such place.
pub fn check(tree: &Tree, _: &Rules) -> Vec<Finding> {
    tree.files
        .iter()
        .flat_map(|file| folders(file).into_iter().chain(hosts(file)))
        .collect()
}

fn folders(file: &File) -> Vec<Finding> {
    let text = &file.text;
    let mut findings = Vec::new();
    for folder in FOLDERS {
        let found = text.match_indices(folder).filter(|(at, _)| {
            // `/proc/PID/root/` and `{base}/work/` are parts of longer paths.
            let is_start =
                !text[..*at].ends_with(|c: char| c.is_alphanumeric() || "}_-./*>".contains(c));
            let rest = &text[at + folder.len()..];
            let name = rest
                .split(|c: char| !c.is_alphanumeric() && !"_.-".contains(c))
                .next();
            // No name follows in patterns and placeholders.
            is_start && name.is_some_and(|name| !name.is_empty() && !NOBODY.contains(&name))
        });
        findings.extend(found.map(|(at, _)| {
            let mend = "make it relative, ask for it at run time, or use a home named `user` in an example";
            Finding::new(&file.path, line_of(text, at), format!("a path of one machine ({folder}...)"), mend)
        }));
    }
    findings
}

fn hosts(file: &File) -> Vec<Finding> {
    let found = HOSTS.iter().flat_map(|host| file.text.match_indices(host));
    let finding = |(at, host): (usize, &str)| {
        Finding::new(
            &file.path,
            line_of(&file.text, at),
            format!("names the host {host}"),
            "leave that to the client",
        )
    };
    found.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths that begin in someone's folder are found; the same names deeper in a path are not.
    #[test]
    fn machine_paths_are_found() {
        let [home, root, _, work] = FOLDERS else {
            unreachable!()
        };
        let text = format!(
            "cd {home}bob/x\nopen(\"{root}x\")\n/proc/1{root}etc\n{{base}}{work}x\n{home}user/a \"{home}me\" {home}*\nat {}\n",
            HOSTS[0]
        );
        let found: Vec<_> = check(&Tree::of(&[("a.md", &text)]), &Rules::default())
            .into_iter()
            .map(|f| f.line)
            .collect();
        assert_eq!(found, [1, 2, 6]);
    }
}
