//! Inputs and outputs of a party. Every driver must keep one rule: an [`Output`] leaves only when its events
//! are durable. Only [`Output::batch_now`] may be carried out before. Inputs carry the number of a call
//! instead of a channel, so a party can be cloned, compared and simulated.

use crate::batch::{BatchOrder, BatchReport};
use crate::queries::{Queries, Subject};
use crate::register::Heartbeat;
use bookahead_plan::{Capacity, Time};
use bookahead_protocol::jobs::{JobAnswer, JobRequest, JobView, JobWord};
use bookahead_protocol::problem::Problem;
use bookahead_protocol::{
    Answer, Caller, Consents, Envelope, Guests, JobId, Key, Moment, Name, ReservationId, State,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A call that waits for its reply. Unique since the start of the party.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Where a call came from. Calls to peers that follow from it carry this on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// Its trace (W3C `traceparent`).
    pub trace: Option<Arc<str>>,
    /// Identities of the brokers that it passed through, first one first. Detects cycles.
    pub via: Arc<[Name]>,
}

/// Inputs of a party.
#[allow(missing_docs, reason = "`call` is the call that waits for a reply")]
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A client calls.
    Call {
        call: CallId,
        /// The call and its caller.
        envelope: Envelope,
        /// Where it came from.
        origin: Origin,
    },
    /// A client submits a job.
    Submit {
        call: CallId,
        caller: Caller,
        key: Key,
        id: JobId,
        job: Box<JobRequest>,
        /// Where it came from.
        origin: Origin,
    },
    /// A client or broker cancels a job.
    CancelJob { call: CallId, caller: Caller, id: JobId },
    /// A broker lets a claiming job run.
    Go { call: CallId, caller: Caller, id: JobId },
    /// A peer answers a [`PeerRequest::Call`].
    Answered {
        from: Name,
        /// Key of that call.
        key: Key,
        answer: Answer,
        /// Where the call came from that caused it.
        origin: Origin,
    },
    /// A peer answers a [`PeerRequest::Job`].
    JobAnswered {
        from: Name,
        id: JobId,
        /// The question that it answers.
        asked: JobCall,
        /// The job there, or the reason of a refusal.
        answer: JobAnswer,
    },
    /// A peer sent a heartbeat, or answered a query for one.
    Heard {
        /// The call to answer. None if this party asked.
        call: Option<CallId>,
        heartbeat: Box<Heartbeat>,
        /// Round trip in milliseconds, if this party asked.
        round_trip: Option<u64>,
    },
    /// A peer has not answered for too long.
    Silent { peer: Name },
    /// The batch system reports.
    Batch(BatchReport),
    /// A client wants current data from the batch system. Ignored if a look is in progress.
    WantLook,
    /// The operator has changed the rules. Those of another kind of party are ignored.
    Rules(NewRules),
    /// Time has passed.
    Time,
}

/// Rules that replace those of a running party.
#[derive(Debug, Clone, PartialEq)]
pub enum NewRules {
    /// Of a site. Its resources and times must be the same as before.
    Site(Box<bookahead_protocol::ledger::Rules>),
    /// Of a broker. Its seed of identities and retention time stay as they are.
    Broker(Box<bookahead_protocol::broker::Rules>),
}

/// The answer to a call.
#[allow(clippy::large_enum_variant, reason = "most replies are answers")]
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// To [`Input::Call`].
    Answer(Answer),
    /// To [`Input::Submit`], [`Input::CancelJob`] and [`Input::Go`].
    Job(JobAnswer),
    /// To [`Input::Heard`].
    Registered(Result<(), Problem>),
}

/// A message to a peer. The party repeats it if it is not answered; the transport must not.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerCall {
    /// Name of the peer.
    pub to: Name,
    /// The message.
    pub request: PeerRequest,
    /// Where the call came from that caused it.
    pub origin: Origin,
}

/// Messages to peers.
#[allow(missing_docs, reason = "`id` is the id of the job at the peer")]
#[derive(Debug, Clone, PartialEq)]
pub enum PeerRequest {
    /// A call about a reservation, answered by [`Input::Answered`].
    Call(Box<Envelope>),
    /// About a job, answered by [`Input::JobAnswered`].
    Job {
        /// The user on whose behalf it is sent.
        caller: Caller,
        id: JobId,
        ask: JobCall,
        /// With [`JobCall::Submit`]: the job.
        job: Option<Box<JobRequest>>,
    },
}

pub use bookahead_protocol::jobs::race::Ask as JobCall;

/// The result of an input.
#[derive(Debug, Clone, PartialEq)]
pub struct Output<E> {
    /// For the journal, in order. Everything but `batch_now` leaves when they are durable.
    pub events: Vec<E>,
    /// Answers to calls.
    pub replies: Vec<(CallId, Reply)>,
    /// Messages to peers.
    pub calls: Vec<PeerCall>,
    /// Orders to the batch system.
    pub batch: Vec<BatchOrder>,
    /// Orders to a built-in scheduler that take capacity. They may be carried out before the events are
    /// durable, because that scheduler loses its state with this process. They are not reported. An older
    /// order in `batch` for the same reservation must not be carried out after a newer one here.
    pub batch_now: Vec<BatchOrder>,
    /// For watchers, each with the index of its event.
    pub notices: Vec<(usize, Notice)>,
    /// For the operator's log.
    pub remarks: Vec<Remark>,
    /// If set, the party cannot continue until its operator acts. Stop it with this message.
    pub stop: Option<String>,
}

/// A notification for watchers and owners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// When it happened.
    pub at: Moment,
    /// Stable name of the event.
    pub kind: &'static str,
    /// The reservation it is about. For a job, the one that it runs in.
    pub id: Option<ReservationId>,
    /// The job it is about, with its state afterwards.
    pub job: Option<JobNews>,
    /// Owner of the reservation or job.
    pub owner: Option<Name>,
    /// Other users that may see it.
    pub shared_with: BTreeSet<Name>,
    /// Answers of these users.
    pub consents: Consents,
    /// State of the reservation afterwards.
    pub state: Option<State>,
    /// Its version afterwards.
    pub version: Option<u32>,
    /// Its missing capacity, if that changed.
    pub missing: Option<Missing>,
    /// The reason as a stable word: who gave it up, what was lost, or the code of a refusal.
    pub because: Option<&'static str>,
    /// URL to notify, in addition to the event stream.
    pub webhook: Option<Box<str>>,
}

/// News of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobNews {
    /// The job.
    pub id: JobId,
    /// Its state.
    pub state: JobWord,
    /// Exit code, if it ended by itself.
    pub exit: Option<i32>,
}

/// Missing capacity of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Zero if it is whole again.
    pub capacity: Capacity,
    /// Alternative starts within its window at which it would be whole.
    pub could_begin: Vec<Time>,
}

/// A line for the operator's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// Severity.
    pub level: Level,
    /// Stable event name for searches and alerts, such as `orphan_job_cancelled`.
    pub event: &'static str,
    /// Short description.
    pub message: String,
    /// The reservation it is about.
    pub reservation: Option<ReservationId>,
    /// The job it is about.
    pub job: Option<JobId>,
    /// The peer or resource it is about.
    pub name: Option<Name>,
}

/// Severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Normal operation.
    Info,
    /// Needs attention.
    Warn,
    /// A promise is in danger, or nothing works.
    Error,
}

/// A site or a broker.
pub trait Party: Queries + Clone + Send + 'static {
    /// Journal entry.
    type Event: Serialize + DeserializeOwned + Clone + Send + Sync + 'static;
    /// Snapshot that replaces all events before it.
    type State: Serialize + DeserializeOwned + Send + 'static;
    /// Published data that is not in the events, such as the last look at the batch system. Cheap to clone.
    type Facts: Clone + Send + Sync + 'static;

    /// Kind of its journal. A journal of another kind is refused.
    const KIND: &'static str;
    /// Version of its events and snapshots.
    const SCHEMA: u32;

    /// Starts from a snapshot. The error says why that is impossible.
    fn restore(&mut self, state: Self::State) -> Result<(), String>;
    /// Applies an event, on replay and on copies for readers.
    fn apply(&mut self, event: &Self::Event);
    /// The notice of an event that was just applied, as far as it can be known after a restart; for owners
    /// that were not notified before it. Events without a time get `now`.
    fn notice_of(&self, now: Moment, event: &Self::Event) -> Option<Notice>;
    /// The reservation or job that an event is about, for the usage history.
    fn subject(_event: &Self::Event) -> Option<Subject> {
        None
    }
    /// Starts the party after the replay. The error says why that is impossible.
    fn start(&mut self, now: Moment) -> Result<Output<Self::Event>, String>;
    /// Handles an input.
    fn step(&mut self, now: Moment, input: Input) -> Output<Self::Event>;
    /// When it needs [`Input::Time`]. In the past while it has something to compute.
    fn wake_at(&self) -> Option<Moment>;

    /// Earliest moment at which a promise begins, ends or expires.
    fn next_change(&self) -> Option<Moment> {
        None
    }
    /// While the clock is in doubt, nothing new is promised. Lost in a crash.
    fn doubt_clock(&mut self, _in_doubt: bool) {}

    /// [`Party::wake_at`] without computations, which can wait while there are inputs.
    fn deadline(&self) -> Option<Moment> {
        self.wake_at()
    }
    /// A snapshot of all events so far.
    fn state(&self) -> Self::State;

    /// A copy for readers. Events are applied to it as they become durable.
    fn read_copy(&self) -> Self;
    /// Whether an event is visible to readers. Others are not applied to copies.
    fn is_shown(event: &Self::Event) -> bool;
    /// Published data, with a number that grows with every change.
    fn facts(&self) -> (u64, Self::Facts);
    /// On a copy for readers: replaces the published data.
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

/// The moment of an input, and its output so far.
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
    /// Whether there is nothing to do.
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

    /// Adds an answer to a call about a reservation.
    pub fn answer(&mut self, call: CallId, answer: impl Into<Answer>) {
        self.replies.push((call, Reply::Answer(answer.into())));
    }

    /// Adds an answer to a call about a job.
    pub(crate) fn answer_job(&mut self, call: CallId, answer: Result<JobView, Problem>) {
        self.replies.push((call, Reply::Job(answer.map(Box::new))));
    }
}

impl Notice {
    /// The users that the reservation is shared with.
    pub fn guests(&self) -> Guests<'_> {
        Guests { shared_with: &self.shared_with, consents: &self.consents }
    }

    /// About a reservation, without details.
    pub fn about(at: Moment, kind: &'static str, id: ReservationId) -> Notice {
        Notice {
            at,
            kind,
            id: Some(id),
            job: None,
            owner: None,
            shared_with: BTreeSet::new(),
            consents: Consents::new(),
            state: None,
            version: None,
            missing: None,
            because: None,
            webhook: None,
        }
    }

    /// About a job in its current state.
    pub(crate) fn about_job(at: Moment, job: &JobView) -> Notice {
        let kind = match job.state {
            JobWord::Placing | JobWord::Waiting | JobWord::Claiming => "job-submitted",
            JobWord::Running => "job-started",
            JobWord::Done if job.exit == Some(0) => "job-completed",
            JobWord::Cancelled => "job-cancelled",
            JobWord::Done
            | JobWord::OutOfTime
            | JobWord::ReservationOver
            | JobWord::Lost
            | JobWord::CouldNotStart => "job-failed",
        };
        Notice {
            at,
            kind,
            id: job.reservation,
            job: Some(JobNews { id: job.id, state: job.state, exit: job.exit }),
            owner: Some(job.owner.clone()),
            shared_with: BTreeSet::new(),
            consents: Consents::new(),
            state: None,
            version: None,
            missing: None,
            because: None,
            webhook: None,
        }
    }

    /// The stable name under which the owner is notified, by webhook or command. None if the event changes
    /// nothing for the owner, or is about a job. New kinds of events are sent unless excluded here.
    pub fn told_owner(&self) -> Option<&'static str> {
        if self.job.is_some() {
            return None;
        }
        self.id.and(self.owner.as_ref())?;
        Some(match self.kind {
            // Intermediate steps, or results that the caller already has.
            "requested" | "granted" | "held" | "held-longer" | "commit-requested" | "change-requested"
            | "request-changed" | "cancelled-before" => return None,
            // Internal to the party.
            "forgotten" | "orphan-removed" | "restored" => return None,
            // Sites and brokers use the same names.
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
    /// A line without a subject.
    pub fn new(level: Level, event: &'static str, message: impl Into<String>) -> Remark {
        Remark { level, event, message: message.into(), reservation: None, job: None, name: None }
    }

    /// Adds the reservation it is about.
    pub fn of(self, id: ReservationId) -> Remark {
        Remark { reservation: Some(id), ..self }
    }

    /// Adds the job it is about.
    pub fn of_job(self, id: JobId) -> Remark {
        Remark { job: Some(id), ..self }
    }

    /// Adds the peer or resource it is about.
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
