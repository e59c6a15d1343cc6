//! Ways for the arrows of a state diagram: curves from the side of one box to the side of another.
//! Each arrow takes the curve that is cheapest beside the curves of all others (short, straight, across no box and no
//! other arrow), in a few rounds, since a later arrow may be in the way of an earlier one; the same boxes and arrows give the same curves.
//! It never moves a box and knows nothing of what the arrows mean.

use crate::shapes::{Point, direction};
use crate::svg::Frame;

/// From one box to another, by their places.
pub(crate) type Link = (usize, usize);

/// The way of one arrow: a cubic curve, and points on it close enough for measuring.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Route {
    /// Begin, two controls, end.
    pub(crate) curve: [Point; 4],
    /// From begin to end, evenly in the curve's parameter.
    pub(crate) points: Vec<Point>,
}

/// How many straight pieces stand for a curve where it is measured.
const PIECES: usize = 24;
/// How much of its price an arrow pays for being near others, round by round. Early rounds are cheap, so that arrows
/// first take the ways they like best and then make room for one another, and not only the last one for the first.
const SHARES: [f64; 7] = [0.1, 0.3, 1.0, 1.0, 1.0, 1.0, 1.0];
/// The most tries, and how many links all tries look at together: many links get few tries.
const TRIES: usize = 16;
const LINKS_IN_ALL_TRIES: usize = 240;
/// The most ways that a link chooses from, the cheapest by themselves.
const WAYS: usize = 64;
/// How far a loop reaches out of its box.
const LOOP: f64 = 58.0;
/// Arrows that meet a box closer together than this look like one.
const PORT_GAP: f64 = 16.0;
/// How far other boxes are kept from.
const CLEARANCE: f64 = 8.0;

/// What is bad about a curve, in pixels of detour that would be put up with to avoid it.
const PRICE_OF_BOX: f64 = 400.0;
const PRICE_OF_CROSSING: f64 = 700.0;
const PRICE_OF_SHARED_PORT: f64 = 350.0;
const PRICE_OF_TURN: f64 = 50.0;
const PRICE_OF_OFFSET: f64 = 30.0;
const PRICE_OF_SKEW: f64 = 80.0;

/// A way for every link between known boxes: of several tries, each of which begins with another link, the cheapest.
pub(crate) fn route(boxes: &[Frame], links: &[Link]) -> Vec<Route> {
    let ways: Vec<Vec<Way>> = links.iter().map(|&link| ways(boxes, link)).collect();
    let mut best: Option<(f64, Vec<&Way>)> = None;
    let tries = TRIES.min(links.len()).min(LINKS_IN_ALL_TRIES / links.len().max(1)).max(1);
    for first in 0..tries {
        let chosen = settle(&ways, first);
        let price = total(&chosen);
        if best.as_ref().is_none_or(|(least, _)| price < *least) {
            best = Some((price, chosen));
        }
    }
    best.map(|(_, chosen)| chosen.into_iter().map(|way| way.route.clone()).collect()).unwrap_or_default()
}

/// A curve that a link could take, and its price were it alone.
#[derive(Debug)]
struct Way {
    price: f64,
    route: Route,
    bounds: Frame,
}

/// Every way of a link, the cheapest first.
fn ways(boxes: &[Frame], link: Link) -> Vec<Way> {
    let way = |(begin, end): (Port, Port)| {
        let route = Route::new(begin, end, link.0 == link.1);
        let skew = if is_skew(begin, end) { PRICE_OF_SKEW } else { 0.0 };
        let price = own_price(boxes, link, &route) + begin.price + end.price + skew;
        Way { price, bounds: route.bounds(), route }
    };
    let mut ways: Vec<Way> = port_pairs(boxes, link).into_iter().map(way).collect();
    ways.sort_by(|a, b| a.price.total_cmp(&b.price));
    ways.truncate(WAYS);
    ways
}

/// Lets every link choose, `first` first, until the rounds are over.
fn settle(ways: &[Vec<Way>], first: usize) -> Vec<&Way> {
    let mut chosen: Vec<Option<&Way>> = vec![None; ways.len()];
    for share in SHARES {
        let before = chosen.clone();
        for index in (first..ways.len()).chain(0..first.min(ways.len())) {
            chosen[index] = None;
            chosen[index] = cheapest(&ways[index], &chosen, share);
        }
        let same = |(one, other): (&Option<&Way>, &Option<&Way>)| match (one, other) {
            (Some(one), Some(other)) => std::ptr::eq(*one, *other),
            _ => false,
        };
        if share == 1.0 && chosen.iter().zip(&before).all(same) {
            break;
        }
    }
    chosen.into_iter().flatten().collect()
}

fn cheapest<'a>(ways: &'a [Way], others: &[Option<&Way>], share: f64) -> Option<&'a Way> {
    let mut best: Option<(f64, &Way)> = None;
    for way in ways {
        // Those that follow cost even more by themselves.
        if best.is_some_and(|(least, _)| way.price >= least) {
            break;
        }
        let mut price = way.price;
        for other in others.iter().flatten() {
            price += share * price_beside(way, other);
            if best.is_some_and(|(least, _)| price >= least) {
                break;
            }
        }
        if best.is_none_or(|(least, _)| price < least) {
            best = Some((price, way));
        }
    }
    best.map(|(_, way)| way)
}

fn total(chosen: &[&Way]) -> f64 {
    let alone: f64 = chosen.iter().map(|way| way.price).sum();
    let pairs = chosen
        .iter()
        .enumerate()
        .flat_map(|(index, one)| chosen[..index].iter().map(move |other| (one, other)));
    alone + pairs.map(|(one, other)| price_beside(one, other)).sum::<f64>()
}

/// Where an arrow can touch a box: a point on a side, and the way out from there.
#[derive(Debug, Clone, Copy)]
struct Port {
    at: Point,
    out: Point,
    price: f64,
}

/// Whether a curve between the ports is all but straight, which looks like a mistake.
fn is_skew(begin: Port, end: Port) -> bool {
    let faces = begin.out.0 + end.out.0 == 0.0 && begin.out.1 + end.out.1 == 0.0;
    let across = begin.out.1.abs() * (end.at.0 - begin.at.0) + begin.out.0.abs() * (end.at.1 - begin.at.1);
    faces && across != 0.0 && across.abs() < 2.0 * PORT_GAP
}

fn ports(frame: Frame) -> [Port; 12] {
    let middle = (frame.left + frame.width / 2.0, frame.top + frame.height / 2.0);
    let sides: [Point; 4] = [(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)];
    let (along_x, along_y) = (frame.width * 0.27, frame.height * 0.28);
    let offsets: [f64; 3] = [0.0, -1.0, 1.0];
    std::array::from_fn(|index| {
        let (out, offset) = (sides[index / 3], offsets[index % 3]);
        let x = middle.0 + out.0 * frame.width / 2.0 + offset * out.1.abs() * along_x;
        let y = middle.1 + out.1 * frame.height / 2.0 + offset * out.0.abs() * along_y;
        Port { at: (x, y), out, price: offset.abs() * PRICE_OF_OFFSET }
    })
}

/// All ways out of the one box and into the other. A loop comes back on the side that it left, or goes around a corner.
fn port_pairs(boxes: &[Frame], link: Link) -> Vec<(Port, Port)> {
    let (Some(&from), Some(&to)) = (boxes.get(link.0), boxes.get(link.1)) else { return Vec::new() };
    let into = ports(to);
    let pairs = ports(from).into_iter().flat_map(|begin| into.map(|end| (begin, end)));
    if link.0 == link.1 {
        let apart = |(begin, end): &(Port, Port)| {
            let apart = distance(begin.at, end.at);
            begin.price > 0.0 && end.price > 0.0 && PORT_GAP < apart && apart < from.width / 2.0
        };
        return pairs.filter(apart).collect();
    }
    pairs.collect()
}

impl Route {
    fn new(begin: Port, end: Port, is_loop: bool) -> Route {
        let (dx, dy) = ((end.at.0 - begin.at.0).abs(), (end.at.1 - begin.at.1).abs());
        let control = |port: Port| {
            let reach = if is_loop {
                LOOP
            } else {
                (0.6 * (port.out.0.abs() * dx + port.out.1.abs() * dy)).max(24.0)
            };
            (port.at.0 + port.out.0 * reach, port.at.1 + port.out.1 * reach)
        };
        let curve = [begin.at, control(begin), control(end), end.at];
        let points = (0..=PIECES).map(|piece| point_on(&curve, piece as f64 / PIECES as f64)).collect();
        Route { curve, points }
    }

    /// Its straight pieces.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (Point, Point)> {
        self.points.windows(2).map(|pair| (pair[0], pair[1]))
    }

    /// Fewer and longer pieces, good enough to see what crosses what.
    fn long_pieces(&self) -> impl Iterator<Item = (Point, Point)> {
        self.points.windows(3).step_by(2).map(|three| (three[0], three[2]))
    }

    fn bounds(&self) -> Frame {
        let low = |get: fn(&Point) -> f64| self.points.iter().map(get).fold(f64::INFINITY, f64::min);
        let high = |get: fn(&Point) -> f64| self.points.iter().map(get).fold(f64::NEG_INFINITY, f64::max);
        let (left, top) = (low(|point| point.0), low(|point| point.1));
        Frame { left, top, width: high(|point| point.0) - left, height: high(|point| point.1) - top }
    }
}

/// The point of a cubic curve at a parameter from 0 to 1.
fn point_on(curve: &[Point; 4], t: f64) -> Point {
    let u = 1.0 - t;
    let weights = [u * u * u, 3.0 * u * u * t, 3.0 * u * t * t, t * t * t];
    let sum = |get: fn(&Point) -> f64| -> f64 {
        curve.iter().zip(weights).map(|(point, weight)| get(point) * weight).sum()
    };
    (sum(|point| point.0), sum(|point| point.1))
}

/// Length, turns, and boxes on the way.
fn own_price(boxes: &[Frame], link: Link, route: &Route) -> f64 {
    let length: f64 = route.pieces().map(|(a, b)| distance(a, b)).sum();
    let directions: Vec<Point> = route.pieces().map(|(a, b)| direction(a, b)).collect();
    // Squared, so that one wide turn is better than two tight ones.
    let turns: f64 = directions.windows(2).map(|pair| distance(pair[0], pair[1]).powi(2)).sum();
    let hits = |(index, frame): (usize, &Frame)| {
        let own = index == link.0 || index == link.1;
        let kept = grown(*frame, if own { -0.5 } else { CLEARANCE });
        route.points.iter().filter(|&&point| holds(&kept, point)).count()
    };
    let hits: usize = boxes.iter().enumerate().map(hits).sum();
    length + PRICE_OF_TURN * turns * PIECES as f64 + PRICE_OF_BOX * hits as f64
}

/// Crossings, and ends that cannot be told apart.
fn price_beside(one: &Way, other: &Way) -> f64 {
    let [begin, _, _, end] = one.route.curve;
    let [first, _, _, last] = other.route.curve;
    let near = |&&(a, b): &&(Point, Point)| distance(a, b) < PORT_GAP;
    let shared = [(begin, first), (begin, last), (end, first), (end, last)].iter().filter(near).count();
    let mut price = PRICE_OF_SHARED_PORT * shared as f64;
    if overlap(&one.bounds, &other.bounds) {
        let crossings =
            one.route.long_pieces().flat_map(|one| other.route.long_pieces().map(move |two| (one, two)));
        price += PRICE_OF_CROSSING * crossings.filter(|&(one, two)| crosses(one, two)).count() as f64;
    }
    price
}

fn distance(a: Point, b: Point) -> f64 {
    let (x, y) = (a.0 - b.0, a.1 - b.1);
    (x * x + y * y).sqrt()
}

/// Whether two straight pieces cross or touch.
fn crosses(one: (Point, Point), two: (Point, Point)) -> bool {
    let side = |(a, b): (Point, Point), c: Point| (b.0 - a.0) * (c.1 - a.1) - (b.1 - a.1) * (c.0 - a.0);
    side(one, two.0) * side(one, two.1) <= 0.0
        && side(two, one.0) * side(two, one.1) <= 0.0
        && (side(one, two.0) != 0.0 || side(one, two.1) != 0.0)
}

/// The frame with `by` more on every side.
pub(crate) fn grown(frame: Frame, by: f64) -> Frame {
    let Frame { left, top, width, height } = frame;
    Frame { left: left - by, top: top - by, width: width + 2.0 * by, height: height + 2.0 * by }
}

/// Whether a point lies inside.
pub(crate) fn holds(frame: &Frame, point: Point) -> bool {
    frame.left <= point.0 && point.0 <= frame.right() && frame.top <= point.1 && point.1 <= frame.bottom()
}

/// Whether two frames have a point in common.
pub(crate) fn overlap(one: &Frame, other: &Frame) -> bool {
    one.left <= other.right()
        && other.left <= one.right()
        && one.top <= other.bottom()
        && other.top <= one.bottom()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(left: f64, top: f64) -> Frame {
        Frame { left, top, width: 100.0, height: 40.0 }
    }

    #[test]
    fn neighbours_are_joined_by_a_straight_line_and_two_arrows_stay_apart() {
        let boxes = [frame(0.0, 0.0), frame(300.0, 0.0)];
        let routes = route(&boxes, &[(0, 1)]);
        assert_eq!((routes[0].curve[0], routes[0].curve[3]), ((100.0, 20.0), (300.0, 20.0)));
        assert!(routes[0].points.iter().all(|point| (point.1 - 20.0).abs() < 1e-9));
        let [there, back] = &route(&boxes, &[(0, 1), (1, 0)])[..] else { panic!() };
        assert!(distance(there.curve[0], back.curve[3]) >= PORT_GAP, "{there:?} {back:?}");
        assert!(there.pieces().all(|one| back.pieces().all(|two| !crosses(one, two))));
    }

    #[test]
    fn an_arrow_goes_around_a_box_in_its_way() {
        let boxes = [frame(0.0, 0.0), frame(200.0, 0.0), frame(400.0, 0.0)];
        let around = &route(&boxes, &[(0, 2)])[0];
        assert!(around.points.iter().all(|&point| !holds(&boxes[1], point)), "{around:?}");
    }

    #[test]
    fn a_loop_leaves_its_box_and_comes_back_to_the_same_side() {
        let boxes = [frame(0.0, 0.0)];
        let [begin, _, _, end] = route(&boxes, &[(0, 0)])[0].curve;
        assert!(begin != end && (begin.0 == end.0 || begin.1 == end.1));
        assert_eq!(route(&boxes, &[(0, 7)]), []);
    }
}
