//! The x axis of a plot over a number: which numbers are drawn, where one stands, and the marks, labels and
//! grid lines. It never draws outside its plot, for it moves every number into the drawn range.

use crate::log_ticks::{is_power_of_two, log_ticks};
use crate::number_ticks::{NARROWEST, NumberTicks, Reach, ticks_from, written};
use crate::svg::{Frame, Svg};
use crate::theme::{LEFT, PLOT_WIDTH, TEXT, fit};

/// The least distance between two labels, in pixels.
const LABEL_PITCH: f64 = 70.0;

/// How much height the labels below the plot take.
pub(crate) const NUMBER_AXIS_HEIGHT: f64 = 52.0;

#[derive(Debug)]
pub(crate) struct NumberAxis {
    ticks: NumberTicks,
}

impl NumberAxis {
    /// An axis for all of `numbers`, which are finite, and positive for a logarithmic axis. The latter is
    /// marked at powers of two if all of the numbers are.
    pub(crate) fn new(numbers: &[f64], logarithmic: bool) -> NumberAxis {
        let room = (PLOT_WIDTH / LABEL_PITCH) as u32;
        let low = numbers.iter().copied().reduce(f64::min).unwrap_or(if logarithmic { 1.0 } else { 0.0 });
        let high = numbers.iter().copied().reduce(f64::max).unwrap_or(if logarithmic { 10.0 } else { 1.0 });
        if logarithmic {
            let binary = !numbers.is_empty() && numbers.iter().all(|&number| is_power_of_two(number));
            return NumberAxis { ticks: log_ticks(low, high, room, binary) };
        }
        let (low, high) = widened(low, high);
        NumberAxis { ticks: ticks_from(low, Reach::AtLeast(high), room, false) }
    }

    /// Where `number` stands, in pixels; numbers outside stand at the edge.
    pub(crate) fn x(&self, number: f64) -> f64 {
        LEFT + self.ticks.share(number) * PLOT_WIDTH
    }

    /// From where to where the axis goes, in words.
    pub(crate) fn described(&self) -> String {
        let scale = if self.ticks.logarithmic { ", on a logarithmic scale" } else { "" };
        format!("from {} to {}{scale}", written(self.ticks.bottom), written(self.ticks.top))
    }

    /// The lines through the plot, one for every mark.
    pub(crate) fn draw_grid(&self, svg: &mut Svg, plot: Frame) {
        for (value, _) in &self.ticks.marks {
            let x = self.x(*value);
            svg.line("grid", (x, plot.top), (x, plot.bottom()));
        }
    }

    /// The base line, the labels and `caption` below the plot.
    pub(crate) fn draw_labels(&self, svg: &mut Svg, plot: Frame, caption: &str) {
        let y = plot.bottom();
        svg.line("axis", (plot.left, y), (plot.right(), y));
        for (value, label) in &self.ticks.marks {
            let x = self.x(*value);
            svg.line("axis", (x, y), (x, y + 4.0));
            svg.text("middle", (x, y + 17.0), &fit(label, TEXT, LABEL_PITCH));
        }
        let caption = fit(caption, TEXT, plot.width);
        svg.text("middle", (plot.left + plot.width / 2.0, y + 36.0), &caption);
    }
}

/// An axis of one number has it in the middle.
fn widened(low: f64, high: f64) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if high - low > NARROWEST * size { (low, high) } else { (low - size / 2.0, high + size / 2.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_on_the_axis() {
        let odd = [f64::MIN, -1.0, 0.0, f64::MIN_POSITIVE, 5.0, f64::MAX];
        for (low, high) in odd.into_iter().flat_map(|low| odd.map(|high| (low, high))) {
            for logarithmic in [false, true] {
                let axis = NumberAxis::new(&[low, high], logarithmic);
                for number in odd.into_iter().chain([f64::INFINITY]) {
                    assert!((LEFT..=LEFT + PLOT_WIDTH).contains(&axis.x(number)), "{number} on {axis:?}");
                }
            }
        }
        assert_eq!(NumberAxis::new(&[5.0], false).x(5.0), LEFT + PLOT_WIDTH / 2.0);
        assert_eq!(NumberAxis::new(&[4.0, 1.0, 16.0], true).x(4.0), LEFT + PLOT_WIDTH / 2.0);
    }
}
