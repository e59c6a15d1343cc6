//! Line charts over a number: lines with a marker at each point and whiskers for the margins of error. A series of more
//! than [`MAX_MARKERS`] points is a plain line.

use crate::chart::{path, thinned};
use crate::header::{Role, Swatch, draw_header, legend, marker, place};
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
    /// Upper end of the y axis. Default: a little above the highest value. Higher values are drawn at the edge. The
    /// axis starts at zero, or below the lowest negative value.
    pub y_maximum: Option<f64>,
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
        let swatch = |place, dashed| Swatch::Marked(line_look(place, dashed), place);
        let top = draw_header(&mut svg, &self.title, "", &legend(&roles, swatch)) + 8.0;
        let plot = Frame { left: LEFT, top, width: PLOT_WIDTH, height: PLOT_HEIGHT };
        let drawn: Vec<_> = self.series.iter().map(|series| series.drawn(self.x_log)).collect();
        let numbers: Vec<f64> = drawn.iter().flatten().map(|point| point.x).collect();
        let values: Vec<_> = drawn.iter().flatten().map(|point| (point.y, point.margin)).collect();
        let axes = (NumberAxis::new(&numbers, self.x_log), ValueAxis::over(plot, &values, self.y_maximum));
        // The grid before the curves, because later elements cover earlier ones.
        axes.0.draw_grid(&mut svg, plot);
        axes.1.draw(&mut svg, &self.y_label);
        axes.0.draw_labels(&mut svg, plot, &self.x_label);
        let zero = axes.1.y(0.0);
        svg.line("axis", (plot.left, zero), (plot.right(), zero));
        for (series, points) in self.series.iter().zip(&drawn) {
            series.draw(&mut svg, points, &axes, place(&roles, series.role()));
        }
        svg.finish(&self.title, &self.description(&axes.0), plot.bottom() + NUMBER_AXIS_HEIGHT)
    }

    fn description(&self, numbers: &NumberAxis) -> String {
        let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        let (x, y) = (&self.x_label, &self.y_label);
        format!("{y} over {x}, {}: {}.", numbers.described(), names.join(", "))
    }
}

impl LineSeries {
    /// Builds a series with a solid line.
    pub fn new(name: impl Into<String>, points: Vec<LinePoint>) -> LineSeries {
        LineSeries { name: name.into(), points, dashed: false }
    }

    fn role(&self) -> Role<'_> {
        (&self.name, self.dashed)
    }

    /// The points that can be drawn, from left to right.
    fn drawn(&self, logarithmic: bool) -> Vec<LinePoint> {
        let fits = |point: &&LinePoint| {
            point.x.is_finite() && point.y.is_finite() && (point.x > 0.0 || !logarithmic)
        };
        let mut points: Vec<LinePoint> = self.points.iter().filter(fits).copied().collect();
        // A curve through unsorted points would run back and forth.
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points
    }

    fn draw(&self, svg: &mut Svg, points: &[LinePoint], axes: &(NumberAxis, ValueAxis), index: usize) {
        if points.is_empty() {
            return;
        }
        let look = line_look(index, self.dashed);
        let name = fit(&self.name, TEXT, PLOT_WIDTH);
        let at = |point: &LinePoint| (axes.0.x(point.x), axes.1.y(point.y));
        let places: Vec<(f64, f64)> = points.iter().map(at).collect();
        svg.open_group(&format!("series {look}"));
        svg.tooltip(&name);
        svg.path(&format!("curve {look}"), &path(&thinned(&places), false));
        if points.len() <= MAX_MARKERS {
            for (point, place) in points.iter().zip(places) {
                svg.open_group("point");
                svg.tooltip(&format!("{name}, {}: {}", written(point.x), with_margin(point.y, point.margin)));
                draw_whisker(svg, "whisker", &axes.1, place.0, (point.y, point.margin));
                svg.path(&format!("marker {look}"), &marker(index, place));
                svg.close_group();
            }
        }
        svg.close_group();
    }
}

/// The CSS classes of the `index`th name. Colours repeat after seven names and markers after four, which have no common
/// factor, so that 28 names are distinct.
fn line_look(index: usize, dashed: bool) -> String {
    format!("colour{}{}", index % COLOURS, if dashed { " dash1 published" } else { "" })
}
