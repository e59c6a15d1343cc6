//! Jobs: to run in a reservation, in the queue of a site, or wherever a broker finds room. Documents become the words of
//! the protocol and back without loss; the id of a job is in the document and beside the word.

use crate::convert::{converted, same_fields, words};
use crate::description::{JobIdText, NameText, ReservationIdText};
use crate::request::{Requirement, processors};
use crate::time::{OutOfCalendar, Timestamp};
use bookahead_plan::Seconds;
use bookahead_protocol::jobs::{JobRequest, JobView, JobWord};
use bookahead_protocol::{JobId, Name, ReservationId, jobs};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A job to be run.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "reservation": "rsv_4f3c2b1a", "capacity": 64, "limit_seconds": 7200,
    "work": {"type": "program", "program": "/usr/bin/simulate", "arguments": ["--steps", "1000"]}
}))]
pub struct SubmitJob {
    /// The id of the job; the server makes one by default.
    #[schema(value_type = Option<JobIdText>)]
    pub id: Option<JobId>,
    /// The reservation to run in; without one the job waits in the queue. At a broker it runs in the one part of the
    /// reservation that suits it, by `resource` or else by `kind`, and by `capacity`.
    #[schema(value_type = Option<ReservationIdText>)]
    pub reservation: Option<ReservationId>,
    /// Run on this resource; by default on any of its kind that meets the requirements. In a reservation at a broker: run in
    /// the part on this resource.
    #[schema(value_type = Option<NameText>, example = "cluster")]
    pub resource: Option<Name>,
    /// Kind of resource.
    #[serde(default = "processors")]
    #[schema(value_type = NameText, default = "processors", example = "processors")]
    pub kind: Name,
    /// Capacity to use.
    #[schema(minimum = 1, example = 64)]
    pub capacity: u32,
    /// Time limit: the job is ended when it has run for this long.
    #[schema(minimum = 1, example = 7200)]
    pub limit_seconds: i64,
    /// Latest useful end time (broker only).
    pub latest_end: Option<Timestamp>,
    /// Attributes that the resource must have. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    pub requirements: Vec<Requirement>,
    /// Clock rate in MHz of the machine that `limit_seconds` was measured on (broker only). The time limit at a site with the
    /// attribute `mhz` is longer or shorter in proportion.
    #[schema(minimum = 1)]
    pub reference_mhz: Option<u32>,
    /// Bytes of input that must be at the site before the job can start (broker only). Sites with the attribute
    /// `bytes-per-second` are ranked by the time that the transfer takes.
    pub input_bytes: Option<u64>,
    /// What to run.
    pub work: Work,
    /// How the broker finds a place for the job (broker only). Default: `reserve`.
    pub mode: Option<Mode>,
    /// With `mode` `flood`: how many copies wait at the same time, each at another site. Default: 3, or as many sites as suit.
    #[schema(minimum = 1, maximum = 32)]
    pub copies: Option<u32>,
    /// One of several copies; it runs only after a go. A broker that floods sets it: when the turn of the copy comes, its
    /// state is `claiming` until `POST /v1/jobs/{id}/go`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    pub claims: bool,
}

impl SubmitJob {
    /// Most copies of a job at the same time: more sites than that are seldom known, and each copy costs a place in a queue.
    pub const MOST_COPIES: u32 = 32;

    /// The document of a job with this id.
    pub fn of(id: JobId, request: JobRequest) -> Result<SubmitJob, OutOfCalendar> {
        Ok(SubmitJob { id: Some(id), ..SubmitJob::try_from(request)? })
    }
}

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
#[schema(example = json!({"type": "script", "text": "#!/bin/sh\nexec simulate --steps 1000\n"}))]
pub enum Work {
    /// A program with its arguments, run without a shell.
    Program {
        /// Its path, or a name to look for in the `PATH` of the job.
        program: String,
        /// Its arguments.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        arguments: Vec<String>,
        /// Working directory, an absolute path. Default: a directory of the job's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<String>,
        /// Environment variables in addition to those that every job gets.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        environment: BTreeMap<String, String>,
    },
    /// A script, run by the interpreter that its first line names after `#!`, or else by `/bin/sh`.
    Script {
        /// The text of the script.
        text: String,
        /// Its arguments.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        arguments: Vec<String>,
    },
    /// A placeholder that only occupies the resource.
    Pretended {
        /// For how long.
        run_seconds: i64,
    },
}

words! {
    /// How a broker finds a place for a job.
    #[derive(Default)]
    #[schema(as = JobMode)]
    Mode = jobs::Mode {
        /// Ask the best sites for reservations, and keep the one that ends first.
        #[default]
        Reserve,
        /// Put copies into the queues of several of the best sites. The first copy that is ready claims the job and gets the go of
        /// the broker; the others are withdrawn. The job runs once.
        Flood,
    }
}

/// A job as its owner sees it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "id": "job_7d2e", "owner": "ada", "site": "north", "resource": "cluster", "reservation": "rsv_4f3c2b1a",
    "capacity": 64, "limit_seconds": 7200, "state": "running",
    "submitted": "2026-11-16T08:58:00Z", "started": "2026-11-16T09:00:01Z", "native_id": "4711"
}))]
pub struct Job {
    /// Its id.
    #[schema(value_type = JobIdText)]
    pub id: JobId,
    /// Whose it is.
    #[schema(value_type = NameText, example = "ada")]
    pub owner: Name,
    /// The site; missing while a broker looks for a place.
    #[schema(value_type = Option<NameText>)]
    pub site: Option<Name>,
    /// The resource; missing while a broker looks for a place.
    #[schema(value_type = Option<NameText>, example = "cluster")]
    pub resource: Option<Name>,
    /// The reservation that it runs in.
    #[schema(value_type = Option<ReservationIdText>)]
    pub reservation: Option<ReservationId>,
    /// Capacity that it uses.
    pub capacity: u32,
    /// Time limit.
    pub limit_seconds: i64,
    /// Its state.
    pub state: JobState,
    /// When it was submitted.
    pub submitted: Timestamp,
    /// When it started.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// While it waits: when it starts by the present plan.
    pub expected_start: Option<Timestamp>,
    /// Exit code, when it is done.
    pub exit: Option<i32>,
    /// Its id in the batch system, such as the number that `squeue` shows; missing before it is submitted there, and with the
    /// built-in scheduler.
    pub native_id: Option<String>,
    /// More about the state, such as why it could not start.
    pub detail: Option<String>,
}

words! {
    /// State of a job.
    JobState = JobWord {
        /// A broker looks for a place for it, or is about to hand it over.
        Placing,
        /// In a queue, or waiting for its reservation to begin.
        Waiting,
        /// Its turn has come; it runs only after a go of its broker.
        Claiming,
        /// Running.
        Running,
        /// Ended by itself; `exit` is its exit code.
        Done,
        /// Cancelled by its owner, its broker or an operator.
        Cancelled,
        /// Ended at its time limit.
        OutOfTime,
        /// Ended because its reservation was over.
        ReservationOver,
        /// Its end is not known.
        Lost,
        /// Could not be started; `detail` says why.
        CouldNotStart,
    }
}

impl JobState {
    /// Whether it has ended, or never will start.
    pub fn is_over(self) -> bool {
        JobWord::from(self).is_over()
    }
}

/// A page of jobs.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Jobs {
    /// By submission.
    pub jobs: Vec<Job>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

impl From<Work> for jobs::Work {
    fn from(work: Work) -> jobs::Work {
        match work {
            Work::Program { program, arguments, folder, environment } => {
                jobs::Work::Program { program, arguments, folder: folder.map(Into::into), environment }
            }
            Work::Script { text, arguments } => jobs::Work::Script { text, arguments },
            Work::Pretended { run_seconds } => jobs::Work::Pretended { run: Seconds(run_seconds) },
        }
    }
}

impl From<jobs::Work> for Work {
    /// A folder came in as text, so nothing of it is lost.
    fn from(work: jobs::Work) -> Work {
        match work {
            jobs::Work::Program { program, arguments, folder, environment } => {
                let folder = folder.map(|folder| folder.to_string_lossy().into_owned());
                Work::Program { program, arguments, folder, environment }
            }
            jobs::Work::Script { text, arguments } => Work::Script { text, arguments },
            jobs::Work::Pretended { run } => Work::Pretended { run_seconds: run.0 },
        }
    }
}

// The id is told beside the word of the protocol; see [`SubmitJob::of`].
same_fields!(SubmitJob = JobRequest {
    reservation, resource, kind, capacity, latest_end, requirements, reference_mhz, input_bytes, work, mode, copies, claims
} { limit_seconds = limit } + id: None);
same_fields!(Job = JobView {
    id, owner, site, resource, reservation, capacity, state, submitted, started, ended, expected_start, exit, native_id,
    detail
} { limit_seconds = limit });
converted!(Work = jobs::Work);
