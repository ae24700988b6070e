//! Links between the documents lead somewhere.

use super::Finding;
use super::rules::Rules;
use super::tree::Tree;

/// Relative links in Markdown files whose target is not in the tree.
pub fn check(tree: &Tree, _: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.extension() == "md") {
        for (line, target) in links(&file.text) {
            let Some(path) = resolve(&file.path, &target) else {
                continue;
            };
            let is_there = tree.paths.iter().any(|known| {
                *known == path
                    || path.is_empty()
                    || known
                        .strip_prefix(&path)
                        .is_some_and(|rest| rest.starts_with('/'))
            });
            if !is_there {
                let what = format!("the link to {target} leads nowhere");
                findings.push(Finding::new(
                    &file.path,
                    line,
                    what,
                    "correct it, or add the file it means",
                ));
            }
        }
    }
    findings
}

/// Targets of links outside code, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            // Inside backquotes is code: every second part of the line.
            let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
            found.extend(
                inline(&prose)
                    .chain(definition(&prose))
                    .map(|target| (index + 1, target)),
            );
        }
    }
    found
}

/// Targets of `[text](target)` and `[text](target "title")`.
fn inline(prose: &str) -> impl Iterator<Item = String> {
    prose.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?.split_whitespace().next()?;
        Some(target.trim_matches(['<', '>']).to_owned())
    })
}

/// The target of a line `[label]: target`.
fn definition(prose: &str) -> Option<String> {
    let (label, target) = prose.split_once("]: ")?;
    let is_label = label.starts_with('[') && !label.starts_with("[^");
    is_label.then(|| {
        target
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned()
    })
}

/// The path in the tree that a link from this file means; none for addresses and places in the same file.
fn resolve(file: &str, target: &str) -> Option<String> {
    let target = target.split('#').next().unwrap_or_default();
    if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." if parts.pop().is_none() => return Some(target.to_owned()),
            ".." => {}
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Broken links are found, in both ways of writing; files, folders, addresses, anchors and code are left alone.
    #[test]
    fn broken_links_are_found() {
        let text = "[a](../README.md) [b](b.md#part) [c](gone.md \"title\")\n[folder](../docs/) [web](https://x.y/z) [here](#x)\n\
                    `[code](gone.md)`\n```\n[code](gone.md)\n```\n[ref]: gone/too.md\n[out](../../out.md)\n";
        let tree = Tree::of(&[("README.md", ""), ("docs/a.md", text), ("docs/b.md", "")]);
        let found: Vec<_> = check(&tree, &Rules::default())
            .into_iter()
            .map(|finding| finding.line)
            .collect();
        assert_eq!(found, [1, 7, 8]);
    }
}
