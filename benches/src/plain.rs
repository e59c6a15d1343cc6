//! Baseline of the profile benches: breakpoints in a sorted list, updated and searched linearly, as in a first
//! implementation.

use bookahead_plan::{Need, Span, Time};

/// Free capacity over time, in a list.
pub struct PlainProfile {
    /// Begin of a step and its free capacity; the last step has no end.
    steps: Vec<(i64, i64)>,
}

impl PlainProfile {
    /// A profile with all of `capacity` free from zero on.
    pub fn new(capacity: u32) -> PlainProfile {
        PlainProfile { steps: vec![(0, i64::from(capacity))] }
    }

    /// Occupies the span.
    pub fn add(&mut self, span: Span) {
        self.change(span, -i64::from(span.capacity.0));
    }

    /// Frees the span.
    pub fn remove(&mut self, span: Span) {
        self.change(span, i64::from(span.capacity.0));
    }

    fn change(&mut self, span: Span, by: i64) {
        let begin = self.split_at(span.interval.begin.0);
        let end = self.split_at(span.interval.end.0);
        self.steps[begin..end].iter_mut().for_each(|(_, free)| *free += by);
        for at in [end, begin] {
            if at > 0 && self.steps[at].1 == self.steps[at - 1].1 {
                self.steps.remove(at);
            }
        }
    }

    fn split_at(&mut self, time: i64) -> usize {
        let at = self.steps.partition_point(|&(begin, _)| begin < time);
        if self.steps.get(at).is_none_or(|&(begin, _)| begin != time) {
            let free = self.steps[at - 1].1;
            self.steps.insert(at, (time, free));
        }
        at
    }

    /// Earliest start at or after `from`.
    pub fn earliest_fit(&self, from: Time, need: Need) -> Option<Time> {
        let first = self.steps.partition_point(|&(begin, _)| begin <= from.0) - 1;
        let mut run = None;
        for &(begin, free) in &self.steps[first..] {
            if run.is_some_and(|run| run + need.length.0 <= begin) {
                break;
            }
            run = if free >= i64::from(need.capacity.0) { run.or(Some(begin.max(from.0))) } else { None };
        }
        run.map(Time)
    }
}
