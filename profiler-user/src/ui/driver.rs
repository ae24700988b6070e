//! CUDA DRIVER.

use crate::evidence::{DriverRow, Report};

use super::columns::{Align, Columns};
use super::section::{NONE, section, unshown};
use super::text::visible;
use super::units::{latency, percent, plural, rate};

/// One line a driver function, the most time first; nothing where the driver was not called.
pub(super) fn lines(report: &Report, width: Option<usize>) -> Vec<String> {
    let table = &report.cuda_driver;
    if table.rows.is_empty() {
        return Vec::new();
    }
    let numbers = [(Align::Right, 7)]
        .into_iter()
        .chain([(Align::Right, 0); 8]);
    let layout: Vec<(Align, usize)> = numbers.chain([(Align::Left, 0); 2]).collect();
    let mut lines = Columns::new(&layout);
    let headings = [
        "calls",
        "calls/s",
        "total",
        "mean",
        "p50",
        "p99",
        "max",
        "errors",
        "of thread",
        "function",
        "top calling line",
    ];
    lines.row(headings.map(str::to_owned));
    for row in &table.rows {
        lines.row(cells(row));
    }
    let description =
        "every call, exact; p50, p99 at most 25 % high; of thread: % of its wall time";
    section(
        "CUDA DRIVER",
        description,
        &lines,
        unshown(table, "function"),
        width,
    )
}

fn cells(row: &DriverRow) -> [String; 11] {
    let figures = &row.figures;
    let latency_of = |ns: Option<u64>| ns.map_or_else(none, |ns| latency(ns as f64));
    [
        figures.count.to_string(),
        rate(figures.per_second),
        latency(figures.total_seconds * 1e9),
        figures.mean_ns.map_or_else(none, latency),
        latency_of(figures.p50_ns),
        latency_of(figures.p99_ns),
        latency_of(figures.max_ns),
        figures.errors.to_string(),
        of_thread(row),
        visible(&row.function),
        row.top_line.as_deref().map_or_else(none, visible),
    ]
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
