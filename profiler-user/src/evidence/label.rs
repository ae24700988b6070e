//! Names that tell places apart.
//!
//! A label shows the last part of a path. Where two different places would read the same, as much
//! more of their paths is shown as it takes: `main (a/train.py)` and `main (b/train.py)`. Two
//! functions of one name in one file get their first line: `__init__ (m.py:4)`, `__init__ (m.py:12)`.

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;

/// A place and what its label may draw on.
#[derive(Debug)]
pub(super) struct Named<'a> {
    /// The short label; where it shows `path`, that comes after everything else that could look like it.
    pub label: String,
    /// The full path behind the label; empty if there is none.
    pub path: &'a str,
    /// Line where the function begins; 0 if it is not known or not wanted.
    pub first_line: u32,
}

/// The labels, in the order given, each as short as telling them apart allows.
pub(super) fn distinct(named: Vec<Named<'_>>) -> Vec<String> {
    let mut same: IndexMap<&str, Vec<usize>> = IndexMap::new();
    for (index, place) in named.iter().enumerate() {
        same.entry(&place.label).or_default().push(index);
    }
    let mut longer: Vec<(usize, String)> = Vec::new();
    for group in same.values().filter(|group| group.len() > 1) {
        let mut paths: HashMap<&str, usize> = HashMap::new();
        for &index in group {
            *paths.entry(named[index].path).or_insert(0) += 1;
        }
        let parts = parts_needed(&paths);
        for &index in group {
            let place = &named[index];
            let line = if paths[place.path] > 1 {
                place.first_line
            } else {
                0
            };
            longer.push((index, lengthen(place, parts, line)));
        }
    }
    let mut labels: Vec<String> = named.into_iter().map(|place| place.label).collect();
    for (index, label) in longer {
        labels[index] = label;
    }
    labels
}

/// What stands after the last slash.
pub(super) fn base_name(path: &str) -> &str {
    last_parts(path, 1)
}

/// The last `count` parts of a path; all of it if it has no more than that.
fn last_parts(path: &str, count: usize) -> &str {
    match path.rmatch_indices('/').nth(count - 1) {
        Some((slash, _)) => &path[slash + 1..],
        None => path,
    }
}

/// How many last parts it takes to tell these paths apart.
fn parts_needed(paths: &HashMap<&str, usize>) -> usize {
    let most = paths
        .keys()
        .map(|path| path.matches('/').count() + 1)
        .max()
        .unwrap_or(1);
    (1..most)
        .find(|count| {
            let ends: HashSet<&str> = paths.keys().map(|path| last_parts(path, *count)).collect();
            ends.len() == paths.len()
        })
        .unwrap_or(most)
}

/// The label with more of its path, and the line where the function begins.
fn lengthen(place: &Named<'_>, parts: usize, line: u32) -> String {
    let base = base_name(place.path);
    let mut end = last_parts(place.path, parts).to_owned();
    if line > 0 {
        end.push_str(&format!(":{line}"));
    }
    match place.label.rfind(base) {
        Some(at) if !base.is_empty() => {
            let (before, after) = (&place.label[..at], &place.label[at + base.len()..]);
            format!("{before}{end}{after}")
        }
        _ => place.label.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(places: &[(&str, &str, u32)]) -> Vec<String> {
        let named = places.iter().map(|(label, path, first_line)| Named {
            label: (*label).to_owned(),
            path,
            first_line: *first_line,
        });
        distinct(named.collect())
    }

    /// A label nobody else has stays as it is.
    #[test]
    fn unambiguous_labels_stay_short() {
        let places = [
            ("f (a.py)", "/x/a.py", 3),
            ("f (b.py)", "/x/b.py", 3),
            ("g (a.py)", "/x/a.py", 9),
        ];
        assert_eq!(labels(&places), ["f (a.py)", "f (b.py)", "g (a.py)"]);
    }

    /// As many parts of the path as needed, the same number for each of the group.
    #[test]
    fn paths_are_shown_as_far_as_needed() {
        let places = [
            ("f (a.py)", "/x/m/a.py", 1),
            ("f (a.py)", "/y/m/a.py", 1),
            ("f (a.py)", "a.py", 1),
        ];
        assert_eq!(
            labels(&places),
            ["f (x/m/a.py)", "f (y/m/a.py)", "f (a.py)"]
        );
        let places = [("a.py", "/a.py", 0), ("a.py", "a.py", 0)];
        assert_eq!(labels(&places), ["/a.py", "a.py"]);
    }

    /// The path is found after the name even where the name contains it, and before an offset.
    #[test]
    fn the_path_is_replaced_not_the_name() {
        let places = [
            ("a.py (a.py:7)", "/x/a.py", 0),
            ("a.py (a.py:7)", "/y/a.py", 0),
        ];
        assert_eq!(labels(&places), ["a.py (x/a.py:7)", "a.py (y/a.py:7)"]);
        let places = [("l.so+0x10", "/x/l.so", 0), ("l.so+0x10", "/y/l.so", 0)];
        assert_eq!(labels(&places), ["x/l.so+0x10", "y/l.so+0x10"]);
    }

    /// Functions of one name in one file are told apart by where they begin.
    #[test]
    fn functions_get_their_first_line() {
        let places = [
            ("__init__ (m.py)", "/x/m.py", 4),
            ("__init__ (m.py)", "/x/m.py", 12),
        ];
        assert_eq!(labels(&places), ["__init__ (m.py:4)", "__init__ (m.py:12)"]);
        let places = [
            ("f (m.py)", "/x/m.py", 4),
            ("f (m.py)", "/x/m.py", 12),
            ("f (m.py)", "/y/m.py", 1),
        ];
        assert_eq!(
            labels(&places),
            ["f (x/m.py:4)", "f (x/m.py:12)", "f (y/m.py)"]
        );
    }
}
