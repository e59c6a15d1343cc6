//! One series as a path: sorted, clipped to the drawn time, and no finer than the pixels it is drawn on.
//! It relies on the axes to place points. It never drops a peak: of every pixel column it keeps the first,
//! lowest, highest and last point.

use crate::svg::{Point, number};
use bookahead_plan::{Interval, Time};

/// The most points of one series that are drawn in one pixel column. With it the size of a picture is bounded
/// by its width and the number of its series, whatever the number of their points.
pub const POINTS_PER_COLUMN: usize = 4;

/// The points that show in `range`, in order of time, with a point at each edge where the series runs over
/// it. Points without a finite value are left out.
pub(crate) fn clipped(points: &[(Time, f64)], range: Interval) -> Vec<(Time, f64)> {
    let mut sorted: Vec<_> = points.iter().copied().filter(|(_, value)| value.is_finite()).collect();
    sorted.sort_by_key(|&(at, _)| at);
    let first = sorted.partition_point(|&(at, _)| at < range.begin);
    let after = sorted.partition_point(|&(at, _)| at <= range.end);
    let mut shown = Vec::with_capacity(after - first + 2);
    shown.extend(edge(&sorted, first, range.begin));
    shown.extend_from_slice(&sorted[first..after]);
    shown.extend(edge(&sorted, after, range.end));
    shown
}

/// The value at `at`, where the series comes from before it and goes on beyond it; `next` is the first point
/// beyond.
fn edge(sorted: &[(Time, f64)], next: usize, at: Time) -> Option<(Time, f64)> {
    let before = sorted[..next].last()?;
    (next < sorted.len()).then_some((at, before.1))
}

/// At most [`POINTS_PER_COLUMN`] of the points, which ascend in x, of every pixel column.
pub(crate) fn thinned(points: &[Point]) -> Vec<Point> {
    points.chunk_by(|a, b| a.0.floor() == b.0.floor()).flat_map(kept_of_column).collect()
}

fn kept_of_column(column: &[Point]) -> Vec<Point> {
    if column.len() <= POINTS_PER_COLUMN {
        return column.to_vec();
    }
    let by_y = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
    let heights = || column.iter().map(|point| point.1).enumerate();
    let lowest = heights().min_by(by_y).map_or(0, |(index, _)| index);
    let highest = heights().max_by(by_y).map_or(0, |(index, _)| index);
    let mut kept = [0, lowest.min(highest), lowest.max(highest), column.len() - 1].to_vec();
    kept.dedup();
    kept.into_iter().map(|index| column[index]).collect()
}

/// The path through the points: level until the next one if it is `stepped`, or else straight to it.
pub(crate) fn path(points: &[Point], stepped: bool) -> String {
    let mut path = String::new();
    let mut before = (String::new(), String::new());
    for (index, &(x, y)) in points.iter().enumerate() {
        let (x, y) = (tenths(x), tenths(y));
        match stepped {
            _ if index == 0 => path.push_str(&format!("M{x} {y}")),
            // A level stretch is one command however many points it has.
            true if y == before.1 && index + 1 < points.len() => continue,
            true => path.push_str(&step(&x, &y, &before)),
            false if x == before.0 && y == before.1 => {}
            false => path.push_str(&format!("L{x} {y}")),
        }
        before = (x, y);
    }
    if points.len() == 1 {
        path.push_str("h0"); // with round caps, a dot
    }
    path
}

fn step(x: &str, y: &str, before: &(String, String)) -> String {
    let across = if *x == before.0 { String::new() } else { format!("H{x}") };
    let up = if *y == before.1 { String::new() } else { format!("V{y}") };
    across + &up
}

/// A tenth of a pixel is as fine as a curve can be seen.
fn tenths(value: f64) -> String {
    number((value * 10.0).round() / 10.0)
}

/// The path around the area between a curve and the line at `base`.
pub(crate) fn closed(path: &str, points: &[Point], base: f64) -> String {
    match points.first() {
        Some(first) => format!("{path}V{}H{}Z", tenths(base), tenths(first.0)),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    const RANGE: Interval = Interval::new(Time(10), Time(20));

    #[test]
    fn series_are_cut_at_the_edges() {
        let points = [(Time(30), 4.0), (Time(0), 2.0), (Time(15), f64::NAN)];
        assert_eq!(clipped(&points, RANGE), [(Time(10), 2.0), (Time(20), 2.0)]);
        assert_eq!(clipped(&[(Time(15), 1.0)], RANGE), [(Time(15), 1.0)]);
        assert_eq!(clipped(&[(Time(25), 1.0)], RANGE), []);
        assert_eq!(clipped(&[], RANGE), []);
    }

    #[test]
    fn steps_are_level_until_the_next_point() {
        let points = [(0.0, 5.0), (1.0, 5.0), (2.0, 3.0), (4.0, 3.0)];
        assert_eq!(path(&points, true), "M0 5H2V3H4");
        assert_eq!(closed(&path(&points, true), &points, 9.0), "M0 5H2V3H4V9H0Z");
        assert_eq!(path(&points[..1], false), "M0 5h0");
        assert_eq!(path(&[], false), "");
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(2000), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn thinning_keeps_the_extremes_of_every_column(
            mut points in proptest::collection::vec((0.0..20.0_f64, 0.0..100.0_f64), 0..400),
        ) {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let thin = thinned(&points);
            prop_assert!(thin.is_sorted_by(|a, b| a.0 <= b.0));
            for column in 0..20 {
                let of = |points: &[Point]| -> Vec<f64> {
                    points.iter().filter(|p| p.0.floor() == f64::from(column)).map(|p| p.1).collect()
                };
                let (all, kept) = (of(&points), of(&thin));
                prop_assert!(kept.len() <= POINTS_PER_COLUMN);
                prop_assert_eq!(kept.iter().copied().reduce(f64::min), all.iter().copied().reduce(f64::min));
                prop_assert_eq!(kept.iter().copied().reduce(f64::max), all.iter().copied().reduce(f64::max));
                prop_assert_eq!((kept.first(), kept.last()), (all.first(), all.last()));
            }
        }
    }
}
