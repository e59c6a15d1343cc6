//! What a broker writes down, what stands for all that it wrote, and its rules for jobs. Plain values; nothing here decides.

use bookahead_plan::{Interval, Seconds, Time};
use bookahead_protocol::broker::{Event, Snapshot};
use bookahead_protocol::jobs::race::Pace;
use bookahead_protocol::jobs::{JobRequest, JobView, Patience, choice, race};
use bookahead_protocol::{Caller, JobId, Key, Millis, Name, ReservationId};
use serde::{Deserialize, Serialize};

/// What a broker writes down.
#[allow(clippy::large_enum_variant, reason = "most events are about bookings: a box would save nothing")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum BrokerEvent {
    /// Something happened to a booking.
    Booking(Event),
    /// Something happened to a job.
    Job(JobEvent),
}

/// What stands for all events of a broker up to one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BrokerState {
    pub(super) bookings: Snapshot,
    /// All that happened to the jobs that are remembered.
    pub(super) jobs: Vec<JobEvent>,
}

/// Something that happened to a job. Fields that are added later need a default, so that older journals can be read.
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
        /// The brokers that it came through.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        via: Vec<Name>,
        /// Of one that names a reservation: the part of it that it runs in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<Box<PartThere>>,
    },
    /// Something happened to the choice of its reservation.
    Choice { id: JobId, event: choice::Event },
    /// Something happened to its copies.
    Race { id: JobId, event: race::Event },
    /// The site of its reservation has it.
    Handed { id: JobId },
    /// Its owner no longer wants it.
    Unwanted { id: JobId },
    /// It is over.
    Over {
        /// How it was in the end.
        job: Box<JobView>,
        /// When the broker learnt it.
        at: Time,
    },
}

/// A part of a reservation, at the peer that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartThere {
    /// The peer.
    pub site: Name,
    /// The id of the part at the peer.
    pub reservation: ReservationId,
    /// The resource, by its name at the peer.
    pub resource: Name,
    /// Which of the parts of the reservation it is here.
    pub number: usize,
    /// When it begins and ends.
    pub when: Interval,
}

/// How a broker deals with jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobRules {
    /// A reservation for a job begins no sooner than after this, at a peer that does not tell how long a hold takes it.
    pub notice: Millis,
    /// How often what is not answered is repeated.
    pub patience: Patience,
    /// How often a job in a reservation is looked after.
    pub look_every: Millis,
    /// How the copies of a job are looked after. Copies are looked at less often where there are many, but never less often
    /// than after [`Pace::silence`].
    pub flood: Pace,
    /// A job without a latest end must have ended this long after it was submitted.
    pub usual_window: Seconds,
    /// How long what is over is remembered.
    pub retention: Seconds,
}

impl JobEvent {
    /// The job that it happened to.
    pub fn id(&self) -> JobId {
        match self {
            JobEvent::Submitted { id, .. }
            | JobEvent::Choice { id, .. }
            | JobEvent::Race { id, .. }
            | JobEvent::Handed { id }
            | JobEvent::Unwanted { id } => *id,
            JobEvent::Over { job, .. } => job.id,
        }
    }
}
