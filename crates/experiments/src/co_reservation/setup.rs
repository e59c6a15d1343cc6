//! The set-up of the paper (Sections 4.1 and 4.2) and, in [`Choices`], everything about requests that the paper leaves
//! open. [`CHOICES`] read the printed list of parameters literally. Two of them were changed after the first runs, which
//! had a start window ([`WINDOW`]) and held all parts at once; the page says so. [`ALTERNATIVES`] show the effect of
//! other choices, those of the first runs included.
//!
//! The requests depend only on the seed: the same sub-jobs arrive at every share and load, only closer together or
//! further apart, and a request that the broker sees at a small share is also seen at every larger one.

use bookahead_plan::{Capacity, Seconds, Time, placement};
use bookahead_protocol::broker::LeftOut;
use bookahead_protocol::deadline::Scheme;
use bookahead_protocol::{Constraint, Part, Request};
use bookahead_workload::streams::Stream;

/// Processors of the eight machines.
pub(super) const MACHINES: [u32; 8] = [512, 256, 256, 128, 128, 96, 32, 32];
/// The shortest and the longest sub-job, in slots of one second.
pub(super) const DURATIONS: (i64, i64) = (1_250, 3_750);
/// The narrowest and the widest sub-job, in processors.
pub(super) const PROCESSORS: (i64, i64) = (1, 10);

/// Mean slots between two requests in Figures 6 and 8, as printed, and in Figure 9, which has the "same" model.
pub(super) const INTER_ARRIVAL: u32 = 20;
/// Percentage of requests through the evaluated broker in Figure 7, as printed.
pub(super) const HALF: u32 = 50;
/// All requests go through the evaluated broker, in percent.
pub(super) const ALL: u32 = 100;
/// The longest timeout, in slots: what a site grants if nothing else limits a hold.
pub(super) const LONGEST: u32 = 4_000;
/// Lighter loads for the example of Figure 9, to show their effect.
pub(super) const LIGHTER: [u32; 3] = [30, 40, 60];
/// The load of our own experiment with adaptive holds: light enough that their targets can be reached.
pub(super) const ADAPTIVE_INTER_ARRIVAL: u32 = 40;
/// Rejecters per thousand accepters of that experiment.
pub(super) const ADAPTIVE_REJECTERS: [u32; 2] = [ONE_EACH, 4_000];
/// Rejecters per thousand accepters in the paper's example: one per accepter.
pub(super) const ONE_EACH: u32 = 1_000;
/// The acceptance rate of the paper's example, in millionths.
pub(super) const TARGET: u32 = 800_000;
/// The timeout of the paper's example, in slots.
pub(super) const PUBLISHED_TIMEOUT: f64 = 300.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// Requests of a run for Figures 6 to 8.
    pub(super) requests: usize,
    /// Accepters of a run for Figure 9.
    pub(super) accepters: usize,
    /// Percentages of requests through the evaluated broker (Figures 6 and 8); the last is [`ALL`].
    pub(super) shares: &'static [u32],
    /// Mean slots between two requests (Figure 7). Our copy of the paper does not show the axis.
    pub(super) inter_arrivals: &'static [u32],
    /// Rejecters per thousand accepters (Figure 9), starting with 0.
    pub(super) rejecters: &'static [u32],
    /// Timeouts of holds in slots (Figure 9); the last is [`LONGEST`].
    pub(super) timeouts: &'static [u32],
    /// Target acceptance rates of adaptive sites, in millionths.
    pub(super) targets: &'static [u32],
    /// Whether to run other choices too.
    pub(super) others: bool,
}

pub(super) const FULL: Extent = Extent {
    requests: 3_000,
    accepters: 5_000,
    shares: &[10, 20, 30, 40, HALF, 60, 70, 80, 90, ALL],
    inter_arrivals: &[10, 15, INTER_ARRIVAL, 30, 40, 60, 80, 100, 125, 150],
    rejecters: &[0, 100, 250, 500, ONE_EACH, 2_000, 4_000],
    timeouts: &[1, 100, 300, 1_000, LONGEST],
    targets: &[TARGET, 900_000],
    others: true,
};

/// A smoke test.
pub(super) const QUICK: Extent = Extent {
    requests: 300,
    accepters: 200,
    shares: &[10, HALF, ALL],
    inter_arrivals: &[10, INTER_ARRIVAL, 150],
    rejecters: &[0, ONE_EACH, 4_000],
    timeouts: &[1, 300, LONGEST],
    targets: &[TARGET],
    others: false,
};

/// Parameters of requests, brokers and sites that the paper does not state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choices {
    /// Fewest and most sub-jobs of a request, uniformly distributed.
    pub(super) parts: (i64, i64),
    /// Mean of the advance booking period, in slots.
    pub(super) book_ahead: f64,
    /// How much later than its earliest start a sub-job may begin.
    pub(super) window: Seconds,
    pub(super) order: Order,
    /// How a broker holds the parts of a candidate.
    pub(super) holding: Scheme,
    /// What a broker excludes after a refusal.
    pub(super) left_out: LeftOut,
    /// Whether sites report the free capacity beside a slot.
    pub(super) tell_free: bool,
}

/// How the sub-jobs of a request are ordered in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// All begin at the same moment.
    Together,
    /// Each begins after the end of the one before it.
    OneAfterTheOther,
}

/// The choices behind the figures of the page. A reservation candidate of the paper has a begin, an end and a capacity,
/// so sites do not report free capacity beside it. After a refusal "all former successful reservations will be canceled",
/// so parts are held one after the other, and the whole resource is excluded (step 6b). The list of parameters has no start
/// window, so there is none.
pub(super) const CHOICES: Choices = Choices {
    parts: (2, 5),
    book_ahead: 2_500.0,
    window: Seconds::ZERO,
    order: Order::Together,
    holding: Scheme::Sequential,
    left_out: LeftOut::Resource,
    tell_free: false,
};

/// The start window of the first runs, as long as the mean sub-job.
pub(super) const WINDOW: Seconds = Seconds(2_500);

/// Index of [`CHOICES`] in [`sets`].
pub(super) const OURS: usize = 0;
/// Index of the choice with [`WINDOW`] in [`sets`].
pub(super) const WINDOWED: usize = 1;
/// Index of the choice that holds all parts at once in [`sets`].
pub(super) const AT_ONCE: usize = 2;
/// Index of the longer advance booking period in [`sets`].
pub(super) const LONGER_AHEAD: usize = 3;
/// Index of the choice with `tell_free` in [`sets`].
pub(super) const FREE_TOLD: usize = 4;

/// Other choices, each with one change, to show their effect.
pub(super) const ALTERNATIVES: [(&str, Choices); 7] = [
    ("a start window of 2,500 slots, as in the first runs", Choices { window: WINDOW, ..CHOICES }),
    ("all parts held at once, as in the first runs", Choices { holding: Scheme::Parallel, ..CHOICES }),
    ("booked 10,000 slots ahead on average", Choices { book_ahead: 10_000.0, ..CHOICES }),
    ("sites report free capacity beside a slot", Choices { tell_free: true, ..CHOICES }),
    ("only the refused slot is excluded", Choices { left_out: LeftOut::Slot, ..CHOICES }),
    ("sub-jobs one after the other", Choices { order: Order::OneAfterTheOther, ..CHOICES }),
    ("two sub-jobs each", Choices { parts: (2, 2), ..CHOICES }),
];

/// All sets of choices, [`CHOICES`] first.
pub(super) fn sets() -> impl Iterator<Item = (&'static str, Choices)> {
    std::iter::once(("ours", CHOICES)).chain(ALTERNATIVES)
}

impl Choices {
    /// Slots until the machines are in a steady state: twice the mean booking period plus the longest sub-job.
    pub(super) fn warm_up(&self) -> Seconds {
        Seconds(2 * (self.book_ahead as i64 + DURATIONS.1))
    }

    /// Requested share of the capacity of all machines, at this mean inter-arrival time in slots.
    pub(super) fn load(&self, inter_arrival: u32) -> f64 {
        let middle = |(low, high): (i64, i64)| (low + high) as f64 / 2.0;
        let wanted = middle(self.parts) * middle(DURATIONS) * middle(PROCESSORS);
        wanted / f64::from(inter_arrival) / f64::from(MACHINES.iter().sum::<u32>())
    }
}

pub(super) const KIND: &str = "processors";

/// A request and its submit time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    pub(super) submit: Time,
    pub(super) request: Request,
    /// Uniform in 0 to 1: it goes through the evaluated broker if the share is above this.
    chance: f64,
}

impl Asked {
    /// Whether it goes through the evaluated broker at this share, in percent.
    pub(super) fn is_seen(&self, share: u32) -> bool {
        // The number does not depend on the share, so a larger share has all requests of a smaller one.
        self.chance < f64::from(share) / 100.0
    }
}

/// The start of the measurement: the end of the warm-up, or a third of a short run.
pub(super) fn measured_from(choices: &Choices, drawn: &[Asked]) -> Time {
    // A quick run ends before the warm-up would, and would measure nothing.
    let third = drawn.get(drawn.len() / 3).map_or(Time(0), |asked| asked.submit);
    third.min(Time(0) + choices.warm_up())
}

/// Draws `count` requests with a mean gap of `inter_arrival` slots. `who` separates the random streams of different
/// users.
pub(super) fn draw(choices: &Choices, who: &str, count: usize, inter_arrival: f64, seed: u64) -> Vec<Asked> {
    // One random stream per property, so that the sub-jobs do not depend on the load or the share.
    let stream = |what: &str| Stream::new(seed, &format!("co-reservation/{who}/{what}"));
    let (mut gaps, mut chances, mut ahead) = (stream("gaps"), stream("chances"), stream("book-ahead"));
    let mut parts = stream("parts");
    let mut now = 0.0;
    (0..count)
        .map(|_| {
            now += gaps.exponential(inter_arrival);
            let submit = Time(now as i64);
            // A hold must begin after the second of its request.
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
        parts.push(Part::new(wanted, KIND));
        // The window moves with the order; otherwise a later sub-job could not end in time after the earlier
        // ones.
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
    Request::new(parts, constraints)
}

#[cfg(test)]
mod tests {
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
