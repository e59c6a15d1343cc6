//! Tables that fit the terminal. A table that is too wide first drops columns, the least important first, then wraps
//! the longest cells. Tables of numbers keep all columns and are continued below instead.

use crate::output::escaped;
use std::env;
use std::fmt;
use std::io::{self, IsTerminal, Write};

/// The cell of a missing value.
pub(crate) const NOTHING: &str = "–";

/// Blanks between two columns.
const GAP: usize = 2;

/// Minimum width of a wrapped column: narrower text is hard to read.
const NARROWEST: usize = 12;

/// The colour of a cell by its text, as the parameter of an SGR escape sequence.
type Paint = fn(&str) -> Option<&'static str>;

#[derive(Clone)]
pub(crate) struct Column {
    head: String,
    right: bool,
    /// Drop order: columns with the lowest number go first; None is never dropped.
    dropped: Option<u8>,
    paint: Option<Paint>,
    /// Whether its texts may be broken into lines. Ids may not: they are copied.
    breakable: bool,
}

impl Column {
    pub(crate) fn left(head: impl Into<String>) -> Column {
        Column { head: head.into(), right: false, dropped: None, paint: None, breakable: true }
    }

    /// A column that is aligned right, for numbers.
    pub(crate) fn right(head: impl Into<String>) -> Column {
        Column { right: true, ..Column::left(head) }
    }

    /// Allows to drop the column if the table is too wide; columns with a lower `order` go first.
    pub(crate) fn drop(self, order: u8) -> Column {
        Column { dropped: Some(order), ..self }
    }

    /// Keeps each text on one line.
    pub(crate) fn whole(self) -> Column {
        Column { breakable: false, ..self }
    }

    pub(crate) fn paint(self, paint: Paint) -> Column {
        Column { paint: Some(paint), ..self }
    }
}

pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    /// Whether columns that do not fit are printed below the others instead of being dropped.
    continued: bool,
}

impl Table {
    /// A table with names in the first column and numbers in the others.
    pub(crate) fn figures(head: Vec<String>) -> Table {
        let column =
            |(at, head): (usize, String)| if at == 0 { Column::left(head) } else { Column::right(head) };
        Table {
            columns: head.into_iter().enumerate().map(column).collect(),
            rows: Vec::new(),
            continued: true,
        }
    }

    pub(crate) fn new(columns: impl IntoIterator<Item = Column>) -> Table {
        Table { columns: columns.into_iter().collect(), rows: Vec::new(), continued: false }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| escaped(&cell)).collect());
    }

    pub(crate) fn named_row(&mut self, name: &str, cells: impl IntoIterator<Item = String>) {
        self.row([name.to_owned()].into_iter().chain(cells));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Prints it to standard output, at most as wide as the terminal, with colours if it is a terminal.
    pub(crate) fn print(&self) -> io::Result<()> {
        io::stdout().lock().write_all(self.render(terminal_width(), wants_colours()).as_bytes())
    }

    /// The text of the table, at most `width` characters wide if possible.
    pub(crate) fn render(&self, width: Option<usize>, colours: bool) -> String {
        let mut kept: Vec<usize> =
            (0..self.columns.len()).filter(|at| self.continued || self.says(*at)).collect();
        let Some(width) = width else { return self.block(&kept, &self.widths(&kept), colours) };
        if self.continued {
            return self.blocks(&kept, width, colours);
        }
        while total(&self.widths(&kept)) > width {
            let droppable = kept.iter().filter_map(|at| Some((self.columns[*at].dropped?, *at)));
            let Some((_, at)) = droppable.min() else { break };
            kept.retain(|kept| *kept != at);
        }
        self.block(&kept, &self.narrowed(&kept, width), colours)
    }

    /// The widths of columns, the widest made narrower until all fit.
    fn narrowed(&self, kept: &[usize], width: usize) -> Vec<usize> {
        let mut widths = self.widths(kept);
        while total(&widths) > width {
            let breakable = |at: &usize| widths[*at] > NARROWEST && self.columns[kept[*at]].breakable;
            let widest = (0..widths.len()).filter(breakable).max_by_key(|at| widths[*at]);
            let Some(widest) = widest else { break };
            widths[widest] -= 1;
        }
        widths
    }

    /// Whether a column has a value in any row. The first column is always shown.
    fn says(&self, column: usize) -> bool {
        let says =
            |row: &Vec<String>| row.get(column).is_some_and(|cell| !cell.is_empty() && cell != NOTHING);
        column == 0 || self.rows.iter().any(says)
    }

    fn widths(&self, kept: &[usize]) -> Vec<usize> {
        let width = |at: &usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(*at)).map(|cell| cell.chars().count());
            cells.chain([self.columns[*at].head.chars().count()]).max().unwrap_or(0)
        };
        kept.iter().map(width).collect()
    }

    /// Blocks of as many columns as fit, each with the first column repeated.
    fn blocks(&self, kept: &[usize], width: usize, colours: bool) -> String {
        let Some((first, rest)) = kept.split_first() else { return String::new() };
        let mut text = String::new();
        let mut rest = rest;
        loop {
            let mut block = vec![*first];
            while let Some((next, more)) = rest.split_first() {
                block.push(*next);
                // One column besides the first stays even if it does not fit, or the loop would never end.
                if block.len() > 2 && total(&self.widths(&block)) > width {
                    block.pop();
                    break;
                }
                rest = more;
            }
            text += &self.block(&block, &self.narrowed(&block, width), colours);
            if rest.is_empty() {
                return text;
            }
            text.push('\n');
        }
    }

    fn block(&self, kept: &[usize], widths: &[usize], colours: bool) -> String {
        let mut text = String::new();
        let heads: Vec<&str> = kept.iter().map(|at| self.columns[*at].head.as_str()).collect();
        if heads.iter().any(|head| !head.is_empty()) {
            self.lines(&mut text, kept, widths, &heads, false);
            text += &"─".repeat(total(widths));
            text.push('\n');
        }
        for row in &self.rows {
            let cells: Vec<&str> = kept.iter().map(|at| row.get(*at).map_or("", String::as_str)).collect();
            self.lines(&mut text, kept, widths, &cells, colours);
        }
        text
    }

    /// Writes one row, on several lines if a cell is wrapped.
    fn lines(&self, text: &mut String, kept: &[usize], widths: &[usize], cells: &[&str], colours: bool) {
        let broken: Vec<Vec<String>> =
            cells.iter().zip(widths).map(|(cell, width)| wrapped(cell, *width)).collect();
        let height = broken.iter().map(Vec::len).max().unwrap_or(1);
        for line in 0..height {
            let begin = text.len();
            for (place, (lines, width)) in broken.iter().zip(widths).enumerate() {
                let Some(column) = kept.get(place).and_then(|at| self.columns.get(*at)) else { continue };
                let piece = lines.get(line).map_or("", String::as_str);
                // Before the colour is added, whose characters take no columns.
                let fill = " ".repeat(width.saturating_sub(piece.chars().count()));
                // By the whole cell: a line of a wrapped one alone could look like another state.
                let colour =
                    column.paint.filter(|_| colours).and_then(|paint| paint(cells.get(place).unwrap_or(&"")));
                let piece = match colour {
                    Some(colour) if !piece.is_empty() => format!("\u{1b}[{colour}m{piece}\u{1b}[0m"),
                    _ => piece.to_owned(),
                };
                text.push_str(if place == 0 { "" } else { "  " });
                text.push_str(&if column.right {
                    format!("{fill}{piece}")
                } else {
                    format!("{piece}{fill}")
                });
            }
            text.truncate(begin + text[begin..].trim_end().len());
            text.push('\n');
        }
    }
}

impl fmt::Display for Table {
    /// At most as wide as the terminal, without colours.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(terminal_width(), false))
    }
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Wraps a text at `width` characters: at spaces, otherwise after `/`, `,`, `=` or `-`, otherwise anywhere.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest: Vec<char> = text.trim_end().chars().collect();
    while rest.len() > width.max(1) {
        // One character more than fits: a space right behind the line is a good place to cut, too.
        let window = &rest[..=width.max(1)];
        // A cut at 0 would take nothing, and the loop would never end.
        let space = window.iter().rposition(|c| *c == ' ').filter(|at| *at > 0);
        let sign = || {
            window[..width.max(1)].iter().rposition(|c| matches!(c, '/' | ',' | '=' | '-')).map(|at| at + 1)
        };
        let cut = space.or_else(sign).unwrap_or(width.max(1));
        let line: String = rest.drain(..cut).collect();
        lines.push(line.trim_end().to_owned());
        let blank = rest.iter().take_while(|c| **c == ' ').count();
        rest.drain(..blank);
    }
    lines.push(rest.into_iter().collect());
    lines
}

/// Whether standard output is a terminal on which the user wants colours (see no-color.org).
pub(crate) fn wants_colours() -> bool {
    io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The width of the terminal: `COLUMNS`, or that of standard output. None if standard output is not a terminal.
pub(crate) fn terminal_width() -> Option<usize> {
    // A smaller value is a mistake, or a terminal on which no table is readable.
    const LEAST: usize = 40;
    let said = env::var("COLUMNS").ok().and_then(|text| text.parse::<usize>().ok());
    let asked = || terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    said.or_else(asked).map(|width| width.max(LEAST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([
            Column::left("name"),
            Column::right("capacity"),
            Column::left("owner").drop(2),
            Column::left("more").drop(1),
            Column::left("note"),
        ]);
        table.row(["a", "8", "ada", "something", "a note that is rather long"].map(str::to_owned));
        table.row(["b", "128", NOTHING, "", "short"].map(str::to_owned));
        table
    }

    #[test]
    fn columns_are_aligned_and_numbers_stand_right() {
        let mut table = Table::figures(vec![String::new(), "easy".into()]);
        table.row(["mean wait".into(), "1h 53m".into()]);
        table.row(["jobs".into(), "28,467".into()]);
        assert_eq!(
            table.render(None, false),
            "             easy\n─────────────────\nmean wait  1h 53m\njobs       28,467\n"
        );
    }

    #[test]
    fn a_table_that_is_too_wide_drops_columns_and_then_breaks_texts() {
        let wide = table().render(Some(80), false);
        assert_eq!(wide, table().render(None, false));
        let narrow = table().render(Some(50), false);
        assert!(
            !narrow.contains("something") && narrow.contains("ada    a note that is rather long"),
            "{narrow}"
        );
        let narrower = table().render(Some(32), false);
        assert!(narrower.lines().all(|line| line.chars().count() <= 32), "{narrower}");
        assert!(!narrower.contains("owner") && narrower.contains("long"), "{narrower}");
    }

    #[test]
    fn no_line_is_longer_than_the_terminal() {
        for width in 40..130 {
            for line in table().render(Some(width), false).lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn an_id_is_not_broken() {
        let mut table = Table::new([Column::left("id").whole(), Column::left("note")]);
        let id = "rsv_753a2d0ded89d8bbb038ba84405d9ee3";
        table.row([id.to_owned(), "several words for a note".to_owned()]);
        assert!(table.render(Some(50), false).contains(id));
    }

    #[test]
    fn figures_are_continued_below() {
        let mut table = Table::figures(["", "first", "second", "third"].map(str::to_owned).to_vec());
        table.row(["mean wait", "1", "2", "3"].map(str::to_owned));
        let text = table.render(Some(26), false);
        assert_eq!(text.lines().count(), 7, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 26), "{text}");
        assert_eq!(text.matches("mean wait").count(), 2);
    }

    #[test]
    fn a_column_without_any_value_is_left_out() {
        let mut table = Table::new([Column::left("name"), Column::left("rating"), Column::right("cost")]);
        table.row(["a", NOTHING, "3"].map(str::to_owned));
        table.row(["b", "", NOTHING].map(str::to_owned));
        assert_eq!(table.render(None, false), "name  cost\n──────────\na        3\nb        –\n");
    }

    #[test]
    fn colours_do_not_count_and_text_from_a_server_cannot_bring_its_own() {
        let mut table = Table::new([Column::left("state").paint(|_| Some("32")), Column::left("x")]);
        table.row(["ok".to_owned(), "\u{1b}[31mred".to_owned()]);
        let text = table.render(Some(80), true);
        assert!(text.contains("\u{1b}[32mok\u{1b}[0m     \\u001b[31mred"), "{text:?}");
    }

    #[test]
    fn texts_are_broken_at_spaces_else_after_signs_else_anywhere() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("broker/site/cluster", 12), ["broker/site/", "cluster"]);
        assert_eq!(wrapped("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrapped("", 3), [""]);
    }
}
