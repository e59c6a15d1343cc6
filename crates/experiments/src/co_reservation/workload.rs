//! The requests: who comes when, and wants what. A function of the seed: the same sub-jobs come at every share and every
//! load, only closer together or further apart, and a request that is seen at a small share is seen at every larger one.

use super::setup::{Choices, DURATIONS, Order, PROCESSORS};
use bookahead_plan::{Capacity, Seconds, Time, placement};
use bookahead_protocol::{Constraint, Objective, Part, Request};
use bookahead_workload::streams::Stream;

/// The kind of all resources.
pub(super) const KIND: &str = "processors";

/// A request, and when it comes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    /// When it comes.
    pub(super) submit: Time,
    /// What is wanted.
    pub(super) request: Request,
    /// From 0 to 1: it goes through the evaluated broker where the share is above this.
    chance: f64,
}

impl Asked {
    /// Whether it goes through the evaluated broker where `share` in a hundred do.
    pub(super) fn is_seen(&self, share: u32) -> bool {
        self.chance < f64::from(share) / 100.0
    }
}

/// When the machines are full and measuring begins; in a short run, after a third of it.
pub(super) fn measured_from(choices: &Choices, drawn: &[Asked]) -> Time {
    let third = drawn.get(drawn.len() / 3).map_or(Time(0), |asked| asked.submit);
    third.min(Time(0) + choices.warm_up())
}

/// Draws so many requests, that come every `inter_arrival` slots on average; `who` names them.
pub(super) fn draw(choices: &Choices, who: &str, count: usize, inter_arrival: f64, seed: u64) -> Vec<Asked> {
    let stream = |what: &str| Stream::new(seed, &format!("co-reservation/{who}/{what}"));
    let (mut gaps, mut chances, mut ahead) = (stream("gaps"), stream("chances"), stream("book-ahead"));
    let mut parts = stream("parts");
    let mut now = 0.0;
    (0..count)
        .map(|_| {
            now += gaps.exponential(inter_arrival);
            let submit = Time(now as i64);
            // What is held must begin after the second in which it is asked for.
            let earliest = submit + Seconds(1 + ahead.exponential(choices.book_ahead) as i64);
            Asked { submit, request: request(choices, earliest, &mut parts), chance: chances.unit() }
        })
        .collect()
}

fn request(choices: &Choices, earliest: Time, stream: &mut Stream) -> Request {
    let count = stream.whole(choices.parts.0, choices.parts.1);
    let mut begin = earliest;
    let mut parts = Vec::new();
    for _ in 0..count {
        let duration = Seconds(stream.whole(DURATIONS.0, DURATIONS.1));
        let capacity = Capacity(stream.whole(PROCESSORS.0, PROCESSORS.1) as u32);
        let latest_end = begin + choices.window + duration;
        let wanted = placement::Request { earliest_start: begin, latest_end, duration, capacity };
        parts.push(Part { wanted, kind: KIND.into(), requirements: Vec::new(), resource: None });
        if choices.order == Order::OneAfterTheOther {
            begin = begin + duration;
        }
    }
    let constraint = |second: usize| {
        let first = second - 1;
        match choices.order {
            Order::Together => Constraint::Offset { first, second, by: Seconds::ZERO },
            Order::OneAfterTheOther => Constraint::After { first, second, least: Seconds::ZERO, most: None },
        }
    };
    let constraints = (1..parts.len()).map(constraint).collect();
    Request { parts, constraints, objective: Objective::EarliestEnd }
}

#[cfg(test)]
mod tests {
    use super::super::setup::{CHOICES, FULL, sets};
    use super::*;

    #[test]
    fn draws_lie_within_the_paper_s_bounds_and_reach_them() {
        for (_, choices) in sets() {
            let asked = draw(&choices, "test", 20_000, 20.0, 1);
            let parts = || asked.iter().flat_map(|asked| &asked.request.parts).map(|part| part.wanted);
            let durations = parts().map(|wanted| wanted.duration.0);
            assert_eq!((durations.clone().min(), durations.max()), (Some(1_250), Some(3_750)));
            let processors = parts().map(|wanted| wanted.capacity.0);
            assert_eq!((processors.clone().min(), processors.max()), (Some(1), Some(10)));
            for asked in &asked {
                assert_eq!(asked.request.check(), Ok(()));
                let count = asked.request.parts.len() as i64;
                assert!(choices.parts.0 <= count && count <= choices.parts.1);
                for part in &asked.request.parts {
                    assert!(part.wanted.earliest_start > asked.submit);
                    assert_eq!(part.wanted.latest_start(), part.wanted.earliest_start + choices.window);
                }
            }
            assert!(asked.windows(2).all(|pair| pair[0].submit <= pair[1].submit));
        }
    }

    #[test]
    fn inter_arrival_times_and_booking_periods_have_their_means() {
        let asked = draw(&CHOICES, "test", 20_000, 20.0, 1);
        let last = asked.last().map_or(0, |asked| asked.submit.0);
        assert!((last as f64 / 400_000.0 - 1.0).abs() < 0.03, "{last}");
        let ahead = asked.iter().map(|asked| (asked.request.parts[0].wanted.earliest_start - asked.submit).0);
        let mean = ahead.sum::<i64>() as f64 / 20_000.0;
        assert!((mean / CHOICES.book_ahead - 1.0).abs() < 0.03, "{mean}");
    }

    #[test]
    fn shares_are_kept_and_nested() {
        let asked = draw(&CHOICES, "test", 20_000, 20.0, 1);
        for &share in FULL.shares {
            let seen = asked.iter().filter(|asked| asked.is_seen(share)).count() as f64 / 200.0;
            assert!((seen - f64::from(share)).abs() < 1.5, "{share}: {seen}");
        }
        assert!(asked.iter().all(|asked| !asked.is_seen(10) || asked.is_seen(20)));
        assert!(asked.iter().all(|asked| asked.is_seen(100)));
    }

    #[test]
    fn a_heavier_load_brings_the_same_sub_jobs() {
        let (dense, sparse) = (draw(&CHOICES, "test", 50, 10.0, 1), draw(&CHOICES, "test", 50, 100.0, 1));
        let sizes = |asked: &[Asked]| -> Vec<(Seconds, Capacity)> {
            let parts = asked.iter().flat_map(|asked| &asked.request.parts);
            parts.map(|part| (part.wanted.duration, part.wanted.capacity)).collect()
        };
        assert_eq!(sizes(&dense), sizes(&sparse));
        assert_ne!(dense, sparse);
    }
}
