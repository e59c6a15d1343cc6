//! Jobs: to run in a reservation, in the queue of a site, or wherever a broker finds room.

use crate::ids::{JobIdText, NameText, ReservationIdText};
use crate::request::{Requirement, processors};
use crate::time::Timestamp;
use bookahead_protocol::{JobId, Name, ReservationId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Run this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "reservation": "rsv_4f3c2b1a", "capacity": 64, "limit_seconds": 7200,
    "work": {"type": "program", "program": "/usr/bin/simulate", "arguments": ["--steps", "1000"]}
}))]
pub struct SubmitJob {
    /// The id of the job; where there is none, the server makes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<JobIdText>)]
    pub id: Option<JobId>,
    /// The reservation that it is to run in; without one it waits in the queue. Of a broker: it runs in the one part of the
    /// reservation that suits it, by `resource` or else by `kind`, and by `capacity`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ReservationIdText>)]
    pub reservation: Option<ReservationId>,
    /// On this very resource; without one, on any of its kind that has what is required. In a reservation at a broker: in the
    /// part that is on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<NameText>, example = "cluster")]
    pub resource: Option<Name>,
    /// What kind of resource.
    #[serde(default = "processors")]
    #[schema(value_type = NameText, default = "processors", example = "processors")]
    pub kind: Name,
    /// How much of it.
    #[schema(minimum = 1, example = 64)]
    pub capacity: u32,
    /// It is ended when it has run for so long.
    #[schema(minimum = 1, example = 7200)]
    pub limit_seconds: i64,
    /// Of a broker: it is of no use if it has not ended by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_end: Option<Timestamp>,
    /// What the resource must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<Requirement>,
    /// Of a broker: the clock rate in MHz of the machine that `limit_seconds` was measured on. Sites that tell theirs (the
    /// attribute `mhz`) are then asked for as much longer as they are slower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub reference_mhz: Option<u32>,
    /// Of a broker: how many bytes must be at the site before it can start. Sites that tell how fast they can be reached
    /// (the attribute `bytes-per-second`) are ranked by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_bytes: Option<u64>,
    /// What is to be run.
    pub work: Work,
    /// Of a broker: how it finds a place for the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Of a broker that floods: how many copies wait at the same time, each at another site; three, where it is not said, and
    /// fewer where fewer sites suit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 32)]
    pub copies: Option<u32>,
}

impl SubmitJob {
    /// A job has at most so many copies at the same time.
    pub const MOST_COPIES: u32 = 32;

    /// Whether it is the same job, whichever id it was given.
    pub fn same_but_for_id(&self, other: &SubmitJob) -> bool {
        SubmitJob { id: None, ..self.clone() } == SubmitJob { id: None, ..other.clone() }
    }
}

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
#[schema(example = json!({"type": "script", "text": "#!/bin/sh\nexec simulate --steps 1000\n"}))]
pub enum Work {
    /// A program with its arguments, run without a shell.
    Program {
        /// Which.
        program: String,
        /// With these arguments.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        arguments: Vec<String>,
        /// In this folder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<String>,
        /// With these variables beside those that every job has.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        environment: BTreeMap<String, String>,
    },
    /// The text of a script, handed to the interpreter that its first line names.
    Script {
        /// The text.
        text: String,
        /// With these arguments.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        arguments: Vec<String>,
    },
    /// Takes so long and does nothing.
    Pretended {
        /// How long.
        run_seconds: i64,
    },
}

/// How a broker finds a place for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = JobMode)]
pub enum Mode {
    /// It asks the best sites for reservations, and keeps the one that is over first.
    #[default]
    Reserve,
    /// It puts copies into the queues of the best sites; the first that starts runs, and the others are cancelled.
    Flood,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its id.
    #[schema(value_type = JobIdText)]
    pub id: JobId,
    /// Whose it is.
    #[schema(value_type = NameText, example = "ada")]
    pub owner: Name,
    /// Where it is; not known while a broker still looks for a place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<NameText>)]
    pub site: Option<Name>,
    /// On which resource; not known while a broker still looks for a place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<NameText>, example = "cluster")]
    pub resource: Option<Name>,
    /// The reservation that it runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ReservationIdText>)]
    pub reservation: Option<ReservationId>,
    /// How much it takes.
    pub capacity: u32,
    /// How long it may run.
    pub limit_seconds: i64,
    /// How it is.
    pub state: JobState,
    /// When it was submitted.
    pub submitted: Timestamp,
    /// When it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// While it waits: when it would start by the plan of this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<Timestamp>,
    /// Of a job that is done: the exit code of what was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// What else there is to say, such as why it could not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// How a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// A broker looks for a place for it, or is about to hand it over.
    Placing,
    /// It waits.
    Waiting,
    /// It runs.
    Running,
    /// It ended by itself; `exit` says how.
    Done,
    /// It was ended because somebody wanted it.
    Cancelled,
    /// It was ended because it had run for as long as it may.
    OutOfTime,
    /// It was ended because its reservation was over.
    ReservationOver,
    /// Nobody can say what became of it.
    Lost,
    /// It could not be started; `detail` says why.
    CouldNotStart,
}

impl JobState {
    /// Whether nothing will become of it any more.
    pub fn is_over(self) -> bool {
        !matches!(self, JobState::Placing | JobState::Waiting | JobState::Running)
    }
}

/// A page of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Jobs {
    /// By submission.
    pub jobs: Vec<Job>,
    /// Where the next page begins, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
