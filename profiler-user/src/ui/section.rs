//! What the sections of a report have in common: a title with a description, rows, and how many
//! rows are not shown.

use crate::evidence::Table;

use super::columns::Columns;
use super::text::columns;
use super::units::plural;

/// Where a title's description begins, unless the screen is too narrow for that.
const DESCRIPTION_AT: usize = 44;

/// Stands for what is not known, or does not apply.
pub(super) const NONE: &str = "-";

/// A section's lines, a blank one before them.
pub(super) fn section(
    title: &str,
    description: &str,
    rows: &Columns,
    unshown: Option<String>,
    width: Option<usize>,
) -> Vec<String> {
    let mut lines = vec![String::new(), heading(title, description, width)];
    lines.extend(rows.lines(width));
    lines.extend(unshown);
    lines
}

fn heading(title: &str, description: &str, width: Option<usize>) -> String {
    let fits = width.is_none_or(|width| DESCRIPTION_AT + columns(description) <= width);
    match fits {
        true => format!("{title:<DESCRIPTION_AT$}{description}"),
        false => format!("{title}  {description}"),
    }
}

/// Says how many rows a table has beyond those shown.
pub(super) fn unshown<R>(table: &Table<R>, noun: &str) -> Option<String> {
    let more = table.rows_total - table.rows.len();
    (more > 0).then(|| format!("         and {} more", plural(more as u64, noun)))
}
