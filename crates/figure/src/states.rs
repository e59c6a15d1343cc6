//! State diagrams: boxes on a grid, and curved arrows with labels. The caller determines the layout: the cell of each
//! state, the two ends of each arrow, and the position of its label. [`StateDiagram::overlaps`] finds collisions in a
//! layout.

use crate::header::{Entry, Swatch, draw_header};
use crate::svg::{Frame, HEAD_LENGTH, Point, Svg, arrow_head, at, direction, disc, rounded};
use crate::theme::{MARGIN, TEXT, WIDTH, fit, text_width};

/// A state diagram.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StateDiagram {
    /// Title above the diagram; not drawn if empty.
    pub title: String,
    /// The states, with unique names.
    pub states: Vec<StateNode>,
    /// The transitions; one that names an unknown state is left out.
    pub moves: Vec<StateEdge>,
}

/// A state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateNode {
    /// Text in the box; must be unique in the diagram.
    pub name: String,
    /// Whether the state is final: a double outline. All other states hold capacity: a filled box.
    pub over: bool,
    /// Whether it is the initial state: an arrow from a dot above leads to it.
    pub start: bool,
    /// Counted from the left, from 0. All columns have the same width.
    pub column: u8,
    /// Counted from the top, from 0.
    pub row: u8,
}

/// A transition from one state to another, or to itself.
#[derive(Debug, Clone, PartialEq)]
pub struct StateEdge {
    /// Name of the source state.
    pub from: String,
    /// Event that causes the transition.
    pub label: String,
    /// Name of the target state.
    pub to: String,
    /// Position at which the arrow leaves its source.
    pub leave: Port,
    /// Position at which it arrives at its target.
    pub arrive: Port,
    /// Position of the label along the arrow, from 0 to 1.
    pub label_at: f64,
}

/// A side of a box, and the distance from the middle of that side in pixels, to the right or downwards.
pub type Port = (Side, f64);

/// A side of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Side {
    Left,
    Right,
    Top,
    Bottom,
}

const BOX_HEIGHT: f64 = 42.0;
/// Distance from one row to the next, in pixels: enough for a label between two boxes.
const ROW_PITCH: f64 = 112.0;
/// Space above the first row and below the last, for the initial dot and for arrows, in pixels.
const END_ROOM: f64 = 34.0;
/// Space on either side of the name inside a box, in pixels.
const BOX_PADDING: f64 = 18.0;
/// Minimum space between two boxes of a row, for an arrow, in pixels.
const BOX_GAP: f64 = 40.0;
/// Corner radius of a box, in pixels.
const ROUNDNESS: f64 = 8.0;
/// Distance of the two outlines of a final state, in pixels.
const INSET: f64 = 3.0;
/// Distance of the initial dot from its box, in pixels.
const DOT_DISTANCE: f64 = 26.0;
const LABEL_HEIGHT: f64 = 16.0;
/// Distance of a control point from its end of the arrow, as a share of the way in that direction. 0.55 approximates a
/// quarter of an ellipse if the arrow leaves sideways and arrives from above.
const BEND: f64 = 0.55;
/// The same in pixels, for an arrow that leaves and arrives on the same side.
const SAME_SIDE_BEND: f64 = 54.0;

impl StateDiagram {
    /// Renders the diagram as an SVG file.
    pub fn to_svg(&self) -> String {
        let mut svg = Svg::default();
        svg.style(include_str!("css/states.css"));
        let top = draw_header(&mut svg, &self.title, "", &self.legend()) + END_ROOM;
        let (boxes, arrows) = self.layout(top);
        // Labels cover arrows, and boxes cover both.
        for arrow in &arrows {
            draw_arrow(&mut svg, arrow.curve);
        }
        for Arrow { edge, label, .. } in &arrows {
            // A background in the colour of the page, so that the arrow does not cross the label.
            svg.rect("page", *label);
            svg.text_in("move-label", *label, TEXT, &edge.label);
        }
        for (state, &frame) in self.states.iter().zip(&boxes) {
            draw_state(&mut svg, state, frame);
        }
        let bottom = boxes.iter().map(Frame::bottom).fold(top, f64::max);
        svg.finish(&self.title, &description(&arrows), bottom + END_ROOM + MARGIN)
    }

    /// Pairs of elements that overlap: labels, boxes and arrows, except a label and its own arrow. Empty for a readable
    /// layout.
    pub fn overlaps(&self) -> Vec<String> {
        let (boxes, arrows) = self.layout(0.0);
        let labels = arrows.iter().map(|arrow| (arrow.edge.label.as_str(), arrow.label));
        let names = self.states.iter().map(|state| state.name.as_str());
        let frames: Vec<(&str, Frame)> = labels.chain(names.zip(boxes)).collect();
        let mut found = Vec::new();
        for (index, (name, frame)) in frames.iter().enumerate() {
            let over = frames[..index].iter().filter(|(_, other)| overlap(frame, other));
            found.extend(over.map(|(other, _)| format!("{name} and {other}")));
            let others = arrows.iter().enumerate().filter(|&(arrow, _)| arrow != index);
            let under = others.filter(|(_, arrow)| arrow.inner_points().any(|point| overlap(frame, &point)));
            found.extend(
                under.map(|(_, Arrow { edge, .. })| format!("{name} and {} to {}", edge.from, edge.to)),
            );
        }
        found
    }

    /// The boxes of the states, and the arrows between known ones.
    fn layout(&self, top: f64) -> (Vec<Frame>, Vec<Arrow<'_>>) {
        let columns = self.states.iter().map(|state| f64::from(state.column) + 1.0).fold(1.0, f64::max);
        let pitch = (WIDTH - 2.0 * MARGIN) / columns;
        let widest = self.states.iter().map(|state| text_width(&state.name, TEXT)).fold(60.0, f64::max);
        let width = (widest + 2.0 * BOX_PADDING).min(pitch - BOX_GAP).max(20.0);
        let frame = |state: &StateNode| Frame {
            left: MARGIN + (f64::from(state.column) + 0.5) * pitch - width / 2.0,
            top: top + f64::from(state.row) * ROW_PITCH,
            width,
            height: BOX_HEIGHT,
        };
        let boxes: Vec<Frame> = self.states.iter().map(frame).collect();
        let find = |name: &str| boxes.get(self.states.iter().position(|state| state.name == name)?).copied();
        let arrow = |edge| Some(Arrow::new(edge, find(&edge.from)?, find(&edge.to)?));
        let arrows = self.moves.iter().filter_map(arrow).collect();
        (boxes, arrows)
    }

    fn legend(&self) -> Vec<Entry> {
        let kinds = [(false, "holds", "holds capacity"), (true, "over", "over")];
        let used = kinds.iter().filter(|(over, ..)| self.states.iter().any(|state| state.over == *over));
        let entry = |&(_, group, name): &(bool, &str, &str)| Entry {
            name: name.to_owned(),
            swatch: Swatch::Box(group.to_owned(), "state"),
        };
        used.map(entry).collect()
    }
}

fn description(arrows: &[Arrow<'_>]) -> String {
    let words = |Arrow { edge, .. }: &Arrow<'_>| format!("{}, {}: {}.", edge.from, edge.label, edge.to);
    arrows.iter().map(words).collect::<Vec<_>>().join(" ")
}

#[derive(Debug)]
struct Arrow<'a> {
    edge: &'a StateEdge,
    /// A cubic Bézier curve: begin, two control points, end.
    curve: [Point; 4],
    label: Frame,
}

impl Arrow<'_> {
    fn new(edge: &StateEdge, from: Frame, to: Frame) -> Arrow<'_> {
        let (leave, arrive) = (outwards(edge.leave.0), outwards(edge.arrive.0));
        let (begin, end) = (port(from, edge.leave), port(to, edge.arrive));
        let control = |point: Point, (x, y): Point| {
            let way = (x * (end.0 - begin.0) + y * (end.1 - begin.1)).abs();
            let reach = if leave == arrive { SAME_SIDE_BEND } else { BEND * way };
            (point.0 + x * reach, point.1 + y * reach)
        };
        let curve = [begin, control(begin, leave), control(end, arrive), end];
        let (width, height) = (text_width(&edge.label, TEXT) + 2.0, LABEL_HEIGHT);
        // The label of a loop is beside it, because it would cover the loop.
        let beside = if edge.from == edge.to { width / 2.0 + 2.0 } else { 0.0 };
        let (x, y) = along(&curve, edge.label_at);
        let (left, top) = (x + leave.0 * beside - width / 2.0, y + leave.1 * beside - height / 2.0);
        Arrow { edge, curve, label: Frame { left, top, width, height } }
    }

    /// Points on the curve, as frames of size zero.
    fn inner_points(&self) -> impl Iterator<Item = Frame> {
        let points = (1..64).map(|step| along(&self.curve, f64::from(step) / 64.0));
        points.map(|(left, top)| Frame { left, top, width: 0.0, height: 0.0 })
    }
}

fn outwards(side: Side) -> Point {
    match side {
        Side::Left => (-1.0, 0.0),
        Side::Right => (1.0, 0.0),
        Side::Top => (0.0, -1.0),
        Side::Bottom => (0.0, 1.0),
    }
}

fn port(frame: Frame, (side, shift): Port) -> Point {
    let ((x, y), middle) = (outwards(side), frame.middle());
    (middle.0 + x * frame.width / 2.0 + y.abs() * shift, middle.1 + y * frame.height / 2.0 + x.abs() * shift)
}

/// The point of a cubic Bézier curve at the parameter `share`.
fn along(curve: &[Point; 4], share: f64) -> Point {
    let (t, u) = (share, 1.0 - share);
    let weights = [u * u * u, 3.0 * u * u * t, 3.0 * u * t * t, t * t * t];
    let weighted = curve.iter().zip(weights);
    weighted.fold((0.0, 0.0), |sum, (point, weight)| (sum.0 + point.0 * weight, sum.1 + point.1 * weight))
}

fn overlap(one: &Frame, other: &Frame) -> bool {
    let across = one.left < other.right() && other.left < one.right();
    across && one.top < other.bottom() && other.top < one.bottom()
}

fn draw_arrow(svg: &mut Svg, [begin, leave, arrive, end]: [Point; 4]) {
    let (x, y) = direction(arrive, end);
    // The line ends under the head, because its end would blunt the tip.
    let neck = (end.0 - x * (HEAD_LENGTH - 1.0), end.1 - y * (HEAD_LENGTH - 1.0));
    svg.path("move", &format!("M{}C{} {} {}", at(begin), at(leave), at(arrive), at(neck)));
    svg.path("head", &arrow_head(arrive, end));
}

fn draw_state(svg: &mut Svg, state: &StateNode, frame: Frame) {
    if state.start {
        let tip = port(frame, (Side::Top, 0.0));
        let dot = (tip.0, tip.1 - DOT_DISTANCE);
        svg.path("head", &disc(dot, 5.0));
        draw_arrow(svg, [dot, dot, dot, tip]);
    }
    svg.open_group(if state.over { "over" } else { "holds" });
    svg.tooltip(&state.name);
    svg.path("state", &rounded(frame, ROUNDNESS));
    if state.over {
        svg.path("inner", &rounded(frame.shrunk(INSET), ROUNDNESS - INSET));
    }
    svg.text_in("state-name", frame, TEXT, &fit(&state.name, TEXT, frame.width - 8.0));
    svg.close_group();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: &str, label: &str, to: &str, leave: Port, arrive: Port) -> StateEdge {
        let [from, label, to] = [from, label, to].map(str::to_owned);
        StateEdge { from, label, to, leave, arrive, label_at: 0.5 }
    }

    fn diagram() -> StateDiagram {
        let state = |name: &str, over, column, row| StateNode {
            name: name.to_owned(),
            over,
            start: name == "off",
            column,
            row,
        };
        let states = vec![state("off", false, 0, 0), state("on", false, 1, 0), state("broken", true, 1, 1)];
        let moves = vec![
            edge("off", "press", "on", (Side::Right, -10.0), (Side::Left, -10.0)),
            edge("on", "press", "off", (Side::Left, 10.0), (Side::Right, 10.0)),
            edge("on", "burn out", "broken", (Side::Bottom, 0.0), (Side::Top, 0.0)),
            edge("on", "dim", "on", (Side::Right, -8.0), (Side::Right, 8.0)),
            edge("on", "vanish", "elsewhere", (Side::Top, 0.0), (Side::Top, 0.0)),
        ];
        StateDiagram { title: "Lights".to_owned(), states, moves }
    }

    #[test]
    fn every_move_between_known_states_has_an_arrow_and_a_label() {
        let svg = diagram().to_svg();
        let count = |what: &str| svg.matches(what).count();
        // One more arrow leads from the dot to the start.
        assert_eq!((count("class=\"move-label\""), count("<path class=\"move\"")), (4, 5));
        assert_eq!((count(">press</text>"), count(">burn out</text>"), count(">vanish</text>")), (2, 1, 0));
        assert!(
            svg.contains("<desc>off, press: on. on, press: off. on, burn out: broken. on, dim: on.</desc>")
        );
    }

    #[test]
    fn arrows_run_straight_between_facing_sides_and_loops_come_back() {
        let diagram = diagram();
        let (boxes, arrows) = diagram.layout(0.0);
        let y = BOX_HEIGHT / 2.0 - 10.0;
        assert!(arrows[0].curve.iter().all(|point| point.1 == y), "{:?}", arrows[0]);
        assert_eq!((arrows[0].curve[0].0, arrows[0].curve[3].0), (boxes[0].right(), boxes[1].left));
        let [begin, .., end] = arrows[3].curve;
        assert_eq!((begin.0, end.0), (boxes[1].right(), boxes[1].right()));
        assert!(arrows[3].label.left > along(&arrows[3].curve, 0.5).0);
    }

    #[test]
    fn overlaps_of_labels_boxes_and_arrows_are_found() {
        assert_eq!(diagram().overlaps(), Vec::<String>::new());
        let found = |change: fn(&mut StateDiagram)| {
            let mut changed = diagram();
            change(&mut changed);
            changed.overlaps()
        };
        assert_eq!(found(|it| it.moves[2].label_at = 0.0), ["on and burn out"]);
        let across_a_label = found(|it| (it.moves[0].arrive.1, it.moves[0].label_at) = (20.0, 0.2));
        assert_eq!(across_a_label, ["press and off to on"]);
        assert!(found(|it| it.states[2].row = 0).contains(&"broken and on".to_owned()));
    }
}
