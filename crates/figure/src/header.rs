//! The header of a picture: title, a note about omitted data, and the legend; and the styles that distinguish series.
//! Text widths are estimates, rather too wide than too narrow, to break the legend into lines.

use crate::svg::{Frame, Point, Svg, at, disc};
use crate::theme::{COLOURS, DASHES, HEAT_LEVELS, LEFT, MARGIN, PLOT_WIDTH, TEXT, TITLE, fit, text_width};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) swatch: Swatch,
}

/// The sample beside a name in the legend, with its CSS classes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Swatch {
    /// A piece of a curve.
    Line(String),
    /// A piece of a curve with the marker of this index in the middle.
    Marked(String, usize),
    /// The marker of this index alone.
    Marker(String, usize),
    /// A small bar: the class of its group, and its own class.
    Box(String, &'static str),
    /// All colours of a heatmap, with the lowest value in front.
    Scale(String),
}

impl Swatch {
    fn width(&self) -> f64 {
        match self {
            Swatch::Line(_) | Swatch::Marked(..) | Swatch::Marker(..) | Swatch::Box(..) => SWATCH_WIDTH,
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
/// Maximum width of a name in pixels, so that several fit on a line; longer ones are cut.
const NAME_WIDTH: f64 = 260.0;

/// Draws title, note and legend at the top of the page. Returns their bottom y.
pub(crate) fn draw_header(svg: &mut Svg, title: &str, note: &str, legend: &[Entry]) -> f64 {
    let mut y = MARGIN;
    if !title.is_empty() {
        // The title is semi-bold, which is a little wider than the estimate for normal text.
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

/// The note about omitted data, from `(kind, drawn, total)` of each kind; empty if all is drawn.
pub(crate) fn left_out(things: &[(&str, usize, usize)]) -> String {
    let cut = things.iter().filter(|(_, drawn, all)| drawn < all);
    let words = cut.map(|(what, drawn, all)| format!("showing the first {drawn} of {all} {what}"));
    words.collect::<Vec<_>>().join("; ")
}

fn draw_legend(svg: &mut Svg, legend: &[Entry], top: f64) -> f64 {
    let (mut x, mut y) = (LEFT, top);
    for entry in legend {
        let name = fit(&entry.name, TEXT, NAME_WIDTH);
        let before_name = entry.swatch.width() + SWATCH_GAP;
        let width = before_name + text_width(&name, TEXT);
        // The first entry of a line is never moved: on the next line it would not have more room.
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
            svg.path(&format!("marker {class}"), &marker(*place, (x + SWATCH_WIDTH / 2.0, middle), MARKER));
        }
        Swatch::Marker(class, place) => {
            let outline = marker(*place, (x + SWATCH_WIDTH / 2.0, middle), LONE_MARKER);
            svg.path(&format!("marker {class}"), &outline);
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

/// The distinct names in order of appearance. The index of a name determines its style.
pub(crate) fn names_of<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The CSS classes of the `index`th name: a colour, and dashes once all colours are used.
pub(crate) fn look(index: usize) -> String {
    let (colour, dash) = (index % COLOURS, index / COLOURS % DASHES);
    format!("colour{colour} dash{dash}")
}

/// The name of a series, and whether its values are published ones, which get a dashed style.
pub(crate) type Role<'a> = (&'a str, bool);

/// Index of the name of `role` among the distinct names of `roles`.
pub(crate) fn place(roles: &[Role<'_>], role: Role<'_>) -> usize {
    let names = names_of(roles.iter().map(|&(name, _)| name));
    names.iter().position(|&name| name == role.0).unwrap_or(0)
}

/// The legend; empty if there is only one series of our own. `swatch` builds the sample for an index.
pub(crate) fn legend(roles: &[Role<'_>], swatch: impl Fn(usize, bool) -> Swatch) -> Vec<Entry> {
    // A single series is named by the title; published values need the legend to be told from ours.
    if roles.len() < 2 && !roles.iter().any(|&(_, published)| published) {
        return Vec::new();
    }
    let mut entries: Vec<Entry> = Vec::new();
    for &(name, published) in roles {
        let has_twin = published && roles.contains(&(name, false));
        let name_in_legend = if has_twin { format!("{name} (published)") } else { name.to_owned() };
        let swatch = swatch(place(roles, (name, published)), published);
        let entry = Entry { name: name_in_legend, swatch };
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    entries
}

/// Radius of a marker, in pixels.
pub(crate) const MARKER: f64 = 3.2;

/// Radius of the marker of a single value, which has no line to lead the eye to it.
pub(crate) const LONE_MARKER: f64 = 5.0;

/// The outline of the marker of the `index`th name: a disc, a square, a diamond or a triangle, with radius `r`.
pub(crate) fn marker(index: usize, middle: Point, r: f64) -> String {
    let corners = |corners: &[Point]| {
        let points: Vec<String> = corners.iter().map(|c| at((middle.0 + c.0, middle.1 + c.1))).collect();
        format!("M{}Z", points.join("L"))
    };
    match index % 4 {
        0 => disc(middle, r),
        1 => corners(&[(-0.9 * r, -0.9 * r), (0.9 * r, -0.9 * r), (0.9 * r, 0.9 * r), (-0.9 * r, 0.9 * r)]),
        2 => corners(&[(0.0, -1.3 * r), (1.3 * r, 0.0), (0.0, 1.3 * r), (-1.3 * r, 0.0)]),
        _ => corners(&[(0.0, -1.25 * r), (1.2 * r, r), (-1.2 * r, r)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_share_a_look_and_are_told_apart_in_words() {
        let roles = [("easy", false), ("fcfs", false), ("easy", true), ("slack", true)];
        let swatch = |place, published| Swatch::Line(format!("{place} {published}"));
        let entries = legend(&roles, swatch);
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["easy", "fcfs", "easy (published)", "slack"]);
        assert_eq!(entries[2].swatch, swatch(0, true));
        assert_eq!(legend(&roles[..1], swatch), []);
        assert_eq!(legend(&roles[3..], swatch).len(), 1);
    }
}
