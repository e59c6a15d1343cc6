//! What stands above the plots: the title, a note, the legend.
//! It relies on guessed text widths to break the legend into lines, and leaves a little too much room rather
//! than too little. It never knows what the picture is about.

use crate::look::marker;
use crate::svg::{Frame, Svg};
use crate::theme::{HEAT_LEVELS, LEFT, MARGIN, PLOT_WIDTH, TEXT, TITLE, fit, text_width};

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
    /// A piece of a curve with the marker of this place in the middle.
    Marked(String, usize),
    /// A small bar: the class of its group and its own.
    Box(String, &'static str),
    /// All colours of a heatmap, after what the first one stands for.
    Scale(String),
}

impl Swatch {
    fn width(&self) -> f64 {
        match self {
            Swatch::Line(_) | Swatch::Marked(..) | Swatch::Box(..) => SWATCH_WIDTH,
            Swatch::Scale(lowest) => text_width(lowest, TEXT) + SWATCH_GAP + HEAT_LEVELS as f64 * SHADE_WIDTH,
        }
    }
}

const SWATCH_WIDTH: f64 = 20.0;
const SWATCH_HEIGHT: f64 = 12.0;
const SHADE_WIDTH: f64 = 14.0;
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
        let before_name = entry.swatch.width() + SWATCH_GAP;
        let width = before_name + text_width(&name, TEXT);
        if x > LEFT && x + width > LEFT + PLOT_WIDTH {
            (x, y) = (LEFT, y + LINE_HEIGHT);
        }
        draw_swatch(svg, &entry.swatch, x, y);
        svg.text("legend", (x + before_name, y + TEXT - 2.0), &name);
        x += width + ENTRY_GAP;
    }
    y + LINE_HEIGHT
}

fn draw_swatch(svg: &mut Svg, swatch: &Swatch, x: f64, y: f64) {
    let middle = y + SWATCH_HEIGHT / 2.0;
    let frame = Frame { left: x, top: y, width: SWATCH_WIDTH, height: SWATCH_HEIGHT };
    match swatch {
        Swatch::Line(class) => svg.line(class, (x, middle), (x + SWATCH_WIDTH, middle)),
        Swatch::Marked(class, place) => {
            svg.line(&format!("curve {class}"), (x, middle), (x + SWATCH_WIDTH, middle));
            svg.path(&format!("marker {class}"), &marker(*place, (x + SWATCH_WIDTH / 2.0, middle)));
        }
        Swatch::Box(group, class) => {
            svg.open_group(group);
            svg.rect(class, frame);
            svg.close_group();
        }
        Swatch::Scale(lowest) => {
            svg.text("legend", (x, y + TEXT - 2.0), lowest);
            let left = x + text_width(lowest, TEXT) + SWATCH_GAP;
            for level in 0..HEAT_LEVELS {
                let left = left + level as f64 * SHADE_WIDTH;
                svg.rect(&format!("heat{level}"), Frame { left, width: SHADE_WIDTH, ..frame });
            }
        }
    }
}
