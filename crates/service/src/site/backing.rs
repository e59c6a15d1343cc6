//! What is kept free for a reservation while its terms change: until the change is durable both what it had and what it
//! will have, so that whatever comes between, no job runs in room that is promised.

use bookahead_plan::{Capacity, Interval, Span, Time};

/// The least spans that cover both: at every instant as much as the larger of the two takes.
pub(super) fn both(one: &[Span], other: &[Span]) -> Vec<Span> {
    let all = || one.iter().chain(other);
    let mut edges: Vec<Time> = all().flat_map(|span| [span.interval.begin, span.interval.end]).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut covered: Vec<Span> = Vec::new();
    for pair in edges.windows(2) {
        let interval = Interval::new(pair[0], pair[1]);
        let capacity = taken(one, interval.begin).max(taken(other, interval.begin));
        match covered.last_mut() {
            Some(last) if last.capacity == capacity && last.interval.end == interval.begin => {
                last.interval.end = interval.end;
            }
            _ if capacity > Capacity::ZERO => covered.push(Span { interval, capacity }),
            _ => {}
        }
    }
    covered
}

/// How much spans take at an instant.
pub(super) fn taken(spans: &[Span], at: Time) -> Capacity {
    let then = spans.iter().filter(|span| span.interval.begin <= at && at < span.interval.end);
    Capacity(then.map(|span| span.capacity.0).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(begin: i64, end: i64, capacity: u32) -> Span {
        Span { interval: Interval::new(Time(begin), Time(end)), capacity: Capacity(capacity) }
    }

    #[test]
    fn until_a_change_is_durable_the_larger_of_both_is_kept_free() {
        assert_eq!(both(&[], &[span(0, 9, 4)]), [span(0, 9, 4)]);
        assert_eq!(both(&[span(0, 9, 4)], &[span(5, 12, 2)]), [span(0, 9, 4), span(9, 12, 2)]);
        assert_eq!(both(&[span(0, 2, 4)], &[span(5, 7, 4)]), [span(0, 2, 4), span(5, 7, 4)]);
        assert_eq!(both(&[span(0, 2, 1), span(2, 4, 3)], &[span(0, 4, 3)]), [span(0, 4, 3)]);
        assert_eq!(both(&[], &[]), []);
    }
}
