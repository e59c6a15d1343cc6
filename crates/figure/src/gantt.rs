//! Gantt charts: time to the right, processors upwards, one bar per job or reservation. Bars come without rows;
//! [`crate::lanes`] assigns them. At most [`MAX_BARS`] bars are drawn; a note in the picture tells if there are more.

use crate::header::{Entry, Swatch, draw_header};
use crate::lanes::{Block, assign};
use crate::number_axis::ValueAxis;
use crate::number_ticks::{Reach, short_count};
use crate::svg::{Frame, Svg, number};
use crate::theme::{HATCH, LEFT, PLOT_WIDTH, SMALL, fit, text_width};
use crate::time_axis::{Clock, TIME_AXIS_HEIGHT, TimeAxis, drawn_range};
use bookahead_plan::{Capacity, Interval, Span, Time};

/// Maximum number of bars: more cannot be distinguished and make the file slow to open. Those with the largest area are
/// kept.
pub const MAX_BARS: usize = 3_000;
/// Maximum number of rectangles. A bar on several separate groups of rows has several.
pub const MAX_RECTANGLES: usize = 20_000;

/// A schedule of one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Gantt {
    /// Title above the plot; not drawn if empty.
    pub title: String,
    /// Number of processors.
    pub machine: Capacity,
    /// Unit of the capacity. Default: "processors".
    pub unit: String,
    /// Jobs and reservations, in any order.
    pub bars: Vec<Bar>,
    /// The time to draw. Default: the range of all bars.
    pub range: Option<Interval>,
    /// Origin and format of the labels of the time axis.
    pub clock: Clock,
    /// Position of the line between past and future, if any.
    pub now: Option<Time>,
    /// The word above that line; `now` by default.
    pub now_label: String,
}

/// A number of processors held for an interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bar {
    /// An empty interval is not drawn.
    pub interval: Interval,
    /// Number of processors; zero is not drawn.
    pub capacity: Capacity,
    /// Name of the holder, drawn inside the bar if it fits, and always in the tooltip.
    pub label: String,
    /// Determines the style of the bar.
    pub kind: BarKind,
}

/// What a bar represents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BarKind {
    /// A job that is not delayed.
    Job,
    /// An advance reservation: hatched.
    Reservation,
    /// A job that starts later than it would without reservations.
    Delayed,
    /// Processors held tentatively, until a reservation is committed or released: a dashed outline.
    Held,
}

impl BarKind {
    const ALL: [BarKind; 4] = [BarKind::Job, BarKind::Delayed, BarKind::Reservation, BarKind::Held];

    /// CSS class and name in the legend.
    fn class_and_name(self) -> (&'static str, &'static str) {
        match self {
            BarKind::Job => ("job", "job"),
            BarKind::Reservation => ("reservation", "reservation"),
            BarKind::Delayed => ("delayed", "delayed job"),
            BarKind::Held => ("held", "tentative hold"),
        }
    }
}

const PLOT_HEIGHT: f64 = 400.0;
/// Space above the plot for the word at the line.
const NOW_HEIGHT: f64 = 16.0;

impl Gantt {
    /// Builds a chart of all bars, labelled with the time elapsed since its start.
    pub fn new(title: impl Into<String>, machine: Capacity, bars: Vec<Bar>) -> Gantt {
        let (range, clock, now) = (None, Clock::default(), None);
        let (unit, now_label) = ("processors".to_owned(), "now".to_owned());
        Gantt { title: title.into(), machine, unit, bars, range, clock, now, now_label }
    }

    /// Renders the chart as an SVG file.
    pub fn to_svg(&self) -> String {
        let time = TimeAxis::new(self.drawn_range(), self.clock);
        let placed = self.placed(&time);
        let drawn = largest(&placed, &time);
        let mut svg = Svg::default();
        svg.raw(HATCH);
        let note = self.note(&placed, drawn.len());
        let top = draw_header(&mut svg, &self.title, &note, &legend(&placed, self.machine)) + NOW_HEIGHT;
        let plot = Frame { left: LEFT, top, width: PLOT_WIDTH, height: PLOT_HEIGHT };
        let rows = self.row_axis(plot, &placed);
        time.draw_grid(&mut svg, plot);
        rows.draw(&mut svg, &self.unit);
        // Later elements cover earlier ones: grid, bars, the line of the machine, now, and the labels on top.
        let canvas = Canvas { time: &time, rows: &rows, machine: self.machine, unit: &self.unit };
        for &index in &drawn {
            canvas.draw_bar(&mut svg, index, &placed[index]);
        }
        self.draw_machine_line(&mut svg, plot, &rows);
        self.draw_now(&mut svg, plot, &time);
        for &index in &drawn {
            canvas.draw_label(&mut svg, &placed[index]);
        }
        time.draw_labels(&mut svg, plot);
        svg.finish(&self.title, &self.description(&placed, &time), plot.bottom() + TIME_AXIS_HEIGHT)
    }

    fn drawn_range(&self) -> Interval {
        let shown = self.bars.iter().filter(|bar| !bar.interval.is_empty());
        let ends = shown.flat_map(|bar| [bar.interval.begin, bar.interval.end]);
        drawn_range(self.range, ends.chain(self.now))
    }

    /// The bars within the drawn range, each with its rows.
    fn placed(&self, time: &TimeAxis) -> Vec<Placed<'_>> {
        let range = time.range();
        let shows = |bar: &&Bar| {
            let Interval { begin, end } = bar.interval;
            !bar.interval.is_empty() && bar.capacity.0 > 0 && begin < range.end && range.begin < end
        };
        let bars: Vec<&Bar> = self.bars.iter().filter(shows).collect();
        let spans: Vec<Span> =
            bars.iter().map(|bar| Span { interval: bar.interval, capacity: bar.capacity }).collect();
        let lanes = assign(&spans, self.machine.0);
        bars.into_iter().zip(lanes).map(|(bar, blocks)| Placed { bar, blocks }).collect()
    }

    /// From row 0 to the top of the machine, plus overbooked rows up to half the machine. More rows would only compress
    /// the chart; the note states the exact number.
    fn row_axis(&self, plot: Frame, placed: &[Placed<'_>]) -> ValueAxis {
        let machine = u64::from(self.machine.0);
        let beyond = rows_beyond(placed, self.machine).min((machine / 2).max(1));
        let reach = Reach::Exactly((machine + beyond) as f64);
        let mut axis = ValueAxis::new(plot, 0.0, reach, true);
        axis.mark(machine as f64, short_count(machine));
        axis
    }

    fn note(&self, placed: &[Placed<'_>], drawn: usize) -> String {
        let mut notes = Vec::new();
        if drawn < placed.len() {
            notes.push(format!("showing the largest {drawn} of {} jobs and reservations", placed.len()));
        }
        let excess = most_held(placed).saturating_sub(u64::from(self.machine.0));
        if excess > 0 {
            notes.push(format!("overbooked by up to {} {}", short_count(excess), self.unit));
        }
        notes.join("; ")
    }

    fn draw_machine_line(&self, svg: &mut Svg, plot: Frame, rows: &ValueAxis) {
        let y = rows.y(f64::from(self.machine.0));
        svg.line("axis", (plot.left, y), (plot.right(), y));
    }

    fn draw_now(&self, svg: &mut Svg, plot: Frame, time: &TimeAxis) {
        let range = time.range();
        if let Some(now) = self.now.filter(|&now| range.begin <= now && now <= range.end) {
            let x = time.x(now);
            svg.line("now", (x, plot.top - 2.0), (x, plot.bottom()));
            svg.text("middle heading", (x, plot.top - 6.0), &self.now_label);
        }
    }

    fn description(&self, placed: &[Placed<'_>], time: &TimeAxis) -> String {
        let Interval { begin, end } = time.range();
        let (begin, end) = (time.written(begin), time.written(end));
        let mut text = format!("{} {} from {begin} to {end}.", self.machine, self.unit);
        for kind in BarKind::ALL {
            let count = placed.iter().filter(|placed| placed.bar.kind == kind).count();
            if count > 0 {
                text.push_str(&format!(" {}: {count}.", kind.class_and_name().1));
            }
        }
        text
    }
}

/// A drawn bar and its rows.
#[derive(Debug)]
struct Placed<'a> {
    bar: &'a Bar,
    blocks: Vec<Block>,
}

impl Placed<'_> {
    /// Area of the bar within the drawn range, in pixel columns times processors.
    fn visible_area(&self, time: &TimeAxis) -> f64 {
        let width = time.x(self.bar.interval.end) - time.x(self.bar.interval.begin);
        width * f64::from(self.bar.capacity.0)
    }
}

/// The maximum number of processors held at one instant.
fn most_held(placed: &[Placed<'_>]) -> u64 {
    let mut changes: Vec<(Time, i64)> = Vec::with_capacity(2 * placed.len());
    for Placed { bar, .. } in placed {
        let capacity = i64::from(bar.capacity.0);
        changes.extend([(bar.interval.begin, capacity), (bar.interval.end, -capacity)]);
    }
    // Changes at one instant are sorted by sign, so that ends come before begins and adjacent bars do not overlap.
    changes.sort_unstable();
    let held = changes.into_iter().scan(0_i64, |held, (_, change)| {
        *held = held.saturating_add(change);
        Some(*held)
    });
    held.max().and_then(|most| u64::try_from(most).ok()).unwrap_or(0)
}

/// Number of rows above the machine that are used. Gaps between bars may make it larger than the overbooked capacity.
fn rows_beyond(placed: &[Placed<'_>], machine: Capacity) -> u64 {
    let highest = placed.iter().flat_map(|placed| &placed.blocks).map(Block::end).max();
    highest.unwrap_or(0).saturating_sub(u64::from(machine.0))
}

/// Indices of the bars to draw, ascending: all bars, or the largest ones if there are too many.
fn largest(placed: &[Placed<'_>], time: &TimeAxis) -> Vec<usize> {
    let mut ranked: Vec<(f64, usize)> =
        placed.iter().enumerate().map(|(index, placed)| (placed.visible_area(time), index)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut rectangles = 0;
    let within_bounds = |&(_, index): &(f64, usize)| {
        rectangles += placed[index].blocks.len();
        rectangles <= MAX_RECTANGLES
    };
    let kept = ranked.into_iter().take(MAX_BARS).take_while(within_bounds);
    let mut kept: Vec<usize> = kept.map(|(_, index)| index).collect();
    kept.sort_unstable();
    kept
}

fn legend(placed: &[Placed<'_>], machine: Capacity) -> Vec<Entry> {
    let used = |kind: &BarKind| placed.iter().any(|placed| placed.bar.kind == *kind);
    let entry = |kind: BarKind| {
        let (class, name) = kind.class_and_name();
        Entry { name: name.to_owned(), swatch: Swatch::Box(class.to_owned(), "bar") }
    };
    let mut entries: Vec<Entry> = BarKind::ALL.into_iter().filter(used).map(entry).collect();
    if rows_beyond(placed, machine) > 0 {
        entries
            .push(Entry { name: "overbooked".to_owned(), swatch: Swatch::Box("job".to_owned(), "bar over") });
    }
    entries
}

/// Rectangles narrower or lower than this, in pixels, have no outline, which would cover them.
const FINE: f64 = 4.0;
/// Minimum width and height of a rectangle, in pixels, so that the shortest job is visible.
const THINNEST: f64 = 0.4;
/// Maximum length of a label in a tooltip, in characters; it bounds the size of the file.
const TOOLTIP_LABEL: usize = 200;
/// Number of shades of jobs, so that adjacent bars differ.
const JOB_SHADES: usize = 3;

/// The parts of a chart that a bar needs for drawing.
#[derive(Debug)]
struct Canvas<'a> {
    time: &'a TimeAxis,
    rows: &'a ValueAxis,
    machine: Capacity,
    unit: &'a str,
}

impl Canvas<'_> {
    fn draw_bar(&self, svg: &mut Svg, index: usize, placed: &Placed<'_>) {
        let kind = placed.bar.kind;
        let shade = if kind == BarKind::Job { format!(" job{}", index % JOB_SHADES) } else { String::new() };
        svg.open_group(&format!("{}{shade}", kind.class_and_name().0));
        svg.tooltip(&self.tooltip(placed.bar));
        let (inside, beyond): (Vec<Block>, Vec<Block>) =
            placed.blocks.iter().partition(|block| block.first < u64::from(self.machine.0));
        self.draw_blocks(svg, "bar", placed.bar, &inside);
        self.draw_blocks(svg, "bar over", placed.bar, &beyond);
        svg.close_group();
    }

    fn draw_blocks(&self, svg: &mut Svg, class: &str, bar: &Bar, blocks: &[Block]) {
        let frames: Vec<Frame> = blocks.iter().filter_map(|&block| self.frame(bar, block)).collect();
        if frames.is_empty() {
            return;
        }
        let fine = frames.iter().any(|frame| frame.width < FINE || frame.height < FINE);
        let path: String = frames.into_iter().map(outline).collect();
        svg.path(&format!("{class}{}", if fine { " fine" } else { "" }), &path);
    }

    /// The rectangle of a block; None if it lies above the drawn rows.
    fn frame(&self, bar: &Bar, block: Block) -> Option<Frame> {
        let (left, right) = (self.time.x(bar.interval.begin), self.time.x(bar.interval.end));
        let (top, bottom) = (self.rows.y(block.end() as f64), self.rows.y(block.first as f64));
        let width = (right - left).max(THINNEST);
        (bottom > top).then_some(Frame { left, top, width, height: (bottom - top).max(THINNEST) })
    }

    /// Draws the label inside the largest rectangle of the bar, if it fits. Labels are drawn last, so that no line
    /// crosses them.
    fn draw_label(&self, svg: &mut Svg, placed: &Placed<'_>) {
        let inside = |block: &Block| block.first < u64::from(self.machine.0);
        let highest = placed.blocks.iter().max_by_key(|block| (inside(block), block.count));
        let Some(highest) = highest else { return };
        let Some(frame) = self.frame(placed.bar, *highest) else { return };
        let label = &placed.bar.label;
        let fits = frame.height >= SMALL + 3.0 && text_width(label, SMALL) + 6.0 <= frame.width;
        if fits && !label.is_empty() {
            svg.text_in(if inside(highest) { "label" } else { "label over" }, frame, SMALL, label);
        }
    }

    fn tooltip(&self, bar: &Bar) -> String {
        let Interval { begin, end } = bar.interval;
        let (begin, end) = (self.time.written(begin), self.time.written(end));
        let label = fit(&bar.label, 1.0, TOOLTIP_LABEL as f64);
        format!("{} {label}, {begin} to {end}, {}: {}", bar.kind.class_and_name().1, self.unit, bar.capacity)
    }
}

fn outline(frame: Frame) -> String {
    let (x, y) = (number(frame.left), number(frame.top));
    let (width, height) = (number(frame.width), number(frame.height));
    format!("M{x} {y}h{width}v{height}h-{width}z")
}
