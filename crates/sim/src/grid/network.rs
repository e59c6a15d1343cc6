//! Messages and the simulated network: a message takes time, is lost, arrives twice, or is blocked by a partition. Each
//! message takes its own time, so messages overtake each other.

use super::log::{Kind, Tally};
use bookahead_party::JobCall;
use bookahead_protocol::jobs::{JobAnswer, JobRequest, JobWord};
use bookahead_protocol::{Answer, Caller, Envelope, JobId, Key, Millis, Moment};
use bookahead_workload::streams::Stream;
use std::collections::BTreeSet;

/// Delays and error rates. Shares are per thousand messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Shortest delay of a message.
    pub fastest: Millis,
    /// Longest delay; delays are distributed uniformly.
    pub slowest: Millis,
    /// Share of messages that are lost.
    pub lost: u32,
    /// Share of messages that arrive twice.
    pub twice: u32,
    /// Share of messages that take twenty times as long.
    pub delayed: u32,
}

/// Factor of a delayed message: large enough that all other messages overtake it.
const DELAYED_BY: i64 = 20;

/// What happens to one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    /// Arrival times; two for a duplicated message.
    Arrives(Vec<Moment>),
    /// Lost in transit.
    Lost,
    /// Blocked by a partition.
    CutOff,
}

pub(super) struct Network {
    pub(super) rules: Rules,
    chance: Stream,
    /// Blocked pairs of parties, the smaller place first.
    pub(super) cut: BTreeSet<(usize, usize)>,
    /// Counts of messages that were carried, lost, doubled, delayed and blocked.
    pub(super) tally: Tally,
}

impl Network {
    pub(super) fn new(rules: Rules, seed: u64) -> Network {
        let chance = Stream::new(seed, "network");
        Network { rules, chance, cut: BTreeSet::new(), tally: Tally::default() }
    }

    /// Separates `parties` from the others; `all` is the number of parties.
    pub(super) fn cut_off(&mut self, parties: &[usize], all: usize) {
        for &inside in parties {
            for outside in (0..all).filter(|other| !parties.contains(other)) {
                // A partition blocks both directions, so a pair is stored once, in a fixed order.
                self.cut.insert((inside.min(outside), inside.max(outside)));
            }
        }
    }

    pub(super) fn carry(&mut self, now: Moment, from: usize, to: usize) -> Fate {
        self.tally.count("messages");
        if self.cut.contains(&(from.min(to), from.max(to))) {
            self.tally.count("cut_off");
            return Fate::CutOff;
        }
        if self.happens(self.rules.lost) {
            self.tally.count("lost");
            return Fate::Lost;
        }
        let mut arrivals = vec![self.arrival(now)];
        if self.happens(self.rules.twice) {
            // The copy has a delay of its own, so that it may arrive before the original.
            self.tally.count("doubled");
            arrivals.push(self.arrival(now));
        }
        Fate::Arrives(arrivals)
    }

    fn arrival(&mut self, now: Moment) -> Moment {
        let Rules { fastest, slowest, delayed, .. } = self.rules;
        let takes = if fastest == slowest { fastest.0 } else { self.chance.whole(fastest.0, slowest.0) };
        if self.happens(delayed) {
            self.tally.count("delayed");
            // A delay of zero would still be zero after the multiplication, and nothing would be overtaken.
            return now + Millis(takes.max(1).saturating_mul(DELAYED_BY));
        }
        now + Millis(takes)
    }

    /// A share of zero draws no random number, so that a perfect network costs nothing.
    pub(super) fn happens(&mut self, per_thousand: u32) -> bool {
        per_thousand > 0 && self.chance.whole(0, 999) < i64::from(per_thousand)
    }

    /// Whether a question and its answer get through; used for heartbeats, which are not simulated as messages.
    pub(super) fn carries(&mut self, from: usize, to: usize) -> bool {
        !self.cut.contains(&(from.min(to), from.max(to))) && !self.happens(self.rules.lost)
    }

    /// A uniform number below `below`.
    pub(super) fn draw(&mut self, below: i64) -> i64 {
        self.chance.whole(0, below - 1)
    }
}

/// A message between two parties.
#[allow(missing_docs, reason = "`id` is the job, by its id at the party that is asked")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A call with its key and caller.
    Call(Envelope),
    /// The answer to the call with this key.
    Answer { key: Key, answer: Answer },
    /// A call about a job.
    Job {
        caller: Caller,
        id: JobId,
        ask: JobCall,
        /// The job, if it is submitted.
        job: Option<Box<JobRequest>>,
    },
    /// The answer to a call about a job.
    JobAnswer {
        id: JobId,
        asked: JobCall,
        /// The state of the job, or a problem.
        answer: JobAnswer,
    },
}

/// Matches an answer to its call: the key, or the job and the kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum About {
    Key(Key),
    Job(JobId, JobCall),
}

/// A message in transit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) sent: Moment,
    pub(super) message: Message,
    /// Whether it is a duplicate that the network made.
    pub(super) copy: bool,
}

impl Packet {
    pub(super) fn kind(&self) -> Kind {
        match self.message {
            _ if self.copy => Kind::Copy,
            Message::Call(_) | Message::Job { .. } => Kind::Call,
            Message::Answer { .. } | Message::JobAnswer { .. } => Kind::Answer,
        }
    }
}

impl Message {
    pub(super) fn about(&self) -> About {
        match self {
            Message::Call(Envelope { key, .. }) | Message::Answer { key, .. } => About::Key(*key),
            Message::Job { id, ask, .. } | Message::JobAnswer { id, asked: ask, .. } => About::Job(*id, *ask),
        }
    }

    /// A short name for diagrams.
    pub fn word(&self) -> &'static str {
        match self {
            Message::Call(envelope) => envelope.call.word(),
            Message::Answer { answer, .. } => answer.word(),
            Message::Job { ask: JobCall::Submit, .. } => "submit",
            Message::Job { ask: JobCall::Look, .. } => "look",
            Message::Job { ask: JobCall::Go, .. } => "go",
            Message::Job { ask: JobCall::Drop, .. } => "drop",
            Message::JobAnswer { answer: Err(problem), .. } => problem.why.code(),
            Message::JobAnswer { answer: Ok(job), .. } => match job.state {
                JobWord::Placing => "placing",
                JobWord::Waiting => "waiting",
                JobWord::Claiming => "claiming",
                JobWord::Running => "running",
                JobWord::Done => "done",
                JobWord::Cancelled => "job-cancelled",
                JobWord::OutOfTime => "out-of-time",
                JobWord::ReservationOver => "reservation-over",
                JobWord::Lost => "lost",
                JobWord::CouldNotStart => "could-not-start",
            },
        }
    }
}
