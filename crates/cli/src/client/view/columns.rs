//! A table of words whose columns are left out where no row has anything to say in them.

use crate::table::Table;

/// Stands where a row has nothing to say.
pub(crate) const NOTHING: &str = "–";

/// Rows below a head, by columns.
pub(crate) struct Columns {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Columns {
    pub(crate) fn new(head: &[&str]) -> Columns {
        Columns { head: head.iter().map(|word| (*word).to_owned()).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// As a table.
    pub(crate) fn table(&self) -> Table {
        let says = |cell: &String| !cell.is_empty() && cell != NOTHING;
        let spoken = |column: &usize| self.rows.iter().any(|row| row.get(*column).is_some_and(says));
        let kept: Vec<usize> = (0..self.head.len()).filter(|column| *column == 0 || spoken(column)).collect();
        let chosen = |row: &Vec<String>| -> Vec<String> {
            kept.iter().filter_map(|column| row.get(*column).cloned()).collect()
        };
        let mut table = Table::of_words(chosen(&self.head));
        for row in &self.rows {
            if let Some((first, rest)) = chosen(row).split_first() {
                table.row(first, rest.iter().cloned());
            }
        }
        table
    }
}

/// What there is to say, or that there is nothing.
pub(crate) fn or_nothing<T>(value: Option<T>, say: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NOTHING.to_owned(), say)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_in_which_nobody_says_anything_is_left_out() {
        let mut columns = Columns::new(&["name", "rating", "cost"]);
        columns.row(["a", NOTHING, "3"].map(str::to_owned));
        columns.row(["b", "", NOTHING].map(str::to_owned));
        assert_eq!(columns.table().to_string(), "name  cost\n──────────\na     3\nb     –\n");
    }
}
