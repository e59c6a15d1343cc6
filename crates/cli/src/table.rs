//! A table for people: names left, figures right, a line below the head.

use std::fmt;

/// Rows of cells below a head.
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Whether the columns after the first are figures.
    figures: bool,
}

impl Table {
    pub(crate) fn new(head: Vec<String>) -> Table {
        Table { head, rows: Vec::new(), figures: true }
    }

    /// A table of words: all columns left.
    pub(crate) fn of_words(head: Vec<String>) -> Table {
        Table { head, rows: Vec::new(), figures: false }
    }

    pub(crate) fn row(&mut self, name: &str, cells: impl IntoIterator<Item = String>) {
        self.rows.push([name.to_owned()].into_iter().chain(cells).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = || [&self.head].into_iter().chain(&self.rows);
        let width =
            |column: usize| all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..self.head.len()).map(|column| width(column).unwrap_or(0)).collect();
        for (at, row) in all().enumerate() {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                line += if column == 0 { "" } else { "  " };
                line += &if column > 0 && self.figures {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                };
            }
            writeln!(f, "{}", line.trim_end())?;
            if at == 0 {
                writeln!(f, "{}", "─".repeat(widths.iter().sum::<usize>() + 2 * (widths.len() - 1)))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(vec![String::new(), "easy".into()]);
        table.row("mean wait", ["1h 53m".into()]);
        table.row("jobs", ["28,467".into()]);
        assert_eq!(
            table.to_string(),
            "             easy\n─────────────────\nmean wait  1h 53m\njobs       28,467\n"
        );
    }
}
