//! The arithmetic of spans: a reservation takes a few of them, without gaps, by time.

use crate::clock::Moment;
use bookahead_plan::{Capacity, Interval, Span, Time};

/// The first second that has not begun: from then on capacity can be given back.
pub(super) fn rest_from(at: Moment) -> Time {
    Moment(at.0.saturating_add(999)).second()
}

/// The part of the spans before an instant.
pub(super) fn until(spans: &[Span], instant: Time) -> Vec<Span> {
    clipped(spans, Interval::new(Time::MIN, instant))
}

/// The part of the spans from an instant on.
pub(super) fn since(spans: &[Span], instant: Time) -> Vec<Span> {
    clipped(spans, Interval::new(instant, Time::MAX))
}

/// The part of the spans within an interval.
pub(super) fn clipped(spans: &[Span], within: Interval) -> Vec<Span> {
    let clip = |span: &Span| {
        let Interval { begin, end } = span.interval;
        Span { interval: Interval::new(begin.max(within.begin), end.min(within.end)), ..*span }
    };
    spans.iter().map(clip).filter(|span| !span.interval.is_empty()).collect()
}

/// The spans with at most `keep` from an instant on.
pub(super) fn lowered(spans: &[Span], from: Time, keep: Capacity) -> Vec<Span> {
    let mut left = until(spans, from);
    let rest = since(spans, from).into_iter();
    let rest = rest.map(|span| Span { capacity: span.capacity.min(keep), ..span });
    rest.filter(|span| span.capacity > Capacity::ZERO).for_each(|span| append(&mut left, span));
    left
}

/// The spans with one more at their end.
pub(super) fn extended(spans: &[Span], more: Span) -> Vec<Span> {
    let mut longer = spans.to_vec();
    append(&mut longer, more);
    longer
}

/// Each span with its capacity reduced by `missing`; empty ones are dropped.
pub fn less(spans: &[Span], missing: Capacity) -> Vec<Span> {
    let lowered = spans.iter().map(|span| {
        let capacity = Capacity(span.capacity.0.saturating_sub(missing.0));
        Span { capacity, ..*span }
    });
    lowered.filter(|span| span.capacity > Capacity::ZERO).collect()
}

/// The maximum of two lists of spans at every instant.
pub fn both(one: &[Span], other: &[Span]) -> Vec<Span> {
    combined(one, other, Ord::max)
}

/// What one list of spans takes more than the other at every instant.
pub(super) fn above(one: &[Span], other: &[Span]) -> Vec<Span> {
    combined(one, other, |one, other| Capacity(one.0.saturating_sub(other.0)))
}

fn combined(one: &[Span], other: &[Span], capacity: impl Fn(Capacity, Capacity) -> Capacity) -> Vec<Span> {
    let all = || one.iter().chain(other);
    let mut edges: Vec<Time> = all().flat_map(|span| [span.interval.begin, span.interval.end]).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut covered = Vec::new();
    for pair in edges.windows(2) {
        let interval = Interval::new(pair[0], pair[1]);
        let capacity = capacity(taken(one, interval.begin), taken(other, interval.begin));
        if capacity > Capacity::ZERO {
            append(&mut covered, Span { interval, capacity });
        }
    }
    covered
}

/// The capacity that spans take at an instant.
pub fn taken(spans: &[Span], at: Time) -> Capacity {
    let then = spans.iter().filter(|span| span.interval.begin <= at && at < span.interval.end);
    Capacity(then.map(|span| span.capacity.0).sum())
}

/// The largest difference between promised and kept capacity at any instant from `now` on.
pub fn shortfall(promised: &[Span], kept: &[Span], now: Time) -> u32 {
    // The difference changes only at edges, and the past does not count.
    let edges = promised.iter().chain(kept).flat_map(|span| [span.interval.begin, span.interval.end]);
    let short =
        edges.map(|edge| edge.max(now)).map(|at| taken(promised, at).0.saturating_sub(taken(kept, at).0));
    short.max().unwrap_or(0)
}

/// In capacity-seconds.
pub(super) fn area(spans: &[Span]) -> i128 {
    spans.iter().map(Span::area).sum()
}

/// Appends a span; merges it with the last one if that continues with the same capacity.
fn append(spans: &mut Vec<Span>, next: Span) {
    match spans.last_mut() {
        Some(last) if last.capacity == next.capacity && last.interval.end == next.interval.begin => {
            last.interval.end = next.interval.end;
        }
        _ => spans.push(next),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(list: &[(i64, i64, u32)]) -> Vec<Span> {
        let span = |&(begin, end, capacity): &(i64, i64, u32)| Span {
            interval: Interval::new(Time(begin), Time(end)),
            capacity: Capacity(capacity),
        };
        list.iter().map(span).collect()
    }

    #[test]
    fn what_covers_two_takes_as_much_as_the_larger_at_every_instant() {
        assert_eq!(both(&[], &spans(&[(0, 9, 4)])), spans(&[(0, 9, 4)]));
        assert_eq!(both(&spans(&[(0, 9, 4)]), &spans(&[(5, 12, 2)])), spans(&[(0, 9, 4), (9, 12, 2)]));
        assert_eq!(both(&spans(&[(0, 2, 4)]), &spans(&[(5, 7, 4)])), spans(&[(0, 2, 4), (5, 7, 4)]));
        assert_eq!(both(&spans(&[(0, 2, 1), (2, 4, 3)]), &spans(&[(0, 4, 3)])), spans(&[(0, 4, 3)]));
        assert_eq!(both(&[], &[]), []);
    }

    #[test]
    fn what_one_takes_above_the_other_ends_where_the_other_takes_as_much() {
        let all = spans(&[(0, 10, 4), (20, 30, 2)]);
        assert_eq!(above(&all, &[]), all);
        assert_eq!(
            above(&all, &spans(&[(2, 6, 1), (4, 25, 9)])),
            spans(&[(0, 2, 4), (2, 4, 3), (25, 30, 2)])
        );
        assert_eq!(above(&all, &all), []);
    }

    #[test]
    fn the_shortfall_is_the_most_that_is_kept_too_little_from_now_on() {
        let promised = spans(&[(10, 20, 4)]);
        let short = |kept: &[(i64, i64, u32)], now| shortfall(&promised, &spans(kept), Time(now));
        assert_eq!(short(&[(10, 20, 4)], 0), 0);
        assert_eq!(short(&[], 0), 4);
        assert_eq!(short(&[(10, 15, 4), (15, 20, 1)], 0), 3);
        assert_eq!(short(&[(12, 20, 4)], 12), 0, "the past does not count");
        assert_eq!(short(&[], 20), 0);
        assert_eq!(short(&[(0, 30, 9)], 0), 0);
    }

    #[test]
    fn giving_back_later_first_and_earlier_then_leaves_the_lower_of_both() {
        let whole = spans(&[(0, 10, 8)]);
        let later = lowered(&whole, Time(6), Capacity(3));
        assert_eq!(later, spans(&[(0, 6, 8), (6, 10, 3)]));
        assert_eq!(lowered(&later, Time(4), Capacity(5)), spans(&[(0, 4, 8), (4, 6, 5), (6, 10, 3)]));
        assert_eq!(lowered(&later, Time(4), Capacity(3)), spans(&[(0, 4, 8), (4, 10, 3)]));
        assert_eq!(lowered(&later, Time(4), Capacity(0)), spans(&[(0, 4, 8)]));
        assert_eq!(lowered(&later, Time(4), Capacity(9)), later);
        assert_eq!(less(&later, Capacity(3)), spans(&[(0, 6, 5)]));
        assert_eq!(area(&later), 48 + 12);
    }
}
