//! The x axis of a plot with one column per name: positions of the columns, and the names below them, broken into lines
//! if that makes them fit, and slanted otherwise. Text widths are estimates. Names never overlap: if columns are too
//! narrow, only every n-th name is drawn.

use crate::svg::{Frame, Svg};
use crate::theme::{TEXT, fit, text_width};

/// Maximum number of lines of a name, to keep the axis low; a longer name is slanted.
const MAX_LINES: usize = 3;
const LINE_HEIGHT: f64 = 15.0;
/// Space between two names, in pixels.
const GAP: f64 = 8.0;
/// Minimum distance between two slanted names, in pixels.
const SLANTED_PITCH: f64 = 21.0;
/// Maximum length of a slanted name, in pixels; longer ones are cut, so that the axis does not become too high.
const SLANTED_LENGTH: f64 = 190.0;
/// The angle of slanted names in degrees, and its sine and cosine: the share of their length that goes down and to the
/// left.
const SLANT: (u32, f64) = (45, std::f64::consts::FRAC_1_SQRT_2);

#[derive(Debug)]
pub(crate) struct CategoryAxis {
    plot: Frame,
    pitch: f64,
    labels: Labels,
}

#[derive(Debug)]
enum Labels {
    /// Horizontal names, each with its lines.
    Level(Vec<Vec<String>>),
    /// Slanted names of one line each; only every n-th is drawn.
    Slanted(Vec<String>, usize),
}

impl CategoryAxis {
    /// Divides the width of `plot` into one column per name.
    pub(crate) fn new(plot: Frame, names: &[String]) -> CategoryAxis {
        let pitch = plot.width / names.len().max(1) as f64;
        let level: Option<Vec<_>> = names.iter().map(|name| lines_of(name, pitch - GAP)).collect();
        let labels = level.map_or_else(|| slanted(plot, pitch, names), Labels::Level);
        CategoryAxis { plot, pitch, labels }
    }

    /// The distance from one column to the next.
    pub(crate) fn pitch(&self) -> f64 {
        self.pitch
    }

    /// Left edge of the `index`th column.
    pub(crate) fn left(&self, index: usize) -> f64 {
        self.plot.left + index as f64 * self.pitch
    }

    /// Height of the names below the plot, and of `caption` unless it is empty.
    pub(crate) fn height(&self, caption: &str) -> f64 {
        self.names_height() + if caption.is_empty() { 0.0 } else { LINE_HEIGHT + 5.0 } + 12.0
    }

    fn names_height(&self) -> f64 {
        match &self.labels {
            Labels::Level(labels) => {
                let lines = labels.iter().map(Vec::len).max().unwrap_or(1).max(1);
                17.0 + (lines - 1) as f64 * LINE_HEIGHT
            }
            Labels::Slanted(labels, step) => {
                let drawn = labels.iter().step_by(*step);
                let longest = drawn.map(|label| text_width(label, TEXT)).fold(0.0, f64::max);
                16.0 + longest * SLANT.1
            }
        }
    }

    /// The names and `caption` below the plot.
    pub(crate) fn draw_labels(&self, svg: &mut Svg, caption: &str) {
        let y = self.plot.bottom();
        match &self.labels {
            Labels::Level(labels) => {
                for (index, lines) in labels.iter().enumerate() {
                    for (line, text) in lines.iter().enumerate() {
                        let at = (self.middle(index), y + 17.0 + line as f64 * LINE_HEIGHT);
                        svg.text("middle", at, text);
                    }
                }
            }
            Labels::Slanted(labels, step) => {
                for (index, label) in labels.iter().enumerate().step_by(*step) {
                    svg.turned_text("end", (self.middle(index) + 4.0, y + 14.0), SLANT.0, label);
                }
            }
        }
        let middle = self.plot.left + self.plot.width / 2.0;
        let below = y + self.names_height() + LINE_HEIGHT + 4.0;
        if !caption.is_empty() {
            svg.text("middle", (middle, below), &fit(caption, TEXT, self.plot.width));
        }
    }

    /// Centre of the `index`th column.
    pub(crate) fn middle(&self, index: usize) -> f64 {
        self.left(index) + self.pitch / 2.0
    }
}

fn slanted(plot: Frame, pitch: f64, names: &[String]) -> Labels {
    let step = (SLANTED_PITCH / pitch.max(0.1)).ceil().max(1.0) as usize;
    // A slanted name ends below its column and extends to the lower left; it must not leave the page there.
    let room = |index: usize| (plot.left + (index as f64 + 0.5) * pitch - GAP) / SLANT.1;
    let label = |(index, name): (usize, &String)| fit(name, TEXT, room(index).min(SLANTED_LENGTH));
    Labels::Slanted(names.iter().enumerate().map(label).collect(), step)
}

/// Breaks a name between words into lines no wider than `width`. None if that takes more than [`MAX_LINES`].
fn lines_of(name: &str, width: f64) -> Option<Vec<String>> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split_whitespace() {
        let fits = |text: &str| text_width(text, TEXT) <= width;
        let together = lines.last().map(|line| format!("{line} {word}")).filter(|text| fits(text));
        match together {
            Some(together) => {
                lines.pop();
                lines.push(together);
            }
            None if lines.len() == MAX_LINES || !fits(word) => return None,
            None => lines.push(word.to_owned()),
        }
    }
    Some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLOT: Frame = Frame { left: 72.0, top: 0.0, width: 800.0, height: 100.0 };

    #[test]
    fn names_are_broken_between_words() {
        assert_eq!(lines_of("one", 100.0), Some(vec!["one".to_owned()]));
        assert_eq!(lines_of("one two", 30.0), Some(vec!["one".to_owned(), "two".to_owned()]));
        assert_eq!(lines_of("one two six ten", 30.0), None);
        assert_eq!(lines_of("conservative", 30.0), None);
        assert_eq!(lines_of("", 30.0), Some(vec![]));
        assert_eq!(lines_of("", -30.0), Some(vec![]));
    }

    #[test]
    fn long_names_are_slanted_and_stay_on_the_page() {
        for count in [10, 40, 100] {
            let names = vec!["conservative-backfilling-with-reservations".to_owned(); count];
            let axis = CategoryAxis::new(PLOT, &names);
            let Labels::Slanted(labels, step) = &axis.labels else { panic!("level") };
            assert!(axis.pitch() * *step as f64 >= SLANTED_PITCH);
            assert!(axis.middle(0) - text_width(&labels[0], TEXT) * SLANT.1 >= 0.0);
        }
        let few = CategoryAxis::new(PLOT, &["easy".to_owned(), "conservative backfilling".to_owned()]);
        assert!(matches!(few.labels, Labels::Level(_)));
        assert!(CategoryAxis::new(PLOT, &[]).height("").is_finite());
    }
}
