//! One run of the experiment: the effort of negotiations for Figures 6, 7 and 8, and the effect of holds on accepters
//! for Figure 9. A run depends only on its case and its seed.

use super::desk::{Desk, Knowledge, Negotiation, sites};
use super::setup::{Asked, Choices, LONGEST, draw, measured_from};
use bookahead_protocol::deadline::{Adaptive, Observed};
use bookahead_protocol::ledger::HoldRules;
use bookahead_protocol::{Millis, Moment};

/// A run for Figures 6, 7 and 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NegotiationCase {
    pub(super) set: usize,
    /// Of the evaluated broker.
    pub(super) knowledge: Knowledge,
    /// Percentage of requests that go through the evaluated broker.
    pub(super) share: u32,
    /// Mean slots between two requests.
    pub(super) inter_arrival: u32,
}

/// Total effort of some requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Effort {
    pub(super) requests: u64,
    pub(super) parts: u64,
    /// Candidates that the broker tried to hold.
    pub(super) attempts: u64,
    pub(super) probes: u64,
    pub(super) messages: u64,
    /// Requests whose search ended before all candidates were examined.
    pub(super) stopped: u64,
}

/// The result of a run, for requests of the evaluated broker only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Negotiated {
    pub(super) successful: Effort,
    pub(super) unsuccessful: Effort,
}

impl Effort {
    fn add(&mut self, asked: &Asked, negotiation: &Negotiation) {
        self.requests += 1;
        self.parts += asked.request.parts.len() as u64;
        self.attempts += negotiation.attempts;
        self.probes += negotiation.probes;
        self.messages += negotiation.messages;
        self.stopped += u64::from(negotiation.stopped);
    }

    /// Reservation attempts per request; None without requests.
    pub(super) fn attempts_each(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.attempts as f64 / self.requests as f64)
    }

    pub(super) fn messages_each(&self) -> Option<f64> {
        (self.parts > 0).then(|| self.messages as f64 / self.parts as f64)
    }

    pub(super) fn and(self, other: Effort) -> Effort {
        Effort {
            requests: self.requests + other.requests,
            parts: self.parts + other.parts,
            attempts: self.attempts + other.attempts,
            probes: self.probes + other.probes,
            messages: self.messages + other.messages,
            stopped: self.stopped + other.stopped,
        }
    }
}

impl Negotiated {
    pub(super) fn all(&self) -> Effort {
        self.successful.and(self.unsuccessful)
    }

    /// The share of requests that were booked.
    pub(super) fn acceptance(&self) -> Option<f64> {
        let all = self.all().requests;
        (all > 0).then(|| self.successful.requests as f64 / all as f64)
    }
}

/// Sends some requests through the evaluated broker and the others through a side channel, and counts the effort of the
/// evaluated broker.
pub(super) fn negotiate(case: &NegotiationCase, choices: &Choices, requests: usize, seed: u64) -> Negotiated {
    let mut sites = sites(choices.tell_free, HoldRules::default());
    // Different numbers: both brokers make reservation ids at the same machines.
    let mut evaluated = Desk::new(1, choices, case.knowledge, &sites);
    let mut side_channel = Desk::new(2, choices, Knowledge::Probes, &sites);
    let mut negotiated = Negotiated::default();
    let drawn = draw(choices, "requests", requests, f64::from(case.inter_arrival), seed);
    let measured_from = measured_from(choices, &drawn);
    for asked in &drawn {
        let now = Moment::of(asked.submit);
        if !asked.is_seen(case.share) {
            side_channel.reserve(now, &asked.request, true, &mut sites);
            continue;
        }
        let negotiation = evaluated.reserve(now, &asked.request, true, &mut sites);
        if asked.submit >= measured_from {
            let booked = negotiation.booked.is_some();
            let effort = if booked { &mut negotiated.successful } else { &mut negotiated.unsuccessful };
            effort.add(asked, &negotiation);
        }
    }
    negotiated
}

/// A run for Figure 9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HoldCase {
    pub(super) set: usize,
    /// Mean slots between two accepters.
    pub(super) inter_arrival: u32,
    /// Rejecters per thousand accepters.
    pub(super) rejecters: u32,
    pub(super) timeout: Timeout,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timeout {
    /// In slots.
    Fixed(u32),
    /// As long as the target acceptance rate, in millionths, allows by the site's observations; at most [`LONGEST`].
    Adaptive(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Held {
    /// The share of accepters that were served.
    pub(super) acceptance: f64,
    /// Mean hold of rejecters, in slots; zero without rejecters.
    pub(super) hold: f64,
    /// Share of requested holds that the machines granted; older ones have less weight.
    pub(super) granted: f64,
    /// Expired holds per committed one.
    pub(super) evaporated: f64,
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

/// Sends accepters, who commit at once, and rejecters, whose holds expire, through one broker that probes. Measures the
/// share of accepters that are served.
pub(super) fn hold(case: &HoldCase, choices: &Choices, accepters: usize, seed: u64) -> Held {
    let mut sites = sites(choices.tell_free, case.timeout.rules());
    let mut broker = Desk::new(1, choices, Knowledge::Probes, &sites);
    let accepters = draw(choices, "accepters", accepters, f64::from(case.inter_arrival), seed);
    let measured_from = measured_from(choices, &accepters);
    let (mut served, mut wanted, mut held, mut holds) = (0_u64, 0_u64, 0.0, 0_u64);
    for (asked, accepts) in with_rejecters(case, choices, accepters, seed) {
        let now = Moment::of(asked.submit);
        let booked = broker.reserve(now, &asked.request, accepts, &mut sites).booked;
        // Requests before that fill the machines, but are not measured.
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
    let acceptance = share(served, wanted);
    let seen = |of: fn(&Observed) -> u64| sites.values().map(|ledger| of(ledger.observed())).sum::<u64>();
    let (granted, refused) = (seen(|observed| observed.granted), seen(|observed| observed.refused));
    Held {
        acceptance,
        hold: held / holds.max(1) as f64,
        granted: share(granted, granted + refused),
        evaporated: share(seen(|observed| observed.evaporated), seen(|observed| observed.committed)),
    }
}

/// Accepters and rejecters by submit time; true for accepters.
fn with_rejecters(
    case: &HoldCase,
    choices: &Choices,
    accepters: Vec<Asked>,
    seed: u64,
) -> Vec<(Asked, bool)> {
    let count = accepters.len() * case.rejecters as usize / 1_000;
    let mut all: Vec<(Asked, bool)> = accepters.into_iter().map(|asked| (asked, true)).collect();
    if count > 0 {
        let every = f64::from(case.inter_arrival) * 1_000.0 / f64::from(case.rejecters);
        // Own random streams: the accepters are the same with any number of rejecters.
        let rejecters = draw(choices, "rejecters", count, every, seed);
        all.extend(rejecters.into_iter().map(|asked| (asked, false)));
    }
    // A stable sort: in the same second accepters come first, in every run.
    all.sort_by_key(|(asked, _)| asked.submit);
    all
}

fn share(of: u64, all: u64) -> f64 {
    of as f64 / all.max(1) as f64
}
