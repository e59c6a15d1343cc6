//! Journal events and snapshots of a broker, and its settings for jobs.

use bookahead_plan::{Interval, Seconds, Time};
use bookahead_protocol::broker::{Event, Snapshot};
use bookahead_protocol::jobs::race::Pace;
use bookahead_protocol::jobs::{JobRequest, JobView, LostAttempt, Patience, choice, race};
use bookahead_protocol::{Caller, JobId, Key, Millis, Name, ReservationId};
use serde::{Deserialize, Serialize};

/// A journal entry of a broker.
#[allow(clippy::large_enum_variant, reason = "most events are about bookings: a box would save nothing")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum BrokerEvent {
    /// An event of a booking.
    Booking(Event),
    /// An event of a job.
    Job(JobEvent),
}

/// Snapshot of a broker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BrokerState {
    pub(super) bookings: Snapshot,
    /// All events of remembered jobs.
    pub(super) jobs: Vec<JobEvent>,
}

/// A journal entry about a job. New fields need a default, so that older journals can be read.
#[allow(missing_docs, reason = "`id` is the job that it happened to")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum JobEvent {
    /// It was submitted to the broker.
    Submitted {
        id: JobId,
        key: Key,
        caller: Caller,
        job: Box<JobRequest>,
        at: Time,
        /// The brokers that it passed through.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        via: Vec<Name>,
        /// For a job that names a reservation: the part that it runs in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<Box<PartThere>>,
    },
    /// An event of the search for its reservation.
    Choice { id: JobId, event: choice::Event },
    /// An event of the race of its copies.
    Race { id: JobId, event: race::Event },
    /// The site of its reservation has accepted it.
    Handed { id: JobId },
    /// A site lost it, and it is submitted again.
    Retried { id: JobId, attempt: LostAttempt },
    /// Its owner cancelled it.
    Unwanted { id: JobId },
    /// It is over.
    Over {
        /// Its final state.
        job: Box<JobView>,
        /// When the broker learned that.
        at: Time,
    },
}

/// A part of a reservation, at the peer that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartThere {
    /// The peer.
    pub site: Name,
    /// Id of the part at the peer.
    pub reservation: ReservationId,
    /// The resource, by its name at the peer.
    pub resource: Name,
    /// Index of the part in the broker's reservation.
    pub number: usize,
    /// Start and end.
    pub when: Interval,
}

/// A broker's settings for jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobRules {
    /// Shortest notice for a job's reservation, at a peer that does not report its hold time.
    pub notice: Millis,
    /// Intervals between repetitions of unanswered messages.
    pub patience: Patience,
    /// Interval between queries of a job in a reservation.
    pub look_every: Millis,
    /// Intervals and timeouts for copies of a job. With many copies they are queried less often, but at least
    /// once per [`Pace::silence`].
    pub flood: Pace,
    /// Default window of a job without a latest end, counted from its submission.
    pub usual_window: Seconds,
    /// How long finished jobs are remembered.
    pub retention: Seconds,
}

impl JobEvent {
    /// The job that the event is about.
    pub fn id(&self) -> JobId {
        match self {
            JobEvent::Submitted { id, .. }
            | JobEvent::Choice { id, .. }
            | JobEvent::Race { id, .. }
            | JobEvent::Handed { id }
            | JobEvent::Retried { id, .. }
            | JobEvent::Unwanted { id } => *id,
            JobEvent::Over { job, .. } => job.id,
        }
    }
}
