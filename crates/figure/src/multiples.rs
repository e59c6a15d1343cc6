//! Small multiples: line charts side by side, with the same axes, in place of curves that cover each other. At most
//! [`MAX_PANELS`] are drawn; a note in the picture tells if there are more.

use crate::header::{Role, draw_header, left_out};
use crate::lines::{LineSeries, Lines, line_legend};
use crate::number_axis::{NUMBER_AXIS_HEIGHT, draw_x_label, draw_y_label};
use crate::svg::{Frame, Svg};
use crate::theme::{LEFT, PLOT_WIDTH, TEXT, fit};

/// Maximum number of panels: more would not fit on a page.
pub const MAX_PANELS: usize = 36;
/// Maximum number of columns: narrower panels would have no room for the numbers of the x axis.
const MOST_COLUMNS: usize = 6;

/// Line charts with the same axes, in rows and columns.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Multiples {
    /// Title, labels and axes of all panels. Its series are drawn in every panel, below those of the panel.
    pub common: Lines,
    /// Heading and series of each panel, row by row. A name has the same colour and marker in all panels.
    pub panels: Vec<(String, Vec<LineSeries>)>,
    /// Panels in a row, from 1 to 6.
    pub columns: usize,
}

const PANEL_HEIGHT: f64 = 170.0;
const HEADING_HEIGHT: f64 = 20.0;
/// Space between two columns, for the halves of two numbers such as 1,000 and 10, in pixels.
const COLUMN_GAP: f64 = 48.0;
/// Space between two rows, in pixels.
const ROW_GAP: f64 = 14.0;

impl Multiples {
    /// Builds a picture with the title, the labels and the axes of `common`.
    pub fn new(common: Lines, columns: usize, panels: Vec<(String, Vec<LineSeries>)>) -> Multiples {
        Multiples { common, panels, columns }
    }

    /// Renders the panels as an SVG file.
    pub fn to_svg(&self) -> String {
        let mut svg = Svg::default();
        let panels = &self.panels[..self.panels.len().min(MAX_PANELS)];
        let of_panels = panels.iter().flat_map(|(_, series)| series);
        let all: Vec<LineSeries> = self.common.series.iter().chain(of_panels).cloned().collect();
        let roles: Vec<Role<'_>> = all.iter().map(LineSeries::role).collect();
        let note = left_out(&[("panels", panels.len(), self.panels.len())]);
        let top = draw_header(&mut svg, &self.common.title, &note, &line_legend(&all));
        let columns = self.columns.clamp(1, MOST_COLUMNS);
        for (index, (heading, series)) in panels.iter().enumerate() {
            let plot = frame(top, index, columns);
            let axes = self.common.axes(plot, &all);
            svg.text("heading", (plot.left, plot.top - 7.0), &fit(heading, TEXT * 1.05, plot.width));
            axes.0.draw_grid(&mut svg, plot);
            axes.1.draw_grid(&mut svg);
            if index % columns == 0 {
                axes.1.draw_numbers(&mut svg);
            }
            // Only below the last panel of each column, because the axes are the same.
            if index + columns >= panels.len() {
                axes.0.draw_numbers(&mut svg, plot);
            }
            self.common.draw_series(&mut svg, plot, &axes, self.common.series.iter().chain(series), &roles);
        }
        let last = frame(top, panels.len().max(1) - 1, columns);
        let whole = Frame { left: LEFT, top, width: PLOT_WIDTH, height: last.bottom() - top };
        draw_y_label(&mut svg, whole, &self.common.y_label);
        draw_x_label(&mut svg, whole, &self.common.x_label);
        svg.finish(&self.common.title, &self.description(), whole.bottom() + NUMBER_AXIS_HEIGHT)
    }

    fn description(&self) -> String {
        let headings: Vec<&str> = self.panels.iter().map(|(heading, _)| heading.as_str()).collect();
        let (x, y) = (&self.common.x_label, &self.common.y_label);
        format!("{y} over {x}, one panel each: {}.", headings.join(", "))
    }
}

/// The plot of the `index`th panel.
fn frame(top: f64, index: usize, columns: usize) -> Frame {
    let (row, column) = ((index / columns) as f64, (index % columns) as f64);
    let width = (PLOT_WIDTH - COLUMN_GAP * (columns - 1) as f64) / columns as f64;
    let pitch = HEADING_HEIGHT + PANEL_HEIGHT + ROW_GAP;
    Frame {
        left: LEFT + column * (width + COLUMN_GAP),
        top: top + HEADING_HEIGHT + row * pitch,
        width,
        height: PANEL_HEIGHT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_fill_the_width_and_do_not_overlap() {
        for columns in 1..=MOST_COLUMNS {
            let frames: Vec<Frame> = (0..2 * columns).map(|index| frame(0.0, index, columns)).collect();
            assert!((frames[columns - 1].right() - LEFT - PLOT_WIDTH).abs() < 1e-9);
            assert!(frames[..columns].windows(2).all(|pair| pair[0].right() < pair[1].left));
            assert!(frames[0].bottom() < frames[columns].top);
        }
    }
}
