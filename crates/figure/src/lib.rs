//! Charts and diagrams as SVG. A picture is one self-contained file, byte for byte the same for the same values, and
//! legible in light and dark mode and with colour blindness. The crate depends only on the units of `bookahead_plan`.
//! It reads no clock and writes no file, and no input makes it panic.
//!
//! - [`Chart`]: quantities over time, one or more panels above one time axis
//! - [`Lines`]: quantities over a number, with margins of error; points of a paper; distributions
//! - [`Multiples`]: several [`Lines`] with the same axes, side by side
//! - [`Bars`]: quantities side by side in groups, with margins of error
//! - [`Heatmap`]: a table of numbers as coloured cells
//! - [`Gantt`]: jobs and reservations on the processors of a machine
//! - [`Sequence`]: messages between parties; also as plain text
//! - [`StateDiagram`]: states and the transitions between them
//! - [`Clock`]: the format of times, as time elapsed or as UTC dates

mod bars;
mod category_axis;
mod chart;
mod gantt;
mod header;
mod heatmap;
mod lanes;
mod lines;
mod multiples;
mod number_axis;
mod number_ticks;
mod sequence;
mod sequence_svg;
mod sequence_text;
mod states;
mod svg;
mod theme;
mod time_axis;

pub use bars::{BarSeries, BarValue, Bars, MAX_GROUPS};
pub use chart::{Chart, POINTS_PER_COLUMN, Panel, Series, Style};
pub use gantt::{Bar, BarKind, Gantt, MAX_BARS, MAX_RECTANGLES};
pub use heatmap::{Heatmap, MAX_COLUMNS, MAX_ROWS};
pub use lines::{Join, LinePoint, LineSeries, Lines, MAX_MARKERS};
pub use multiples::{MAX_PANELS, Multiples};
pub use sequence::{MAX_PARTIES, MAX_SEQUENCE_ROWS, MessageStyle, Row, Sequence};
pub use states::{Port, Side, StateDiagram, StateEdge, StateNode};
pub use time_axis::Clock;
