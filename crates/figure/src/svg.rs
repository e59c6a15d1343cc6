//! Writing SVG as text: elements, coordinates with a fixed number of decimals, escaped strings.
//! It relies on its callers for sensible geometry, but whatever they pass, what comes out is well-formed
//! XML without NaN or infinity. It never decides how anything looks: that is the style sheet's work.

use crate::theme::{STYLE_SHEET, WIDTH};
use std::fmt::Write;

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
}

/// The inside of a picture while it is being drawn; later elements cover earlier ones.
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

    /// What a browser shows when the pointer rests on the enclosing group.
    pub(crate) fn tooltip(&mut self, text: &str) {
        self.push(format_args!("<title>{}</title>\n", escape(text)));
    }

    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
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

    pub(crate) fn text(&mut self, class: &str, at: (f64, f64), text: &str) {
        let (x, y) = (number(at.0), number(at.1));
        let (class, text) = (escape(class), escape(text));
        self.push(format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>\n"));
    }

    /// Text that reads upwards, centred on `at`.
    pub(crate) fn upright_text(&mut self, class: &str, at: (f64, f64), text: &str) {
        self.turned_text(class, at, 90, text);
    }

    /// Text turned up by so many degrees around `at`.
    pub(crate) fn turned_text(&mut self, class: &str, at: (f64, f64), degrees: u32, text: &str) {
        let (x, y) = (number(at.0), number(at.1));
        let (class, text) = (escape(class), escape(text));
        self.push(format_args!(
            "<text class=\"{class}\" transform=\"translate({x} {y}) rotate(-{degrees})\">{text}</text>\n"
        ));
    }

    /// Text of ours that is already SVG.
    pub(crate) fn raw(&mut self, svg: &str) {
        self.body.push_str(svg);
    }

    /// The whole file, as wide as all pictures, with what a screen reader says in place of the picture.
    pub(crate) fn finish(self, title: &str, description: &str, height: f64) -> String {
        self.finish_sized(title, description, (WIDTH, height))
    }

    /// The whole file, with a width of its own.
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

/// The largest coordinate written: renderers keep coordinates in single precision.
const FARTHEST: f64 = 1e6;

/// A coordinate: at most two decimals, never an exponent, NaN or infinity.
pub(crate) fn number(value: f64) -> String {
    let value = if value.is_nan() { 0.0 } else { value.clamp(-FARTHEST, FARTHEST) };
    let fixed = format!("{value:.2}");
    let short = fixed.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

/// Text fit for XML content and attributes: markup escaped, white space made plain, and the characters that
/// XML cannot hold replaced.
pub(crate) fn escape(text: &str) -> String {
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
}
