//! Jobs as a site hands them to its batch system, and what becomes of them there.

use bookahead_plan::{Capacity, Seconds, Time};
pub use bookahead_protocol::jobs::Work;
use bookahead_protocol::{JobId, Name, ReservationId};
use serde::{Deserialize, Serialize};
use std::fmt;

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
            Ended::Lost => f.write_str("its end is not known"),
            Ended::CouldNotStart(why) => write!(f, "it could not start: {why}"),
            Ended::NoGo => f.write_str("its turn came and it got no go in time; it did not run"),
        }
    }
}
