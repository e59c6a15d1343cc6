//! Jobs as a site hands them to a resource manager, and what becomes of them.

use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::{JobId, Name, ReservationId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// A job to be run once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Made by whoever submits it, so that a repeated submission is recognised.
    pub id: JobId,
    /// Whose it is.
    pub user: Name,
    /// Where it runs.
    pub resource: Name,
    /// What it needs.
    pub capacity: Capacity,
    /// It is ended after so long.
    pub limit: Seconds,
    /// The reservation inside which it runs; None where it waits in the queue as everyone does.
    pub reservation: Option<ReservationId>,
    /// What it does.
    pub work: Work,
}

/// What a job does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A program with its arguments, run without a shell.
    Program {
        /// A path, or a name that is looked for in the job's `PATH`.
        program: String,
        /// As the program will see them.
        arguments: Vec<String>,
        /// Where it runs: an absolute path. The job's own folder where none is given.
        folder: Option<PathBuf>,
        /// In addition to what every job gets.
        environment: BTreeMap<String, String>,
    },
    /// A script, handed to the interpreter that its first line names after `#!`; to `/bin/sh` where it names none.
    Script {
        /// The script itself.
        text: String,
        /// As the script will see them.
        arguments: Vec<String>,
    },
    /// Takes so long and does nothing.
    Pretended {
        /// How long.
        run: Seconds,
    },
}

/// How it stands with a job that was submitted. What it is, whoever submitted it knows: a batch system cannot tell.
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
    /// Where it waits: when it would start by the plan of now.
    pub expected_start: Option<Time>,
}

/// How it stands with a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// In the queue, or for its reservation.
    Waiting,
    /// Now.
    Running,
    /// It ended by itself.
    Done {
        /// With this code; zero where all is well.
        exit: i32,
    },
    /// It was ended, or never began.
    Killed(Why),
}

/// Why a job was ended, or never began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Somebody said so.
    Cancelled,
    /// It ran out of time.
    Limit,
    /// Its reservation ended, or shrank below what it needs.
    ReservationOver,
    /// Capacity failed, and what was left is promised to others.
    Displaced,
    /// What came of it cannot be known.
    Lost,
    /// There is nothing to run, or nowhere to run it.
    CouldNotStart(String),
}

/// Something became of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobChange {
    /// Of which.
    pub id: JobId,
    /// How it stands with it now.
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

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Cancelled => f.write_str("it was cancelled"),
            Why::Limit => f.write_str("it ran out of time"),
            Why::ReservationOver => f.write_str("its reservation ended or shrank"),
            Why::Displaced => f.write_str("capacity failed, and what was left is promised to others"),
            Why::Lost => f.write_str("what came of it cannot be known"),
            Why::CouldNotStart(why) => write!(f, "it could not start: {why}"),
        }
    }
}
