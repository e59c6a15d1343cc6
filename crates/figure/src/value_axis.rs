//! The y axis of one plot: from zero upwards, with its marks, labels and grid lines.
//! It relies on the marks being few; it never draws outside its plot, for it moves every value into the
//! drawn range.

use crate::number_ticks::NumberTicks;
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

    /// Where `value` stands, in pixels; values outside stand at the edge.
    pub(crate) fn y(&self, value: f64) -> f64 {
        self.plot.bottom() - (value / self.ticks.top).clamp(0.0, 1.0) * self.plot.height
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
