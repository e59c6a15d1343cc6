//! What stands above the plots: the title, a note, the legend.
//! It relies on guessed text widths to break the legend into lines, and leaves a little too much room rather
//! than too little. It never knows what the picture is about.

use crate::svg::{Frame, Svg};
use crate::theme::{LEFT, MARGIN, PLOT_WIDTH, TEXT, TITLE, fit, text_width};

/// One entry of a legend.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) swatch: Swatch,
}

/// The sample beside a name, with the classes it is drawn with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Swatch {
    /// A piece of a curve.
    Line(String),
    /// A small bar: the class of its group and its own.
    Box(&'static str, &'static str),
}

const SWATCH_WIDTH: f64 = 20.0;
const SWATCH_GAP: f64 = 7.0;
const ENTRY_GAP: f64 = 18.0;
const LINE_HEIGHT: f64 = 20.0;
/// The widest a name may be; longer ones are cut.
const NAME_WIDTH: f64 = 260.0;

/// Draws title, note and legend from the top of the page; the y below which there is room.
pub(crate) fn draw_header(svg: &mut Svg, title: &str, note: &str, legend: &[Entry]) -> f64 {
    let mut y = MARGIN;
    if !title.is_empty() {
        svg.text("title", (LEFT, y + TITLE - 2.0), &fit(title, TITLE * 1.05, PLOT_WIDTH));
        y += TITLE + 10.0;
    }
    if !note.is_empty() {
        svg.text("note", (LEFT, y + TEXT - 2.0), &fit(note, TEXT, PLOT_WIDTH));
        y += LINE_HEIGHT;
    }
    if !legend.is_empty() {
        y = draw_legend(svg, legend, y);
    }
    y
}

fn draw_legend(svg: &mut Svg, legend: &[Entry], top: f64) -> f64 {
    let (mut x, mut y) = (LEFT, top);
    for entry in legend {
        let name = fit(&entry.name, TEXT, NAME_WIDTH);
        let width = SWATCH_WIDTH + SWATCH_GAP + text_width(&name, TEXT);
        if x > LEFT && x + width > LEFT + PLOT_WIDTH {
            (x, y) = (LEFT, y + LINE_HEIGHT);
        }
        draw_swatch(svg, &entry.swatch, x, y);
        svg.text("legend", (x + SWATCH_WIDTH + SWATCH_GAP, y + TEXT - 2.0), &name);
        x += width + ENTRY_GAP;
    }
    y + LINE_HEIGHT
}

fn draw_swatch(svg: &mut Svg, swatch: &Swatch, x: f64, y: f64) {
    match swatch {
        Swatch::Line(class) => svg.line(class, (x, y + 6.0), (x + SWATCH_WIDTH, y + 6.0)),
        Swatch::Box(group, class) => {
            svg.open_group(group);
            svg.rect(class, Frame { left: x, top: y, width: SWATCH_WIDTH, height: 12.0 });
            svg.close_group();
        }
    }
}
