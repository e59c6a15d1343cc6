//! Arithmetic on what a reservation takes: a few spans without gaps, in order of time.

use bookahead_plan::{Capacity, Interval, Span, Time};

/// What lies before an instant.
pub(super) fn until(spans: &[Span], instant: Time) -> Vec<Span> {
    clipped(spans, Interval::new(Time::MIN, instant))
}

/// What lies at and after an instant.
pub(super) fn since(spans: &[Span], instant: Time) -> Vec<Span> {
    clipped(spans, Interval::new(instant, Time::MAX))
}

fn clipped(spans: &[Span], within: Interval) -> Vec<Span> {
    let clip = |span: &Span| {
        let Interval { begin, end } = span.interval;
        Span { interval: Interval::new(begin.max(within.begin), end.min(within.end)), ..*span }
    };
    spans.iter().map(clip).filter(|span| !span.interval.is_empty()).collect()
}

/// With no more than `keep` from an instant on.
pub(super) fn lowered(spans: &[Span], from: Time, keep: Capacity) -> Vec<Span> {
    let mut left = until(spans, from);
    let rest = since(spans, from).into_iter();
    let rest = rest.map(|span| Span { capacity: span.capacity.min(keep), ..span });
    rest.filter(|span| span.capacity > Capacity::ZERO).for_each(|span| append(&mut left, span));
    left
}

/// With one more at their end.
pub(super) fn extended(spans: &[Span], more: Span) -> Vec<Span> {
    let mut longer = spans.to_vec();
    append(&mut longer, more);
    longer
}

/// With so much less of each.
pub(super) fn less(spans: &[Span], missing: Capacity) -> Vec<Span> {
    let lowered = spans.iter().map(|span| {
        let capacity = Capacity(span.capacity.0.saturating_sub(missing.0));
        Span { capacity, ..*span }
    });
    lowered.filter(|span| span.capacity > Capacity::ZERO).collect()
}

/// The least spans that cover both: at every instant as much as the larger of the two takes.
pub fn both(one: &[Span], other: &[Span]) -> Vec<Span> {
    let all = || one.iter().chain(other);
    let mut edges: Vec<Time> = all().flat_map(|span| [span.interval.begin, span.interval.end]).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut covered = Vec::new();
    for pair in edges.windows(2) {
        let interval = Interval::new(pair[0], pair[1]);
        let capacity = taken(one, interval.begin).max(taken(other, interval.begin));
        if capacity > Capacity::ZERO {
            append(&mut covered, Span { interval, capacity });
        }
    }
    covered
}

/// How much spans take at an instant.
pub fn taken(spans: &[Span], at: Time) -> Capacity {
    let then = spans.iter().filter(|span| span.interval.begin <= at && at < span.interval.end);
    Capacity(then.map(|span| span.capacity.0).sum())
}

/// Capacity times time.
pub(super) fn area(spans: &[Span]) -> i128 {
    spans.iter().map(Span::area).sum()
}

/// Adds a span, as part of the last one where it merely goes on.
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
