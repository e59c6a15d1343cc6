//! Quantities over time: one or more panels above a common time axis. A series has the same colour in all panels;
//! values below zero are drawn as zero.
//!
//! A series is drawn as a path: sorted, clipped to the drawn time, and reduced to the resolution in pixels. No peak is
//! lost: of each pixel column the first, lowest, highest and last point are kept.

use crate::header::{Entry, Swatch, draw_header, look, names_of};
use crate::number_axis::ValueAxis;
use crate::svg::{Frame, Point, Svg, number};
use crate::theme::{LEFT, PLOT_WIDTH, TEXT, fit};
use crate::time_axis::{Clock, TIME_AXIS_HEIGHT, TimeAxis, drawn_range};
use bookahead_plan::{Interval, Time};

/// A chart of panels that share a time axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chart {
    /// Title above the panels; not drawn if empty.
    pub title: String,
    /// The panels, from top to bottom.
    pub panels: Vec<Panel>,
    /// The time to draw. Default: the range of all series.
    pub range: Option<Interval>,
    /// Origin and format of the labels of the time axis.
    pub clock: Clock,
}

/// One panel of a chart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Panel {
    /// Heading above the panel.
    pub title: String,
    /// Label of the y axis, with the unit.
    pub y_label: String,
    /// Upper end of the y axis. Default: a little above the highest value. The lower end is always zero.
    pub maximum: Option<f64>,
    /// The series, drawn in this order.
    pub series: Vec<Series>,
}

/// One quantity over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend; series of the same name have the same colour in all panels.
    pub name: String,
    /// Line or filled area.
    pub style: Style,
    /// Its values, in any order. Values that are not finite are left out.
    pub points: Vec<(Time, f64)>,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Each value holds until the next point; the last one ends the line.
    Step,
    /// Like [`Style::Step`], with the area below it filled.
    Area,
}

impl Chart {
    /// Builds a chart of the whole time range, labelled with the time elapsed since its start.
    pub fn new(title: impl Into<String>, panels: Vec<Panel>) -> Chart {
        Chart { title: title.into(), panels, ..Chart::default() }
    }

    /// Renders the chart as an SVG file.
    pub fn to_svg(&self) -> String {
        let mut svg = Svg::default();
        let names = names_of(self.all_series().map(|series| series.name.as_str()));
        let mut top = draw_header(&mut svg, &self.title, "", &self.legend(&names));
        let instants = self.all_series().flat_map(|series| series.points.iter().map(|&(at, _)| at));
        let axis = TimeAxis::new(drawn_range(self.range, instants), self.clock);
        let mut plot = Frame { left: LEFT, top, width: PLOT_WIDTH, height: 0.0 };
        for panel in &self.panels {
            plot = Frame { top: top + HEADING_HEIGHT, height: PANEL_HEIGHT, ..plot };
            panel.draw(&mut svg, plot, &axis, &names);
            top = plot.bottom() + PANEL_GAP;
        }
        axis.draw_labels(&mut svg, plot);
        svg.finish(&self.title, &self.description(&axis), plot.bottom() + TIME_AXIS_HEIGHT)
    }

    fn all_series(&self) -> impl Iterator<Item = &Series> {
        self.panels.iter().flat_map(|panel| &panel.series)
    }

    /// The legend; empty if no panel has more than one series.
    fn legend(&self, names: &[&str]) -> Vec<Entry> {
        if self.panels.iter().all(|panel| panel.series.len() < 2) {
            return Vec::new();
        }
        let entry = |(index, name): (usize, &&str)| Entry {
            name: (*name).to_owned(),
            swatch: Swatch::Line(format!("curve {}", look(index))),
        };
        names.iter().enumerate().map(entry).collect()
    }

    fn description(&self, axis: &TimeAxis) -> String {
        let range = axis.range();
        let mut text = format!("From {} to {}.", axis.written(range.begin), axis.written(range.end));
        for panel in &self.panels {
            let names: Vec<&str> = panel.series.iter().map(|series| series.name.as_str()).collect();
            text.push_str(&format!(" {} ({}): {}.", panel.title, panel.y_label, names.join(", ")));
        }
        text
    }
}

const HEADING_HEIGHT: f64 = 22.0;
const PANEL_HEIGHT: f64 = 180.0;
const PANEL_GAP: f64 = 20.0;

impl Panel {
    /// Builds a panel whose y axis ends above its highest value.
    pub fn new(title: impl Into<String>, y_label: impl Into<String>, series: Vec<Series>) -> Panel {
        Panel { title: title.into(), y_label: y_label.into(), maximum: None, series }
    }

    fn draw(&self, svg: &mut Svg, plot: Frame, time: &TimeAxis, names: &[&str]) {
        let shown: Vec<_> = self.series.iter().map(|s| clipped(&s.points, time.range())).collect();
        let heights: Vec<_> = shown.iter().flatten().map(|point| (point.1.max(0.0), None)).collect();
        let values = ValueAxis::over(plot, &heights, self.maximum);
        svg.text("heading", (plot.left, plot.top - 8.0), &fit(&self.title, TEXT * 1.05, plot.width));
        time.draw_grid(svg, plot);
        values.draw(svg, &self.y_label);
        for (series, points) in self.series.iter().zip(&shown) {
            let index = names.iter().position(|&name| name == series.name).unwrap_or(0);
            let points: Vec<_> = points.iter().map(|&(at, value)| (time.x(at), values.y(value))).collect();
            series.draw(svg, &thinned(&points), plot.bottom(), index);
        }
        svg.line("axis", (plot.left, plot.bottom()), (plot.right(), plot.bottom()));
    }
}

impl Series {
    /// Builds a series.
    pub fn new(name: impl Into<String>, style: Style, points: Vec<(Time, f64)>) -> Series {
        Series { name: name.into(), style, points }
    }

    fn draw(&self, svg: &mut Svg, points: &[(f64, f64)], base: f64, index: usize) {
        if points.is_empty() {
            return;
        }
        let curve = path(points, true);
        svg.open_group(&format!("series {}", look(index)));
        svg.tooltip(&fit(&self.name, TEXT, PLOT_WIDTH));
        if self.style == Style::Area {
            svg.path("area", &closed(&curve, points, base));
        }
        svg.path(&format!("curve {}", look(index)), &curve);
        svg.close_group();
    }
}

/// Maximum number of points of a series in one pixel column: first, lowest, highest and last. It bounds the size of a
/// picture by its width and number of series, whatever the number of points.
pub const POINTS_PER_COLUMN: usize = 4;

/// The points within `range`, sorted by time, with an added point at each edge that the series crosses. Points that are
/// not finite are left out.
pub(crate) fn clipped(points: &[(Time, f64)], range: Interval) -> Vec<(Time, f64)> {
    let mut sorted: Vec<_> = points.iter().copied().filter(|(_, value)| value.is_finite()).collect();
    sorted.sort_by_key(|&(at, _)| at);
    let first = sorted.partition_point(|&(at, _)| at < range.begin);
    let after = sorted.partition_point(|&(at, _)| at <= range.end);
    let mut shown = Vec::with_capacity(after - first + 2);
    shown.extend(edge(&sorted, first, range.begin));
    shown.extend_from_slice(&sorted[first..after]);
    shown.extend(edge(&sorted, after, range.end));
    shown
}

/// The value at the edge `at`, if the series has points on both sides of it; `next` is the first point beyond.
fn edge(sorted: &[(Time, f64)], next: usize, at: Time) -> Option<(Time, f64)> {
    let before = sorted[..next].last()?;
    (next < sorted.len()).then_some((at, before.1))
}

/// Keeps at most [`POINTS_PER_COLUMN`] points of each pixel column. The points must ascend in x.
pub(crate) fn thinned(points: &[Point]) -> Vec<Point> {
    points.chunk_by(|a, b| a.0.floor() == b.0.floor()).flat_map(kept_of_column).collect()
}

fn kept_of_column(column: &[Point]) -> Vec<Point> {
    if column.len() <= POINTS_PER_COLUMN {
        return column.to_vec();
    }
    let by_y = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
    let heights = || column.iter().map(|point| point.1).enumerate();
    let lowest = heights().min_by(by_y).map_or(0, |(index, _)| index);
    let highest = heights().max_by(by_y).map_or(0, |(index, _)| index);
    // In the order of the points, or the curve would run backwards.
    let mut kept = [0, lowest.min(highest), lowest.max(highest), column.len() - 1].to_vec();
    kept.dedup();
    kept.into_iter().map(|index| column[index]).collect()
}

/// The SVG path through the points: with horizontal and vertical lines if `stepped`, otherwise with straight lines.
pub(crate) fn path(points: &[Point], stepped: bool) -> String {
    let mut path = String::new();
    let mut before = (String::new(), String::new());
    for (index, &(x, y)) in points.iter().enumerate() {
        let (x, y) = (tenths(x), tenths(y));
        match stepped {
            _ if index == 0 => path.push_str(&format!("M{x} {y}")),
            // Points on a level line are skipped, so that it is a single command.
            true if y == before.1 && index + 1 < points.len() => continue,
            true => path.push_str(&step(&x, &y, &before)),
            false if x == before.0 && y == before.1 => {}
            false => path.push_str(&format!("L{x} {y}")),
        }
        before = (x, y);
    }
    if points.len() == 1 {
        path.push_str("h0"); // with round caps, a dot
    }
    path
}

fn step(x: &str, y: &str, before: &(String, String)) -> String {
    let across = if *x == before.0 { String::new() } else { format!("H{x}") };
    let up = if *y == before.1 { String::new() } else { format!("V{y}") };
    across + &up
}

/// Rounds to a tenth of a pixel, below which no difference is visible; that keeps paths short.
fn tenths(value: f64) -> String {
    number((value * 10.0).round() / 10.0)
}

/// The path around the area between a curve and the line at `base`.
pub(crate) fn closed(path: &str, points: &[Point], base: f64) -> String {
    match points.first() {
        Some(first) => format!("{path}V{}H{}Z", tenths(base), tenths(first.0)),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RANGE: Interval = Interval::new(Time(10), Time(20));

    #[test]
    fn series_are_cut_at_the_edges() {
        let points = [(Time(30), 4.0), (Time(0), 2.0), (Time(15), f64::NAN)];
        assert_eq!(clipped(&points, RANGE), [(Time(10), 2.0), (Time(20), 2.0)]);
        assert_eq!(clipped(&[(Time(15), 1.0)], RANGE), [(Time(15), 1.0)]);
        assert_eq!(clipped(&[(Time(25), 1.0)], RANGE), []);
        assert_eq!(clipped(&[], RANGE), []);
    }

    #[test]
    fn steps_are_level_until_the_next_point() {
        let points = [(0.0, 5.0), (1.0, 5.0), (2.0, 3.0), (4.0, 3.0)];
        assert_eq!(path(&points, true), "M0 5H2V3H4");
        assert_eq!(closed(&path(&points, true), &points, 9.0), "M0 5H2V3H4V9H0Z");
        assert_eq!(path(&points[..1], false), "M0 5h0");
        assert_eq!(path(&[], false), "");
    }

    proptest! {
        #![proptest_config(bookahead_tests::cases::cases(256))]

        #[test]
        fn thinning_keeps_the_extremes_of_every_column(
            mut points in proptest::collection::vec((0.0..20.0_f64, 0.0..100.0_f64), 0..400),
        ) {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let thin = thinned(&points);
            prop_assert!(thin.is_sorted_by(|a, b| a.0 <= b.0));
            for column in 0..20 {
                let of = |points: &[Point]| -> Vec<f64> {
                    points.iter().filter(|p| p.0.floor() == f64::from(column)).map(|p| p.1).collect()
                };
                let (all, kept) = (of(&points), of(&thin));
                prop_assert!(kept.len() <= POINTS_PER_COLUMN);
                prop_assert_eq!(kept.iter().copied().reduce(f64::min), all.iter().copied().reduce(f64::min));
                prop_assert_eq!(kept.iter().copied().reduce(f64::max), all.iter().copied().reduce(f64::max));
                prop_assert_eq!((kept.first(), kept.last()), (all.first(), all.last()));
            }
        }
    }
}
