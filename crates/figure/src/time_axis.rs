//! The time axis at the foot of a picture: which stretch of time is drawn, where an instant stands, and the
//! marks, labels and grid lines. It relies on the clock for words; it never draws outside its plot, for it
//! moves every instant into the drawn stretch.

use crate::clock::Clock;
use crate::svg::{Frame, Svg};
use crate::theme::{LEFT, PLOT_WIDTH};
use crate::time_ticks::{TimeTicks, time_ticks};
use bookahead_plan::{Interval, Seconds, Time};

/// The least distance between two labels, in pixels: enough for a day with its year.
const LABEL_PITCH: f64 = 90.0;

/// How much height the labels below the plot take.
pub(crate) const TIME_AXIS_HEIGHT: f64 = 62.0;

#[derive(Debug)]
pub(crate) struct TimeAxis {
    range: Interval,
    clock: Clock,
    ticks: TimeTicks,
}

impl TimeAxis {
    pub(crate) fn new(range: Interval, clock: Clock) -> TimeAxis {
        let ticks = time_ticks(range, clock, (PLOT_WIDTH / LABEL_PITCH) as u32);
        TimeAxis { range, clock, ticks }
    }

    pub(crate) fn range(&self) -> Interval {
        self.range
    }

    /// Where `instant` stands, in pixels; instants outside stand at the edge.
    pub(crate) fn x(&self, instant: Time) -> f64 {
        LEFT + self.share(instant) * PLOT_WIDTH
    }

    /// How much of the drawn time lies before `instant`: from 0 to 1.
    fn share(&self, instant: Time) -> f64 {
        let passed = i128::from(instant.0) - i128::from(self.range.begin.0);
        let length = i128::from(self.range.end.0) - i128::from(self.range.begin.0);
        (passed as f64 / length.max(1) as f64).clamp(0.0, 1.0)
    }

    /// The instant in full, in words.
    pub(crate) fn written(&self, instant: Time) -> String {
        self.clock.written(instant, self.range)
    }

    /// The lines through a plot, one for every mark.
    pub(crate) fn draw_grid(&self, svg: &mut Svg, plot: Frame) {
        for mark in &self.ticks.marks {
            let x = self.x(mark.at);
            svg.line("grid", (x, plot.top), (x, plot.bottom()));
        }
    }

    /// The base line, the labels and the caption below the last plot.
    pub(crate) fn draw_labels(&self, svg: &mut Svg, plot: Frame) {
        let y = plot.bottom();
        svg.line("axis", (plot.left, y), (plot.right(), y));
        for mark in &self.ticks.marks {
            let x = self.x(mark.at);
            svg.line("axis", (x, y), (x, y + 4.0));
            svg.text("middle", (x, y + 17.0), &mark.label);
            if let Some(context) = &mark.context {
                svg.text("middle heading", (x, y + 32.0), context);
            }
        }
        let has_context = self.ticks.marks.iter().any(|mark| mark.context.is_some());
        let drop = if has_context { 50.0 } else { 36.0 };
        svg.text("middle", (plot.left + plot.width / 2.0, y + drop), &self.ticks.caption);
    }
}

/// The stretch of time to draw: the one asked for, or else what the instants span, but never an empty one.
/// "Always" and "never" (the ends of [`Time`]) are no instants to make room for.
pub(crate) fn drawn_range(asked: Option<Interval>, instants: impl Iterator<Item = Time>) -> Interval {
    if let Some(range) = asked {
        return not_empty(range);
    }
    let known = instants.filter(|&instant| instant != Time::MIN && instant != Time::MAX);
    let spanned = known.fold(None, |span: Option<Interval>, instant| {
        let (begin, end) = span.map_or((instant, instant), |span| (span.begin, span.end));
        Some(Interval::new(begin.min(instant), end.max(instant)))
    });
    not_empty(spanned.unwrap_or(Interval::new(Time(0), Time(0))))
}

fn not_empty(range: Interval) -> Interval {
    if !range.is_empty() {
        return range;
    }
    let begin = range.begin.min(Time::MAX - Seconds(1));
    Interval::starting(begin, Seconds(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drawn_range_is_never_empty() {
        for instant in [Time(0), Time::MIN, Time::MAX, Time(7)] {
            assert!(!drawn_range(None, [instant].into_iter()).is_empty());
            assert!(!drawn_range(Some(Interval::new(instant, instant)), std::iter::empty()).is_empty());
        }
        let instants = [Time(9), Time::MAX, Time(3)].into_iter();
        assert_eq!(drawn_range(None, instants), Interval::new(Time(3), Time(9)));
    }

    #[test]
    fn instants_stay_on_the_axis() {
        let axis = TimeAxis::new(Interval::new(Time::MIN, Time::MAX), Clock::SinceStart);
        assert_eq!(axis.x(Time::MIN), LEFT);
        assert_eq!(axis.x(Time::MAX), LEFT + PLOT_WIDTH);
        let short = TimeAxis::new(Interval::new(Time(0), Time(10)), Clock::SinceStart);
        assert_eq!(short.x(Time::MIN), LEFT);
        assert_eq!(short.x(Time(5)), LEFT + PLOT_WIDTH / 2.0);
    }
}
