//! Bar charts: groups of bars, one bar per series in each group, with whiskers for the margins of error. At most
//! [`MAX_GROUPS`] groups are drawn; a note in the picture tells if there are more.

use crate::category_axis::CategoryAxis;
use crate::header::{Role, Swatch, draw_header, left_out, legend, place};
use crate::number_axis::{ValueAxis, draw_whisker, with_margin};
use crate::svg::{Frame, Svg};
use crate::theme::{COLOURS, DASHES, LEFT, PLOT_WIDTH, TEXT, fit};

/// Maximum number of groups: the bars of more would be too narrow to distinguish.
pub const MAX_GROUPS: usize = 100;

/// A bar chart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bars {
    /// Title above the plot; not drawn if empty.
    pub title: String,
    /// Label of the y axis, with the unit.
    pub y_label: String,
    /// Group names, from left to right.
    pub groups: Vec<String>,
    /// The series, from left to right in each group.
    pub series: Vec<BarSeries>,
}

/// One quantity, with a value in each group.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BarSeries {
    /// Its name in the legend; series of the same name have the same colour.
    pub name: String,
    /// One value per group, in the order of the groups. Values that are not finite are left out.
    pub values: Vec<Option<BarValue>>,
    /// Whether its bars are hollow, for published values beside our own.
    pub published: bool,
}

/// The height of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BarValue {
    /// Negative values extend below the zero line.
    pub value: f64,
    /// Margin of error, up and down; drawn if it is finite and positive.
    pub margin: Option<f64>,
}

const PLOT_HEIGHT: f64 = 300.0;
/// Share of its column that a group fills; the rest separates the groups.
const FILLED: f64 = 0.78;
/// Maximum width of a bar, in pixels.
const WIDEST: f64 = 44.0;
/// Space between the bars of a group, in pixels, if they are wide enough for it.
const SPACE: f64 = 3.0;
/// Minimum height of a bar, in pixels, so that zero differs from a missing value.
const LOWEST: f64 = 0.5;

/// The style sheet of published bars; only in pictures that have some.
const HOLLOW: &str = ".bookahead .published .column{fill-opacity:0;stroke-dasharray:4 2}\n";

impl Bars {
    /// Builds a bar chart.
    pub fn new(
        title: impl Into<String>,
        y_label: impl Into<String>,
        groups: Vec<String>,
        series: Vec<BarSeries>,
    ) -> Bars {
        Bars { title: title.into(), y_label: y_label.into(), groups, series }
    }

    /// Renders the chart as an SVG file.
    pub fn to_svg(&self) -> String {
        let mut svg = Svg::default();
        if self.series.iter().any(|series| series.published) {
            svg.style(HOLLOW);
        }
        let groups = &self.groups[..self.groups.len().min(MAX_GROUPS)];
        let roles: Vec<Role<'_>> = self.series.iter().map(BarSeries::role).collect();
        let note = left_out(&[("groups", groups.len(), self.groups.len())]);
        let swatch = |place, published| Swatch::Box(bar_look(place, published), "column");
        let top = draw_header(&mut svg, &self.title, &note, &legend(&roles, swatch)) + 8.0;
        let plot = Frame { left: LEFT, top, width: PLOT_WIDTH, height: PLOT_HEIGHT };
        let shown = self.series.iter().flat_map(|series| series.shown(groups.len()));
        let values: Vec<_> = shown.map(|(_, bar)| (bar.value, bar.margin)).collect();
        let axes = (CategoryAxis::new(plot, groups), ValueAxis::over(plot, &values, None));
        axes.1.draw(&mut svg, &self.y_label);
        for (index, series) in self.series.iter().enumerate() {
            let look = bar_look(place(&roles, series.role()), series.published);
            svg.open_group(&format!("series {look}"));
            for (group, bar) in series.shown(groups.len()) {
                let column = Column { left: self.left(&axes.0, group, index), width: self.width(&axes.0) };
                let name = fit(&format!("{}, {}", groups[group], series.in_words()), TEXT, PLOT_WIDTH);
                column.draw(&mut svg, &name, bar, &axes.1);
            }
            svg.close_group();
        }
        // Drawn after the bars, so that it is visible in front of them.
        let zero = axes.1.y(0.0);
        svg.line("axis", (plot.left, zero), (plot.right(), zero));
        axes.0.draw_labels(&mut svg, "");
        svg.finish(&self.title, &self.description(), plot.bottom() + axes.0.height(""))
    }

    /// The distance from a bar to the next one of its group.
    fn width(&self, columns: &CategoryAxis) -> f64 {
        (columns.pitch() * FILLED / self.series.len().max(1) as f64).min(WIDEST)
    }

    /// Left edge of the bar of the `index`th series.
    fn left(&self, columns: &CategoryAxis, group: usize, index: usize) -> f64 {
        columns.middle(group) + (index as f64 - self.series.len() as f64 / 2.0) * self.width(columns)
    }

    fn description(&self) -> String {
        let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        format!("{} of {}, each for {}.", self.y_label, names.join(", "), self.groups.join(", "))
    }
}

impl BarSeries {
    /// Builds a series.
    pub fn new(name: impl Into<String>, values: Vec<Option<BarValue>>) -> BarSeries {
        BarSeries { name: name.into(), values, published: false }
    }

    /// Builds a series of published values, without margins. With the name of a series of our own it has the same
    /// colour.
    pub fn published(name: impl Into<String>, values: impl IntoIterator<Item = Option<f64>>) -> BarSeries {
        let bar = |value: Option<f64>| value.map(|value| BarValue { value, margin: None });
        BarSeries { published: true, ..BarSeries::new(name, values.into_iter().map(bar).collect()) }
    }

    fn role(&self) -> Role<'_> {
        (&self.name, self.published)
    }

    fn in_words(&self) -> String {
        if self.published { format!("{} (published)", self.name) } else { self.name.clone() }
    }

    /// The values that can be drawn, each with its group.
    fn shown(&self, groups: usize) -> impl Iterator<Item = (usize, BarValue)> {
        let values = self.values.iter().take(groups).enumerate();
        values.filter_map(|(group, bar)| bar.filter(|bar| bar.value.is_finite()).map(|bar| (group, bar)))
    }
}

#[derive(Debug)]
struct Column {
    left: f64,
    width: f64,
}

impl Column {
    fn draw(&self, svg: &mut Svg, name: &str, bar: BarValue, axis: &ValueAxis) {
        let (zero, end) = (axis.y(0.0), axis.y(bar.value));
        let width = if self.width > 4.0 * SPACE { self.width - SPACE } else { self.width * 0.75 };
        let left = self.left + (self.width - width) / 2.0;
        let frame = Frame { left, top: zero.min(end), width, height: (zero - end).abs().max(LOWEST) };
        svg.open_group("value");
        svg.tooltip(&format!("{name}: {}", with_margin(bar.value, bar.margin)));
        svg.rect("column", frame);
        draw_whisker(svg, "whisker ink", axis, left + width / 2.0, (bar.value, bar.margin));
        svg.close_group();
    }
}

/// The CSS classes of the `index`th name: a colour, in a paler shade once all colours are used.
fn bar_look(index: usize, published: bool) -> String {
    let hollow = if published { " published" } else { "" };
    format!("colour{} faint{}{hollow}", index % COLOURS, index / COLOURS % DASHES)
}
