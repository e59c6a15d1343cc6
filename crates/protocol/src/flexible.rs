//! Requests whose parts may be larger or longer than the least that they need. [`Widening`] finds the terms to reserve: it
//! asks for the least, and then for as much as is allowed, one quantity after the other, by bisection. Its driver
//! probes each attempt. Every other part of the protocol only knows fixed terms.
//!
//! Bisection assumes that what fits also fits if it is smaller or shorter. Where the rules of a site break that, the result
//! still fits, but more might fit as well.

use crate::request::Request;
use bookahead_plan::{Capacity, Seconds, Time};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Most flexible parts of a request. Each costs up to twenty-two probes, one after the other.
pub const MOST_FLEXIBLE: usize = 2;

/// Most steps between the least and the most of a quantity; ten bisections.
const MOST_STEPS: i64 = 1_023;

/// Durations end at whole minutes after the shortest.
const MINUTE: i64 = 60;

/// How far a part may grow beyond its capacity and duration, which are the least that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UpTo {
    /// Largest capacity.
    pub capacity: Capacity,
    /// Longest duration.
    pub duration: Seconds,
    /// Latest end of a part that is longer than the least. If it is later than that of the part, the end moves with the
    /// duration, and the begins that are allowed stay the same.
    pub latest_end: Time,
    /// What to grow first.
    pub prefer: Prefer,
}

/// What a flexible part gains first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Prefer {
    /// As much capacity as possible, then as much time as possible with it.
    #[default]
    Capacity,
    /// As much time as possible, then as much capacity as possible for it.
    Duration,
    /// The begin that the least terms would have, then capacity, then time.
    EarliestBegin,
}

/// Why flexible terms make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum BadUpTo {
    #[error("a part of {least} may grow to a capacity of {most}, which is less")]
    Capacity { least: Capacity, most: Capacity },
    #[error("a part of {} may grow to {}, which is shorter", .least.in_words(), .most.in_words())]
    Duration { least: Seconds, most: Seconds },
    #[error("{0} parts are flexible; at most {MOST_FLEXIBLE} may be")]
    TooMany(usize),
}

/// A quantity that grows.
#[derive(Debug, Clone, Copy)]
struct Growth {
    part: usize,
    is_capacity: bool,
    /// Latest end.
    end: Time,
    least: i64,
    most: i64,
    step: i64,
}

impl Growth {
    fn new(part: usize, is_capacity: bool, end: Time, [least, most]: [i64; 2]) -> Growth {
        let unit = if is_capacity { 1 } else { MINUTE };
        let range = most.saturating_sub(least).max(0);
        // Rounded up twice: to at most that many steps, and to whole units.
        let step = (range / MOST_STEPS + i64::from(range % MOST_STEPS > 0)).max(1);
        let step = step.saturating_add(unit - 1) / unit * unit;
        Growth { part, is_capacity, end, least, most, step }
    }

    /// The number of steps; the last one may be shorter.
    fn steps(&self) -> i64 {
        let whole = self.most.saturating_sub(self.least).max(0);
        whole / self.step + i64::from(whole % self.step > 0)
    }

    fn value(&self, steps: i64) -> i64 {
        self.least.saturating_add(steps.saturating_mul(self.step)).min(self.most)
    }
}

/// The search for the terms of a flexible request.
#[derive(Debug, Clone)]
pub struct Widening {
    /// The greatest terms that fit, as far as is known; at first the least, of which nothing is known yet.
    terms: Request,
    /// In the order of preference, the next one last.
    growths: Vec<Growth>,
    prefer_begin: bool,
    stage: Stage,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Least,
    /// Numbers of steps: the first one fits, the second one does not.
    Growing {
        fits: i64,
        fails: i64,
    },
    Done,
}

impl Widening {
    /// `up_to` names parts by their index.
    pub fn new(request: Request, up_to: &[(usize, UpTo)]) -> Result<Widening, BadUpTo> {
        if up_to.len() > MOST_FLEXIBLE {
            return Err(BadUpTo::TooMany(up_to.len()));
        }
        let mut growths = Vec::new();
        for (at, up_to) in up_to {
            let Some(part) = request.parts.get(*at) else { continue };
            let wanted = part.wanted;
            if up_to.capacity < wanted.capacity {
                return Err(BadUpTo::Capacity { least: wanted.capacity, most: up_to.capacity });
            }
            if up_to.duration < wanted.duration {
                return Err(BadUpTo::Duration { least: wanted.duration, most: up_to.duration });
            }
            let end = up_to.latest_end.max(wanted.latest_end);
            let longest = up_to.duration.min(end - wanted.earliest_start);
            let capacity = Growth::new(*at, true, end, [wanted.capacity.0.into(), up_to.capacity.0.into()]);
            let duration = Growth::new(*at, false, end, [wanted.duration.0, longest.0]);
            let both = [capacity, duration];
            growths.extend(if up_to.prefer == Prefer::Duration { [duration, capacity] } else { both });
        }
        growths.retain(|growth| growth.steps() > 0);
        growths.reverse();
        let prefer_begin = up_to.iter().any(|(_, up_to)| up_to.prefer == Prefer::EarliestBegin);
        Ok(Widening { terms: request, growths, prefer_begin, stage: Stage::Least })
    }

    /// The next terms to probe. None when the terms are found.
    pub fn attempt(&self) -> Option<Request> {
        match self.stage {
            Stage::Least => Some(self.terms.clone()),
            Stage::Growing { fits, fails } => {
                self.growths.last().map(|growth| self.grown(growth, middle(fits, fails, growth)))
            }
            Stage::Done => None,
        }
    }

    /// Takes the result of the attempt: when the parts would begin, or None if it does not fit.
    pub fn answered(&mut self, begins: Option<&[Time]>) {
        match (self.stage, begins) {
            (Stage::Least, Some(begins)) => {
                if self.prefer_begin {
                    self.fix(begins);
                }
                self.go_on();
            }
            (Stage::Least, None) | (Stage::Done, _) => self.stage = Stage::Done,
            (Stage::Growing { fits, fails }, _) => {
                let Some(growth) = self.growths.last().copied() else { return };
                let tried = middle(fits, fails, &growth);
                let (fits, fails) = if begins.is_some() { (tried, fails) } else { (fits, tried) };
                self.stage = Stage::Growing { fits, fails };
                if fails - fits <= 1 {
                    self.terms = self.grown(&growth, fits);
                    self.growths.pop();
                    self.go_on();
                }
            }
        }
    }

    /// The terms to reserve: the greatest that fit, or the least if they do not fit either.
    pub fn terms(self) -> Request {
        self.terms
    }

    fn go_on(&mut self) {
        self.stage = match self.growths.last() {
            Some(growth) => Stage::Growing { fits: 0, fails: growth.steps() + 1 },
            None => Stage::Done,
        };
    }

    /// Keeps the begins; the ends follow the durations.
    fn fix(&mut self, begins: &[Time]) {
        for (at, (part, begin)) in self.terms.parts.iter_mut().zip(begins).enumerate() {
            part.wanted.earliest_start = *begin;
            part.wanted.latest_end = *begin + part.wanted.duration;
            for growth in self.growths.iter_mut().filter(|growth| growth.part == at && !growth.is_capacity) {
                let most = growth.most.min((growth.end - *begin).0);
                *growth = Growth::new(at, false, growth.end, [growth.least, most]);
            }
        }
        self.growths.retain(|growth| growth.steps() > 0);
    }

    fn grown(&self, growth: &Growth, steps: i64) -> Request {
        let mut terms = self.terms.clone();
        if let Some(part) = terms.parts.get_mut(growth.part) {
            let value = growth.value(steps);
            if growth.is_capacity {
                part.wanted.capacity = Capacity(u32::try_from(value).unwrap_or(u32::MAX));
            } else {
                let later = Seconds(value.saturating_sub(part.wanted.duration.0));
                part.wanted.duration = Seconds(value);
                part.wanted.latest_end = growth.end.min(part.wanted.latest_end + later);
            }
        }
        terms
    }
}

/// All of it at first, because it often fits.
fn middle(fits: i64, fails: i64, growth: &Growth) -> i64 {
    if fits == 0 && fails > growth.steps() { growth.steps() } else { fits + (fails - fits) / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Part;
    use bookahead_plan::placement;
    use proptest::prelude::*;

    fn part(capacity: u32, duration: i64, window: i64) -> Part {
        let wanted = placement::Request {
            earliest_start: Time(1_000),
            latest_end: Time(1_000 + window),
            duration: Seconds(duration),
            capacity: Capacity(capacity),
        };
        Part::new(wanted, "processors")
    }

    /// Drives a search; `begin` tells when capacity and duration of the first part would begin.
    fn found(
        part: Part,
        up_to: UpTo,
        begin: impl Fn(u32, i64) -> Option<i64>,
    ) -> (placement::Request, usize) {
        let mut widening = Widening::new(Request::single(part), &[(0, up_to)]).unwrap();
        let mut probes = 0;
        while let Some(attempt) = widening.attempt() {
            let wanted = attempt.parts[0].wanted;
            let begin = begin(wanted.capacity.0, wanted.duration.0).map(Time);
            let begin = begin.filter(|begin| {
                (wanted.earliest_start..=wanted.latest_end - wanted.duration).contains(begin)
            });
            widening.answered(begin.as_ref().map(std::slice::from_ref));
            probes += 1;
            assert!(probes < 100, "it never ends");
        }
        (widening.terms().parts[0].wanted, probes)
    }

    fn up_to(capacity: u32, duration: i64, prefer: Prefer) -> UpTo {
        UpTo { capacity: Capacity(capacity), duration: Seconds(duration), latest_end: Time(0), prefer }
    }

    #[test]
    fn all_of_it_is_taken_where_there_is_room_for_all() {
        let (wanted, probes) =
            found(part(32, 3_600, 86_400), up_to(64, 14_400, Prefer::Capacity), |_, _| Some(1_000));
        assert_eq!((wanted.capacity.0, wanted.duration.0, probes), (64, 14_400, 3));
    }

    #[test]
    fn the_least_is_kept_where_even_it_does_not_fit() {
        let (wanted, probes) =
            found(part(32, 3_600, 86_400), up_to(64, 14_400, Prefer::Capacity), |_, _| None);
        assert_eq!((wanted.capacity.0, wanted.duration.0, probes), (32, 3_600, 1));
    }

    #[test]
    fn the_earliest_begin_is_kept_and_the_window_still_bounds_the_end() {
        // More than 40 units are free only later.
        let begin = |capacity, _| Some(if capacity > 40 { 9_000 } else { 2_000 });
        let (wanted, _) = found(part(32, 3_600, 10_000), up_to(64, 90_000, Prefer::EarliestBegin), begin);
        assert_eq!((wanted.capacity.0, wanted.earliest_start.0), (40, 2_000));
        assert_eq!((wanted.duration.0, wanted.latest_end.0), (9_000, 11_000));
        let (wanted, _) = found(part(32, 3_600, 20_000), up_to(64, 3_600, Prefer::Capacity), begin);
        assert_eq!(wanted.capacity.0, 64, "without that preference it begins later");
    }

    #[test]
    fn with_a_later_end_a_longer_part_begins_as_early_as_the_least_would() {
        let least = part(1, 600, 660);
        let longer = UpTo { latest_end: Time(1_000 + 86_400), ..up_to(1, 86_400, Prefer::Duration) };
        let (wanted, _) = found(least, longer, |_, duration| (duration <= 7_200).then_some(1_060));
        assert_eq!((wanted.duration.0, wanted.earliest_start.0, wanted.latest_end.0), (7_200, 1_000, 8_260));
    }

    #[test]
    fn terms_that_shrink_and_too_many_flexible_parts_are_errors() {
        let request = Request::single(part(32, 3_600, 86_400));
        let wrong = |up_to: &[(usize, UpTo)]| Widening::new(request.clone(), up_to).unwrap_err().to_string();
        assert!(wrong(&[(0, up_to(31, 3_600, Prefer::Capacity))]).contains("less"));
        assert!(
            wrong(&[(0, up_to(32, 60, Prefer::Capacity))]).contains("1h may grow to 1m, which is shorter")
        );
        assert!(wrong(&[(0, up_to(32, 3_600, Prefer::Capacity)); 3]).contains("at most 2"));
    }

    proptest! {
        /// The plainest search tries everything, what is preferred first.
        #[test]
        fn it_finds_what_trying_everything_finds(
            (least, most) in (1..40_u32, 0..40_u32).prop_map(|(least, more)| (least, least + more)),
            (shortest, longest) in (1..30_i64, 0..60_i64).prop_map(|(least, more)| (least * 60, (least + more) * 60)),
            longest_of in proptest::collection::vec(0..100_i64, 80),
            duration_first: bool,
        ) {
            // The more capacity, the shorter the longest duration that fits.
            let fits = |capacity: u32, duration: i64| {
                longest_of[..=capacity as usize].iter().all(|minutes| duration <= minutes * 60)
            };
            let prefer = if duration_first { Prefer::Duration } else { Prefer::Capacity };
            let (wanted, probes) = found(part(least, shortest, 1_000_000), up_to(most, longest, prefer), |capacity, duration| {
                fits(capacity, duration).then_some(1_000)
            });
            prop_assert!(probes <= 23);
            let capacities = least..=most;
            let all = capacities.flat_map(|capacity| (shortest..=longest).step_by(60).map(move |duration| (capacity, duration)));
            let best = all.filter(|&(capacity, duration)| fits(capacity, duration)).max_by_key(|&(capacity, duration)| {
                if duration_first { (duration, i64::from(capacity)) } else { (i64::from(capacity), duration) }
            });
            prop_assert_eq!((wanted.capacity.0, wanted.duration.0), best.unwrap_or((least, shortest)));
        }
    }
}
