//! THREADS and GIL.

use crate::evidence::{GilProcess, Report, Share};

use super::columns::{Align, Columns};
use super::section::{NONE, section, unshown};
use super::text::{shorten, visible};
use super::units::estimate;

/// Columns a thread's or process's name takes at most, so that the others keep some.
const LONGEST_NAME: usize = 24;

/// One line a thread, the busiest first.
pub(super) fn threads(report: &Report, width: Option<usize>) -> Vec<String> {
    let layout = [
        (Align::Right, 7),
        (Align::Left, 0),
        (Align::Right, 0),
        (Align::Left, 0),
        (Align::Right, 0),
        (Align::Left, 0),
        (Align::Left, 0),
        (Align::Left, 0),
    ];
    let mut lines = Columns::new(&layout);
    let headings = [
        "samples",
        "CPU",
        "CPU s",
        "GIL held",
        "tid",
        "thread",
        "process",
        "top function",
    ];
    lines.row(headings.map(str::to_owned));
    let mut base = None;
    for row in &report.threads.rows {
        base = Some(row.cpu.base);
        lines.row([
            row.cpu.count.to_string(),
            estimate(&row.cpu),
            row.cpu_seconds
                .map_or_else(none, |seconds| format!("{seconds:.2}")),
            row.gil_held.as_ref().map_or_else(none, estimate),
            row.tid.to_string(),
            name(&row.name, width),
            format!("{} ({})", name(&row.process, width), row.pid),
            row.top_function.as_deref().map_or_else(none, visible),
        ]);
    }
    let Some(base) = base else {
        return Vec::new();
    };
    let description = format!(
        "CPU: % of one CPU ({base} clock ticks); CPU s: exact, by the kernel; GIL: % of the thread's samples"
    );
    section(
        "THREADS",
        &description,
        &lines,
        unshown(&report.threads, "thread"),
        width,
    )
}

/// The lock's time for each process, and below it who had it.
pub(super) fn gil(report: &Report, width: Option<usize>) -> Vec<String> {
    let mut lines = Columns::new(&[(Align::Right, 7), (Align::Left, 0), (Align::Left, 0)]);
    for process in &report.gil {
        lines.row(cells(&process.held, held(process)));
        for holder in &process.holders {
            let label = format!("  {} (tid {})", visible(&holder.name), holder.tid);
            lines.row(cells(&holder.share, label));
        }
    }
    let Some(first) = report.gil.first() else {
        return Vec::new();
    };
    let base = first.held.base;
    let description = format!(
        "process: % of the session ({base} clock ticks) its lock was held while running; thread: % of that"
    );
    section("GIL", &description, &lines, None, width)
}

fn held(process: &GilProcess) -> String {
    let name = format!("{} ({})", visible(&process.process), process.pid);
    match process.unknown {
        0 => name,
        unknown => format!("{name}; not readable in {unknown} samples"),
    }
}

fn cells(share: &Share, label: String) -> [String; 3] {
    [share.count.to_string(), estimate(share), label]
}

/// Python gives threads names of any length; the kernel's are 15 bytes at most.
fn name(name: &str, width: Option<usize>) -> String {
    let name = visible(name);
    if width.is_some() {
        shorten(&name, LONGEST_NAME)
    } else {
        name
    }
}

fn none() -> String {
    NONE.to_owned()
}
