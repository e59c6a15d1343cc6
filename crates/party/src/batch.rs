//! What a site and its batch system say to each other: orders go out, reports come back as inputs, in any order and as late
//! as a batch system takes. Whoever carries orders out keeps the order of those for one reservation, and the order of those
//! for one job; it may carry out several others at once, and one look may serve several that were ordered before it began.

pub use bookahead_protocol::jobs::Work;

use bookahead_plan::{Capacity, Seconds, Span, Time};
use bookahead_protocol::ledger::View;
use bookahead_protocol::{JobId, Moment, Name, ReservationId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// Counts the orders of one life of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OrderId(pub u64);

/// Something that the batch system is to do.
#[allow(missing_docs, reason = "`order` is its number, `job` the job that it is about")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchOrder {
    /// From now on exactly this is kept free for a reservation; nothing where there are no spans. Saying it twice changes
    /// nothing.
    Keep { order: OrderId, backing: Backing },
    /// Take a job. The same id twice changes nothing if it is the same job.
    Submit { order: OrderId, job: Box<Job> },
    /// A job that waits is to run inside the reservation that it names now. Saying it twice changes nothing; one that runs, is
    /// over or unknown is refused.
    Bind { order: OrderId, job: Box<Job> },
    /// A job that claims may run.
    Go { order: OrderId, job: JobId },
    /// End a job, whether it waits or runs. An unknown one, or one that is over, is left as it is.
    Cancel { order: OrderId, job: JobId },
    /// Tell what is there. The look must begin after the order was given.
    Look { order: OrderId },
}

/// What the batch system did, or what is seen there.
#[allow(missing_docs, reason = "`order` is the order that it reports on")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchReport {
    /// What came of [`BatchOrder::Keep`].
    Kept {
        order: OrderId,
        id: ReservationId,
        /// Whether it is kept exactly as ordered.
        outcome: Result<(), BatchError>,
    },
    /// What came of [`BatchOrder::Submit`], [`BatchOrder::Bind`], [`BatchOrder::Go`] or [`BatchOrder::Cancel`].
    Job {
        order: OrderId,
        job: JobId,
        /// Whether it was done.
        outcome: Result<(), BatchError>,
    },
    /// What came of [`BatchOrder::Look`], or of a look that nobody ordered.
    Looked {
        /// The newest order that was given before the look began; None where it was not ordered.
        order: Option<OrderId>,
        /// When the look began, by the clock of the site.
        at: Moment,
        /// What was seen.
        outcome: Result<Look, BatchError>,
    },
    /// What the batch system calls a job, before anything else is reported about it.
    JobNamed {
        job: JobId,
        /// Such as a number; it stays the same for the life of the job.
        native: String,
    },
    /// A job is in another state.
    JobChanged(JobChange),
}

/// Why an order was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BatchError {
    /// The batch system says no, and what is kept is as it was before the order.
    #[error("{0}")]
    Refused(String),
    /// No answer, or none that is understood: it may have been carried out or not, and may be later. A look tells.
    #[error("{0}")]
    Unknown(String),
}

/// What is to be kept free for a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backing {
    /// On which resource.
    pub resource: Name,
    /// For which reservation.
    pub id: ReservationId,
    /// Whose jobs may use it.
    pub owner: Name,
    /// When, and how much; spans of the same time add up.
    pub spans: Vec<Span>,
    /// Whether it is to be kept on other nodes, since some of its nodes are away. What is there stays until all of the new is
    /// there; where that cannot be had, everything stays as it is.
    pub replaces: bool,
}

/// What is there at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Look {
    /// By name of the resource.
    pub resources: BTreeMap<Name, Arc<Seen>>,
    /// Jobs that were submitted by this site, also those that are over and still shown.
    pub jobs: Vec<JobStatus>,
    /// All that is kept free because of this site, as it is found: from it a lost book can be made anew.
    pub tagged: Vec<Tagged>,
    /// The time here and there; None where both go by one clock, or it is not told.
    pub clocks: Option<Clocks>,
    /// Jobs, nodes and reservations that the batch system shows in a way that cannot be read, such as `job 12.pbs1`. They are
    /// left out.
    pub unreadable: Vec<String>,
}

/// What is there on one resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// Jobs outside of reservations, and reservations that Bookahead did not make. Jobs inside a reservation use its room and
    /// are not here.
    pub view: View,
    /// What failed and is not repaired.
    pub lost: Capacity,
    /// What is kept free, for the reservations that are not over, whether or not its nodes are up.
    pub backings: BTreeMap<ReservationId, Vec<Span>>,
    /// How much of that is on nodes that are away, at most at any instant from now on; reservations without such nodes are not
    /// here.
    pub away: BTreeMap<ReservationId, Capacity>,
    /// Of a scheduler in this process: the reservations that jobs wait or run in. Others are hit before them where capacity
    /// fails.
    pub in_use: BTreeSet<ReservationId>,
}

/// A backing that was found, with what its name tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tagged {
    /// For which reservation.
    pub id: ReservationId,
    /// Whose it is, if its name had room for that.
    pub owner: Option<Name>,
    /// On which resource.
    pub resource: Name,
    /// What was granted, whether or not all of it is there now.
    pub spans: Vec<Span>,
}

/// Two clocks that were read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// That of the site.
    pub ours: Time,
    /// That of the batch system.
    pub theirs: Time,
}

impl BatchOrder {
    /// Its number.
    pub fn order(&self) -> OrderId {
        match self {
            BatchOrder::Keep { order, .. }
            | BatchOrder::Submit { order, .. }
            | BatchOrder::Bind { order, .. }
            | BatchOrder::Go { order, .. }
            | BatchOrder::Cancel { order, .. }
            | BatchOrder::Look { order } => *order,
        }
    }
}

impl BatchError {
    /// Whether nothing was done, and will not be.
    pub fn is_refusal(&self) -> bool {
        matches!(self, BatchError::Refused(_))
    }
}

impl Clocks {
    /// By how much theirs is ahead; negative where it is behind.
    pub fn skew(&self) -> Seconds {
        self.theirs - self.ours
    }
}

/// A job to be run once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Made by its owner, so that a repeated submission is recognised.
    pub id: JobId,
    /// Whose it is.
    pub user: Name,
    /// Where it runs.
    pub resource: Name,
    /// What it needs.
    pub capacity: Capacity,
    /// It is ended after this time.
    pub limit: Seconds,
    /// The reservation inside which it runs; None where it waits in the queue.
    pub reservation: Option<ReservationId>,
    /// What it does.
    pub work: Work,
    /// Whether it is one of several copies: when its turn comes it claims, and it runs only after a go.
    #[serde(default)]
    pub claims: bool,
}

/// How a job stands in the batch system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Which job.
    pub id: JobId,
    /// How it stands.
    pub state: JobState,
    /// When it was submitted.
    pub submitted: Time,
    /// When it started, if it has.
    pub started: Option<Time>,
    /// When it was over, if it is.
    pub ended: Option<Time>,
    /// While it waits: when it would start by the plan of now.
    pub expected_start: Option<Time>,
}

/// How a job stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// In the queue, or for its reservation.
    Waiting,
    /// Its turn has come and its room is kept; it does nothing before it gets a go.
    Claiming,
    /// Now.
    Running,
    /// It ended by itself.
    Done {
        /// With this code; zero where all is well.
        exit: i32,
    },
    /// It was ended, or never began.
    Killed(Ended),
}

/// Why a job was ended, or never began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Its owner, its broker or an operator cancelled it.
    Cancelled,
    /// It ran out of time.
    Limit,
    /// Its reservation ended, or shrank below what it needs.
    ReservationOver,
    /// Capacity failed, and what was left is promised to others.
    Displaced,
    /// The batch system ended it for a reason of its own, such as a node that failed under it.
    Failed(String),
    /// Its end is not known.
    Lost,
    /// There is nothing to run, or nowhere to run it.
    CouldNotStart(String),
    /// Its turn came and nobody gave it a go in time: it did not run.
    NoGo,
}

/// A job is in another state now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobChange {
    /// Which.
    pub id: JobId,
    /// How it stands now.
    pub state: JobState,
    /// Since when.
    pub at: Time,
}

impl JobState {
    /// Whether nothing will become of it any more.
    pub fn is_over(&self) -> bool {
        matches!(self, JobState::Done { .. } | JobState::Killed(_))
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Cancelled => f.write_str("it was cancelled"),
            Ended::Limit => f.write_str("it ran out of time"),
            Ended::ReservationOver => f.write_str("its reservation ended or shrank"),
            Ended::Displaced => f.write_str("capacity failed, and what was left is promised to others"),
            Ended::Failed(why) => write!(f, "the batch system ended it: {why}"),
            Ended::Lost => f.write_str("its end is not known"),
            Ended::CouldNotStart(why) => write!(f, "it could not start: {why}"),
            Ended::NoGo => f.write_str("its turn came and it got no go in time; it did not run"),
        }
    }
}
