//! Quantities over time: one or more panels, one above the other, on one time axis.
//! It relies on the axes for geometry and on the curves to be small enough to draw. A series has the same
//! colour in every panel; values below zero are drawn as zero.

use crate::curve::{clipped, closed, path, thinned};
use crate::header::{Entry, Swatch, draw_header, look, names_of};
use crate::number_axis::ValueAxis;
use crate::svg::{Frame, Svg};
use crate::theme::{LEFT, PLOT_WIDTH, TEXT, fit};
use crate::time_axis::{Clock, TIME_AXIS_HEIGHT, TimeAxis, drawn_range};
use bookahead_plan::{Interval, Time};

/// Panels that share a time axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chart {
    /// What the picture shows.
    pub title: String,
    /// The panels, from top to bottom.
    pub panels: Vec<Panel>,
    /// The time to draw; without it, all that the series span.
    pub range: Option<Interval>,
    /// How the time axis is labelled.
    pub clock: Clock,
}

/// One plot of a chart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Panel {
    /// What the panel shows.
    pub title: String,
    /// What the y axis counts, with its unit.
    pub y_label: String,
    /// Where the y axis ends; without it, a little above the highest value. It always starts at zero.
    pub maximum: Option<f64>,
    /// The series, drawn in this order.
    pub series: Vec<Series>,
}

/// One quantity over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend; series of the same name have the same colour in all panels.
    pub name: String,
    /// How it is drawn.
    pub style: Style,
    /// Its values, in any order. Those that are not finite are left out.
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
    /// A chart of everything in `panels`, labelled with the time elapsed since its start.
    pub fn new(title: impl Into<String>, panels: Vec<Panel>) -> Chart {
        Chart { title: title.into(), panels, ..Chart::default() }
    }

    /// The picture, as the text of an SVG file.
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

    /// A legend only where some panel has series to tell apart.
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
    /// A panel whose y axis ends above its highest value.
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
    /// A series of these points.
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
