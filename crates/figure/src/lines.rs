//! Line charts over a number: lines with a marker at each point and whiskers for the margins of error. A series of more
//! than [`MAX_MARKERS`] points is a plain line. Series can also be points alone, for numbers that a paper prints, or
//! distributions.

use crate::chart::{path, thinned};
use crate::header::{Entry, LONE_MARKER, MARKER, Role, Swatch, draw_header, legend, marker, place};
use crate::number_axis::{NUMBER_AXIS_HEIGHT, NumberAxis, ValueAxis, draw_whisker, with_margin};
use crate::number_ticks::written;
use crate::svg::{Frame, Svg};
use crate::theme::{COLOURS, LEFT, PLOT_WIDTH, TEXT, fit};

/// Maximum number of points of a series that is drawn with markers and whiskers: more would hide the line.
pub const MAX_MARKERS: usize = 200;

/// A line chart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lines {
    /// Title above the plot; not drawn if empty.
    pub title: String,
    /// Label of the x axis, with the unit.
    pub x_label: String,
    /// Label of the y axis, with the unit.
    pub y_label: String,
    /// The series, drawn in this order.
    pub series: Vec<LineSeries>,
    /// Whether the x axis is logarithmic, with marks at powers of two if all x are such powers, and otherwise at 1, 2
    /// and 5 times powers of ten. Points whose x is not positive are then left out.
    pub x_log: bool,
    /// Whether the y axis is logarithmic, for values that differ by orders of magnitude. Points whose y is not positive
    /// are then left out, and `y_maximum` and `y_covers` do not apply.
    pub y_log: bool,
    /// Upper end of the y axis. Default: a little above the highest value. Higher values are drawn at the edge. The
    /// axis starts at zero, or below the lowest negative value.
    pub y_maximum: Option<f64>,
    /// The x axis covers at least this range, such as that of a published figure.
    pub x_covers: Option<(f64, f64)>,
    /// The y axis covers at least this range, unless `y_maximum` is lower.
    pub y_covers: Option<(f64, f64)>,
}

/// One quantity over a number.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LineSeries {
    /// Its name in the legend; series of the same name have the same colour and marker.
    pub name: String,
    /// Its points, in any order. Points that are not finite are left out.
    pub points: Vec<LinePoint>,
    /// Whether it is drawn dashed with hollow markers, for published values beside our own.
    pub dashed: bool,
    /// How its points are joined.
    pub join: Join,
}

/// How the points of a series are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Join {
    /// By straight lines, with a marker at each point.
    #[default]
    Lines,
    /// Not at all: markers only, for single values that a text gives.
    Points,
    /// By steps without markers: each value holds until the next point.
    Steps,
}

/// One value of a series.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LinePoint {
    /// Position on the x axis.
    pub x: f64,
    /// Position on the y axis.
    pub y: f64,
    /// Margin of error, up and down; drawn if it is finite and positive.
    pub margin: Option<f64>,
}

const PLOT_HEIGHT: f64 = 300.0;

impl Lines {
    /// Builds a chart with a linear x axis.
    pub fn new(
        title: impl Into<String>,
        x_label: impl Into<String>,
        y_label: impl Into<String>,
        series: Vec<LineSeries>,
    ) -> Lines {
        let (title, x_label, y_label) = (title.into(), x_label.into(), y_label.into());
        Lines { title, x_label, y_label, series, ..Lines::default() }
    }

    /// Renders the chart as an SVG file.
    pub fn to_svg(&self) -> String {
        let mut svg = Svg::default();
        let roles: Vec<Role<'_>> = self.series.iter().map(LineSeries::role).collect();
        let top = draw_header(&mut svg, &self.title, "", &line_legend(&self.series)) + 8.0;
        let plot = Frame { left: LEFT, top, width: PLOT_WIDTH, height: PLOT_HEIGHT };
        let axes = self.axes(plot, &self.series);
        // The grid before the curves, because later elements cover earlier ones.
        axes.0.draw_grid(&mut svg, plot);
        axes.1.draw(&mut svg, &self.y_label);
        axes.0.draw_labels(&mut svg, plot, &self.x_label);
        self.draw_series(&mut svg, plot, &axes, &self.series, &roles);
        svg.finish(&self.title, &self.description(&axes.0), plot.bottom() + NUMBER_AXIS_HEIGHT)
    }

    /// The axes of `plot` for all of the `series`.
    pub(crate) fn axes(&self, plot: Frame, series: &[LineSeries]) -> Axes {
        let drawn: Vec<LinePoint> = series.iter().flat_map(|series| series.drawn(self)).collect();
        let ends = |range: Option<(f64, f64)>| range.into_iter().flat_map(|(low, high)| [low, high]);
        let fits = |x: &f64| x.is_finite() && (*x > 0.0 || !self.x_log);
        let numbers: Vec<f64> =
            drawn.iter().map(|point| point.x).chain(ends(self.x_covers).filter(fits)).collect();
        let covered = ends(self.y_covers).map(|end| (end, None));
        let values: Vec<_> = drawn.iter().map(|point| (point.y, point.margin)).chain(covered).collect();
        let y = match self.y_log {
            true => ValueAxis::logarithmic(plot, drawn.iter().map(|point| (point.y, point.margin))),
            false => ValueAxis::over(plot, &values, self.y_maximum),
        };
        (NumberAxis::new(plot, &numbers, self.x_log), y)
    }

    /// Draws the zero line and the series; `roles` are all names of the picture.
    pub(crate) fn draw_series<'a>(
        &self,
        svg: &mut Svg,
        plot: Frame,
        axes: &Axes,
        series: impl IntoIterator<Item = &'a LineSeries>,
        roles: &[Role<'_>],
    ) {
        if !self.y_log {
            let zero = axes.1.y(0.0);
            svg.line("axis", (plot.left, zero), (plot.right(), zero));
        }
        for one in series {
            one.draw(svg, &one.drawn(self), axes, place(roles, one.role()));
        }
    }

    fn description(&self, numbers: &NumberAxis) -> String {
        let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        let (x, y) = (&self.x_label, &self.y_label);
        let scale = if self.y_log { " on a logarithmic scale" } else { "" };
        format!("{y}{scale} over {x}, {}: {}.", numbers.described(), names.join(", "))
    }
}

impl LineSeries {
    /// Builds a series with a solid line.
    pub fn new(name: impl Into<String>, points: Vec<LinePoint>) -> LineSeries {
        LineSeries { name: name.into(), points, ..LineSeries::default() }
    }

    /// Builds a series of single values from a paper: hollow markers without a line. With the name of a series of our
    /// own it has the same colour.
    pub fn published(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> LineSeries {
        let points = points.into_iter().map(|(x, y)| LinePoint { x, y, margin: None }).collect();
        LineSeries { dashed: true, join: Join::Points, ..LineSeries::new(name, points) }
    }

    /// Builds the cumulative distribution of values: at each value, the percentage of the values that are not above it.
    /// Values that are not finite are left out.
    pub fn distribution(name: impl Into<String>, values: &[f64]) -> LineSeries {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let percent = |count: usize| 100.0 * count as f64 / sorted.len() as f64;
        let mut points: Vec<LinePoint> = Vec::new();
        // The curve begins on the axis, at the lowest value.
        points.extend(sorted.first().map(|&x| LinePoint { x, y: 0.0, margin: None }));
        let mut count = 0;
        for equal in sorted.chunk_by(|a, b| a == b) {
            count += equal.len();
            points.extend(equal.first().map(|&x| LinePoint { x, y: percent(count), margin: None }));
        }
        LineSeries { join: Join::Steps, ..LineSeries::new(name, points) }
    }

    pub(crate) fn role(&self) -> Role<'_> {
        (&self.name, self.dashed)
    }

    /// The points that can be drawn, from left to right.
    fn drawn(&self, chart: &Lines) -> Vec<LinePoint> {
        let has_place = |number: f64, logarithmic: bool| number.is_finite() && (number > 0.0 || !logarithmic);
        let fits = |point: &&LinePoint| has_place(point.x, chart.x_log) && has_place(point.y, chart.y_log);
        let mut points: Vec<LinePoint> = self.points.iter().filter(fits).copied().collect();
        // A curve through unsorted points would run back and forth.
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points
    }

    fn draw(&self, svg: &mut Svg, points: &[LinePoint], axes: &Axes, index: usize) {
        if points.is_empty() {
            return;
        }
        let look = line_look(index, self.dashed);
        let radius = if self.join == Join::Points { LONE_MARKER } else { MARKER };
        let name = fit(&self.name, TEXT, PLOT_WIDTH);
        let at = |point: &LinePoint| (axes.0.x(point.x), axes.1.y(point.y));
        let places: Vec<(f64, f64)> = points.iter().map(at).collect();
        svg.open_group(&format!("series {look}"));
        svg.tooltip(&name);
        if self.join != Join::Points {
            svg.path(&format!("curve {look}"), &path(&thinned(&places), self.join == Join::Steps));
        }
        if self.join != Join::Steps && points.len() <= MAX_MARKERS {
            for (point, place) in points.iter().zip(places) {
                svg.open_group("point");
                svg.tooltip(&format!("{name}, {}: {}", written(point.x), with_margin(point.y, point.margin)));
                draw_whisker(svg, "whisker", &axes.1, place.0, (point.y, point.margin));
                svg.path(&format!("marker {look}"), &marker(index, place, radius));
                svg.close_group();
            }
        }
        svg.close_group();
    }
}

/// The axes of a plot.
pub(crate) type Axes = (NumberAxis, ValueAxis);

/// The legend of the series of a picture. A sample looks like the first series of its name.
pub(crate) fn line_legend(series: &[LineSeries]) -> Vec<Entry> {
    let roles: Vec<Role<'_>> = series.iter().map(LineSeries::role).collect();
    legend(&roles, |index, dashed| {
        let is_it = |one: &&LineSeries| one.dashed == dashed && place(&roles, one.role()) == index;
        let look = line_look(index, dashed);
        match series.iter().find(is_it).map_or(Join::Lines, |one| one.join) {
            Join::Lines => Swatch::Marked(look, index),
            Join::Points => Swatch::Marker(look, index),
            Join::Steps => Swatch::Line(format!("curve {look}")),
        }
    })
}

/// The CSS classes of the `index`th name. Colours repeat after seven names and markers after four, which have no common
/// factor, so that 28 names are distinct.
fn line_look(index: usize, dashed: bool) -> String {
    format!("colour{}{}", index % COLOURS, if dashed { " dash1 published" } else { "" })
}
