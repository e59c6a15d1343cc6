//! Shapes that diagrams share: boxes with round corners, heads of arrows, crosses; as the data of SVG paths.
//! It relies on its callers for sensible sizes. It never decides where a thing stands or how it is coloured.

use crate::svg::{Frame, number};

/// A point on the page, or a direction.
pub(crate) type Point = (f64, f64);

/// The outline of a box whose corners are rounded by `radius`, or by less where the box is small.
pub(crate) fn rounded(frame: Frame, radius: f64) -> String {
    let radius = radius.min(frame.width / 2.0).min(frame.height / 2.0).max(0.0);
    let (width, height) = (number(frame.width - 2.0 * radius), number(frame.height - 2.0 * radius));
    let (x, y, r) = (number(frame.left + radius), number(frame.top), number(radius));
    format!(
        "M{x} {y}h{width}a{r} {r} 0 0 1 {r} {r}v{height}a{r} {r} 0 0 1 -{r} {r}\
         h-{width}a{r} {r} 0 0 1 -{r} -{r}v-{height}a{r} {r} 0 0 1 {r} -{r}z"
    )
}

/// How long the head of an arrow is.
pub(crate) const HEAD_LENGTH: f64 = 8.0;
/// How far it reaches to either side.
const HEAD_REACH: f64 = 3.6;

/// The head of an arrow that comes from `from` and points at `tip`.
pub(crate) fn arrow_head(from: Point, tip: Point) -> String {
    let (x, y) = direction(from, tip);
    let base = (tip.0 - x * HEAD_LENGTH, tip.1 - y * HEAD_LENGTH);
    let corner = |side: f64| at((base.0 - side * y * HEAD_REACH, base.1 + side * x * HEAD_REACH));
    format!("M{}L{}L{}Z", at(tip), corner(1.0), corner(-1.0))
}

/// A cross on a point.
pub(crate) fn cross(middle: Point, reach: f64) -> String {
    let (x, y) = middle;
    let end = |dx: f64, dy: f64| at((x + dx * reach, y + dy * reach));
    format!("M{}L{}M{}L{}", end(-1.0, -1.0), end(1.0, 1.0), end(-1.0, 1.0), end(1.0, -1.0))
}

/// A disc around a point.
pub(crate) fn disc(middle: Point, radius: f64) -> String {
    let (left, r, width) = (at((middle.0 - radius, middle.1)), number(radius), number(2.0 * radius));
    format!("M{left}a{r} {r} 0 1 0 {width} 0a{r} {r} 0 1 0 -{width} 0Z")
}

/// A point as paths write it.
pub(crate) fn at(point: Point) -> String {
    format!("{} {}", number(point.0), number(point.1))
}

/// The direction from one point to another, of length one; downwards where they are the same.
pub(crate) fn direction(from: Point, to: Point) -> Point {
    let (x, y) = (to.0 - from.0, to.1 - from.1);
    let length = (x * x + y * y).sqrt();
    if length > 0.0 { (x / length, y / length) } else { (0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_at_its_tip_and_is_as_wide_to_either_side() {
        assert_eq!(arrow_head((0.0, 5.0), (20.0, 5.0)), "M20 5L12 8.6L12 1.4Z");
        assert_eq!(arrow_head((5.0, 5.0), (5.0, 5.0)), "M5 5L1.4 -3L8.6 -3Z");
    }

    #[test]
    fn corners_are_never_rounder_than_the_box_is_small() {
        let frame = Frame { left: 0.0, top: 0.0, width: 10.0, height: 4.0 };
        assert!(rounded(frame, 8.0).starts_with("M2 0h6a2 2"));
    }
}
