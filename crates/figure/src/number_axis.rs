//! The numeric x and y axes of a plot: range, positions, marks, labels and grid lines. Nothing is drawn outside the
//! plot: numbers beyond the range are moved to its edge.

use crate::number_ticks::{NARROWEST, NumberTicks, Reach, is_power_of_two, log_ticks, ticks_from, written};
use crate::svg::{Frame, Svg, number};
use crate::theme::{MARGIN, TEXT, fit};

/// Minimum distance between two labels of the x axis, in pixels.
const LABEL_PITCH: f64 = 70.0;
/// The same in a narrow plot, and the width of one: it would have too few labels otherwise.
const NARROW_PITCH: f64 = 50.0;
const NARROW: f64 = 300.0;

/// Height of the labels below the plot, in pixels.
pub(crate) const NUMBER_AXIS_HEIGHT: f64 = 52.0;

#[derive(Debug)]
pub(crate) struct NumberAxis {
    left: f64,
    width: f64,
    ticks: NumberTicks,
}

impl NumberAxis {
    /// The axis of `plot` for `numbers`, which must be finite, and positive if it is logarithmic. A logarithmic axis has
    /// marks at powers of two if all numbers are such powers.
    pub(crate) fn new(plot: Frame, numbers: &[f64], logarithmic: bool) -> NumberAxis {
        let Frame { left, width, .. } = plot;
        let room = (width / if width < NARROW { NARROW_PITCH } else { LABEL_PITCH }) as u32;
        let low = numbers.iter().copied().reduce(f64::min).unwrap_or(if logarithmic { 1.0 } else { 0.0 });
        let high = numbers.iter().copied().reduce(f64::max).unwrap_or(if logarithmic { 10.0 } else { 1.0 });
        if logarithmic {
            let binary = !numbers.is_empty() && numbers.iter().all(|&number| is_power_of_two(number));
            return NumberAxis { left, width, ticks: log_ticks(low, high, room, binary) };
        }
        let (low, high) = widened(low, high);
        NumberAxis { left, width, ticks: ticks_from(low, Reach::AtLeast(high), room, false) }
    }

    /// Position of `number` in pixels; numbers beyond the range are at the edge.
    pub(crate) fn x(&self, number: f64) -> f64 {
        self.left + self.ticks.share(number) * self.width
    }

    /// The range of the axis in words, for screen readers.
    pub(crate) fn described(&self) -> String {
        let scale = if self.ticks.logarithmic { ", on a logarithmic scale" } else { "" };
        format!("from {} to {}{scale}", written(self.ticks.bottom), written(self.ticks.top))
    }

    /// Draws a vertical line through the plot for each mark.
    pub(crate) fn draw_grid(&self, svg: &mut Svg, plot: Frame) {
        for (value, _) in &self.ticks.marks {
            let x = self.x(*value);
            svg.line("grid", (x, plot.top), (x, plot.bottom()));
        }
    }

    /// Draws the base line, the labels and `caption` below the plot.
    pub(crate) fn draw_labels(&self, svg: &mut Svg, plot: Frame, caption: &str) {
        self.draw_numbers(svg, plot);
        draw_x_label(svg, plot, caption);
    }

    /// Draws the base line and the numbers below the plot.
    pub(crate) fn draw_numbers(&self, svg: &mut Svg, plot: Frame) {
        let y = plot.bottom();
        svg.line("axis", (plot.left, y), (plot.right(), y));
        for (value, label) in &self.ticks.marks {
            let x = self.x(*value);
            svg.line("axis", (x, y), (x, y + 4.0));
            svg.text("middle", (x, y + 17.0), &fit(label, TEXT, LABEL_PITCH));
        }
    }
}

/// Writes the label of the x axis below its numbers.
pub(crate) fn draw_x_label(svg: &mut Svg, plot: Frame, label: &str) {
    let label = fit(label, TEXT, plot.width);
    svg.text("middle", (plot.left + plot.width / 2.0, plot.bottom() + 36.0), &label);
}

/// Widens a range of a single number, so that it is in the middle of the axis.
fn widened(low: f64, high: f64) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if high - low > NARROWEST * size { (low, high) } else { (low - size / 2.0, high + size / 2.0) }
}

/// Minimum distance between two labels of the y axis, in pixels.
const ROW_PITCH: f64 = 34.0;

#[derive(Debug)]
pub(crate) struct ValueAxis {
    plot: Frame,
    ticks: NumberTicks,
}

impl ValueAxis {
    /// An axis from `low`, rounded down, to `reach`; with marks at whole numbers only if `whole`.
    pub(crate) fn new(plot: Frame, low: f64, reach: Reach, whole: bool) -> ValueAxis {
        ValueAxis { plot, ticks: ticks_from(low, reach, (plot.height / ROW_PITCH) as u32, whole) }
    }

    /// An axis for these values with their margins, from zero, or from the lowest negative value, to `maximum`, or to a
    /// little above the highest value.
    pub(crate) fn over(plot: Frame, values: &[(f64, Option<f64>)], maximum: Option<f64>) -> ValueAxis {
        let finite = || values.iter().filter(|(value, _)| value.is_finite());
        let highest = finite().map(|&(value, margin)| span(value, margin).1).fold(0.0, f64::max);
        // A margin alone does not extend the axis below zero; its whisker is cut off there.
        let below = finite().filter(|(value, _)| *value < 0.0);
        let lowest = below.map(|&(value, margin)| span(value, margin).0).fold(0.0, f64::min);
        let maximum = maximum.filter(|maximum| maximum.is_finite() && *maximum > 0.0);
        let reach = maximum.map_or(Reach::AtLeast(highest), Reach::Exactly);
        ValueAxis::new(plot, lowest, reach, false)
    }

    /// A logarithmic axis for these positive values with their margins. A margin that reaches zero ends at the edge.
    pub(crate) fn logarithmic(plot: Frame, values: impl Iterator<Item = (f64, Option<f64>)>) -> ValueAxis {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for (value, margin) in values {
            let (below, above) = span(value, margin);
            low = low.min(if below > 0.0 { below } else { value });
            high = high.max(above);
        }
        let (low, high) = if low <= high { (low, high) } else { (1.0, 10.0) };
        ValueAxis { plot, ticks: log_ticks(low, high, (plot.height / ROW_PITCH) as u32, false) }
    }

    /// Position of `value` in pixels; values beyond the range are at the edge.
    pub(crate) fn y(&self, value: f64) -> f64 {
        // Zero and less have no logarithm.
        let value = if self.ticks.logarithmic { value.max(self.ticks.bottom) } else { value };
        self.plot.bottom() - self.ticks.share(value) * self.plot.height
    }

    /// Adds a mark at `value`, and removes marks that are too close to it.
    pub(crate) fn mark(&mut self, value: f64, label: String) {
        let y = self.y(value);
        let mut marks = std::mem::take(&mut self.ticks.marks);
        marks.retain(|(at, _)| (self.y(*at) - y).abs() > TEXT + 3.0);
        marks.push((value, label));
        self.ticks.marks = marks;
    }

    /// Draws grid lines, numbers, and `label` along the axis.
    pub(crate) fn draw(&self, svg: &mut Svg, label: &str) {
        self.draw_grid(svg);
        self.draw_numbers(svg);
        draw_y_label(svg, self.plot, label);
    }

    /// Draws a horizontal line through the plot for each mark.
    pub(crate) fn draw_grid(&self, svg: &mut Svg) {
        for (value, _) in &self.ticks.marks {
            let y = self.y(*value);
            svg.line("grid", (self.plot.left, y), (self.plot.right(), y));
        }
    }

    /// Draws the numbers on the left of the plot.
    pub(crate) fn draw_numbers(&self, svg: &mut Svg) {
        for (value, number) in &self.ticks.marks {
            svg.text("end", (self.plot.left - 8.0, self.y(*value) + 4.0), number);
        }
    }
}

/// Writes the label of the y axis along `plot`, at the left edge of the page.
pub(crate) fn draw_y_label(svg: &mut Svg, plot: Frame, label: &str) {
    let label = fit(label, TEXT, plot.height);
    svg.turned_text("middle", (MARGIN, plot.top + plot.height / 2.0), 90, &label);
}

/// Half the width of the ends of a whisker, in pixels.
const WHISKER: f64 = 3.5;

/// Draws the margin of a value as a line with two ends, if it has a margin.
pub(crate) fn draw_whisker(svg: &mut Svg, class: &str, axis: &ValueAxis, x: f64, value: (f64, Option<f64>)) {
    if usable(value.1).is_none() {
        return;
    }
    let (low, high) = span(value.0, value.1);
    let (left, right) = (number(x - WHISKER), number(x + WHISKER));
    let (x, bottom, top) = (number(x), number(axis.y(low)), number(axis.y(high)));
    svg.path(class, &format!("M{left} {top}H{right}M{x} {top}V{bottom}M{left} {bottom}H{right}"));
}

/// `12.3 ± 0.4`, or `12.3` without a margin.
pub(crate) fn with_margin(value: f64, margin: Option<f64>) -> String {
    usable(margin)
        .map_or_else(|| written(value), |margin| format!("{} ± {}", written(value), written(margin)))
}

/// `value` minus and plus its margin. A margin that is not finite and positive counts as zero.
fn span(value: f64, margin: Option<f64>) -> (f64, f64) {
    let margin = usable(margin).unwrap_or(0.0);
    (value - margin, value + margin)
}

/// The margin, if it is finite and positive.
fn usable(margin: Option<f64>) -> Option<f64> {
    margin.filter(|margin| margin.is_finite() && *margin > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLOT: Frame = Frame { left: 72.0, top: 0.0, width: 800.0, height: 300.0 };

    #[test]
    fn numbers_stay_on_the_axis() {
        let odd = [f64::MIN, -1.0, 0.0, f64::MIN_POSITIVE, 5.0, f64::MAX];
        for (low, high) in odd.into_iter().flat_map(|low| odd.map(|high| (low, high))) {
            for logarithmic in [false, true] {
                let axis = NumberAxis::new(PLOT, &[low, high], logarithmic);
                for number in odd.into_iter().chain([f64::INFINITY]) {
                    assert!((72.0..=872.0).contains(&axis.x(number)), "{number} on {axis:?}");
                }
            }
        }
        assert_eq!(NumberAxis::new(PLOT, &[5.0], false).x(5.0), 472.0);
        assert_eq!(NumberAxis::new(PLOT, &[4.0, 1.0, 16.0], true).x(4.0), 472.0);
    }
}
