//! One run for Figures 6, 7 and 8: requests come, some through the evaluated broker and the others through a side
//! channel, and what the evaluated broker had to do for each is counted.

use super::desk::{Desk, Knowledge, Negotiation, sites};
use super::setup::Choices;
use super::workload::{Asked, draw, measured_from};
use bookahead_protocol::Moment;
use bookahead_protocol::ledger::HoldRules;

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Case {
    /// Which set of choices.
    pub(super) set: usize,
    /// What the evaluated broker goes by.
    pub(super) knowledge: Knowledge,
    /// How many in a hundred of the requests go through it.
    pub(super) share: u32,
    /// Mean slots between two requests.
    pub(super) inter_arrival: u32,
}

/// What some requests took in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Effort {
    /// Requests.
    pub(super) requests: u64,
    /// Their sub-jobs.
    pub(super) parts: u64,
    /// Candidates that were tried to be held.
    pub(super) attempts: u64,
    /// Probes sent.
    pub(super) probes: u64,
    /// Messages of every kind.
    pub(super) messages: u64,
    /// Requests given up before all candidates had been looked at.
    pub(super) stopped: u64,
}

/// What a run gave, of the requests of the evaluated broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Negotiated {
    /// Those that were booked.
    pub(super) successful: Effort,
    /// Those that were not.
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

    /// Reservation attempts for each request; None where there is no request.
    pub(super) fn attempts_each(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.attempts as f64 / self.requests as f64)
    }

    /// Messages for each sub-job.
    pub(super) fn messages_each(&self) -> Option<f64> {
        (self.parts > 0).then(|| self.messages as f64 / self.parts as f64)
    }

    /// Both together.
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
    /// Of all requests.
    pub(super) fn all(&self) -> Effort {
        self.successful.and(self.unsuccessful)
    }

    /// The share of requests that were booked.
    pub(super) fn acceptance(&self) -> Option<f64> {
        let all = self.all().requests;
        (all > 0).then(|| self.successful.requests as f64 / all as f64)
    }
}

/// Runs a case with so many requests.
pub(super) fn run(case: &Case, choices: &Choices, requests: usize, seed: u64) -> Negotiated {
    let mut sites = sites(choices.tell_free, HoldRules::default());
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
