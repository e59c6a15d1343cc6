//! The y axis of one plot: mostly from zero upwards, with its marks, labels and grid lines.
//! It relies on the marks being few; it never draws outside its plot, for it moves every value into the
//! drawn range.

use crate::number_ticks::{NumberTicks, Reach, ticks_from};
use crate::svg::{Frame, Svg};
use crate::theme::{MARGIN, TEXT, fit};

/// The least distance between two labels, in pixels.
pub(crate) const ROW_PITCH: f64 = 34.0;

#[derive(Debug)]
pub(crate) struct ValueAxis {
    plot: Frame,
    ticks: NumberTicks,
}

impl ValueAxis {
    pub(crate) fn new(plot: Frame, ticks: NumberTicks) -> ValueAxis {
        ValueAxis { plot, ticks }
    }

    /// An axis for these values with their margins: from zero, unless a value is below it, to `maximum` or
    /// else a little above the highest.
    pub(crate) fn over(plot: Frame, values: &[(f64, Option<f64>)], maximum: Option<f64>) -> ValueAxis {
        let finite = || values.iter().filter(|(value, _)| value.is_finite());
        let highest = finite().map(|&(value, margin)| span(value, margin).1).fold(0.0, f64::max);
        // A margin alone does not make the axis reach below zero: there, it is cut off.
        let below = finite().filter(|(value, _)| *value < 0.0);
        let lowest = below.map(|&(value, margin)| span(value, margin).0).fold(0.0, f64::min);
        let reach = reach_to(maximum, highest);
        ValueAxis::new(plot, ticks_from(lowest, reach, (plot.height / ROW_PITCH) as u32, false))
    }

    /// Where `value` stands, in pixels; values outside stand at the edge.
    pub(crate) fn y(&self, value: f64) -> f64 {
        self.plot.bottom() - self.ticks.share(value) * self.plot.height
    }

    /// Marks `value` too, in place of any mark that stands too close to it.
    pub(crate) fn mark(&mut self, value: f64, label: String) {
        let y = self.y(value);
        let mut marks = std::mem::take(&mut self.ticks.marks);
        marks.retain(|(at, _)| (self.y(*at) - y).abs() > TEXT + 3.0);
        marks.push((value, label));
        self.ticks.marks = marks;
    }

    /// Grid lines, numbers, and `label` along the axis.
    pub(crate) fn draw(&self, svg: &mut Svg, label: &str) {
        let Frame { left, top, height, .. } = self.plot;
        for (value, number) in &self.ticks.marks {
            let y = self.y(*value);
            svg.line("grid", (left, y), (self.plot.right(), y));
            svg.text("end", (left - 8.0, y + 4.0), number);
        }
        let label = fit(label, TEXT, height);
        svg.upright_text("middle", (MARGIN, top + height / 2.0), &label);
    }
}

/// Where an axis ends: at the `maximum` asked for, or else a little above the `highest` value.
pub(crate) fn reach_to(maximum: Option<f64>, highest: f64) -> Reach {
    match maximum {
        Some(maximum) if maximum.is_finite() && maximum > 0.0 => Reach::Exactly(maximum),
        _ => Reach::AtLeast(highest),
    }
}

/// From `value` less its margin to `value` and its margin. Only margins that are finite and positive count.
pub(crate) fn span(value: f64, margin: Option<f64>) -> (f64, f64) {
    let margin = usable(margin).unwrap_or(0.0);
    (value - margin, value + margin)
}

/// The margin, if it can be drawn.
pub(crate) fn usable(margin: Option<f64>) -> Option<f64> {
    margin.filter(|margin| margin.is_finite() && *margin > 0.0)
}
