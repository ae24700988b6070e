//! Small tables on the terminal: the first column is text, the others are figures, set to the right.

/// The rows as lines, columns aligned, two spaces apart.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns)
        .map(|column| width(column).unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            line += &if column == 0 {
                format!("{cell:<width$}")
            } else {
                format!("  {cell:>width$}")
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text to the left, figures to the right.
    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["step".to_owned(), "s".to_owned()],
            vec!["tidy".to_owned(), "12.0".to_owned()],
        ];
        assert_eq!(aligned(&rows), "step     s\ntidy  12.0\n");
    }
}
