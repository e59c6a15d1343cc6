//! Where the labels of a state diagram's arrows stand: beside their own arrow, near its middle, and on nothing else.
//! It relies on guessed text widths, which are generous. It never moves an arrow or a box.

use crate::shapes::{Point, direction};
use crate::state_routes::{Route, grown, holds, overlap};
use crate::svg::Frame;
use crate::theme::{TEXT, text_width};

/// The height of a label.
const HEIGHT: f64 = 15.0;
/// Between a label and its arrow, the nearer the better.
const GAPS: [f64; 3] = [4.0, 7.0, 10.0];
/// How far from every arrow a label stands, where it can.
const CLEARANCE: f64 = 3.0;
/// Another arrow that is nearer than this might be taken for the label's own.
const DOUBTFUL: f64 = 12.0;

/// What is bad about a place: the larger ones are avoided at any distance from the middle of the arrow.
const PRICE_OF_THING: f64 = 10_000.0;
const PRICE_OF_LINE: f64 = 500.0;
const PRICE_OF_DISTANCE: f64 = 100.0;
const PRICE_OF_DOUBT: f64 = 5.0;
const PRICE_OF_GAP: f64 = 2.0;

/// For each text, in the order of the routes that they belong to, its middle and the room it takes.
pub(crate) fn place_labels(
    texts: &[String],
    routes: &[Route],
    boxes: &[Frame],
    page: Frame,
) -> Vec<(Point, Frame)> {
    let mut placed: Vec<(Point, Frame)> = Vec::new();
    for (text, own) in texts.iter().zip(routes) {
        let size = (text_width(text, TEXT), HEIGHT);
        let taken: Vec<Frame> = boxes.iter().copied().chain(placed.iter().map(|&(_, frame)| frame)).collect();
        let price = |(middle, own_price): &(Point, f64)| {
            let frame = around(*middle, size);
            let things = taken.iter().filter(|other| overlap(&grown(frame, 1.0), other)).count() as f64;
            let lines = points_in(grown(frame, CLEARANCE), routes.iter());
            let doubts = points_in(grown(frame, DOUBTFUL), routes.iter().filter(|route| *route != own));
            let outside = if is_within(&frame, &page) { 0.0 } else { PRICE_OF_THING };
            outside + things * PRICE_OF_THING + lines * PRICE_OF_LINE + doubts * PRICE_OF_DOUBT + own_price
        };
        let best = candidates(own, size).into_iter().min_by(|a, b| price(a).total_cmp(&price(b)));
        let (middle, _) = best.unwrap_or(((0.0, 0.0), 0.0));
        placed.push((middle, around(middle, size)));
    }
    placed
}

/// How much of the routes runs through a frame, in points.
fn points_in<'a>(frame: Frame, routes: impl Iterator<Item = &'a Route>) -> f64 {
    routes.flat_map(|route| &route.points).filter(|&&point| holds(&frame, point)).count() as f64
}

/// Places on either side of the arrow, each with what it costs to be away from the arrow's middle.
fn candidates(route: &Route, size: (f64, f64)) -> Vec<(Point, f64)> {
    let mut places = Vec::new();
    let last = route.points.len().saturating_sub(1).max(1) as f64;
    for (index, near) in route.points.windows(3).enumerate() {
        let from_middle = ((index as f64 + 1.0) / last - 0.5).abs();
        let (point, (x, y)) = (near[1], direction(near[0], near[2]));
        for (side, gap) in [1.0, -1.0].into_iter().flat_map(|side| GAPS.map(|gap| (side, gap))) {
            let out = (side * y, -side * x);
            let reach = out.0.abs() * size.0 / 2.0 + out.1.abs() * size.1 / 2.0 + gap;
            let middle = (point.0 + out.0 * reach, point.1 + out.1 * reach);
            places.push((middle, from_middle * PRICE_OF_DISTANCE + gap * PRICE_OF_GAP));
        }
    }
    places
}

fn around(middle: Point, size: (f64, f64)) -> Frame {
    let (width, height) = size;
    Frame { left: middle.0 - width / 2.0, top: middle.1 - height / 2.0, width, height }
}

fn is_within(inner: &Frame, outer: &Frame) -> bool {
    inner.left >= outer.left
        && inner.right() <= outer.right()
        && inner.top >= outer.top
        && inner.bottom() <= outer.bottom()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state_routes::route;

    #[test]
    fn labels_stand_on_nothing_and_beside_their_own_arrow() {
        let frame = |left: f64, top: f64| Frame { left, top, width: 100.0, height: 40.0 };
        let boxes = [frame(0.0, 100.0), frame(300.0, 100.0), frame(300.0, 250.0)];
        let routes = route(&boxes, &[(0, 1), (1, 0), (1, 2), (0, 2), (1, 1)]);
        let texts = ["there", "and back", "down", "around", "again and again"].map(str::to_owned);
        let page = Frame { left: 0.0, top: 0.0, width: 960.0, height: 400.0 };
        let labels = place_labels(&texts, &routes, &boxes, page);
        for (index, (_, label)) in labels.iter().enumerate() {
            assert!(boxes.iter().all(|other| !overlap(label, other)), "{label:?}");
            assert!(labels[..index].iter().all(|(_, other)| !overlap(label, other)), "{label:?}");
            assert_eq!(points_in(*label, routes.iter()), 0.0);
            assert!(points_in(grown(*label, 12.0), [&routes[index]].into_iter()) > 0.0);
        }
    }
}
