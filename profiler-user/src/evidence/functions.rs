//! TOP FUNCTIONS: what is hot by itself, and what is hot with all it calls.

use serde::Serialize;

use super::index::Index;
use super::share::Share;
use super::table::{Code, NO_FRAMES, Table, code, kept, marker, samples_beyond};

/// One row of TOP FUNCTIONS.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionRow {
    /// The row's name, unlike any other in its table.
    pub label: String,
    /// What it names.
    #[serde(flatten)]
    pub code: Code,
    /// Samples with this function at the leaf.
    #[serde(rename = "self")]
    pub itself: Share,
    /// Samples with this function anywhere in the stack, each once.
    pub total: Share,
}

/// TOP FUNCTIONS: all kinds of code ranked together by their own samples, then by their total. The
/// own samples of all rows add up to the samples kept.
pub(super) fn functions(index: &Index<'_>, top: usize) -> Table<FunctionRow> {
    let places = &index.functions;
    let itself = index.tally(places, |stack| stack.first().copied());
    let total = index.tally(places, |stack| stack.iter().copied());
    let mut rows: Vec<FunctionRow> = (0..places.len())
        .filter(|place| total[*place] > 0)
        .map(|place| FunctionRow {
            label: places.label(place).to_owned(),
            code: code(index.profile, places, place),
            itself: kept(index, itself[place]),
            total: kept(index, total[place]),
        })
        .collect();
    let without = samples_beyond(index, itself.iter().sum());
    if without > 0 {
        rows.push(FunctionRow {
            label: NO_FRAMES.to_owned(),
            code: marker(),
            itself: kept(index, without),
            total: kept(index, without),
        });
    }
    let rank = |row: &FunctionRow| (row.itself.count, row.total.count);
    rows.sort_by(|a, b| rank(b).cmp(&rank(a)).then_with(|| a.label.cmp(&b.label)));
    Table::new(rows, top, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::OwnCode;
    use crate::evidence::testing::Build;

    fn read(table: &Table<FunctionRow>) -> Vec<(&str, u64, u64)> {
        table
            .rows
            .iter()
            .map(|row| (&*row.label, row.itself.count, row.total.count))
            .collect()
    }

    /// Lines add up to functions, recursion counts once, all kinds of code stand in one ranking.
    #[test]
    fn self_and_total() {
        let mut build = Build::new();
        let process = build.process("p", 1);
        let thread = build.thread(process, "t", 1);
        let (one, two) = (
            build.python_at("f", "/a.py", 1, 2),
            build.python_at("f", "/a.py", 1, 3),
        );
        let (libc, kernel) = (build.native("read", "/libc.so"), build.kernel("vfs_read"));
        build.sample(thread, &[one, two, one], 3);
        build.sample(thread, &[two], 1);
        build.sample(thread, &[kernel, libc, two], 5);
        build.sample(thread, &[], 1);
        let table = functions(&Index::new(&build.profile, &OwnCode::default()), usize::MAX);
        assert_eq!(
            read(&table),
            [
                ("vfs_read [kernel]", 5, 5),
                ("f (a.py)", 4, 9),
                ("[no frames]", 1, 1),
                ("read (libc.so)", 0, 5)
            ]
        );
        let own: u64 = table.rows.iter().map(|row| row.itself.count).sum();
        assert_eq!(own, build.profile.kept());
        assert!(
            table
                .rows
                .iter()
                .all(|row| row.itself.count <= row.total.count)
        );
    }

    /// Two functions of one name in one file are two rows, told apart by their first line; so are
    /// functions of one name in two files of one name.
    #[test]
    fn namesakes_stay_apart() {
        let mut build = Build::new();
        let process = build.process("p", 1);
        let thread = build.thread(process, "t", 1);
        for (file, first_line, count) in [("/x/m.py", 4, 5), ("/x/m.py", 20, 4), ("/y/m.py", 4, 3)]
        {
            for line in first_line + 1..first_line + 6 {
                let frame = build.python_at("__init__", file, first_line, line);
                build.sample(thread, &[frame], count);
            }
        }
        let table = functions(&Index::new(&build.profile, &OwnCode::default()), usize::MAX);
        assert_eq!(
            read(&table),
            [
                ("__init__ (x/m.py:4)", 25, 25),
                ("__init__ (x/m.py:20)", 20, 20),
                ("__init__ (y/m.py)", 15, 15)
            ]
        );
    }
}
