//! How series are told apart: colours, dashes, markers, hatching, and the legend that explains them.
//! It relies on the theme for the classes. It never knows what a series measures.

use crate::header::{Entry, Swatch};
use crate::svg::{Point, Svg, disc, number};
use crate::theme::{COLOURS, DASHES};
use crate::value_axis::{ValueAxis, span, usable};

/// The names in order of appearance: a name's place decides its look.
pub(crate) fn names_of<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The classes that tell the `index`th name from the others: a colour, and dashes once colours run out.
pub(crate) fn look(index: usize) -> String {
    let (colour, dash) = (index % COLOURS, index / COLOURS % DASHES);
    format!("colour{colour} dash{dash}")
}

/// The name of a series, and whether its values are those that others have published.
pub(crate) type Role<'a> = (&'a str, bool);

/// Where the name of `role` stands among the names of `roles`.
pub(crate) fn place(roles: &[Role<'_>], role: Role<'_>) -> usize {
    let names = names_of(roles.iter().map(|&(name, _)| name));
    names.iter().position(|&name| name == role.0).unwrap_or(0)
}

/// A legend where there is something to tell apart; `swatch` makes the sample of a name's place.
pub(crate) fn legend(roles: &[Role<'_>], swatch: impl Fn(usize, bool) -> Swatch) -> Vec<Entry> {
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

/// How far a marker reaches from its middle, in pixels.
const MARKER: f64 = 3.2;
/// How far the ends of a whisker reach from its middle, in pixels.
const WHISKER: f64 = 3.5;

/// The outline of the marker of the `index`th name: a disc, a square, a diamond or a triangle.
pub(crate) fn marker(index: usize, at: Point) -> String {
    let (x, y, r) = (at.0, at.1, MARKER);
    let corners = |corners: &[Point]| -> String {
        let points: Vec<String> =
            corners.iter().map(|c| format!("{} {}", number(x + c.0), number(y + c.1))).collect();
        format!("M{}Z", points.join("L"))
    };
    match index % 4 {
        0 => disc(at, r),
        1 => corners(&[(-0.9 * r, -0.9 * r), (0.9 * r, -0.9 * r), (0.9 * r, 0.9 * r), (-0.9 * r, 0.9 * r)]),
        2 => corners(&[(0.0, -1.3 * r), (1.3 * r, 0.0), (0.0, 1.3 * r), (-1.3 * r, 0.0)]),
        _ => corners(&[(0.0, -1.25 * r), (1.2 * r, r), (-1.2 * r, r)]),
    }
}

/// The margin of a value, as a line with two ends; nothing where there is none.
pub(crate) fn draw_whisker(svg: &mut Svg, class: &str, axis: &ValueAxis, x: f64, value: (f64, Option<f64>)) {
    if usable(value.1).is_none() {
        return;
    }
    let (low, high) = span(value.0, value.1);
    let (left, right) = (number(x - WHISKER), number(x + WHISKER));
    let (x, bottom, top) = (number(x), number(axis.y(low)), number(axis.y(high)));
    svg.path(class, &format!("M{left} {top}H{right}M{x} {top}V{bottom}M{left} {bottom}H{right}"));
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
