//! From the spans of a backing to the terms of reservations in a batch system, one for each: what is over is left out,
//! what lies at the same time is one, and what begins or ends between two steps of the batch system is widened to them,
//! so that what was promised always lies inside.

use bookahead_plan::{Capacity, Interval, Seconds, Span, Time};
use std::collections::BTreeMap;

/// What begins now begins a little later there: so much later is as good as now.
const A_LITTLE: Seconds = Seconds(5);

/// When it is, and how finely a batch system counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) time: Time,
    pub(super) step: Seconds,
}

impl Now {
    /// Whether the terms that are there do for those that are wanted. Of what has begun only the rest counts.
    pub(super) fn does_for(self, there: Span, wanted: Span) -> bool {
        let late = self.time + A_LITTLE.max(self.step);
        let begun = wanted.interval.begin <= self.time && there.interval.begin <= late;
        there.capacity == wanted.capacity
            && there.interval.end == wanted.interval.end
            && (begun || there.interval.begin == wanted.interval.begin)
    }

    /// Whether something will never be again.
    pub(super) fn is_over(self, interval: Interval) -> bool {
        interval.end <= self.time
    }
}

/// The terms that keep these spans free from now on, in order.
pub(super) fn of(spans: &[Span], now: Now) -> Vec<Span> {
    let real = |span: &&Span| !span.interval.is_empty() && span.capacity > Capacity::ZERO;
    let to_come = spans.iter().filter(real).filter(|span| !now.is_over(span.interval));
    let mut added: BTreeMap<Interval, u32> = BTreeMap::new();
    for span in to_come {
        let sum = added.entry(span.interval).or_default();
        *sum = sum.saturating_add(span.capacity.0);
    }
    let added = added.into_iter();
    let added: Vec<Span> = added.map(|(interval, sum)| Span { interval, capacity: Capacity(sum) }).collect();
    if now.step > Seconds(1) { widened(&added, now.step) } else { added }
}

/// In steps: in each as much as is taken at any instant inside it. Spans that follow each other within one step do not
/// add up there.
fn widened(spans: &[Span], step: Seconds) -> Vec<Span> {
    let times = spans.iter().flat_map(|span| [span.interval.begin, span.interval.end]);
    // Both around each: where more is taken for a part of a step, it is taken for that step and no longer.
    let mut edges: Vec<Time> = times.flat_map(|time| [floor(time, step), ceiling(time, step)]).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut wide: Vec<Span> = Vec::new();
    for edges in edges.windows(2) {
        let interval = Interval::new(edges[0], edges[1]);
        let capacity = most_taken(spans, interval);
        match wide.last_mut() {
            Some(last) if last.capacity == capacity && last.interval.end == interval.begin => {
                last.interval.end = interval.end;
            }
            _ if capacity > Capacity::ZERO => wide.push(Span { interval, capacity }),
            _ => {}
        }
    }
    wide
}

/// The most that is taken at an instant of an interval: more is taken only from where a span begins.
fn most_taken(spans: &[Span], within: Interval) -> Capacity {
    let begins = spans.iter().map(|span| span.interval.begin).filter(|begin| within.contains(*begin));
    let taken = |at: Time| {
        let then = spans.iter().filter(|span| span.interval.contains(at));
        then.fold(0_u32, |sum, span| sum.saturating_add(span.capacity.0))
    };
    Capacity(begins.chain([within.begin]).map(taken).max().unwrap_or(0))
}

fn floor(time: Time, step: Seconds) -> Time {
    Time(time.0.saturating_sub(time.0.rem_euclid(step.0)))
}

fn ceiling(time: Time, step: Seconds) -> Time {
    let down = floor(time, step);
    if down == time { time } else { down + step }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(begin: i64, end: i64, capacity: u32) -> Span {
        Span { interval: Interval::new(Time(begin), Time(end)), capacity: Capacity(capacity) }
    }

    fn now(time: i64, step: i64) -> Now {
        Now { time: Time(time), step: Seconds(step) }
    }

    #[test]
    fn spans_of_the_same_time_add_up_and_others_stay_apart() {
        let spans = [span(5, 9, 2), span(0, 9, 1), span(5, 9, 3), span(7, 7, 4), span(7, 8, 0)];
        assert_eq!(of(&spans, now(0, 1)), [span(0, 9, 1), span(5, 9, 5)]);
        let most = [span(0, 9, u32::MAX), span(0, 9, 1)];
        assert_eq!(of(&most, now(0, 1)), [span(0, 9, u32::MAX)]);
    }

    #[test]
    fn what_is_over_is_left_out_and_what_has_begun_stays() {
        assert_eq!(of(&[span(0, 10, 1), span(5, 11, 2)], now(10, 1)), [span(5, 11, 2)]);
    }

    #[test]
    fn what_is_widened_to_minutes_covers_what_was_asked_and_does_not_add_up_at_the_seams() {
        assert_eq!(of(&[span(61, 119, 3)], now(0, 60)), [span(60, 120, 3)]);
        assert_eq!(of(&[span(0, 90, 4), span(90, 240, 2)], now(0, 60)), [span(0, 120, 4), span(120, 240, 2)]);
        assert_eq!(of(&[span(0, 90, 2), span(90, 240, 4)], now(0, 60)), [span(0, 60, 2), span(60, 240, 4)]);
        assert_eq!(of(&[span(0, 70, 2), span(80, 130, 2)], now(0, 60)), [span(0, 180, 2)]);
        assert_eq!(of(&[span(0, 300, 1), span(70, 80, 3)], now(0, 60)).len(), 3);
        let far = [span(i64::MIN, i64::MAX, 1)];
        assert_eq!(of(&far, now(0, 60)).len(), 1);
    }

    #[test]
    fn of_what_has_begun_only_the_rest_counts() {
        assert!(now(10, 1).does_for(span(12, 20, 2), span(3, 20, 2)));
        assert!(now(10, 1).does_for(span(0, 20, 2), span(3, 20, 2)));
        assert!(!now(10, 1).does_for(span(16, 20, 2), span(3, 20, 2)));
        assert!(!now(10, 1).does_for(span(12, 20, 2), span(11, 20, 2)));
        assert!(!now(10, 1).does_for(span(3, 21, 2), span(3, 20, 2)));
        assert!(!now(10, 1).does_for(span(3, 20, 1), span(3, 20, 2)));
        assert!(now(10, 60).does_for(span(60, 120, 1), span(0, 120, 1)));
    }
}
