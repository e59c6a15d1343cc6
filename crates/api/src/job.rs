//! Jobs that run in a reservation, in the queue of a site, or at a site that a broker chooses. The id of a job is
//! in the document, but separate from the request in the protocol.

use crate::convert::{converted, same_fields, words};
use crate::description::{JobIdText, NameText, ReservationIdText};
use crate::request::{Requirement, processors};
use crate::time::{OutOfCalendar, Timestamp};
use bookahead_plan::Seconds;
use bookahead_protocol::jobs::{JobRequest, JobView, JobWord, Rerun, Runs};
use bookahead_protocol::{Description, JobId, Name, ReservationId, jobs};
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
    /// Id of the job. Default: the server makes one.
    #[schema(value_type = Option<JobIdText>)]
    pub id: Option<JobId>,
    /// Reservation to run in. Without one, the job waits in the queue. At a broker the job runs in the one part of
    /// the reservation that matches `resource` (or else `kind`) and `capacity`.
    #[schema(value_type = Option<ReservationIdText>)]
    pub reservation: Option<ReservationId>,
    /// Resource to run on. Default: any resource of `kind` that meets the requirements. In a reservation at a
    /// broker: the part on this resource.
    #[schema(value_type = Option<NameText>, example = "cluster")]
    pub resource: Option<Name>,
    /// Kind of resource.
    #[serde(default = "processors")]
    #[schema(value_type = NameText, default = "processors", example = "processors")]
    pub kind: Name,
    /// Capacity to use.
    #[schema(minimum = 1, example = 64)]
    pub capacity: u32,
    /// Time limit in seconds. The job is cancelled when it has run for this long.
    #[schema(minimum = 1, example = 7200)]
    pub limit_seconds: i64,
    /// Latest useful end time (broker only).
    pub latest_end: Option<Timestamp>,
    /// Attributes that the resource must have. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    pub requirements: Vec<Requirement>,
    /// Clock rate in MHz of the machine that `limit_seconds` was measured on (broker only). The time limit is
    /// scaled by the attribute `mhz` of the site.
    #[schema(minimum = 1)]
    pub reference_mhz: Option<u32>,
    /// Bytes of input that must be at the site before the job can start (broker only). Sites with the attribute
    /// `bytes-per-second` are ranked by the time that the transfer takes.
    pub input_bytes: Option<u64>,
    /// What to run.
    pub work: Work,
    /// How the broker finds a place for the job (broker only). Default: `reserve`.
    pub mode: Option<Mode>,
    /// With `mode` `flood`: number of copies that wait at the same time, each at another site. Default: 3, or the
    /// number of suitable sites if that is less.
    #[schema(minimum = 1, maximum = 32)]
    pub copies: Option<u32>,
    /// The job is one of several copies and runs only after a go. Set by a broker with mode `flood`: when the copy
    /// could start, its state is `claiming` until `POST /v1/jobs/{id}/go`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    pub claims: bool,
    /// The job goes back to the queue of its site, under the same id, if its reservation ends or is cancelled before
    /// the job is done, or if capacity fails under it. Refused by sites whose batch system cannot do that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    pub restartable: bool,
    /// The job gets the signal SIGUSR1 so many seconds before its reservation or its time limit ends, whichever is
    /// first, to save its work.
    #[schema(minimum = 1, example = 300)]
    pub warn_seconds: Option<i64>,
    /// How often the broker submits the job again, at other sites first, after a site lost it (broker only). Default:
    /// 0. A site that does not answer has not lost it.
    #[schema(minimum = 0, maximum = 16)]
    pub retry: Option<u32>,
    /// Name for lists and calendars: 1 to 100 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100, example = "MPI course")]
    pub name: Option<String>,
    /// Note: at most 1000 characters; line breaks are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub note: Option<String>,
    /// Labels, at most 16. A key has 1 to 63 letters, digits and the characters `.-_/`; a value has at most 255
    /// characters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(example = json!({"course": "mpi"}))]
    pub labels: BTreeMap<String, String>,
    /// Priority class of the site, 1 to 63 letters, digits and the characters `.-_`. Default: the site's own. A
    /// refusal names the classes that may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 63, example = "urgent")]
    pub priority: Option<String>,
}

impl SubmitJob {
    /// The document of a job request with this id.
    pub fn of(id: JobId, request: JobRequest) -> Result<SubmitJob, OutOfCalendar> {
        Ok(SubmitJob { id: Some(id), ..SubmitJob::try_from(request)? })
    }
}

/// The program or script to run.
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
        /// Run time in seconds.
        run_seconds: i64,
    },
}

words! {
    /// How a broker finds a place for a job.
    #[derive(Default)]
    #[schema(as = JobMode)]
    Mode = jobs::Mode {
        /// Reserve at the best sites, and keep the reservation that ends first.
        #[default]
        Reserve,
        /// Submit copies to the queues of several of the best sites. The first copy that could start claims the job
        /// and gets a go from the broker; the others are withdrawn. The job runs once.
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
    /// Id of the job.
    #[schema(value_type = JobIdText)]
    pub id: JobId,
    /// Owner of the job.
    #[schema(value_type = NameText, example = "ada")]
    pub owner: Name,
    /// Site that runs it. Missing while a broker looks for one.
    #[schema(value_type = Option<NameText>)]
    pub site: Option<Name>,
    /// Resource that it runs on. Missing while a broker looks for one.
    #[schema(value_type = Option<NameText>, example = "cluster")]
    pub resource: Option<Name>,
    /// Reservation that it runs in, if any.
    #[schema(value_type = Option<ReservationIdText>)]
    pub reservation: Option<ReservationId>,
    /// Capacity that it uses, in units of the resource.
    pub capacity: u32,
    /// Time limit in seconds.
    pub limit_seconds: i64,
    /// State of the job.
    pub state: JobState,
    /// When it was submitted.
    pub submitted: Timestamp,
    /// When it started.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Waiting jobs only: start time in the current plan.
    pub expected_start: Option<Timestamp>,
    /// Exit code, once it is done.
    pub exit: Option<i32>,
    /// Id in the batch system, such as the number that `squeue` shows. Missing before it is submitted there, and
    /// with the built-in scheduler.
    pub native_id: Option<String>,
    /// More about the state, such as why the job could not start.
    pub detail: Option<String>,
    /// Whether it goes back to the queue when its reservation is over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    pub restartable: bool,
    /// Seconds before the end of its reservation or time limit at which it gets SIGUSR1.
    pub warn_seconds: Option<i64>,
    /// How often it is submitted again after a site lost it.
    pub retry: Option<u32>,
    /// How often it went back to the queue of its site.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schema(default = 0)]
    pub restarts: u32,
    /// Attempts that sites lost, oldest first (broker only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<LostAttempt>,
    /// Its last run ended because a node or other capacity of the site failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    pub node_failed: bool,
    /// Name, if it has one.
    pub name: Option<String>,
    /// Note, if it has one.
    pub note: Option<String>,
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Priority class, if it has one.
    pub priority: Option<String>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// An attempt to run a job that was lost with its site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LostAttempt {
    /// The site.
    #[schema(value_type = NameText, example = "north")]
    pub site: Name,
    /// How the broker knows that it was lost.
    pub why: String,
    /// When the broker learned it.
    pub at: Timestamp,
}

words! {
    /// State of a job.
    JobState = JobWord {
        /// A broker looks for a site, or is about to submit the job there.
        Placing,
        /// In a queue, or waiting for its reservation to begin.
        Waiting,
        /// Ready to start; waits for a go from its broker.
        Claiming,
        /// Running.
        Running,
        /// Ended by itself; see `exit`.
        Done,
        /// Cancelled by its owner, its broker or an operator.
        Cancelled,
        /// Cancelled at its time limit.
        OutOfTime,
        /// Cancelled because its reservation ended.
        ReservationOver,
        /// The site does not know how it ended.
        Lost,
        /// Could not be started; see `detail`.
        CouldNotStart,
    }
}

impl JobState {
    /// Whether the state is final.
    pub fn is_over(self) -> bool {
        JobWord::from(self).is_over()
    }
}

/// A page of jobs.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Jobs {
    /// Sorted by submission.
    pub jobs: Vec<Job>,
    /// Cursor of the next page. Missing on the last page.
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
    /// The folder was read from UTF-8 text, so the lossy conversion loses nothing.
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

// The protocol passes the id next to the request; see [`SubmitJob::of`].
same_fields!(SubmitJob = JobRequest {
    reservation, resource, kind, capacity, latest_end, requirements, reference_mhz, input_bytes, work, mode, copies, claims
} { limit_seconds = limit } in rerun: Rerun { restartable, warn_seconds, retry } in description: Description { name, note, labels, priority }
    + id: None);
same_fields!(Job = JobView {
    id, owner, site, resource, reservation, capacity, state, submitted, started, ended, expected_start, exit, native_id,
    detail
} { limit_seconds = limit } in rerun: Rerun { restartable, warn_seconds, retry }
    in runs: Runs { restarts, attempts, node_failed } in description: Description { name, note, labels, priority });
same_fields!(LostAttempt = jobs::LostAttempt { site, why, at });
converted!(Work = jobs::Work);
