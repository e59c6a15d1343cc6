//! One run for Figure 9: accepters, who commit at once, and rejecters, who never answer, so that what is held for them
//! evaporates. All come through one broker that probes. Measured is how many of the accepters are served.

use super::desk::{Desk, Knowledge, sites};
use super::setup::{Choices, LONGEST};
use super::workload::{Asked, draw};
use bookahead_protocol::deadline::Adaptive;
use bookahead_protocol::ledger::HoldRules;
use bookahead_protocol::{Millis, Moment};

/// One accepter in so many, the first, is not measured: the machines are empty at first.
const WARM_UP: usize = 10;

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Case {
    /// Which set of choices.
    pub(super) set: usize,
    /// Mean slots between two accepters.
    pub(super) inter_arrival: u32,
    /// Rejecters for each thousand accepters.
    pub(super) rejecters: u32,
    /// How long the machines hold.
    pub(super) timeout: Timeout,
}

/// How long machines hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timeout {
    /// So many slots.
    Fixed(u32),
    /// As long as the rate of acceptance, in millionths, allows by what they saw, and no longer than [`LONGEST`].
    Adaptive(u32),
}

/// What a run gave.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Held {
    /// The share of accepters that were served.
    pub(super) acceptance: f64,
    /// How long was held for rejecters on average, in slots; zero where there were none.
    pub(super) hold: f64,
    /// What the machines saw of holds, in all.
    pub(super) seen: Seen,
}

/// What the machines saw of holds; what is long past counts less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Seen {
    /// Granted.
    pub(super) granted: u64,
    /// Refused for lack of room.
    pub(super) refused: u64,
    /// Committed.
    pub(super) committed: u64,
    /// Never confirmed.
    pub(super) evaporated: u64,
    /// Given back.
    pub(super) cancelled: u64,
    /// How long the committed ones are in the calendar, in slots in all.
    pub(super) lifetime: u64,
}

impl Timeout {
    fn rules(self) -> HoldRules {
        let slots = |slots: u32| Millis::seconds(i64::from(slots));
        let (longest, adaptive) = match self {
            Timeout::Fixed(timeout) => (slots(timeout), None),
            Timeout::Adaptive(target) => {
                let (shortest, longest) = (slots(1), slots(LONGEST));
                (longest, Some(Adaptive { target, shortest, longest }))
            }
        };
        HoldRules { longest, adaptive, late_commits: false }
    }
}

/// Runs a case with so many accepters.
pub(super) fn run(case: &Case, choices: &Choices, accepters: usize, seed: u64) -> Held {
    let mut sites = sites(choices.tell_free, case.timeout.rules());
    let mut broker = Desk::new(1, choices, Knowledge::Probes, &sites);
    let (mut served, mut asked_for, mut held, mut holds) = (0_u64, 0_u64, 0.0, 0_u64);
    for (asked, number) in both(case, choices, accepters, seed) {
        let booked =
            broker.reserve(Moment::of(asked.submit), &asked.request, number.is_some(), &mut sites).booked;
        match number {
            Some(number) if number >= accepters / WARM_UP => {
                asked_for += 1;
                served += u64::from(booked.is_some());
            }
            Some(_) => {}
            None => {
                let hold = booked.and_then(|reservation| reservation.held_for);
                held += hold.map_or(0.0, |hold| hold.0 as f64 / 1e3);
                holds += u64::from(hold.is_some());
            }
        }
    }
    let seen = sites.values().fold(Seen::default(), |seen, ledger| {
        let observed = ledger.observed();
        Seen {
            granted: seen.granted + observed.granted,
            refused: seen.refused + observed.refused,
            committed: seen.committed + observed.committed,
            evaporated: seen.evaporated + observed.evaporated,
            cancelled: seen.cancelled + observed.cancelled,
            lifetime: seen.lifetime + observed.lifetime.0.unsigned_abs() / 1_000,
        }
    });
    Held { acceptance: served as f64 / asked_for.max(1) as f64, hold: held / holds.max(1) as f64, seen }
}

/// Accepters, each with its number, and rejecters, in the order in which they come.
fn both(case: &Case, choices: &Choices, accepters: usize, seed: u64) -> Vec<(Asked, Option<usize>)> {
    let every = f64::from(case.inter_arrival);
    let drawn = draw(choices, "accepters", accepters, every, seed).into_iter().enumerate();
    let mut all: Vec<(Asked, Option<usize>)> = drawn.map(|(number, asked)| (asked, Some(number))).collect();
    if case.rejecters > 0 {
        let rejecters = accepters * case.rejecters as usize / 1_000;
        let every = every * 1_000.0 / f64::from(case.rejecters);
        let drawn = draw(choices, "rejecters", rejecters, every, seed);
        all.extend(drawn.into_iter().map(|asked| (asked, None)));
    }
    all.sort_by_key(|(asked, _)| asked.submit);
    all
}
