//! One message of a sequence picture: its line, its head or the cross where it is lost, and its label.
//! It relies on the caller for both ends. It never writes a label wider than the level part of its line.

use crate::sequence::MessageStyle;
use crate::sequence_svg::class;
use crate::svg::{HEAD_LENGTH, Point, Svg, arrow_head, at, cross, number};
use crate::theme::{SMALL, fit, text_width};

/// A message to be drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrow<'a> {
    /// On the sender's life line.
    pub(crate) begin: Point,
    /// On the receiver's life line.
    pub(crate) end: Point,
    pub(crate) label: &'a str,
    pub(crate) style: MessageStyle,
    pub(crate) lost: bool,
    /// How far apart the life lines stand.
    pub(crate) pitch: f64,
}

impl Arrow<'_> {
    /// A lost message keeps the dashes of its style and has the colour of what is lost.
    fn class(&self) -> String {
        format!("{}{}", class(self.style), if self.lost { " lost" } else { "" })
    }
}

/// The size of labels.
const LABEL: f64 = SMALL + 1.0;
/// The most that the bend out of the sender's line takes.
const BEND: f64 = 34.0;
/// How far before the receiver a lost message ends, in lanes.
const SHORT_OF: f64 = 0.24;
/// Room between a label and what ends its line.
const LABEL_GAP: f64 = 5.0;

/// A message from one party to another.
pub(crate) fn draw_arrow(svg: &mut Svg, arrow: &Arrow<'_>) {
    let ((x, y), (target, level)) = (arrow.begin, arrow.end);
    let onward = if target < x { -1.0 } else { 1.0 };
    let bend = x + onward * BEND.min(arrow.pitch * 0.28);
    let stop = if arrow.lost { target - onward * SHORT_OF * arrow.pitch } else { target };
    let neck = if arrow.lost { stop } else { stop - onward * (HEAD_LENGTH - 1.0) };
    let out = (x + (bend - x) * 0.3, y + (level - y) * 0.6);
    let flat = (x + (bend - x) * 0.4, level);
    let line =
        format!("M{}C{} {} {}H{}", at(arrow.begin), at(out), at(flat), at((bend, level)), number(neck));
    let class = arrow.class();
    svg.path(&format!("message {class}"), &line);
    if arrow.lost {
        svg.path("cross lost", &cross((stop, level), 4.0));
    } else {
        svg.path(&format!("tip {class}"), &arrow_head((bend, level), (target, level)));
    }
    draw_label(svg, arrow, bend, stop - onward * if arrow.lost { 4.0 } else { HEAD_LENGTH });
}

/// The label above the level part of the line: between the last two life lines on its way where it fits there.
fn draw_label(svg: &mut Svg, arrow: &Arrow<'_>, bend: f64, stop: f64) {
    let target = arrow.end.0;
    let last_lane = if target < arrow.begin.0 { target + arrow.pitch } else { target - arrow.pitch };
    let is_far = (target - arrow.begin.0).abs() > 1.5 * arrow.pitch;
    let room = |from: f64| (stop - from).abs() - 2.0 * LABEL_GAP;
    let fits_at_the_end = is_far && text_width(arrow.label, LABEL) <= room(last_lane);
    let from = if fits_at_the_end { last_lane } else { bend };
    let label = fit(arrow.label, LABEL, room(from));
    svg.text("say centred", ((from + stop) / 2.0, arrow.end.1 - 4.0), &label);
}

/// A message of a party to itself: out to the right and back.
pub(crate) fn draw_self_arrow(svg: &mut Svg, arrow: &Arrow<'_>) {
    let ((x, y), (_, level)) = (arrow.begin, arrow.end);
    let far = x + BEND;
    let class = arrow.class();
    let neck = (x + HEAD_LENGTH - 1.0, level);
    let line = format!("M{}C{} {} {}", at((x, y)), at((far, y)), at((far, level)), at(neck));
    svg.path(&format!("message {class}"), &line);
    if arrow.lost {
        svg.path("cross lost", &cross(neck, 4.0));
    } else {
        svg.path(&format!("tip {class}"), &arrow_head((far, level), (x, level)));
    }
    let label = fit(arrow.label, LABEL, arrow.pitch - BEND);
    svg.text("say", (x + BEND * 0.8 + LABEL_GAP, (y + level) / 2.0 + 4.0), &label);
}
