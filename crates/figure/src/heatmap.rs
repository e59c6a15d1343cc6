//! Heatmaps: a table of numbers as coloured cells. The larger a number, the more its cell contrasts with the page; each
//! number is also written in its cell, and the theme has shades on which numbers are legible. At most [`MAX_ROWS`] rows
//! and [`MAX_COLUMNS`] columns are drawn; a note in the picture tells if there are more.

use crate::category_axis::CategoryAxis;
use crate::header::{Entry, Swatch, draw_header, left_out};
use crate::number_ticks::{exponent_of, with_decimals, written};
use crate::svg::{Frame, Svg};
use crate::theme::{HEAT_LEVELS, HEAT_STYLE, LEFT, MARGIN, RIGHT, TEXT, WIDTH, fit, text_width};

/// Maximum number of rows: the cells of more would be too low for their numbers.
pub const MAX_ROWS: usize = 60;
/// Maximum number of columns: the cells of more would be too narrow for their numbers.
pub const MAX_COLUMNS: usize = 60;

/// A heatmap.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Heatmap {
    /// Title above the table; not drawn if empty.
    pub title: String,
    /// Label of the columns.
    pub x_label: String,
    /// Label of the rows.
    pub y_label: String,
    /// Column names, from left to right.
    pub columns: Vec<String>,
    /// Row names, from top to bottom.
    pub rows: Vec<String>,
    /// The numbers by row, then by column. Missing numbers and those that are not finite are drawn as absent.
    pub cells: Vec<Vec<Option<f64>>>,
    /// Unit of the numbers, such as "%"; may be empty.
    pub unit: String,
    /// The numbers with the first and the last shade; numbers beyond them get the same shades. Default: the smallest
    /// and the largest number.
    pub range: Option<(f64, f64)>,
}

/// Maximum width of a cell, in pixels.
const CELL_WIDTH: f64 = 130.0;
/// Maximum height of a cell, in pixels.
const CELL_HEIGHT: f64 = 34.0;
/// Minimum height of a cell, in pixels: enough for a line of text.
const LOWEST_CELL: f64 = 16.0;
/// Height of all cells together, in pixels, as long as they are not lower than [`LOWEST_CELL`].
const PLOT_HEIGHT: f64 = 620.0;
/// Maximum width of the row names, in pixels; longer ones are cut.
const ROW_NAMES: f64 = 220.0;

impl Heatmap {
    /// Builds a heatmap without numbers.
    pub fn new(title: impl Into<String>, columns: Vec<String>, rows: Vec<String>) -> Heatmap {
        Heatmap { title: title.into(), columns, rows, ..Heatmap::default() }
    }

    /// Renders the heatmap as an SVG file.
    pub fn to_svg(&self) -> String {
        let mut svg = Svg::default();
        svg.style(HEAT_STYLE);
        let shades = Shades::new(self.range, self.numbers());
        let top = draw_header(&mut svg, &self.title, &self.note(), &self.legend(&shades)) + 8.0;
        let plot = self.plot(top);
        let columns = CategoryAxis::new(plot, self.shown_columns());
        self.draw_row_names(&mut svg, plot);
        let decimals = self.decimals();
        for (row, name) in self.shown_rows().iter().enumerate() {
            let height = plot.height / self.shown_rows().len() as f64;
            for column in 0..self.shown_columns().len() {
                let (left, top) = (columns.left(column), plot.top + row as f64 * height);
                let frame = Frame { left, top, width: columns.pitch(), height };
                let names = format!("{name}, {}", self.columns[column]);
                self.draw_cell(&mut svg, frame, &names, self.number(row, column), &shades, decimals);
            }
        }
        columns.draw_labels(&mut svg, &self.x_label);
        let height = plot.bottom() + columns.height(&self.x_label);
        svg.finish(&self.title, &self.description(&shades), height)
    }

    fn shown_rows(&self) -> &[String] {
        &self.rows[..self.rows.len().min(MAX_ROWS)]
    }

    fn shown_columns(&self) -> &[String] {
        &self.columns[..self.columns.len().min(MAX_COLUMNS)]
    }

    fn number(&self, row: usize, column: usize) -> Option<f64> {
        (*self.cells.get(row)?.get(column)?).filter(|number| number.is_finite())
    }

    fn drawn(&self) -> impl Iterator<Item = Option<f64>> {
        let (rows, columns) = (self.shown_rows().len(), self.shown_columns().len());
        (0..rows).flat_map(move |row| (0..columns).map(move |column| self.number(row, column)))
    }

    fn numbers(&self) -> impl Iterator<Item = f64> {
        self.drawn().flatten()
    }

    fn note(&self) -> String {
        let (rows, columns) = (self.shown_rows().len(), self.shown_columns().len());
        left_out(&[("rows", rows, self.rows.len()), ("columns", columns, self.columns.len())])
    }

    fn legend(&self, shades: &Shades) -> Vec<Entry> {
        let mut entries = Vec::new();
        if self.numbers().next().is_some() {
            let highest = self.with_unit(written(shades.high));
            entries.push(Entry { name: highest, swatch: Swatch::Scale(self.with_unit(written(shades.low))) });
        }
        if self.drawn().any(|number| number.is_none()) {
            entries.push(Entry { name: "no value".to_owned(), swatch: Swatch::Box(String::new(), "absent") });
        }
        entries
    }

    fn with_unit(&self, number: String) -> String {
        if self.unit.is_empty() { number } else { fit(&format!("{number} {}", self.unit), TEXT, ROW_NAMES) }
    }

    fn plot(&self, top: f64) -> Frame {
        let longest = self.shown_rows().iter().map(|name| text_width(name, TEXT)).fold(0.0, f64::max);
        let left = LEFT.max(MARGIN + TEXT + longest.min(ROW_NAMES) + 8.0);
        let (rows, columns) = (self.shown_rows().len() as f64, self.shown_columns().len() as f64);
        let width = (WIDTH - left - RIGHT).min(columns.max(1.0) * CELL_WIDTH);
        let height = rows * (PLOT_HEIGHT / rows.max(1.0)).clamp(LOWEST_CELL, CELL_HEIGHT);
        Frame { left, top, width, height }
    }

    fn draw_row_names(&self, svg: &mut Svg, plot: Frame) {
        let rows = self.shown_rows();
        let height = plot.height / rows.len().max(1) as f64;
        for (row, name) in rows.iter().enumerate() {
            let middle = plot.top + (row as f64 + 0.5) * height;
            svg.text("end", (plot.left - 8.0, middle + TEXT * 0.35), &fit(name, TEXT, ROW_NAMES));
        }
        let label = fit(&self.y_label, TEXT, plot.height);
        svg.turned_text("middle", (MARGIN, plot.middle().1), 90, &label);
    }

    /// Number of decimals of all cells: enough for three digits of the largest number; none if all are whole.
    fn decimals(&self) -> usize {
        let greatest = self.numbers().map(f64::abs).fold(0.0, f64::max);
        if self.numbers().all(|number| number.fract() == 0.0) {
            return 0;
        }
        usize::try_from(2 - exponent_of(greatest)).unwrap_or(0).min(MAX_DECIMALS)
    }

    fn draw_cell(
        &self,
        svg: &mut Svg,
        frame: Frame,
        names: &str,
        number: Option<f64>,
        shades: &Shades,
        decimals: usize,
    ) {
        svg.open_group("value");
        let said = number.map_or("no value".to_owned(), |number| self.with_unit(written(number)));
        svg.tooltip(&format!("{}: {said}", fit(names, TEXT, WIDTH)));
        match number {
            // Smaller than the cell, so that the dashed outline does not touch its neighbours.
            None => svg.rect("absent", frame.shrunk(2.0)),
            Some(number) => {
                let level = shades.level(number);
                svg.rect(&format!("cell heat{level}"), frame);
                let text = cell_text(number, decimals);
                if text_width(&text, TEXT) + 4.0 <= frame.width {
                    svg.text_in(&format!("middle on-heat{level}"), frame, TEXT, &text);
                }
            }
        }
        svg.close_group();
    }

    fn description(&self, shades: &Shades) -> String {
        let (low, high) = (written(shades.low), self.with_unit(written(shades.high)));
        let (rows, columns) = (self.rows.len(), self.columns.len());
        format!("{rows} rows ({}) by {columns} columns ({}): {low} to {high}.", self.y_label, self.x_label)
    }
}

/// Maximum number of decimals in a cell, which has little space; smaller numbers have an exponent.
const MAX_DECIMALS: usize = 5;

fn cell_text(number: f64, decimals: usize) -> String {
    let too_long = number.abs() >= 1e9 || (decimals == MAX_DECIMALS && number.abs() < 1e-3 && number != 0.0);
    if too_long { format!("{number:.1e}") } else { with_decimals(number, decimals) }
}

/// The range of numbers that is mapped to shades.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Shades {
    low: f64,
    high: f64,
}

impl Shades {
    /// The requested range if it is valid, otherwise the range of the numbers.
    fn new(asked: Option<(f64, f64)>, numbers: impl Iterator<Item = f64>) -> Shades {
        if let Some((low, high)) = asked.filter(|(low, high)| (high - low).is_finite() && low < high) {
            return Shades { low, high };
        }
        let spanned = numbers.fold(None, |span: Option<(f64, f64)>, number| {
            Some(span.map_or((number, number), |(low, high)| (low.min(number), high.max(number))))
        });
        let (low, high) = spanned.unwrap_or((0.0, 1.0));
        Shades { low, high }
    }

    /// The shade of `number`; the middle one if all numbers are equal.
    fn level(self, number: f64) -> usize {
        let last = (HEAT_LEVELS - 1) as f64;
        // Halved first, so that the differences cannot overflow.
        let share = (number / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0);
        let share = if share.is_nan() { 0.5 } else { share.clamp(0.0, 1.0) };
        (share * last).round() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_run_from_end_to_end() {
        let percent = Shades::new(Some((0.0, 100.0)), std::iter::empty());
        let levels = [-5.0, 0.0, 4.9, 50.0, 100.0, f64::MAX].map(|number| percent.level(number));
        assert_eq!(levels, [0, 0, 0, 5, 10, 10]);
        assert_eq!(Shades::new(None, [3.0, 1.0, 2.0].into_iter()), Shades { low: 1.0, high: 3.0 });
        for odd in [(1.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (f64::MIN, f64::MAX)] {
            assert_eq!(Shades::new(Some(odd), [7.0].into_iter()).level(7.0), 5);
        }
        assert_eq!(Shades::new(None, [f64::MIN, f64::MAX].into_iter()).level(0.0), 5);
    }

    #[test]
    fn cells_have_as_many_digits_as_help() {
        let with = |numbers: &[f64]| {
            let cells = vec![numbers.iter().copied().map(Some).collect()];
            let names = vec![String::new(); numbers.len()];
            let map = Heatmap { cells, ..Heatmap::new("", names, vec![String::new()]) };
            numbers.iter().map(|&number| cell_text(number, map.decimals())).collect::<Vec<_>>()
        };
        assert_eq!(with(&[97.31, 100.0, 3.5]), ["97", "100", "4"]);
        assert_eq!(with(&[97.31, 3.5]), ["97.3", "3.5"]);
        assert_eq!(with(&[1200.0, 7.0]), ["1,200", "7"]);
        assert_eq!(with(&[0.123, -0.004]), ["0.123", "-0.004"]);
        assert_eq!(with(&[2e-9, 0.0]), ["2.0e-9", "0.00000"]);
        assert_eq!(with(&[1e300]), ["1.0e300"]);
    }
}
