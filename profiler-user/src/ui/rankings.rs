//! TOP LEAF, TOP FILES, TOP OWN CODE, TOP FUNCTIONS, TOP ROOTS.

use crate::evidence::{Report, Share, Table};

use super::columns::{Align, Columns};
use super::section::{section, unshown};
use super::text::visible;
use super::units::{half_width, percent, plural};

/// Count, percent, interval: at least as wide as in most reports, so that the tables line up.
const SHARE: [(Align, usize); 2] = [(Align::Right, 7), (Align::Left, 0)];

/// The five tables, in the contract's order.
pub(super) fn lines(report: &Report, width: Option<usize>) -> Vec<String> {
    let base = format!("% of {}", plural(report.summary.kept, "sample"));
    let describe = |what: &str, without: u64| match without {
        0 => format!("{what}, {base}"),
        without => format!("{what}, {base}; {without} without"),
    };
    let leaf = &report.top_leaf;
    let files = &report.top_files;
    let own = &report.top_own_code;
    let functions = &report.top_functions;
    let roots = &report.top_roots;
    [
        section(
            "TOP LEAF",
            &describe("where stacks end", 0),
            &ranking(leaf, |row| (&row.label, &row.share)),
            unshown(leaf, "row"),
            width,
        ),
        section(
            "TOP FILES",
            &describe("one count per sample and file", files.samples_without),
            &ranking(files, |row| (&row.label, &row.share)),
            unshown(files, "row"),
            width,
        ),
        section(
            "TOP OWN CODE",
            &describe(
                "innermost frame that is the user's own code",
                own.samples_without,
            ),
            &ranking(own, |row| (&row.label, &row.share)),
            unshown(own, "row"),
            width,
        ),
        section(
            "TOP FUNCTIONS",
            &describe("self, then total; all kinds of code", 0),
            &functions_table(report),
            unshown(functions, "row"),
            width,
        ),
        section(
            "TOP ROOTS",
            &describe("thread entry -> first own code", 0),
            &ranking(roots, |row| (&row.label, &row.share)),
            unshown(roots, "row"),
            width,
        ),
    ]
    .concat()
}

fn ranking<R>(table: &Table<R>, row: impl Fn(&R) -> (&String, &Share)) -> Columns {
    let mut lines = Columns::new(&[SHARE.as_slice(), &[(Align::Left, 0)]].concat());
    for (label, share) in table.rows.iter().map(row) {
        lines.row([share.count.to_string(), estimate(share), visible(label)]);
    }
    lines
}

fn functions_table(report: &Report) -> Columns {
    let mut lines =
        Columns::new(&[SHARE.as_slice(), SHARE.as_slice(), &[(Align::Left, 0)]].concat());
    for row in &report.top_functions.rows {
        let (itself, total) = (&row.itself, &row.total);
        let counts = [
            itself.count.to_string(),
            estimate(itself),
            total.count.to_string(),
            estimate(total),
        ];
        lines.row(counts.into_iter().chain([visible(&row.label)]));
    }
    lines
}

/// `10.5% ±0.4`, aligned for a column of shares.
fn estimate(share: &Share) -> String {
    format!("{:>5} {:<4}", percent(share.percent), half_width(share))
}
