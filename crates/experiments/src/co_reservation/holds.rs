//! One run for Figure 9: accepters, who commit at once, and rejecters, who never answer, so that what is held for them
//! evaporates. All come through one broker that probes. Measured is how many of the accepters are served.

use super::desk::{Desk, Knowledge, Sites, sites};
use super::setup::{Choices, LONGEST};
use super::workload::{Asked, draw, measured_from};
use bookahead_protocol::deadline::Adaptive;
use bookahead_protocol::ledger::{HoldRules, Ledger};
use bookahead_protocol::{Millis, Moment};

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
    let accepters = draw(choices, "accepters", accepters, f64::from(case.inter_arrival), seed);
    let measured_from = measured_from(choices, &accepters);
    let (mut served, mut wanted, mut held, mut holds) = (0_u64, 0_u64, 0.0, 0_u64);
    for (asked, accepts) in with_rejecters(case, choices, accepters, seed) {
        let now = Moment::of(asked.submit);
        let booked = broker.reserve(now, &asked.request, accepts, &mut sites).booked;
        if asked.submit < measured_from {
            continue;
        }
        if accepts {
            wanted += 1;
            served += u64::from(booked.is_some());
        } else if let Some(hold) = booked.and_then(|reservation| reservation.held_for) {
            held += hold.0 as f64 / 1e3;
            holds += 1;
        }
    }
    let acceptance = served as f64 / wanted.max(1) as f64;
    Held { acceptance, hold: held / holds.max(1) as f64, seen: seen(&sites) }
}

/// Accepters and rejecters in the order in which they come, and whether each accepts.
fn with_rejecters(case: &Case, choices: &Choices, accepters: Vec<Asked>, seed: u64) -> Vec<(Asked, bool)> {
    let count = accepters.len() * case.rejecters as usize / 1_000;
    let mut all: Vec<(Asked, bool)> = accepters.into_iter().map(|asked| (asked, true)).collect();
    if count > 0 {
        let every = f64::from(case.inter_arrival) * 1_000.0 / f64::from(case.rejecters);
        let rejecters = draw(choices, "rejecters", count, every, seed);
        all.extend(rejecters.into_iter().map(|asked| (asked, false)));
    }
    all.sort_by_key(|(asked, _)| asked.submit);
    all
}

fn seen(sites: &Sites) -> Seen {
    let mut seen = Seen::default();
    for observed in sites.values().map(Ledger::observed) {
        seen.granted += observed.granted;
        seen.refused += observed.refused;
        seen.committed += observed.committed;
        seen.evaporated += observed.evaporated;
        seen.cancelled += observed.cancelled;
    }
    seen
}
