//! TOP LEAF, TOP FILES and TOP OWN CODE.
//!
//! Every table counts samples, each at most once per row, and gives each row its share of all
//! samples kept. Rows are ordered by count, equal ones by label, so that equal profiles read equal.

use super::index::{Index, ranked};
use super::place::Places;
use super::table::{NO_FRAMES, Row, Table, code, kept, marker, samples_beyond};

/// TOP LEAF: the lines where stacks end.
pub(super) fn leaves(index: &Index<'_>, top: usize) -> Table<Row> {
    let counts = index.tally(&index.lines, |stack| stack.first().copied());
    let mut rows = rows(index, &index.lines, &counts);
    let without = samples_beyond(index, counts.iter().sum());
    if without > 0 {
        rows.push(Row {
            label: NO_FRAMES.to_owned(),
            code: marker(),
            share: kept(index, without),
        });
        rows.sort_by(|a, b| {
            b.share
                .count
                .cmp(&a.share.count)
                .then_with(|| a.label.cmp(&b.label))
        });
    }
    Table::new(rows, top, 0)
}

/// TOP FILES: the files a stack passes through, one count per sample and file.
pub(super) fn files(index: &Index<'_>, top: usize) -> Table<Row> {
    let counts = index.tally(&index.files, |stack| stack.iter().copied());
    let has_file = |stack: &[_]| stack.iter().any(|frame| index.files.of(*frame).is_some());
    let with: u64 = index
        .stacks()
        .filter(|(stack, _)| has_file(stack))
        .map(|(_, count)| count)
        .sum();
    Table::new(
        rows(index, &index.files, &counts),
        top,
        samples_beyond(index, with),
    )
}

/// TOP OWN CODE: the innermost function that is own code.
pub(super) fn own_code(index: &Index<'_>, top: usize) -> Table<Row> {
    let counts = index.tally(&index.functions, |stack| index.innermost_own(stack));
    let with = counts.iter().sum();
    Table::new(
        rows(index, &index.functions, &counts),
        top,
        samples_beyond(index, with),
    )
}

fn rows(index: &Index<'_>, places: &Places, counts: &[u64]) -> Vec<Row> {
    ranked(places, counts)
        .into_iter()
        .map(|(place, count)| Row {
            label: places.label(place).to_owned(),
            code: code(index.profile, places, place),
            share: kept(index, count),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::OwnCode;
    use crate::evidence::testing::Build;

    fn read(table: &Table<Row>) -> Vec<(&str, u64)> {
        table
            .rows
            .iter()
            .map(|row| (&*row.label, row.share.count))
            .collect()
    }

    /// A leaf is a line: two lines of a function are two rows. Ties go by label, markers are rows too.
    #[test]
    fn leaves_are_lines() {
        let mut build = Build::new();
        let process = build.process("p", 1);
        let thread = build.thread(process, "t", 1);
        let (one, two) = (
            build.python_at("f", "/a.py", 1, 2),
            build.python_at("f", "/a.py", 1, 3),
        );
        let cut = build.marker("[truncated]");
        build.sample(thread, &[two], 2);
        build.sample(thread, &[one], 2);
        build.sample(thread, &[cut, one], 5);
        build.sample(thread, &[], 1);
        let index = Index::new(&build.profile, &OwnCode::default());
        let table = leaves(&index, usize::MAX);
        let expected = [
            ("[truncated]", 5),
            ("f (a.py:2)", 2),
            ("f (a.py:3)", 2),
            ("[no frames]", 1),
        ];
        assert_eq!(read(&table), expected);
        assert_eq!(table.rows[1].share.base, 10);
        let code = &table.rows[1].code;
        assert_eq!(
            (code.kind, &*code.function, &*code.path, code.line),
            ("python", "f", "/a.py", 2)
        );
        let short = leaves(&index, 1);
        assert_eq!((short.rows.len(), short.rows_total), (1, 4));
    }

    /// A file counts once a sample, however many of its frames are in the stack.
    #[test]
    fn files_count_once_a_sample() {
        let mut build = Build::new();
        let process = build.process("p", 1);
        let thread = build.thread(process, "t", 1);
        let (f, g) = (build.python("f", "/a.py", 1), build.python("g", "/a.py", 9));
        let (libc, kernel, cuda) = (
            build.native("read", "/libc.so"),
            build.kernel("vfs_read"),
            build.cuda("cuInit"),
        );
        let cut = build.marker("[truncated]");
        build.sample(thread, &[kernel, libc, f, g, f], 3);
        build.sample(thread, &[cuda, g], 1);
        build.sample(thread, &[cut], 2);
        let table = files(&Index::new(&build.profile, &OwnCode::default()), usize::MAX);
        assert_eq!(
            read(&table),
            [("a.py", 4), ("[kernel]", 3), ("libc.so", 3), ("[cuda]", 1)]
        );
        assert_eq!(table.samples_without, 2);
    }

    /// The innermost own function gets the sample; what has none is counted apart.
    #[test]
    fn own_code_is_innermost() {
        let mut build = Build::new();
        let process = build.process("p", 1);
        let thread = build.thread(process, "t", 1);
        let (outer, inner) = (
            build.python("outer", "/a.py", 1),
            build.python("inner", "/a.py", 9),
        );
        let (lib, libc) = (
            build.python("lib", "/v/site-packages/x.py", 1),
            build.native("read", "/libc.so"),
        );
        build.sample(thread, &[libc, lib, inner, outer], 3);
        build.sample(thread, &[outer], 4);
        build.sample(thread, &[libc, lib], 2);
        let table = own_code(&Index::new(&build.profile, &OwnCode::default()), usize::MAX);
        assert_eq!(read(&table), [("outer (a.py)", 4), ("inner (a.py)", 3)]);
        assert_eq!(table.samples_without, 2);
        let native = OwnCode::matching(["libc.so".to_owned()]);
        let table = own_code(&Index::new(&build.profile, &native), usize::MAX);
        assert_eq!(read(&table), [("read (libc.so)", 5)]);
    }
}
