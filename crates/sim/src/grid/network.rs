//! Messages between parties, and what becomes of them: a message takes its time, is lost, comes twice, or does not get through at
//! all while two parties are cut off from each other. Messages overtake each other, since each takes its own time.

use super::log::{Kind, Tally};
use bookahead_party::JobCall;
use bookahead_protocol::jobs::{JobRequest, JobView, JobWord};
use bookahead_protocol::{Answer, Caller, Envelope, JobId, Key, Millis, Moment, Problem};
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

impl Rules {
    /// Every message arrives once, after the same time.
    pub const fn perfect(latency: Millis) -> Rules {
        Rules { fastest: latency, slowest: latency, lost: 0, twice: 0, delayed: 0 }
    }
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
    cut: BTreeSet<(usize, usize)>,
    /// How many messages it lost, doubled, delayed and kept back.
    pub(super) counts: Counts,
}

/// What the network did to messages.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Sent.
    pub messages: u64,
    /// Lost on the way.
    pub lost: u64,
    /// Arrived twice.
    pub twice: u64,
    /// Overtaken by others.
    pub delayed: u64,
    /// Kept back by a partition.
    pub cut_off: u64,
}

impl Network {
    pub(super) fn new(rules: Rules, seed: u64) -> Network {
        let chance = Stream::new(seed, "network");
        Network { rules, chance, cut: BTreeSet::new(), counts: Counts::default() }
    }

    /// Cuts `parties` off from everybody else, of `all`.
    pub(super) fn cut_off(&mut self, parties: &[usize], all: usize) {
        for &inside in parties {
            for outside in (0..all).filter(|other| !parties.contains(other)) {
                self.cut.insert((inside.min(outside), inside.max(outside)));
            }
        }
    }

    /// Everybody hears everybody again.
    pub(super) fn reunite(&mut self) {
        self.cut.clear();
    }

    pub(super) fn carry(&mut self, now: Moment, from: usize, to: usize) -> Fate {
        self.counts.messages += 1;
        if self.cut.contains(&(from.min(to), from.max(to))) {
            self.counts.cut_off += 1;
            return Fate::CutOff;
        }
        if self.happens(self.rules.lost) {
            self.counts.lost += 1;
            return Fate::Lost;
        }
        let mut arrivals = vec![self.arrival(now)];
        if self.happens(self.rules.twice) {
            self.counts.twice += 1;
            arrivals.push(self.arrival(now));
        }
        Fate::Arrives(arrivals)
    }

    fn arrival(&mut self, now: Moment) -> Moment {
        let Rules { fastest, slowest, delayed, .. } = self.rules;
        let takes = if fastest == slowest { fastest.0 } else { self.chance.whole(fastest.0, slowest.0) };
        if self.happens(delayed) {
            self.counts.delayed += 1;
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

    /// Counts what it did.
    pub(super) fn count(&self, tally: &mut Tally) {
        let Counts { messages, lost, twice, delayed, cut_off } = self.counts;
        tally.add("messages", messages);
        tally.add("lost", lost);
        tally.add("doubled", twice);
        tally.add("delayed", delayed);
        tally.add("cut_off", cut_off);
    }
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Somebody asks.
    Call(Envelope),
    /// Somebody answers.
    Answer {
        /// The key of the call.
        key: Key,
        /// What.
        answer: Answer,
    },
    /// Somebody asks something about a job.
    Job {
        /// On whose behalf.
        caller: Caller,
        /// Which job, by its id there.
        id: JobId,
        /// What.
        ask: JobCall,
        /// Where it is submitted: what.
        job: Option<Box<JobRequest>>,
    },
    /// Somebody tells of a job.
    JobAnswer {
        /// Which job.
        id: JobId,
        /// What was asked.
        asked: JobCall,
        /// How it stands, or why not.
        answer: Result<Box<JobView>, Problem>,
    },
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
