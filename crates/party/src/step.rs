//! What goes into a party and what comes out. One rule holds for all who drive one: an [`Output`] leaves only when its
//! events are durable. Only [`Output::batch_now`] may be carried out before that. Inputs carry the number of a call in place
//! of a channel, so that a party can be cloned, compared and driven by a simulator.

use crate::batch::{BatchOrder, BatchReport};
use crate::queries::Queries;
use crate::register::Heartbeat;
use bookahead_plan::{Capacity, Time};
use bookahead_protocol::jobs::{JobAnswer, JobRequest, JobView};
use bookahead_protocol::problem::Problem;
use bookahead_protocol::{Answer, Caller, Envelope, JobId, Key, Moment, Name, ReservationId, State};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// A call that waits for its reply, in this life of the party.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// How a call came here: calls to peers that are made because of it carry this on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The trace it belongs to (W3C `traceparent`).
    pub trace: Option<Arc<str>>,
    /// The brokers it came through, by their identities, the first first.
    pub via: Arc<[Name]>,
}

/// What can come in.
#[allow(missing_docs, reason = "`call` is the call that waits for a reply")]
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A client calls.
    Call {
        call: CallId,
        /// What, and who.
        envelope: Envelope,
        /// How it came here.
        origin: Origin,
    },
    /// A client submits a job.
    Submit {
        call: CallId,
        caller: Caller,
        key: Key,
        id: JobId,
        job: Box<JobRequest>,
        /// How it came here.
        origin: Origin,
    },
    /// A client or broker cancels a job.
    CancelJob { call: CallId, caller: Caller, id: JobId },
    /// A broker lets a job run that claims.
    Go { call: CallId, caller: Caller, id: JobId },
    /// A peer answers a call that was made to it ([`PeerRequest::Call`]).
    Answered {
        from: Name,
        /// The key of that call.
        key: Key,
        answer: Answer,
        /// How the call came here that it was made because of.
        origin: Origin,
    },
    /// A peer answers a question about a job ([`PeerRequest::Job`]).
    JobAnswered {
        from: Name,
        id: JobId,
        /// What was asked.
        asked: JobCall,
        /// How the job stands there, or why not.
        answer: JobAnswer,
    },
    /// A peer says that it is there, or answered when it was asked.
    Heard {
        /// Which call; None where it was asked by us.
        call: Option<CallId>,
        heartbeat: Box<Heartbeat>,
        /// How long it took to ask, in milliseconds, where it was asked.
        round_trip: Option<u64>,
    },
    /// A peer has not answered for too long.
    Silent { peer: Name },
    /// The batch system reports.
    Batch(BatchReport),
    /// Somebody wants to see the batch system as it is now; a party that has just looked does nothing.
    WantLook,
    /// Time has passed.
    Time,
}

/// What a call is answered with.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// To [`Input::Call`].
    Answer(Answer),
    /// To [`Input::Submit`], [`Input::CancelJob`] and [`Input::Go`].
    Job(JobAnswer),
    /// To [`Input::Heard`].
    Registered(Result<(), Problem>),
}

/// Something to be sent to a peer. What is not answered is sent again by the party, not by who carries it.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerCall {
    /// To whom.
    pub to: Name,
    /// What.
    pub request: PeerRequest,
    /// How the call came here that it is made because of.
    pub origin: Origin,
}

/// What is asked of a peer.
#[allow(missing_docs, reason = "`id` is the id of the job at the peer")]
#[derive(Debug, Clone, PartialEq)]
pub enum PeerRequest {
    /// A call about a reservation, answered by [`Input::Answered`].
    Call(Box<Envelope>),
    /// About a job, answered by [`Input::JobAnswered`].
    Job {
        /// On whose behalf.
        caller: Caller,
        id: JobId,
        ask: JobCall,
        /// With [`JobCall::Submit`]: the job.
        job: Option<Box<JobRequest>>,
    },
}

pub use bookahead_protocol::jobs::race::Ask as JobCall;

/// What came of an input.
#[derive(Debug, Clone, PartialEq)]
pub struct Output<E> {
    /// To be written down, in order. Everything else but `batch_now` leaves when they are durable.
    pub events: Vec<E>,
    /// Answers to calls.
    pub replies: Vec<(CallId, Reply)>,
    /// Calls to peers.
    pub calls: Vec<PeerCall>,
    /// Orders to the batch system.
    pub batch: Vec<BatchOrder>,
    /// Orders that may be carried out at once, by a scheduler that forgets with this process: room to be taken. They are not
    /// reported. An older order of `batch` for the same reservation must not be carried out after a newer one of these.
    pub batch_now: Vec<BatchOrder>,
    /// For those who watch, each with its place among the events.
    pub notices: Vec<(usize, Notice)>,
    /// For the log of the operator.
    pub remarks: Vec<Remark>,
    /// The party cannot go on, for a reason that only its operator can change. It is to be ended with this message.
    pub stop: Option<String>,
}

/// What those who watch are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// When it happened.
    pub at: Moment,
    /// What, in a word.
    pub kind: &'static str,
    /// To which reservation.
    pub id: Option<ReservationId>,
    /// Whose it is.
    pub owner: Option<Name>,
    /// Its state afterwards.
    pub state: Option<State>,
    /// Its version afterwards.
    pub version: Option<u32>,
    /// Where some of it is missing now.
    pub missing: Option<Missing>,
    /// Why, in a word: who gave it up, what was lost, the code of a refusal.
    pub because: Option<&'static str>,
    /// Where its owner wants to be told, beside the stream of events.
    pub webhook: Option<Box<str>>,
}

/// Something is missing of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// How much; zero where it is whole again.
    pub capacity: Capacity,
    /// Begins within the window of its request at which it could be had whole, if its owner changed it.
    pub could_begin: Vec<Time>,
}

/// A line for the log of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// How much it matters.
    pub level: Level,
    /// A stable name to search and alert for, such as `orphan_job_cancelled`.
    pub event: &'static str,
    /// What happened, in a sentence.
    pub message: String,
    /// About which reservation.
    pub reservation: Option<ReservationId>,
    /// About which job.
    pub job: Option<JobId>,
    /// About which peer or resource.
    pub name: Option<Name>,
}

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Worth knowing.
    Info,
    /// To be looked at.
    Warn,
    /// A promise is in danger, or nothing works.
    Error,
}

/// A site or a broker.
pub trait Party: Queries + Clone + Send + 'static {
    /// What it writes down.
    type Event: Serialize + DeserializeOwned + Clone + Send + Sync + 'static;
    /// What stands for all events up to one.
    type State: Serialize + DeserializeOwned + Send + 'static;
    /// What is shown and is not in the events, such as the last look at the batch system. Cheap to clone.
    type Facts: Clone + Send + Sync + 'static;

    /// What kind of journal it keeps.
    const KIND: &'static str;
    /// The version of its events and states.
    const SCHEMA: u32;

    /// Begins from a state. Says why it cannot.
    fn restore(&mut self, state: Self::State) -> Result<(), String>;
    /// Takes over what happened before a restart; and, on a copy for readers, what happened elsewhere.
    fn apply(&mut self, event: &Self::Event);
    /// What is told of an event that was applied just now, as far as it can be known after a restart: for owners who were not
    /// told before it. An event that does not say when it happened is told with `now`.
    fn notice_of(&self, now: Moment, event: &Self::Event) -> Option<Notice>;
    /// Begins its life, after everything was replayed.
    fn start(&mut self, now: Moment) -> Result<Output<Self::Event>, String>;
    /// Takes an input.
    fn step(&mut self, now: Moment, input: Input) -> Output<Self::Event>;
    /// When it wants [`Input::Time`]. While it has something to compute, that is a moment in the past.
    fn wake_at(&self) -> Option<Moment>;

    /// The same without what it has to compute, which may be put off while inputs wait.
    fn deadline(&self) -> Option<Moment> {
        self.wake_at()
    }
    /// What stands for all its events so far.
    fn state(&self) -> Self::State;

    /// A copy for readers, to which events are applied as they become durable.
    fn read_copy(&self) -> Self;
    /// Whether readers can see anything of an event; others are not applied to copies.
    fn is_shown(event: &Self::Event) -> bool;
    /// What is shown beside the events, with a number that grows whenever it changes.
    fn facts(&self) -> (u64, Self::Facts);
    /// On a copy for readers: this is to be shown from now on.
    fn set_facts(&mut self, facts: Self::Facts);
}

impl<E> Default for Output<E> {
    fn default() -> Output<E> {
        Output {
            events: Vec::new(),
            replies: Vec::new(),
            calls: Vec::new(),
            batch: Vec::new(),
            batch_now: Vec::new(),
            notices: Vec::new(),
            remarks: Vec::new(),
            stop: None,
        }
    }
}

/// The moment of an input, and what has come of it so far.
pub(crate) struct Step<E> {
    pub(crate) now: Moment,
    pub(crate) out: Output<E>,
}

impl<E> Step<E> {
    pub(crate) fn new(now: Moment) -> Step<E> {
        Step { now, out: Output::default() }
    }

    pub(crate) fn remark(&mut self, remark: Remark) {
        self.out.remarks.push(remark);
    }
}

impl<E> Output<E> {
    /// Whether nothing came of it.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
            && self.replies.is_empty()
            && self.calls.is_empty()
            && self.batch.is_empty()
            && self.batch_now.is_empty()
            && self.notices.is_empty()
            && self.remarks.is_empty()
            && self.stop.is_none()
    }

    /// Answers a call about a reservation.
    pub fn answer(&mut self, call: CallId, answer: impl Into<Answer>) {
        self.replies.push((call, Reply::Answer(answer.into())));
    }

    /// Answers a call about a job.
    pub fn answer_job(&mut self, call: CallId, answer: Result<JobView, Problem>) {
        self.replies.push((call, Reply::Job(answer.map(Box::new))));
    }
}

impl Notice {
    /// Of a reservation, and no more is to be said.
    pub fn about(at: Moment, kind: &'static str, id: ReservationId) -> Notice {
        Notice {
            at,
            kind,
            id: Some(id),
            owner: None,
            state: None,
            version: None,
            missing: None,
            because: None,
            webhook: None,
        }
    }

    /// The word by which the owner of a reservation is told of this, by webhook or command; None where it changes nothing that
    /// an owner relies on. A new kind of event is told unless it is named here.
    pub fn told_owner(&self) -> Option<&'static str> {
        self.id.and(self.owner.as_ref())?;
        Some(match self.kind {
            // Steps on the way to something that is told, or that the answer to a call has said already.
            "requested" | "granted" | "held" | "held-longer" | "commit-requested" | "change-requested"
            | "cancelled-before" => return None,
            // The affairs of the party itself.
            "forgotten" | "orphan-removed" | "restored" => return None,
            // A site and a broker use one word for the same.
            "missing" if self.missing.as_ref().is_some_and(|missing| missing.capacity > Capacity::ZERO) => {
                "degraded"
            }
            "missing" => "whole",
            "change-settled" => "changed",
            other => other,
        })
    }
}

impl Remark {
    /// A line about nothing in particular.
    pub fn new(level: Level, event: &'static str, message: impl Into<String>) -> Remark {
        Remark { level, event, message: message.into(), reservation: None, job: None, name: None }
    }

    /// About a reservation.
    pub fn of(self, id: ReservationId) -> Remark {
        Remark { reservation: Some(id), ..self }
    }

    /// About a job.
    pub fn of_job(self, id: JobId) -> Remark {
        Remark { job: Some(id), ..self }
    }

    /// About a peer or a resource.
    pub fn at(self, name: Name) -> Remark {
        Remark { name: Some(name), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(kind: &'static str, missing: Option<u32>) -> Option<&'static str> {
        let missing =
            missing.map(|capacity| Missing { capacity: Capacity(capacity), could_begin: Vec::new() });
        let notice = Notice::about(Moment(0), kind, ReservationId(1));
        Notice { owner: Some("ada".into()), missing, ..notice }.told_owner()
    }

    #[test]
    fn owners_are_told_of_all_but_steps_on_the_way() {
        for kind in ["requested", "granted", "held", "held-longer", "change-requested", "forgotten"] {
            assert_eq!(told(kind, None), None, "{kind}");
        }
        for kind in ["committed", "broken", "healed", "begun", "cancelled", "lost", "not thought of yet"] {
            assert_eq!(told(kind, None), Some(kind));
        }
        assert_eq!(told("change-settled", None), Some("changed"));
        assert_eq!((told("missing", Some(1)), told("missing", Some(0))), (Some("degraded"), Some("whole")));
        assert_eq!(Notice::about(Moment(0), "committed", ReservationId(1)).told_owner(), None);
    }
}
