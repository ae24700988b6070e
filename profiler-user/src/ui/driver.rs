//! CUDA DRIVER.

use crate::evidence::{DriverRow, ErrorCode, Report};

use super::columns::{Align, Columns};
use super::section::{NONE, section, unshown};
use super::text::{shorten, visible};
use super::units::{bytes, latency, percent, plural, rate};

/// One column: its heading, where its texts stand, and a row's cell.
type Column = (&'static str, Align, fn(&DriverRow) -> String);

/// One line a function, the most time first, then what failed; nothing where no function was called.
pub(super) fn lines(report: &Report, width: Option<usize>) -> Vec<String> {
    let table = &report.cuda_driver;
    if table.rows.is_empty() {
        return Vec::new();
    }
    let any = |has: fn(&DriverRow) -> bool| table.rows.iter().any(has);
    let nested = any(|row| row.figures.nested > 0);
    let columns = columns(nested, any(|row| row.figures.bytes.is_some()));
    let widths = [7].into_iter().chain(std::iter::repeat(0));
    let aligned = columns.iter().map(|(_, align, _)| *align);
    let mut lines = Columns::new(&aligned.zip(widths).collect::<Vec<_>>());
    lines.row(columns.iter().map(|(heading, _, _)| (*heading).to_owned()));
    for row in &table.rows {
        lines.row(columns.iter().map(|(_, _, cell)| cell(row)));
    }
    let mut description =
        "every call, exact; p50, p99 at most 25 % high; of thread: % of its wall time".to_owned();
    if nested {
        description += "; nested: made inside another call listed here";
    }
    let unshown = unshown(table, "function");
    let mut lines = section("CUDA DRIVER", &description, &lines, unshown, width);
    let failures = table.rows.iter().filter_map(failures);
    lines.extend(failures.map(|line| match width {
        Some(width) => shorten(&line, width),
        None => line,
    }));
    lines
}

fn columns(nested: bool, with_bytes: bool) -> Vec<Column> {
    use Align::{Left, Right};
    let columns: [(bool, Column); 13] = [
        (true, ("calls", Right, |row| row.figures.count.to_string())),
        (true, ("calls/s", Right, |row| rate(row.figures.per_second))),
        (
            nested,
            ("nested", Right, |row| row.figures.nested.to_string()),
        ),
        (
            with_bytes,
            ("bytes", Right, |row| {
                row.figures.bytes.map_or_else(none, bytes)
            }),
        ),
        (
            true,
            ("total", Right, |row| {
                timed(row, row.figures.total_seconds * 1e9)
            }),
        ),
        (
            true,
            ("mean", Right, |row| {
                row.figures.mean_ns.map_or_else(none, latency)
            }),
        ),
        (true, ("p50", Right, |row| latency_of(row.figures.p50_ns))),
        (true, ("p99", Right, |row| latency_of(row.figures.p99_ns))),
        (true, ("max", Right, |row| latency_of(row.figures.max_ns))),
        (true, ("errors", Right, errors)),
        (true, ("of thread", Right, of_thread)),
        (true, ("function", Left, |row| visible(&row.function))),
        (
            true,
            ("top calling line", Left, |row| {
                row.top_line.as_deref().map_or_else(none, visible)
            }),
        ),
    ];
    let shown = columns.into_iter().filter(|(shown, _)| *shown);
    shown.map(|(_, column)| column).collect()
}

/// `errors: cuMemAlloc_v2 3 × 2 (out of memory), 1 × 999 (unknown)`.
fn failures(row: &DriverRow) -> Option<String> {
    let codes = &row.figures.error_codes;
    let one = |error: &ErrorCode| {
        let name = error
            .name
            .map_or_else(String::new, |name| format!(" ({name})"));
        format!("{} × {}{name}", error.count, error.code)
    };
    let list: Vec<String> = codes.iter().map(one).collect();
    (!list.is_empty()).then(|| format!("errors: {} {}", visible(&row.function), list.join(", ")))
}

/// Calls that have not returned have no errors that we know of.
fn errors(row: &DriverRow) -> String {
    match row.figures.returned {
        0 => none(),
        _ => row.figures.errors.to_string(),
    }
}

fn timed(row: &DriverRow, ns: f64) -> String {
    match row.figures.returned {
        0 => none(),
        _ => latency(ns),
    }
}

fn latency_of(ns: Option<u64>) -> String {
    ns.map_or_else(none, |ns| latency(ns as f64))
}

/// The share of the one thread that called, or how many there are.
fn of_thread(row: &DriverRow) -> String {
    match (&row.thread_share, row.threads) {
        (Some(share), _) => percent(share.percent),
        (None, 0) => NONE.to_owned(),
        (None, threads) => plural(threads as u64, "thread"),
    }
}

fn none() -> String {
    NONE.to_owned()
}
