//! The states of a thing and the moves between them: boxes on a grid of columns and rows that the caller chooses,
//! arrows that find their own ways, and labels where there is room. It relies on the routes to keep arrows off
//! boxes and off one another. It never draws more than [`MAX_STATES`] states and [`MAX_MOVES`] moves.

use crate::header::{Entry, Swatch, draw_header};
use crate::shapes::{HEAD_LENGTH, Point, arrow_head, at, direction, disc, rounded};
use crate::state_labels::place_labels;
use crate::state_routes::{Link, Route, grown, holds, route};
use crate::svg::{Frame, Svg};
use crate::theme::{MARGIN, TEXT, WIDTH, fit, text_width};

/// The most states drawn, the first ones.
pub const MAX_STATES: usize = 30;
/// The most moves drawn, the first ones.
pub const MAX_MOVES: usize = 60;

/// States and moves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateDiagram {
    /// What the picture shows.
    pub title: String,
    /// The states, each with a name of its own.
    pub states: Vec<StateNode>,
    /// The moves; one that names an unknown state is left out.
    pub moves: Vec<StateEdge>,
}

/// A state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateNode {
    /// What it is called.
    pub name: String,
    /// What it means for the thing to be in it.
    pub kind: StateKind,
    /// Whether a life begins here: a dot leads to it.
    pub start: bool,
    /// Where it stands, counted from the left; columns without a state take no room.
    pub column: u32,
    /// Where it stands, counted from the top; rows without a state take no room.
    pub row: u32,
}

/// What a state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateKind {
    /// Nothing special: a plain box.
    Normal,
    /// Capacity is held: a filled box.
    HoldsCapacity,
    /// A life ends here: a double outline.
    Over,
}

/// A move from one state to another, or back to the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateEdge {
    /// The name of a state.
    pub from: String,
    /// What happens.
    pub label: String,
    /// The name of a state.
    pub to: String,
}

const BOX_HEIGHT: f64 = 38.0;
const ROW_PITCH: f64 = 100.0;
/// Room above the first row and below the last, for the first dot and for loops.
const END_ROOM: f64 = 34.0;
/// Room beside the name inside a box.
const BOX_PADDING: f64 = 18.0;
/// Room between two boxes of one row, at least, for an arrow.
const BOX_GAP: f64 = 40.0;
/// The radius of a box's corners.
const ROUNDNESS: f64 = 8.0;
/// Between the two outlines of a state that is over.
const INSET: f64 = 3.0;
/// How far the dot of a start stands from its box.
const DOT_DISTANCE: f64 = 26.0;

/// The looks of states and moves, as a style sheet of its own.
const STATE_STYLE: &str = "\
<style>
.bookahead .state{fill:#fff;stroke:#57606a;stroke-width:1.4}
.bookahead .holds .state{fill:#d7e9f6;stroke:#0072b2}
.bookahead .over .state{fill:#f3f4f6}
.bookahead .inner{fill:none;stroke:#57606a;stroke-width:1}
.bookahead .state-name{font-weight:600;text-anchor:middle;fill:#1f2328}
.bookahead .move{fill:none;stroke:#57606a;stroke-width:1.3}
.bookahead .head{fill:#57606a}
.bookahead .move-label{text-anchor:middle;fill:#1f2328;stroke:#fff;stroke-width:3;stroke-linejoin:round;paint-order:stroke}
@media (prefers-color-scheme:dark){
.bookahead .state{fill:#0d1117;stroke:#9da7b3}
.bookahead .holds .state{fill:#123450;stroke:#4aa8e8}
.bookahead .over .state{fill:#1b2028}
.bookahead .inner{stroke:#9da7b3}
.bookahead .state-name{fill:#f0f3f6}
.bookahead .move{stroke:#9da7b3}
.bookahead .head{fill:#9da7b3}
.bookahead .move-label{fill:#f0f3f6;stroke:#0d1117}
}
</style>
";

impl StateDiagram {
    /// The picture, as the text of an SVG file.
    pub fn to_svg(&self) -> String {
        let mut svg = Svg::default();
        svg.raw(STATE_STYLE);
        let top = draw_header(&mut svg, &self.title, &self.note(), &self.legend()) + END_ROOM;
        let layout = self.layout(top);
        for route in &layout.routes {
            draw_arrow(&mut svg, route);
        }
        for (state, &frame) in self.states().iter().zip(&layout.boxes) {
            draw_state(&mut svg, state, frame);
            if state.start {
                draw_dot(&mut svg, frame, &layout.routes);
            }
        }
        for (label, (middle, _)) in &layout.labels {
            svg.text("move-label", (middle.0, middle.1 + TEXT * 0.35), label);
        }
        svg.finish(&self.title, &self.description(), layout.bottom + END_ROOM + MARGIN)
    }

    fn states(&self) -> &[StateNode] {
        &self.states[..self.states.len().min(MAX_STATES)]
    }

    /// The moves that are drawn, each with the places of its states.
    fn moves(&self) -> Vec<(Link, &StateEdge)> {
        let place = |name: &str| self.states().iter().position(|state| state.name == name);
        let link = |edge: &StateEdge| Some((place(&edge.from)?, place(&edge.to)?));
        let known = self.moves.iter().filter_map(|edge| Some((link(edge)?, edge)));
        known.take(MAX_MOVES).collect()
    }

    fn layout(&self, top: f64) -> Layout {
        let (boxes, bottom) = place_boxes(self.states(), top);
        let moves = self.moves();
        let links: Vec<Link> = moves.iter().map(|&(link, _)| link).collect();
        let routes = route(&boxes, &links);
        let texts: Vec<String> = moves.iter().map(|(_, edge)| fit(&edge.label, TEXT, WIDTH / 3.0)).collect();
        let page =
            Frame { left: 0.0, top: top - END_ROOM, width: WIDTH, height: bottom - top + 2.0 * END_ROOM };
        let places = place_labels(&texts, &routes, &boxes, page);
        let labels = texts.into_iter().zip(places).collect();
        Layout { boxes, routes, labels, bottom }
    }

    fn note(&self) -> String {
        let left_out = |what: &str, drawn: usize, all: usize| {
            (drawn < all).then(|| format!("showing the first {drawn} of {all} {what}"))
        };
        let states = left_out("states", self.states().len(), self.states.len());
        let moves = left_out("moves", self.moves().len(), self.moves.len());
        states.into_iter().chain(moves).collect::<Vec<_>>().join("; ")
    }

    fn legend(&self) -> Vec<Entry> {
        let kinds =
            [(StateKind::HoldsCapacity, "holds", "holds capacity"), (StateKind::Over, "over", "over")];
        let used = kinds.iter().filter(|(kind, _, _)| self.states().iter().any(|state| state.kind == *kind));
        let entry = |&(_, group, name)| Entry {
            name: String::from(name),
            swatch: Swatch::Box(String::from(group), "state"),
        };
        used.map(entry).collect()
    }

    fn description(&self) -> String {
        let moves = self.moves();
        let moves: Vec<String> =
            moves.iter().map(|(_, edge)| format!("{}, {}: {}.", edge.from, edge.label, edge.to)).collect();
        moves.join(" ")
    }
}

/// Where everything stands.
#[derive(Debug)]
struct Layout {
    boxes: Vec<Frame>,
    routes: Vec<Route>,
    /// Each with its middle and the room it takes.
    labels: Vec<(String, (Point, Frame))>,
    bottom: f64,
}

/// A box for each state, all of one size, and the y below them.
fn place_boxes(states: &[StateNode], top: f64) -> (Vec<Frame>, f64) {
    let columns = distinct(states.iter().map(|state| state.column));
    let rows = distinct(states.iter().map(|state| state.row));
    let pitch = (WIDTH - 2.0 * MARGIN) / columns.len().max(1) as f64;
    let widest = states.iter().map(|state| text_width(&state.name, TEXT)).fold(60.0, f64::max);
    let width = (widest + 2.0 * BOX_PADDING).min(pitch - BOX_GAP).max(20.0);
    let frame = |state: &StateNode| {
        let column = columns.partition_point(|&column| column < state.column) as f64;
        let row = rows.partition_point(|&row| row < state.row) as f64;
        let left = MARGIN + (column + 0.5) * pitch - width / 2.0;
        Frame { left, top: top + row * ROW_PITCH, width, height: BOX_HEIGHT }
    };
    let bottom = top + rows.len().saturating_sub(1) as f64 * ROW_PITCH + BOX_HEIGHT;
    (states.iter().map(frame).collect(), bottom)
}

/// The different values, in ascending order.
fn distinct(values: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut values: Vec<u32> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

fn draw_arrow(svg: &mut Svg, route: &Route) {
    let [begin, leave, arrive, end] = route.curve;
    let (x, y) = direction(arrive, end);
    // The line ends under the head, so that it does not blunt the tip.
    let neck = (end.0 - x * (HEAD_LENGTH - 1.0), end.1 - y * (HEAD_LENGTH - 1.0));
    svg.path("move", &format!("M{}C{} {} {}", at(begin), at(leave), at(arrive), at(neck)));
    svg.path("head", &arrow_head(arrive, end));
}

fn draw_state(svg: &mut Svg, state: &StateNode, frame: Frame) {
    let group = match state.kind {
        StateKind::Normal => "plain",
        StateKind::HoldsCapacity => "holds",
        StateKind::Over => "over",
    };
    svg.open_group(group);
    svg.tooltip(&state.name);
    svg.path("state", &rounded(frame, ROUNDNESS));
    if state.kind == StateKind::Over {
        svg.path("inner", &rounded(grown(frame, -INSET), ROUNDNESS - INSET));
    }
    let middle = (frame.left + frame.width / 2.0, frame.top + frame.height / 2.0 + TEXT * 0.35);
    svg.text("state-name", middle, &fit(&state.name, TEXT, frame.width - 8.0));
    svg.close_group();
}

/// The dot of a start, on the first side of the box that no arrow takes.
fn draw_dot(svg: &mut Svg, frame: Frame, routes: &[Route]) {
    let middle = (frame.left + frame.width / 2.0, frame.top + frame.height / 2.0);
    let ends = |out: &Point| {
        let tip = (middle.0 + out.0 * frame.width / 2.0, middle.1 + out.1 * frame.height / 2.0);
        (tip, (tip.0 + out.0 * DOT_DISTANCE, tip.1 + out.1 * DOT_DISTANCE))
    };
    let is_free = |out: &&Point| {
        let (tip, dot) = ends(out);
        let (left, top) = (tip.0.min(dot.0), tip.1.min(dot.1));
        let way = Frame { left, top, width: (tip.0 - dot.0).abs(), height: (tip.1 - dot.1).abs() };
        let around = grown(way, 8.0);
        !routes.iter().flat_map(|route| &route.points).any(|&point| holds(&around, point))
    };
    let sides = [(0.0, -1.0), (-1.0, 0.0), (1.0, 0.0), (0.0, 1.0)];
    let (tip, dot) = ends(sides.iter().find(is_free).unwrap_or(&sides[0]));
    let (x, y) = direction(dot, tip);
    let neck = (tip.0 - x * (HEAD_LENGTH - 1.0), tip.1 - y * (HEAD_LENGTH - 1.0));
    svg.path("head", &disc(dot, 5.0));
    svg.line("move", dot, neck);
    svg.path("head", &arrow_head(dot, tip));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagram() -> StateDiagram {
        let state = |name: &str, kind, column, row| StateNode {
            name: name.to_owned(),
            kind,
            start: (column, row) == (0, 0),
            column,
            row,
        };
        let edge = |from: &str, label: &str, to: &str| {
            let [from, label, to] = [from, label, to].map(str::to_owned);
            StateEdge { from, label, to }
        };
        StateDiagram {
            title: "Lights".to_owned(),
            states: vec![
                state("off", StateKind::Normal, 0, 0),
                state("on", StateKind::HoldsCapacity, 900, 0),
                state("broken", StateKind::Over, 900, 7),
            ],
            moves: vec![
                edge("off", "press", "on"),
                edge("on", "press", "off"),
                edge("on", "burn out", "broken"),
                edge("on", "dim", "elsewhere"),
            ],
        }
    }

    #[test]
    fn every_known_move_has_an_arrow_and_a_label() {
        let svg = diagram().to_svg();
        let count = |what: &str| svg.matches(what).count();
        assert_eq!((count("class=\"move-label\""), count("<path class=\"move\"")), (3, 3));
        assert_eq!((count(">press</text>"), count(">burn out</text>"), count(">dim</text>")), (2, 1, 0));
        assert!(svg.contains("<desc>off, press: on. on, press: off. on, burn out: broken.</desc>"), "{svg}");
        assert!(svg.contains("showing the first 3 of 4 moves"));
    }

    #[test]
    fn columns_and_rows_without_a_state_take_no_room() {
        let (boxes, bottom) = place_boxes(&diagram().states, 100.0);
        assert_eq!(boxes.iter().map(|frame| frame.top).collect::<Vec<_>>(), [100.0, 100.0, 200.0]);
        assert!(boxes[0].right() < boxes[1].left && boxes[1].left == boxes[2].left);
        assert_eq!(bottom, 200.0 + BOX_HEIGHT);
    }

    #[test]
    fn a_start_has_a_dot_and_what_is_over_a_double_outline() {
        let svg = diagram().to_svg();
        assert_eq!(
            (svg.matches("class=\"inner\"").count(), svg.matches("<line class=\"move\"").count()),
            (1, 1)
        );
        assert!(svg.contains(">holds capacity</text>") && svg.contains(">over</text>"));
    }
}
