//! Lines of text in aligned columns, the last one as wide as the screen allows.

use super::text::{columns, shorten};

/// Between two columns.
const GAP: &str = "  ";

/// Which edge of a column its texts stand at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    /// Names.
    Left,
    /// Numbers.
    Right,
}

/// A table in the making. The last column is taken as a name: at the left, unpadded, shortened.
#[derive(Debug)]
pub(super) struct Columns {
    align: Vec<Align>,
    narrowest: Vec<usize>,
    rows: Vec<Vec<String>>,
}

impl Columns {
    /// A table whose columns stand like this and are at least so wide.
    pub fn new(layout: &[(Align, usize)]) -> Self {
        Self {
            align: layout.iter().map(|column| column.0).collect(),
            narrowest: layout.iter().map(|column| column.1).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row, a cell for each column.
    pub fn row<I: IntoIterator<Item = String>>(&mut self, cells: I) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The rows as lines, each within `width` columns as far as the numbers leave room.
    pub fn lines(&self, width: Option<usize>) -> Vec<String> {
        let widths = self.widths();
        let last = widths.len().saturating_sub(1);
        let used: usize = widths[..last].iter().map(|width| width + GAP.len()).sum();
        let room = width.map(|width| width.saturating_sub(used));
        self.rows
            .iter()
            .map(|row| self.line(row, &widths, room))
            .collect()
    }

    fn widths(&self) -> Vec<usize> {
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| columns(cell)).max().unwrap_or(0)
        };
        self.narrowest
            .iter()
            .enumerate()
            .map(|(column, least)| widest(column).max(*least))
            .collect()
    }

    fn line(&self, row: &[String], widths: &[usize], room: Option<usize>) -> String {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let is_last = column + 1 == widths.len();
            let cell = match room {
                Some(room) if is_last => shorten(cell, room),
                _ => cell.clone(),
            };
            let padding = " ".repeat(widths[column].saturating_sub(columns(&cell)));
            match self.align[column] {
                Align::Right => line.extend([&*padding, &cell]),
                Align::Left => line.extend([&*cell, &padding]),
            }
            if !is_last {
                line.push_str(GAP);
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers stand at the right, names at the left, nothing trails, wide letters take their room.
    #[test]
    fn columns_align() {
        let mut table = Columns::new(&[(Align::Right, 4), (Align::Left, 0), (Align::Left, 0)]);
        table.row(["1", "函", "x"].map(str::to_owned));
        table.row(["12345", "abc", ""].map(str::to_owned));
        assert_eq!(table.lines(None), ["    1  函   x", "12345  abc"]);
    }

    /// Only the last column gives way.
    #[test]
    fn the_last_column_gives_way() {
        let mut table = Columns::new(&[(Align::Right, 0), (Align::Left, 0)]);
        table.row(["1".to_owned(), "abcdefghijklmnopqrstuvwxyz".to_owned()]);
        assert_eq!(table.lines(Some(24)), ["1  abcdefghij…qrstuvwxyz"]);
        assert_eq!(table.lines(None), ["1  abcdefghijklmnopqrstuvwxyz"]);
    }
}
