//! The x axis of a plot with one column for each name: where the columns stand, and their names below them,
//! broken into lines where that makes them fit and slanted where it does not.
//! It relies on guessed text widths. It never lets two names overlap: where columns are too narrow, it leaves
//! out names at regular steps.

use crate::svg::{Frame, Svg};
use crate::theme::{TEXT, fit, text_width};

/// The most lines that a name is broken into.
const MAX_LINES: usize = 3;
const LINE_HEIGHT: f64 = 15.0;
/// The room between two names, in pixels.
const GAP: f64 = 8.0;
/// The least distance between two slanted names, in pixels.
const SLANTED_PITCH: f64 = 21.0;
/// The longest that a slanted name is, in pixels.
const SLANTED_LENGTH: f64 = 190.0;
/// The angle of slanted names and how much of their length goes down, and as much to the left.
const SLANT: (u32, f64) = (45, std::f64::consts::FRAC_1_SQRT_2);

#[derive(Debug)]
pub(crate) struct CategoryAxis {
    plot: Frame,
    pitch: f64,
    labels: Labels,
}

#[derive(Debug)]
enum Labels {
    /// Each in one or more lines.
    Level(Vec<Vec<String>>),
    /// Each in one line, at an angle; only every so many are drawn.
    Slanted(Vec<String>, usize),
}

impl CategoryAxis {
    /// As many columns as there are names, side by side in the width of `plot`.
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

    /// Where the `index`th column begins.
    pub(crate) fn left(&self, index: usize) -> f64 {
        self.plot.left + index as f64 * self.pitch
    }

    /// How much height the names take below the plot, and `caption` if there is one.
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

    /// Where the middle of the `index`th column is.
    pub(crate) fn middle(&self, index: usize) -> f64 {
        self.left(index) + self.pitch / 2.0
    }
}

fn slanted(plot: Frame, pitch: f64, names: &[String]) -> Labels {
    let step = (SLANTED_PITCH / pitch.max(0.1)).ceil().max(1.0) as usize;
    // A name ends below its column and must not begin beyond the edge of the page.
    let room = |index: usize| (plot.left + (index as f64 + 0.5) * pitch - GAP) / SLANT.1;
    let label = |(index, name): (usize, &String)| fit(name, TEXT, room(index).min(SLANTED_LENGTH));
    Labels::Slanted(names.iter().enumerate().map(label).collect(), step)
}

/// The lines of a name that is to be no wider than `width`, if it can be broken between words so.
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
