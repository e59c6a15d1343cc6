//! Jobs as their owners, sites and brokers speak of them: what is to be run, and how it stands. Plain values; nothing here
//! decides.

use crate::ids::{JobId, Name, ReservationId};
use crate::resource::Requirement;
use bookahead_plan::{Capacity, Seconds, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A job has at most this many copies at the same time: each costs its site room in its queue and its broker a call a second.
pub const MOST_COPIES: u32 = 32;

/// A job that somebody wants to be run. Its id is told beside it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobRequest {
    /// The reservation that it is to run in; without one it waits in the queue.
    #[serde(default)]
    pub reservation: Option<ReservationId>,
    /// On this very resource; without one, on any of its kind that has what is required.
    #[serde(default)]
    pub resource: Option<Name>,
    /// What kind of resource.
    pub kind: Name,
    /// How much of it.
    pub capacity: Capacity,
    /// It is ended when it has run for so long.
    pub limit: Seconds,
    /// Latest useful end. Of a broker only.
    #[serde(default)]
    pub latest_end: Option<Time>,
    /// What the resource must have.
    #[serde(default)]
    pub requirements: Vec<Requirement>,
    /// The clock rate in MHz of the machine that `limit` was measured on. Of a broker only.
    #[serde(default)]
    pub reference_mhz: Option<u32>,
    /// How many bytes must be at the site before it can start. Of a broker only.
    #[serde(default)]
    pub input_bytes: Option<u64>,
    /// What it does.
    pub work: Work,
    /// How a broker finds a place for it; None for the broker's default, and at a site.
    #[serde(default)]
    pub mode: Option<Mode>,
    /// Of a flooded job: how many copies wait at the same time.
    #[serde(default)]
    pub copies: Option<u32>,
    /// Whether it is one of several copies, of which one may run: when its turn comes it claims, and runs only when it is
    /// told to go.
    #[serde(default)]
    pub claims: bool,
}

/// How a broker finds a place for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum Mode {
    /// It asks the best sites for reservations, and keeps the one that is over first.
    #[default]
    Reserve,
    /// It puts copies into the queues of the best sites; the first whose turn comes runs, and the others are cancelled.
    Flood,
}

/// What a job does.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
        /// In addition to the variables that every job gets.
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

/// A job as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobView {
    /// Its id.
    pub id: JobId,
    /// Whose it is.
    pub owner: Name,
    /// Where it is; None while a broker looks for a place.
    pub site: Option<Name>,
    /// On which resource; None while a broker looks for a place.
    pub resource: Option<Name>,
    /// The reservation that it runs in.
    pub reservation: Option<ReservationId>,
    /// How much it takes.
    pub capacity: Capacity,
    /// How long it may run.
    pub limit: Seconds,
    /// How it stands.
    pub state: JobWord,
    /// When it was submitted.
    pub submitted: Time,
    /// When it started.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
    /// While it waits: when it would start by the plan of this moment.
    pub expected_start: Option<Time>,
    /// Of a job that is done: the exit code.
    pub exit: Option<i32>,
    /// What else there is to say, such as why it could not start.
    pub detail: Option<String>,
}

/// How a job stands, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum JobWord {
    /// A broker looks for a place for it, or is about to hand it over.
    Placing,
    /// It waits.
    Waiting,
    /// Its turn has come, and it waits for the go of its broker.
    Claiming,
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
    /// Its end is not known.
    Lost,
    /// It could not be started; `detail` says why.
    CouldNotStart,
}

impl JobWord {
    /// Whether nothing will become of it any more.
    pub fn is_over(self) -> bool {
        !matches!(self, JobWord::Placing | JobWord::Waiting | JobWord::Claiming | JobWord::Running)
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Ending {
    /// To its end.
    Finished,
    /// With an error, or stopped by the site.
    Failed,
    /// The site went down after it had started the job; how far that went is not known.
    Lost,
}
