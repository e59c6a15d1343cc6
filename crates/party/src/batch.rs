//! Orders from a site to its batch system, and reports back. Reports come as inputs, in any order and with
//! any delay. The executor keeps the order of orders for one reservation and for one job. It may carry out
//! others in parallel, and one look may serve several that were ordered before it began.

pub use bookahead_protocol::jobs::{Rerun, Work};

use bookahead_plan::{Capacity, Seconds, Span, Time};
use bookahead_protocol::ledger::{Started, View};
use bookahead_protocol::{Description, JobId, Moment, Name, Request, ReservationId, Tres};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// Number of an order, counted since the start of the site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OrderId(pub u64);

/// An order to the batch system.
#[allow(missing_docs, reason = "`order` is its number, `job` the job that it is about")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchOrder {
    /// Keep exactly these spans free for a reservation from now on; none to delete it. Idempotent.
    Keep { order: OrderId, backing: Backing },
    /// Submit a job. Idempotent for the same job.
    Submit { order: OrderId, job: Box<Job> },
    /// Move a waiting job into the reservation that it names. Idempotent. A job that runs, is over or unknown
    /// is refused.
    Bind { order: OrderId, job: Box<Job> },
    /// Let a job into the queue that was submitted as [`Job::held`]. Idempotent.
    Release { order: OrderId, job: JobId },
    /// Let a claiming job run.
    Go { order: OrderId, job: JobId },
    /// Put a job that is over back into the queue, outside of reservations. Idempotent for the same number of
    /// restarts. Refused if the job is unknown.
    Requeue {
        order: OrderId,
        job: Box<Job>,
        /// How often it went back to the queue, this time included.
        restarts: u32,
    },
    /// Send the warning signal to a running job.
    Warn { order: OrderId, job: JobId },
    /// Cancel a job, waiting or running. Does nothing for an unknown or finished one.
    Cancel { order: OrderId, job: JobId },
    /// Report the current state. The look must begin after the order was given.
    Look { order: OrderId },
}

/// A report from the batch system.
#[allow(missing_docs, reason = "`order` is the order that it reports on")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchReport {
    /// Result of a [`BatchOrder::Keep`].
    Kept {
        order: OrderId,
        id: ReservationId,
        /// Ok if the spans are kept exactly as ordered.
        outcome: Result<(), BatchError>,
    },
    /// Result of any order about a job.
    Job {
        order: OrderId,
        job: JobId,
        /// Ok if it was carried out.
        outcome: Result<(), BatchError>,
    },
    /// Result of a [`BatchOrder::Look`], or of a look without an order.
    Looked {
        /// The newest order given before the look began. None if it was not ordered.
        order: Option<OrderId>,
        /// When the look began, by the site's clock.
        at: Moment,
        /// The state found.
        outcome: Result<Look, BatchError>,
    },
    /// The batch system's own id of a job. Comes before any other report about the job.
    JobNamed {
        job: JobId,
        /// Such as a number. It does not change during the life of the job.
        native: String,
    },
    /// A job changed its state.
    JobChanged(JobChange),
}

/// Why an order was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BatchError {
    /// The batch system refused. Everything is as before the order.
    #[error("{0}")]
    Refused(String),
    /// No answer, or one that cannot be parsed. The order may have been carried out, or may be later; a look
    /// will tell.
    #[error("{0}")]
    Unknown(String),
}

/// The capacity to keep free for a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backing {
    /// The resource.
    pub resource: Name,
    /// The reservation.
    pub id: ReservationId,
    /// The user whose jobs may use it.
    pub owner: Name,
    /// The terms as they were asked for. Jobs of the users that they [let in](Request::let_in) may use it, too.
    pub terms: Arc<Request>,
    /// Times and capacities. Overlapping spans add up.
    pub spans: Vec<Span>,
    /// Amounts of things beside the capacity, in all spans.
    pub tres: Tres,
    /// Whether to move it to other nodes, because some of its nodes are away. The old one stays until all of
    /// the new one is there; if that is impossible, nothing changes.
    pub replaces: bool,
}

/// Whether a batch system lets jobs of several users into one reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Sharing {
    /// Only jobs of one user.
    Never,
    /// The users are set when it is created, and stay.
    FromTheBeginning,
    /// The users can change at any time.
    #[default]
    Always,
}

/// Whether reservations may attract jobs that do not name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Attracting {
    /// The batch system cannot do it.
    #[default]
    Impossible,
    /// The site does not allow it.
    Forbidden,
    /// If the owner asks for it.
    Allowed,
}

/// The state of a batch system at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Look {
    /// By name of the resource.
    pub resources: BTreeMap<Name, Arc<Seen>>,
    /// Jobs submitted by this site, including finished ones that are still listed.
    pub jobs: Vec<JobStatus>,
    /// All reservations that carry this site's tag. A lost ledger can be rebuilt from them.
    pub tagged: Vec<Tagged>,
    /// Both clocks, read together. None if they are the same clock, or the batch system does not report its
    /// time.
    pub clocks: Option<Clocks>,
    /// Jobs, nodes and reservations that could not be parsed, such as `job 12.pbs1`. They are left out.
    pub unreadable: Vec<String>,
}

/// The state of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// Jobs outside reservations, and reservations not made by Bookahead. Jobs inside a reservation use its
    /// capacity and are not listed.
    pub view: View,
    /// Failed capacity.
    pub lost: Capacity,
    /// Spans kept for reservations that are not over, whether or not their nodes are up.
    pub backings: BTreeMap<ReservationId, Vec<Span>>,
    /// Capacity of reservations that is on nodes that are away, at most at any instant from now on. Without
    /// zeros.
    pub away: BTreeMap<ReservationId, Capacity>,
    /// For a built-in scheduler: reservations that jobs wait or run in. They lose capacity last.
    pub in_use: BTreeSet<ReservationId>,
    /// Jobs that started from the queue, outside reservations: all that run, and others that started since the
    /// last look.
    pub started: Vec<Started>,
}

/// A reservation found in the batch system, with the information in its tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tagged {
    /// The reservation.
    pub id: ReservationId,
    /// Its owner, if the tag had room for it.
    pub owner: Option<Name>,
    /// The resource.
    pub resource: Name,
    /// The granted spans, whether or not all nodes are up.
    pub spans: Vec<Span>,
    /// Amounts of things beside the capacity.
    pub tres: Tres,
}

/// Two clocks read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// The site's clock.
    pub ours: Time,
    /// The batch system's clock.
    pub theirs: Time,
    /// Whether that clock is known to be on another machine than the commands, so that it is independent of theirs.
    pub elsewhere: bool,
}

impl BatchOrder {
    /// Its number.
    pub fn order(&self) -> OrderId {
        match self {
            BatchOrder::Keep { order, .. }
            | BatchOrder::Submit { order, .. }
            | BatchOrder::Bind { order, .. }
            | BatchOrder::Release { order, .. }
            | BatchOrder::Go { order, .. }
            | BatchOrder::Requeue { order, .. }
            | BatchOrder::Warn { order, .. }
            | BatchOrder::Cancel { order, .. }
            | BatchOrder::Look { order } => *order,
        }
    }
}

impl BatchError {
    /// Whether nothing was done and nothing will be.
    pub fn is_refusal(&self) -> bool {
        matches!(self, BatchError::Refused(_))
    }
}

impl Clocks {
    /// How far the batch system's clock is ahead; negative if it is behind.
    pub fn skew(&self) -> Seconds {
        self.theirs - self.ours
    }
}

/// A job, to be run once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Chosen by its owner, so that a repeated submission is recognised.
    pub id: JobId,
    /// Its owner.
    pub user: Name,
    /// Where it runs.
    pub resource: Name,
    /// Capacity that it uses.
    pub capacity: Capacity,
    /// Time limit, after which it is cancelled.
    pub limit: Seconds,
    /// The reservation that it runs in. None if it waits in the queue.
    pub reservation: Option<ReservationId>,
    /// Program or script.
    pub work: Work,
    /// Whether it is one of several copies: when its turn comes it claims, and runs only after a go.
    #[serde(default)]
    pub claims: bool,
    /// Whether it is submitted on hold, and released when the journal has its native id.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Whether it may run again after its reservation, and when it is warned.
    #[serde(default, skip_serializing_if = "Rerun::is_empty")]
    pub rerun: Rerun,
    /// Name, note and labels.
    #[serde(default, skip_serializing_if = "Description::is_empty")]
    pub description: Description,
}

/// State of a job in the batch system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatus {
    /// The job.
    pub id: JobId,
    /// Its state.
    pub state: JobState,
    /// When it was submitted.
    pub submitted: Time,
    /// When it started.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
    /// Expected start by the current plan, while it waits.
    pub expected_start: Option<Time>,
    /// How often it went back to the queue. The other fields are about the run after that.
    #[serde(default)]
    pub restarts: u32,
}

/// State of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// In the queue, or waiting for its reservation.
    Waiting,
    /// Its turn has come and its capacity is kept; it does nothing before a go.
    Claiming,
    /// Running.
    Running,
    /// Ended by itself.
    Done {
        /// Exit code; zero means success.
        exit: i32,
    },
    /// Cancelled, or never started.
    Killed(Ended),
}

/// Why a job was cancelled or never started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Cancelled by its owner, its broker or an operator.
    Cancelled,
    /// It reached its time limit.
    Limit,
    /// Its reservation ended, or shrank below its capacity.
    ReservationOver,
    /// Capacity failed, and the rest is promised to others.
    Displaced,
    /// Ended by the batch system, such as for lack of memory.
    Failed(String),
    /// Ended with its node.
    NodeFailed(String),
    /// Its end is unknown.
    Lost,
    /// It could not be started, for this reason.
    CouldNotStart(String),
    /// Its turn came, but no go in time. It did not run.
    NoGo,
}

impl Ended {
    /// Whether the site took its capacity away, so that a restartable job goes back to the queue.
    pub fn is_taken_away(&self) -> bool {
        matches!(self, Ended::ReservationOver | Ended::Displaced | Ended::NodeFailed(_))
    }
}

/// A change of a job's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobChange {
    /// The job.
    pub id: JobId,
    /// Its new state.
    pub state: JobState,
    /// When it changed.
    pub at: Time,
}

impl JobState {
    /// Whether its state is final.
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
            Ended::Displaced => f.write_str("capacity failed, and the rest is promised to others"),
            Ended::Failed(why) | Ended::NodeFailed(why) => write!(f, "the batch system ended it: {why}"),
            Ended::Lost => f.write_str("its end is unknown"),
            Ended::CouldNotStart(why) => write!(f, "it could not start: {why}"),
            Ended::NoGo => f.write_str("its turn came but it got no go in time; it did not run"),
        }
    }
}
