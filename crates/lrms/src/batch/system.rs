//! The interface to a batch system, in terms that all of them share. Each dialect (Slurm, PBS, Grid Engine, LSF,
//! Maui) implements [`BatchSystem`] with its own commands; [`super::Batch`] has the logic above it. A dialect runs
//! commands and parses their output; it keeps no state that must survive a restart.
//!
//! Times are those of the batch system's clock. Amounts are in the [`Unit`] of the resource.

use super::tres::TresPicture;
use crate::environment::Within;
use crate::error::LrmsError;
use bookahead_party::{Sharing, Work};
use bookahead_plan::{Interval, Seconds, Time};
use bookahead_protocol::{Name, Request, Tres};
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Arc;

/// Exit status of a claiming job that got no go-ahead in time. Shells, `timeout`, sysexits and batch systems do not
/// use it.
pub const NO_GO: i32 = 97;

/// A batch system that is driven by commands. Calls may run in parallel; each ends within the timeout of its
/// commands.
pub trait BatchSystem: ReservationSystem + JobSystem + Send + Sync {
    /// Its limits and abilities.
    fn traits(&self) -> Traits;

    /// Reads all nodes, reservations and jobs, and the clock.
    fn look(&self) -> Result<Picture, LrmsError>;

    /// Checks for an operator whether the batch system can be used as configured. It may create and delete a
    /// reservation in the far future to test its permissions.
    fn examine(&self) -> Vec<Finding>;
}

/// Reservations of a batch system.
pub trait ReservationSystem {
    /// Chooses nodes for a reservation, with the number of cores on each, for [`Wanted::nodes`]; empty if the batch
    /// system chooses. Must not run commands: it is called with a lock held, which keeps two reservations from
    /// getting the same nodes.
    fn choose(&self, _wanted: &Wanted, _picture: &Picture) -> Result<Vec<Share>, LrmsError> {
        Ok(Vec::new())
    }

    /// Creates a reservation and returns it as it was granted. The grant is read back and compared: one that falls
    /// short is undone and reported as [`LrmsError::Refused`]. `picture` is a recent look.
    fn create(&self, wanted: &Wanted, picture: &Picture) -> Result<Reserved, LrmsError>;

    /// Changes the terms of a reservation, all of them or none; its jobs stay. Returns it as it is then. `None`: it
    /// cannot make this change and did nothing; the caller creates a new reservation and deletes the old one.
    fn change(&self, _: &Handle, _: &Wanted, _: &Picture) -> Result<Option<Reserved>, LrmsError> {
        Ok(None)
    }

    /// Sets the accounts that may use a reservation. Called only with [`Sharing::Always`].
    fn share(&self, handle: &Handle, _accounts: &[String]) -> Result<(), LrmsError> {
        // A refusal, not a silent success: the other users would be told that they may use it.
        let said = "it cannot change the users of a reservation".into();
        Err(LrmsError::Refused { what: format!("to share {handle}"), said })
    }

    /// Deletes a reservation and cancels its waiting and running jobs. A missing reservation is not an error.
    fn delete(&self, handle: &Handle) -> Result<(), LrmsError>;

    /// Moves all jobs of a reservation to another reservation of the same account; running jobs continue on their
    /// nodes. Called only with [`Traits::moves_jobs`].
    fn move_jobs(&self, from: &Handle, _to: &Handle) -> Result<(), LrmsError> {
        let said = "it cannot move jobs to another reservation".into();
        Err(LrmsError::Refused { what: format!("to move the jobs of {from}"), said })
    }
}

/// Jobs of a batch system.
pub trait JobSystem {
    /// Submits a job and returns its native id.
    fn submit(&self, job: &Submission) -> Result<String, LrmsError>;

    /// Moves a waiting job into these reservations. Called only with [`Traits::moves_jobs`].
    fn bind(&self, native: &str, _: &[Handle]) -> Result<(), LrmsError> {
        let said = "it cannot move a waiting job into a reservation".into();
        Err(LrmsError::Refused { what: format!("to put the job {native} into a reservation"), said })
    }

    /// Releases a waiting job that was submitted as [`Submission::held`]. One that is not on hold is not an error.
    fn release(&self, native: &str) -> Result<(), LrmsError>;

    /// Lets a job run that was submitted with [`Submission::go_within`].
    fn go(&self, native: &str) -> Result<(), LrmsError>;

    /// Puts a job that was submitted as [`Submission::restartable`] and is over back into the queue, outside of
    /// reservations. One that is in the queue is not an error. Called only with [`Traits::requeues_jobs`].
    fn requeue(&self, native: &str) -> Result<(), LrmsError> {
        let said = "it cannot run a job again".into();
        Err(LrmsError::Refused { what: format!("to put the job {native} back into the queue"), said })
    }

    /// Sends SIGUSR1 to the program of a running job. Called only with [`Traits::requeues_jobs`].
    fn warn(&self, native: &str) -> Result<(), LrmsError> {
        let said = "it cannot send a signal to the program of a job".into();
        Err(LrmsError::Refused { what: format!("to warn the job {native}"), said })
    }

    /// Cancels a waiting or running job. A finished or unknown one is not an error.
    fn cancel(&self, native: &str) -> Result<(), LrmsError>;

    /// The state of a job that [`BatchSystem::look`] no longer shows; None if it is unknown.
    fn outcome(&self, native: &str) -> Result<Option<JobFact>, LrmsError>;

    /// Where the output of a job goes, if the batch system tells. None if it goes where the submission said.
    fn output(&self, _native: &str) -> Result<Option<Files>, LrmsError> {
        Ok(None)
    }
}

/// Where the output of a job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// Path of standard output; relative to the home folder of the account, unless it is absolute.
    pub output: String,
    /// Path of standard error.
    pub error: String,
}

impl Files {
    /// Both in one file.
    pub(crate) fn one(path: String) -> Files {
        Files { error: path.clone(), output: path }
    }
}

/// Limits and abilities of a kind of batch system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    /// Resolution of the begin and end of reservations: a second, or a minute.
    pub smallest_step: Seconds,
    /// Limit on the length of names of reservations, in characters.
    pub longest_name: usize,
    /// Whether waiting and running jobs of a reservation can move to another.
    pub moves_jobs: bool,
    /// Whether a job that is over can go back to the queue, and a running one can get a signal.
    pub requeues_jobs: bool,
    /// How long a reservation that is deleted while a job runs in it may still occupy its cores; zero if they are
    /// free at once.
    pub freed_within: Seconds,
    /// Whether jobs of several accounts can use one reservation.
    pub sharing: Sharing,
    /// Whether reservations can have things beside cores and nodes.
    pub tres: bool,
    /// Whether a reservation can attract jobs that do not name it.
    pub attracts: bool,
}

/// Unit in which a resource is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Unit {
    /// Processor cores (in Grid Engine and LSF: slots).
    #[default]
    Cores,
    /// Whole nodes.
    Nodes,
}

/// A resource of a site in terms of the batch system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Name of the resource at the site.
    pub resource: Name,
    /// Unit of its capacity.
    pub unit: Unit,
    /// Partition (Slurm), queue (PBS, Grid Engine, LSF) or class (Maui); None for all nodes.
    pub partition: Option<String>,
    /// Restricts it to nodes with all of these features.
    pub features: Vec<String>,
}

/// Identifier of a reservation in commands of the batch system.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub String);

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Name of a node, and a number of its cores.
pub type Share = (String, u32);

/// Terms of a reservation to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// ASCII letters, digits, `_`, `-` and `.`, beginning with a letter.
    pub name: String,
    /// Resource whose nodes it uses.
    pub place: Place,
    /// A begin in the past means at once.
    pub interval: Interval,
    /// Cores or nodes, by the unit of the place.
    pub amount: u32,
    /// Account of the cluster whose jobs may use it.
    pub account: String,
    /// Other accounts whose jobs may use it, each once. Empty without [`Traits::sharing`].
    pub others: Vec<String>,
    /// The terms as they were asked for. Of a trial: none.
    pub terms: Arc<Request>,
    /// Project to which its jobs must be charged; None for any. Ignored by batch systems without projects.
    pub project: Option<String>,
    /// Nodes from [`ReservationSystem::choose`]; empty if the batch system chooses.
    pub nodes: Vec<Share>,
    /// Amounts of things beside cores and nodes. Refused by batch systems without [`Traits::tres`].
    pub tres: Tres,
}

/// State of the batch system at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Picture {
    /// Time of its clock, if it reports one.
    pub clock: Option<Time>,
    /// Whether that clock is known to be on another machine than the commands.
    pub clock_elsewhere: bool,
    /// All nodes that belong to a resource.
    pub nodes: Vec<Node>,
    /// All reservations that are not over, including those of others.
    pub reservations: Vec<Reserved>,
    /// All waiting and running jobs, the waiting ones in scheduling order, and finished ones that are still shown.
    pub jobs: Vec<JobFact>,
    /// Records that could not be parsed.
    pub unreadable: Vec<Unreadable>,
    /// GPUs, memory, licences and other things beside cores and nodes.
    pub tres: TresPicture,
}

/// A record that could not be parsed. It is skipped; all others count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// A job, by its native id.
    Job(String),
    /// A node, by its name.
    Node(String),
    /// A reservation. If it was seen before, its last known state is used; otherwise the look fails if it belongs to
    /// this site.
    Reservation {
        /// Its identifier in commands.
        handle: Handle,
        /// Its name; empty if that could not be parsed either.
        name: String,
    },
}

impl Unreadable {
    /// This many jobs whose ids could not be parsed either.
    pub(crate) fn jobs(count: usize) -> impl Iterator<Item = Unreadable> {
        std::iter::repeat_n(Unreadable::Job("with an unknown id".into()), count)
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Job(native) => write!(f, "job {native}"),
            Unreadable::Node(name) => write!(f, "node {name}"),
            Unreadable::Reservation { handle, .. } => write!(f, "reservation {handle}"),
        }
    }
}

/// A compute node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// As in the commands of the batch system.
    pub name: String,
    /// Cores, or slots.
    pub cores: u32,
    /// Whether jobs can run on it: not down, failed, drained or in an unknown state.
    pub usable: bool,
    /// Resources that it belongs to.
    pub resources: Vec<Name>,
}

/// A reservation as the batch system reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    /// Its identifier in commands.
    pub handle: Handle,
    /// Its name. Empty for a deleted reservation whose cores are still in use, until the end of `interval`.
    pub name: String,
    /// Begin and end, by the batch system's clock.
    pub interval: Interval,
    /// Cores on each node. If only the total is reported, it is spread evenly, and `spread` is false.
    pub cores: BTreeMap<String, u32>,
    /// Whether `cores` is exact for each node; the total always is.
    pub spread: bool,
    /// Accounts that may use it.
    pub accounts: Vec<String>,
    /// Whether it is for maintenance. Its name is then shown to all users.
    pub maintenance: bool,
}

/// A job as the batch system reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFact {
    /// Native id.
    pub native: String,
    /// Name given at submission.
    pub name: String,
    /// Account that owns it.
    pub account: String,
    /// Resources that it may run on, or runs on.
    pub resources: Vec<Name>,
    /// State, in terms that all batch systems share.
    pub state: FactState,
    /// Cores requested or in use.
    pub cores: u32,
    /// Nodes requested (at least) or in use.
    pub nodes: u32,
    /// Cores on each node; only for a running job.
    pub placed: BTreeMap<String, u32>,
    /// Time of submission.
    pub submitted: Time,
    /// When it could have started at the earliest, if the batch system reports it: later than its submission if it was
    /// held or depended on other jobs.
    pub eligible: Option<Time>,
    /// Start time; None if it has not started.
    pub started: Option<Time>,
    /// End time; None if it has not ended.
    pub ended: Option<Time>,
    /// Limit of its run time; None for no limit.
    pub limit: Option<Seconds>,
    /// Reservations in which it runs or must run.
    pub reservations: Vec<Handle>,
    /// Expected start, if reported.
    pub expected_start: Option<Time>,
    /// Whether it claims and has no go-ahead yet.
    pub awaits_go: bool,
    /// How often it went back to the queue, as far as the batch system tells.
    pub restarts: u32,
}

/// State of a job in a batch system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactState {
    /// Waits, and would start if there were room.
    Waiting,
    /// Waits for something other than room: a hold, a dependency, or a start time.
    Held {
        /// Reason in the words of the batch system.
        why: String,
        /// Whether it waits for a reservation that no longer exists, and so would wait forever.
        orphaned: bool,
    },
    /// Runs, or is just starting or ending.
    Running,
    /// Ended by itself with this code.
    Done {
        /// Exit code; zero means success.
        exit: i32,
    },
    /// Cancelled, by us or by another user.
    Cancelled,
    /// Reached its own time limit or the end of its reservation.
    OutOfTime,
    /// Had its nodes but could not be launched: it did not run.
    NotLaunched {
        /// Reason in the words of the batch system.
        why: String,
    },
    /// Ended with its node.
    NodeFailed {
        /// Reason in the words of the batch system.
        why: String,
    },
    /// Ended by the batch system, or it could not be started.
    Failed {
        /// Reason in the words of the batch system.
        why: String,
    },
}

/// A job to submit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Name by which the job is recognised later; characters as in [`Wanted::name`].
    pub name: String,
    /// Resource to run on.
    pub place: Place,
    /// Cores or nodes, by the unit of the place.
    pub amount: u32,
    /// Limit of its run time.
    pub limit: Seconds,
    /// Reservations in which it runs, the next to begin first; empty for the normal queue.
    pub reservations: Vec<Handle>,
    /// The reservation in our terms, for the environment of the job; None outside of any.
    pub within: Option<Within>,
    /// Account that runs it; None for the account of the commands.
    pub account: Option<String>,
    /// Project to charge, as [`Wanted::project`].
    pub project: Option<String>,
    /// Slurm: quality of service, from the job's priority class.
    pub qos: Option<String>,
    /// Program, script, or simulated run.
    pub work: Work,
    /// For a claiming job: how long it waits for its go-ahead before it exits with [`NO_GO`].
    pub go_within: Option<Seconds>,
    /// Whether it is submitted on hold and waits for [`JobSystem::release`].
    pub held: bool,
    /// Whether it may go back to the queue.
    pub restartable: bool,
}

impl Wanted {
    /// All accounts whose jobs may use it.
    pub fn accounts(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.account).chain(&self.others)
    }

    /// The accounts as one word for a command.
    pub(crate) fn joined_accounts(&self, separator: &str) -> String {
        self.accounts().map(String::as_str).collect::<Vec<_>>().join(separator)
    }
}

impl Unit {
    /// Size of a job in this unit.
    pub fn amount(self, job: &JobFact) -> u32 {
        match self {
            Unit::Cores => job.cores,
            // Zero means that the number was not reported; every job needs at least one node.
            Unit::Nodes => job.nodes.max(1),
        }
    }

    pub(crate) fn reserved(self, reserved: &Reserved) -> u32 {
        match self {
            Unit::Cores => total(&reserved.cores),
            // A PBS chunk without `ncpus` is listed with zero cores and occupies no node.
            Unit::Nodes => count(reserved.cores.values().filter(|cores| **cores > 0).count()),
        }
    }

    pub(super) fn of_nodes<'a>(self, nodes: impl Iterator<Item = &'a Node>) -> u32 {
        match self {
            // The numbers come from the output of commands; a damaged one must not cause an overflow.
            Unit::Cores => nodes.fold(0, |sum, node| sum.saturating_add(node.cores)),
            Unit::Nodes => count(nodes.count()),
        }
    }
}

impl JobFact {
    /// A running job of one core of which only the native id is known.
    pub fn new(native: impl Into<String>) -> JobFact {
        JobFact {
            native: native.into(),
            name: String::new(),
            account: String::new(),
            resources: Vec::new(),
            state: FactState::Running,
            cores: 1,
            nodes: 1,
            placed: BTreeMap::new(),
            submitted: Time(0),
            eligible: None,
            started: None,
            ended: None,
            limit: None,
            reservations: Vec::new(),
            expected_start: None,
            awaits_go: false,
            restarts: 0,
        }
    }
}

impl FactState {
    /// Whether the state is final.
    pub fn is_over(&self) -> bool {
        !matches!(self, FactState::Waiting | FactState::Held { .. } | FactState::Running)
    }
}

pub(crate) fn total(cores: &BTreeMap<String, u32>) -> u32 {
    cores.values().fold(0, |sum, cores| sum.saturating_add(*cores))
}

/// Saturates instead of failing.
pub(crate) fn count(nodes: usize) -> u32 {
    u32::try_from(nodes).unwrap_or(u32::MAX)
}

pub(crate) fn add_cores(cores: &mut BTreeMap<String, u32>, node: &str, more: u32) {
    let sum = cores.entry(node.to_owned()).or_default();
    *sum = sum.saturating_add(more);
}

/// One result of a check, for an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The subject, in a few words.
    pub what: String,
    /// Severity.
    pub grade: Grade,
    /// The observation.
    pub seen: String,
    /// The remedy; None for [`Grade::Well`].
    pub advice: Option<String>,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grade {
    /// No problem.
    Well,
    /// It works, with a drawback.
    Doubtful,
    /// It does not work.
    Wrong,
}

impl Finding {
    /// A finding without a problem.
    pub fn well(what: impl Into<String>, seen: impl Display) -> Finding {
        Finding { what: what.into(), grade: Grade::Well, seen: seen.to_string(), advice: None }
    }

    /// A finding that works, with a drawback.
    pub fn doubtful(what: impl Into<String>, seen: impl Display, advice: impl Into<String>) -> Finding {
        Finding {
            what: what.into(),
            grade: Grade::Doubtful,
            seen: seen.to_string(),
            advice: Some(advice.into()),
        }
    }

    /// A finding that prevents use.
    pub fn wrong(what: impl Into<String>, seen: impl Display, advice: impl Into<String>) -> Finding {
        Finding {
            what: what.into(),
            grade: Grade::Wrong,
            seen: seen.to_string(),
            advice: Some(advice.into()),
        }
    }
}
