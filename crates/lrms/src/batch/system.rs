//! What a batch system is asked and told, in words that all of them share. Each dialect (Slurm, PBS, Grid Engine, LSF,
//! Maui) implements [`BatchSystem`] with its own commands; what follows from the answers is decided once, in
//! [`super::Batch`]. A dialect runs commands and reads what they print; it keeps no state that matters after a restart.
//!
//! Times are those of the batch system's own clock. Amounts are in the [`Unit`] of the resource.

use super::examine::Finding;
use crate::error::LrmsError;
use bookahead_party::Work;
use bookahead_plan::{Interval, Seconds, Time};
use bookahead_protocol::Name;
use std::collections::BTreeMap;
use std::fmt;

/// Exit status of a job that claimed and got no go in time. Shells, `timeout`, sysexits and batch systems give it no meaning of
/// their own.
pub const NO_GO: i32 = 97;

/// A batch system that is spoken to by commands. Several calls may be under way at once; each ends within the time-out of
/// its commands.
pub trait BatchSystem: ReservationSystem + JobSystem + Send + Sync {
    /// What it can do.
    fn traits(&self) -> Traits;

    /// What is there now: nodes, reservations, jobs, and the time that it is there.
    fn look(&self) -> Result<Picture, LrmsError>;

    /// Checks that it can be used as it is configured, step by step, for an operator to read. It may make a reservation far
    /// ahead and delete it again, to see whether it may.
    fn examine(&self) -> Vec<Finding>;
}

/// What a batch system does with reservations.
pub trait ReservationSystem {
    /// Nodes for a reservation, with the number of cores on each, for [`Wanted::nodes`]; empty if the batch system chooses. Must
    /// not run commands: it is called with a lock held, so that two reservations never get the same nodes.
    fn choose(&self, _wanted: &Wanted, _picture: &Picture) -> Result<Vec<Share>, LrmsError> {
        Ok(Vec::new())
    }

    /// Makes a reservation, and answers it as it is. Whatever is granted is read back and compared: a grant that falls short
    /// is undone and reported as [`LrmsError::Refused`]. `picture` is a recent look.
    fn create(&self, wanted: &Wanted, picture: &Picture) -> Result<Reserved, LrmsError>;

    /// Gives a reservation other terms, all of them or none; jobs in it stay. Answers it as it is then; `None` where it cannot
    /// change such a thing and nothing was done: the caller then makes a new one and deletes the old.
    fn change(&self, _: &Handle, _: &Wanted, _: &Picture) -> Result<Option<Reserved>, LrmsError> {
        Ok(None)
    }

    /// Deletes a reservation with all jobs that wait or run in it. One that is not there any more is no error.
    fn delete(&self, handle: &Handle) -> Result<(), LrmsError>;

    /// Lets all jobs that wait or run in a reservation belong to another of the same account instead; those that run go on
    /// where they are. Only where [`Traits::moves_jobs`] says so.
    fn move_jobs(&self, from: &Handle, _to: &Handle) -> Result<(), LrmsError> {
        let said = "it cannot give them another reservation".into();
        Err(LrmsError::Refused { what: format!("to move the jobs of {from}"), said })
    }
}

/// What a batch system does with jobs.
pub trait JobSystem {
    /// Submits a job, and answers what it is called there.
    fn submit(&self, job: &Submission) -> Result<String, LrmsError>;

    /// Lets a job that waits run inside these reservations. Only where [`Traits::moves_jobs`] says so.
    fn bind(&self, native: &str, _: &[Handle]) -> Result<(), LrmsError> {
        let said = "it cannot give a reservation to a job that waits".into();
        Err(LrmsError::Refused { what: format!("to put the job {native} into a reservation"), said })
    }

    /// Lets a job run that was submitted with [`Submission::go_within`].
    fn go(&self, native: &str) -> Result<(), LrmsError>;

    /// Ends a job, whether it waits or runs. One that is over or unknown is no error.
    fn cancel(&self, native: &str) -> Result<(), LrmsError>;

    /// How a job stands that [`BatchSystem::look`] shows no more; None where nothing is known of it.
    fn outcome(&self, native: &str) -> Result<Option<JobFact>, LrmsError>;
}

/// What a kind of batch system can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    /// Reservations begin and end at multiples of it: a second, or a minute.
    pub smallest_step: Seconds,
    /// Names of reservations have at most so many characters.
    pub longest_name: usize,
    /// Whether jobs that wait or run in a reservation can be given another.
    pub moves_jobs: bool,
    /// For how long a reservation that is deleted while a job runs in it keeps its cores; zero where they are free when it is
    /// deleted.
    pub freed_within: Seconds,
}

/// In what a resource is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Unit {
    /// In processor cores (in Grid Engine and LSF: slots).
    #[default]
    Cores,
    /// In whole nodes.
    Nodes,
}

/// A resource of a site as the batch system knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What the site calls it.
    pub resource: Name,
    /// In what it is counted.
    pub unit: Unit,
    /// The partition (Slurm), queue (PBS, Grid Engine, LSF) or class (Maui); None for all nodes.
    pub partition: Option<String>,
    /// Only nodes that have all of these features.
    pub features: Vec<String>,
}

/// What a batch system calls a reservation of ours.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub String);

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A node and how many of its cores.
pub type Share = (String, u32);

/// A reservation that is to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Its name: ASCII letters, digits, `_`, `-` and `.`, beginning with a letter.
    pub name: String,
    /// Where.
    pub place: Place,
    /// When. It may begin in the past: then it begins at once.
    pub interval: Interval,
    /// How many cores or nodes.
    pub amount: u32,
    /// Whose jobs may use it: an account of the cluster.
    pub account: String,
    /// Only his jobs on behalf of this project may; None where no project is named. Only batch systems that have projects
    /// are asked for one.
    pub project: Option<String>,
    /// The nodes from [`ReservationSystem::choose`]; empty if the batch system chooses.
    pub nodes: Vec<Share>,
}

/// What is there at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Picture {
    /// The time there when it was taken, if it tells.
    pub clock: Option<Time>,
    /// All nodes that belong to a resource.
    pub nodes: Vec<Node>,
    /// All reservations that are not over, ours and others'.
    pub reservations: Vec<Reserved>,
    /// All jobs that wait or run, those that wait in the order in which it would look at them; and those that are over, as
    /// long as it shows them.
    pub jobs: Vec<JobFact>,
    /// What was shown and could not be read.
    pub unreadable: Vec<Unreadable>,
}

/// A record that a command printed and that could not be read. It is left out; all others count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// A job, by what it is called there.
    Job(String),
    /// A node, by its name.
    Node(String),
    /// A reservation. One that was seen before counts as it was; one of this site that was not fails the look.
    Reservation {
        /// What commands call it.
        handle: Handle,
        /// Its name; empty where that cannot be read either.
        name: String,
    },
}

impl Unreadable {
    /// So many jobs of which not even that is known.
    pub(crate) fn jobs(count: usize) -> impl Iterator<Item = Unreadable> {
        std::iter::repeat_n(Unreadable::Job("of unknown number".into()), count)
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

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its cores (or slots).
    pub cores: u32,
    /// Whether jobs can run on it: it is not down, failed, drained or unknown.
    pub usable: bool,
    /// The resources that it belongs to.
    pub resources: Vec<Name>,
}

/// A reservation as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    /// What commands call it.
    pub handle: Handle,
    /// Its name, which somebody gave to it. Empty for one that was deleted and whose cores are still being freed, until the end
    /// of `interval`.
    pub name: String,
    /// When.
    pub interval: Interval,
    /// The cores that it has on each node. Where it is not told how they are spread, they are spread evenly, and
    /// `spread` is false.
    pub cores: BTreeMap<String, u32>,
    /// Whether `cores` is certain for each node; the sum always is.
    pub spread: bool,
    /// Accounts that may use it.
    pub accounts: Vec<String>,
}

/// A job as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFact {
    /// What it is called there.
    pub native: String,
    /// Its name, which somebody gave to it.
    pub name: String,
    /// Whose it is.
    pub account: String,
    /// The resources it may run on, or runs on.
    pub resources: Vec<Name>,
    /// How it stands.
    pub state: FactState,
    /// The cores that it wants or has.
    pub cores: u32,
    /// The nodes that it wants or has: at least so many.
    pub nodes: u32,
    /// The cores that it has on each node, of one that runs.
    pub placed: BTreeMap<String, u32>,
    /// When it was submitted.
    pub submitted: Time,
    /// When it started, if it has.
    pub started: Option<Time>,
    /// When it was over, if it is.
    pub ended: Option<Time>,
    /// How long it may run; None for ever.
    pub limit: Option<Seconds>,
    /// The reservations inside which it runs or wants to run, by what commands call them.
    pub reservations: Vec<Handle>,
    /// When it is expected to start, if it is told.
    pub expected_start: Option<Time>,
    /// Whether it claims and has no go yet.
    pub awaits_go: bool,
}

/// How it stands with a job in a batch system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactState {
    /// It waits and would start if there were room.
    Waiting,
    /// It waits for something else: it is held, or depends on another, or its time has not come.
    Held {
        /// For what.
        why: String,
        /// Whether it waits for a reservation that is no more, and will wait for ever.
        orphaned: bool,
    },
    /// It runs, or begins, or ends just now.
    Running,
    /// It ended by itself with this code.
    Done {
        /// Zero where all is well.
        exit: i32,
    },
    /// It was ended by somebody.
    Cancelled,
    /// It ran out of its own time, or that of its reservation.
    OutOfTime,
    /// It had its nodes and could not be launched there: it did not run.
    NotLaunched {
        /// Why, in the words of the batch system.
        why: String,
    },
    /// Its node failed, or it could not be started.
    Failed {
        /// Why.
        why: String,
    },
}

/// A job that is to be submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Its name, by which it is found again: as [`Wanted::name`].
    pub name: String,
    /// Where.
    pub place: Place,
    /// How many cores or nodes.
    pub amount: u32,
    /// How long it may run.
    pub limit: Seconds,
    /// The reservations inside which it runs, the next to begin first; none where it waits as everyone does.
    pub reservations: Vec<Handle>,
    /// As whom it runs; None for the account that the commands run as.
    pub account: Option<String>,
    /// On behalf of which project, as [`Wanted::project`].
    pub project: Option<String>,
    /// What it does.
    pub work: Work,
    /// For a job that claims: how long it waits for its go before it ends with [`NO_GO`].
    pub go_within: Option<Seconds>,
}

impl Unit {
    /// How much a job wants or has, in this unit.
    pub fn amount(self, job: &JobFact) -> u32 {
        match self {
            Unit::Cores => job.cores,
            Unit::Nodes => job.nodes.max(1),
        }
    }

    /// How much a reservation takes, in this unit.
    pub(crate) fn reserved(self, reserved: &Reserved) -> u32 {
        match self {
            Unit::Cores => total(&reserved.cores),
            Unit::Nodes => count(reserved.cores.values().filter(|cores| **cores > 0).count()),
        }
    }

    /// How much nodes are, in this unit.
    pub(super) fn of_nodes<'a>(self, nodes: impl Iterator<Item = &'a Node>) -> u32 {
        match self {
            Unit::Cores => nodes.fold(0, |sum, node| sum.saturating_add(node.cores)),
            Unit::Nodes => count(nodes.count()),
        }
    }
}

impl JobFact {
    /// One of which only this is known: what it is called there.
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
            started: None,
            ended: None,
            limit: None,
            reservations: Vec::new(),
            expected_start: None,
            awaits_go: false,
        }
    }
}

impl FactState {
    /// Whether nothing will become of it any more.
    pub fn is_over(&self) -> bool {
        !matches!(self, FactState::Waiting | FactState::Held { .. } | FactState::Running)
    }
}

/// The cores on all nodes together.
pub(crate) fn total(cores: &BTreeMap<String, u32>) -> u32 {
    cores.values().fold(0, |sum, cores| sum.saturating_add(*cores))
}

/// As a number of nodes.
pub(crate) fn count(nodes: usize) -> u32 {
    u32::try_from(nodes).unwrap_or(u32::MAX)
}

/// Adds cores to those on a node.
pub(crate) fn add_cores(cores: &mut BTreeMap<String, u32>, node: &str, more: u32) {
    let sum = cores.entry(node.to_owned()).or_default();
    *sum = sum.saturating_add(more);
}
