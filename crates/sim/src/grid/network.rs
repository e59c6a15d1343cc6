//! Messages between parties, and what becomes of them: a message takes its time, is lost, comes twice, or does not get through at
//! all while two parties are cut off from each other. Messages overtake each other, since each takes its own time.

use super::log::{Kind, Tally};
use bookahead_party::JobCall;
use bookahead_protocol::jobs::{JobAnswer, JobRequest, JobWord};
use bookahead_protocol::{Answer, Caller, Envelope, JobId, Key, Millis, Moment};
use bookahead_workload::streams::Stream;
use std::collections::BTreeSet;

/// How the network treats messages. Shares are per thousand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// A message takes at least so long,
    pub fastest: Millis,
    /// and at most so long, each length alike.
    pub slowest: Millis,
    /// So many are lost.
    pub lost: u32,
    /// So many come twice.
    pub twice: u32,
    /// So many take twenty times as long, so that everything else overtakes them.
    pub delayed: u32,
}

/// How much longer a delayed message takes.
const DELAYED_BY: i64 = 20;

/// What becomes of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    /// It arrives then; more than once if there are more.
    Arrives(Vec<Moment>),
    /// It was lost on the way.
    Lost,
    /// The two are cut off from each other.
    CutOff,
}

/// The network between all parties.
pub(super) struct Network {
    pub(super) rules: Rules,
    chance: Stream,
    /// Pairs that cannot hear each other, the smaller first.
    pub(super) cut: BTreeSet<(usize, usize)>,
    /// How many messages it carried, lost, doubled, delayed and kept back.
    pub(super) tally: Tally,
}

impl Network {
    pub(super) fn new(rules: Rules, seed: u64) -> Network {
        let chance = Stream::new(seed, "network");
        Network { rules, chance, cut: BTreeSet::new(), tally: Tally::default() }
    }

    /// Cuts `parties` off from everybody else, of `all`.
    pub(super) fn cut_off(&mut self, parties: &[usize], all: usize) {
        for &inside in parties {
            for outside in (0..all).filter(|other| !parties.contains(other)) {
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
            return now + Millis(takes.max(1).saturating_mul(DELAYED_BY));
        }
        now + Millis(takes)
    }

    /// Nothing is drawn for what never happens, so that a perfect network costs nothing.
    pub(super) fn happens(&mut self, per_thousand: u32) -> bool {
        per_thousand > 0 && self.chance.whole(0, 999) < i64::from(per_thousand)
    }

    /// Whether a question and its answer get through.
    pub(super) fn carries(&mut self, from: usize, to: usize) -> bool {
        !self.cut.contains(&(from.min(to), from.max(to))) && !self.happens(self.rules.lost)
    }

    /// A number below `below`, each alike.
    pub(super) fn draw(&mut self, below: i64) -> i64 {
        self.chance.whole(0, below - 1)
    }
}

/// A message.
#[allow(missing_docs, reason = "`id` is the job, by its id at the party that is asked")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Somebody asks.
    Call(Envelope),
    /// Somebody answers.
    Answer { key: Key, answer: Answer },
    /// Somebody asks something about a job.
    Job {
        caller: Caller,
        id: JobId,
        ask: JobCall,
        /// Where it is submitted: what.
        job: Option<Box<JobRequest>>,
    },
    /// Somebody tells of a job.
    JobAnswer {
        id: JobId,
        asked: JobCall,
        /// How it stands, or why not.
        answer: JobAnswer,
    },
}

/// What an answer is recognised by: the key of a call, or what was asked of which job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum About {
    Key(Key),
    Job(JobId, JobCall),
}

/// A message on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) sent: Moment,
    pub(super) message: Message,
    /// Whether the network made it.
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

    /// A word for people.
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
