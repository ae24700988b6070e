//! TOP ROOTS: where stacks begin, and the first own code they come to.

use std::collections::HashMap;

use serde::Serialize;

use super::index::Index;
use super::place::PlaceId;
use super::share::Share;
use super::table::{NO_FRAMES, Table, kept, samples_beyond};

/// One row of TOP ROOTS.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RootRow {
    /// `entry -> own`, or the entry alone.
    pub label: String,
    /// The outermost function of the stack.
    pub entry: String,
    /// The first own-code function below it; none if the stack has no own code.
    pub own: Option<String>,
    /// Its samples.
    #[serde(flatten)]
    pub share: Share,
}

/// TOP ROOTS: where stacks begin, and the first own code they come to.
pub(super) fn roots(index: &Index<'_>, top: usize) -> Table<RootRow> {
    let function = |frame| index.functions.of(frame);
    let mut counts: HashMap<(Option<PlaceId>, Option<PlaceId>), u64> = HashMap::new();
    let mut with = 0;
    for (stack, count) in index.stacks() {
        let entry = stack.last().and_then(|frame| function(*frame));
        let own = index.outermost_own(stack).and_then(function);
        *counts.entry((entry, own)).or_insert(0) += count;
        with += count;
    }
    let without = samples_beyond(index, with);
    if without > 0 {
        *counts.entry((None, None)).or_insert(0) += without;
    }
    let mut rows: Vec<RootRow> = counts
        .into_iter()
        .map(|((entry, own), count)| {
            let entry = entry
                .map_or(NO_FRAMES, |place| index.functions.label(place))
                .to_owned();
            let own = own.map(|place| index.functions.label(place).to_owned());
            RootRow {
                label: own
                    .as_ref()
                    .map_or_else(|| entry.clone(), |own| format!("{entry} -> {own}")),
                entry,
                own,
                share: kept(index, count),
            }
        })
        .collect();
    rows.sort_by(|a, b| {
        b.share
            .count
            .cmp(&a.share.count)
            .then_with(|| a.label.cmp(&b.label))
    });
    Table::new(rows, top, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::OwnCode;
    use crate::evidence::testing::Build;

    /// A root is the entry and the own code first reached from it, not the innermost.
    #[test]
    fn entry_and_first_own_code() {
        let mut build = Build::new();
        let process = build.process("p", 1);
        let thread = build.thread(process, "t", 1);
        let (start, clone) = (
            build.native("_start", "/python3"),
            build.native("clone3", "/libc.so"),
        );
        let boot = build.python("_bootstrap", "/usr/lib/python3.12/threading.py", 1);
        let (main, f) = (
            build.python("main", "/a.py", 1),
            build.python("f", "/a.py", 9),
        );
        build.sample(thread, &[f, main, start], 3);
        build.sample(thread, &[main, start], 2);
        build.sample(thread, &[f, boot, clone], 4);
        build.sample(thread, &[clone], 1);
        build.sample(thread, &[], 1);
        let table = roots(&Index::new(&build.profile, &OwnCode::default()), usize::MAX);
        let read: Vec<_> = table
            .rows
            .iter()
            .map(|row| (&*row.label, row.share.count))
            .collect();
        assert_eq!(
            read,
            [
                ("_start (python3) -> main (a.py)", 5),
                ("clone3 (libc.so) -> f (a.py)", 4),
                ("[no frames]", 1),
                ("clone3 (libc.so)", 1),
            ]
        );
        assert_eq!(table.rows[0].own.as_deref(), Some("main (a.py)"));
        assert_eq!(table.rows[3].own, None);
    }
}
