//! Writes SVG as text: elements, shapes, coordinates with a fixed number of decimals, escaped strings. For any input
//! the output is well-formed XML without NaN or infinity. Colours and line styles are left to the style sheet.

use crate::theme::{STYLE_SHEET, WIDTH};
use std::fmt::Write;

/// A point on the page in pixels, or a direction.
pub(crate) type Point = (f64, f64);

/// A rectangle on the page, in pixels; `top` is its smaller y.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Frame {
    pub(crate) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(crate) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub(crate) fn middle(&self) -> Point {
        (self.left + self.width / 2.0, self.top + self.height / 2.0)
    }

    /// Removes `by` pixels on every side.
    pub(crate) fn shrunk(self, by: f64) -> Frame {
        let Frame { left, top, width, height } = self;
        Frame { left: left + by, top: top + by, width: width - 2.0 * by, height: height - 2.0 * by }
    }
}

/// The content of a picture under construction. Later elements cover earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Svg {
    body: String,
}

impl Svg {
    pub(crate) fn open_group(&mut self, class: &str) {
        self.push(format_args!("<g class=\"{}\">\n", escape(class)));
    }

    pub(crate) fn close_group(&mut self) {
        self.body.push_str("</g>\n");
    }

    /// Sets the tooltip of the enclosing group.
    pub(crate) fn tooltip(&mut self, text: &str) {
        self.push(format_args!("<title>{}</title>\n", escape(text)));
    }

    pub(crate) fn line(&mut self, class: &str, from: Point, to: Point) {
        let (x1, y1, x2, y2) = (number(from.0), number(from.1), number(to.0), number(to.1));
        let class = escape(class);
        self.push(format_args!(
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>\n"
        ));
    }

    pub(crate) fn rect(&mut self, class: &str, frame: Frame) {
        let (x, y) = (number(frame.left), number(frame.top));
        let (width, height) = (number(frame.width.max(0.0)), number(frame.height.max(0.0)));
        let class = escape(class);
        self.push(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>\n"
        ));
    }

    pub(crate) fn path(&mut self, class: &str, path: &str) {
        self.push(format_args!("<path class=\"{}\" d=\"{}\"/>\n", escape(class), escape(path)));
    }

    pub(crate) fn text(&mut self, class: &str, at: Point, text: &str) {
        let (x, y) = (number(at.0), number(at.1));
        let (class, text) = (escape(class), escape(text));
        self.push(format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>\n"));
    }

    /// Writes text of this size in the middle of `frame`. `class` must centre it horizontally.
    pub(crate) fn text_in(&mut self, class: &str, frame: Frame, size: f64, text: &str) {
        let (x, y) = frame.middle();
        self.text(class, (x, y + size * 0.35), text);
    }

    /// Writes text rotated counter-clockwise by `degrees` around `at`.
    pub(crate) fn turned_text(&mut self, class: &str, at: Point, degrees: u32, text: &str) {
        let (x, y) = (number(at.0), number(at.1));
        let (class, text) = (escape(class), escape(text));
        self.push(format_args!(
            "<text class=\"{class}\" transform=\"translate({x} {y}) rotate(-{degrees})\">{text}</text>\n"
        ));
    }

    /// Adds a style sheet for this kind of picture.
    pub(crate) fn style(&mut self, sheet: &str) {
        self.push(format_args!("<style>\n{sheet}</style>\n"));
    }

    /// Appends SVG without escaping; only for constants.
    pub(crate) fn raw(&mut self, svg: &str) {
        self.body.push_str(svg);
    }

    /// The complete file in the standard width; title and description are for screen readers.
    pub(crate) fn finish(self, title: &str, description: &str, height: f64) -> String {
        self.finish_sized(title, description, (WIDTH, height))
    }

    /// The complete file in a given size.
    pub(crate) fn finish_sized(self, title: &str, description: &str, size: (f64, f64)) -> String {
        let (width, height) = (number(size.0), number(size.1));
        let (title, description) = (escape(title), escape(description));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"bookahead\" role=\"img\" width=\"{width}\" \
             height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
             <title>{title}</title>\n<desc>{description}</desc>\n<style>\n{STYLE_SHEET}</style>\n\
             <rect class=\"page\" x=\"0\" y=\"0\" width=\"{width}\" height=\"{height}\"/>\n{}</svg>\n",
            self.body
        )
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.body.write_fmt(text);
    }
}

/// Maximum coordinate, in pixels: renderers use single precision.
const FARTHEST: f64 = 1e6;

/// A coordinate: at most two decimals, never an exponent, NaN or infinity.
pub(crate) fn number(value: f64) -> String {
    let value = if value.is_nan() { 0.0 } else { value.clamp(-FARTHEST, FARTHEST) };
    let fixed = format!("{value:.2}");
    let short = fixed.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

/// Escapes text for XML content and attributes. White space becomes a blank, and characters that XML does not allow are
/// replaced.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The outline of a box with rounded corners. The radius is reduced if the box is small.
pub(crate) fn rounded(frame: Frame, radius: f64) -> String {
    let radius = radius.min(frame.width / 2.0).min(frame.height / 2.0).max(0.0);
    let (width, height) = (number(frame.width - 2.0 * radius), number(frame.height - 2.0 * radius));
    let (x, y, r) = (number(frame.left + radius), number(frame.top), number(radius));
    format!(
        "M{x} {y}h{width}a{r} {r} 0 0 1 {r} {r}v{height}a{r} {r} 0 0 1 -{r} {r}\
         h-{width}a{r} {r} 0 0 1 -{r} -{r}v-{height}a{r} {r} 0 0 1 {r} -{r}z"
    )
}

/// Length of an arrow head, in pixels.
pub(crate) const HEAD_LENGTH: f64 = 8.0;
/// Half the width of an arrow head, in pixels.
const HEAD_REACH: f64 = 3.6;

/// The head of an arrow that comes from `from` and points at `tip`.
pub(crate) fn arrow_head(from: Point, tip: Point) -> String {
    let (x, y) = direction(from, tip);
    let base = (tip.0 - x * HEAD_LENGTH, tip.1 - y * HEAD_LENGTH);
    let corner = |side: f64| at((base.0 - side * y * HEAD_REACH, base.1 + side * x * HEAD_REACH));
    format!("M{}L{}L{}Z", at(tip), corner(1.0), corner(-1.0))
}

pub(crate) fn cross(middle: Point, reach: f64) -> String {
    let (x, y) = middle;
    let end = |dx: f64, dy: f64| at((x + dx * reach, y + dy * reach));
    format!("M{}L{}M{}L{}", end(-1.0, -1.0), end(1.0, 1.0), end(-1.0, 1.0), end(1.0, -1.0))
}

pub(crate) fn disc(middle: Point, radius: f64) -> String {
    let (left, r, width) = (at((middle.0 - radius, middle.1)), number(radius), number(2.0 * radius));
    format!("M{left}a{r} {r} 0 1 0 {width} 0a{r} {r} 0 1 0 -{width} 0Z")
}

/// A point in the syntax of SVG paths.
pub(crate) fn at(point: Point) -> String {
    format!("{} {}", number(point.0), number(point.1))
}

/// The unit vector from one point to another; downwards if they are the same.
pub(crate) fn direction(from: Point, to: Point) -> Point {
    let (x, y) = (to.0 - from.0, to.1 - from.1);
    let length = (x * x + y * y).sqrt();
    if length > 0.0 { (x / length, y / length) } else { (0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_always_finite() {
        let cases = [(1.0, "1"), (0.125, "0.12"), (-0.001, "0"), (100.0, "100"), (f64::NAN, "0")];
        for (value, written) in cases {
            assert_eq!(number(value), written);
        }
        assert_eq!(number(f64::INFINITY), "1000000");
        assert_eq!(number(f64::MIN), "-1000000");
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("a<b & \"c\"\n'd'>\u{1}"), "a&lt;b &amp; &quot;c&quot; &#39;d&#39;&gt;\u{fffd}");
    }

    #[test]
    fn a_head_ends_at_its_tip_and_is_as_wide_to_either_side() {
        assert_eq!(arrow_head((0.0, 5.0), (20.0, 5.0)), "M20 5L12 8.6L12 1.4Z");
        assert_eq!(arrow_head((5.0, 5.0), (5.0, 5.0)), "M5 5L1.4 -3L8.6 -3Z");
    }

    #[test]
    fn corners_are_never_rounder_than_the_box_is_small() {
        let frame = Frame { left: 0.0, top: 0.0, width: 10.0, height: 4.0 };
        assert!(rounded(frame, 8.0).starts_with("M2 0h6a2 2"));
    }
}
