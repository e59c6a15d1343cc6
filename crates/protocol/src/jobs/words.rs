//! Jobs as their owners, sites and brokers speak of them, and sites by the shortest expected delay of a job: transfer of its
//! files, wait in the queue, run. The ranking is a rough forecast from what sites publish, good enough to choose whom to ask; it
//! never says when a job will start.
//!
//! The formulas are those of Migol's Job Broker Service, in whole milliseconds, bytes and megahertz. Sums saturate, and
//! where something cannot be divided by, the site would never be done.

use crate::clock::{Millis, Moment};
use crate::ids::{JobId, Name, ReservationId};
use crate::problem::Problem;
use crate::request::{Part, Requirement, Resource};
use bookahead_plan::{Capacity, Seconds, Time, placement};
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
    /// What the batch system calls it, such as the number that `squeue` shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_id: Option<String>,
    /// What else there is to say, such as why it could not start.
    pub detail: Option<String>,
}

/// What a site or a broker says of a job: how it stands, or why not.
pub type JobAnswer = Result<Box<JobView>, Problem>;

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

/// What a site tells of itself at the moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Site {
    /// What it offers. Its capacity is the number of cores; its `site` is what the site is called.
    pub resource: Resource,
    /// The clock rates of its CPUs in MHz, each kind once; the slowest counts.
    pub rates: Vec<u32>,
    /// The cores that all its waiting and running jobs have asked for together.
    pub requested: u64,
    /// The longest wall time of any of its jobs.
    pub longest_wall_time: Millis,
    /// Bytes a second between the job's files and the site, where that is known.
    pub bandwidth: Option<u64>,
    /// How long it may take to answer a hold.
    pub hold_time: Millis,
    /// No reservation is asked for that begins sooner: a hold lasts until its start at the longest, and the site takes a while
    /// to make and to commit it.
    pub notice: Millis,
}

/// What the owner of a job tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Task {
    /// The cores that it needs.
    pub cores: Capacity,
    /// How long it takes on the machine that its owner knows.
    pub run: Millis,
    /// The clock rate of that machine, in MHz.
    pub rate: u32,
    /// The sizes of its input files, in bytes.
    pub files: Vec<u64>,
    /// The kind of resource, such as "processors".
    pub kind: Name,
    /// What the resource must have.
    pub requirements: Vec<Requirement>,
}

/// How long until a job is done at a site, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Delay {
    /// Until its files are there.
    pub transfer: Millis,
    /// In the queue.
    pub wait: Millis,
    /// While it runs.
    pub run: Millis,
}

/// A machine that a job could go to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ranked {
    /// The site that it belongs to.
    pub site: Name,
    /// Its name there.
    pub resource: Name,
    /// How long the job would take there.
    pub delay: Delay,
    /// How long the site may take to answer a hold.
    #[serde(default)]
    pub hold_time: Millis,
    /// No reservation is asked for there that begins sooner.
    #[serde(default)]
    pub notice: Millis,
}

/// The sites that suit the task, the shortest expected delay first; of equal ones the cheaper, then by name.
pub fn rank(task: &Task, sites: &[Site]) -> Vec<Ranked> {
    let part = task.part(Time(0), Time(0), Seconds(1));
    let suitable = sites.iter().filter(|site| site.resource.suits(&part));
    let ranked = suitable.map(|site| {
        let delay = Delay::of(task, site);
        let cost = site.resource.cost(&task.part(Time(0), Time(0), delay.duration()));
        let (name, resource) = (site.resource.site.clone(), site.resource.name.clone());
        let (hold_time, notice) = (site.hold_time, site.notice);
        (cost, Ranked { site: name, resource, delay, hold_time, notice })
    });
    let mut ranked: Vec<(u64, Ranked)> = ranked.collect();
    ranked.sort_by_cached_key(|(cost, ranked)| {
        (ranked.delay.total(), *cost, ranked.site.clone(), ranked.resource.clone())
    });
    ranked.into_iter().map(|(_, ranked)| ranked).collect()
}

impl Task {
    /// The task as a part of a request.
    pub fn part(&self, earliest_start: Time, latest_end: Time, duration: Seconds) -> Part {
        let wanted = placement::Request { earliest_start, latest_end, duration, capacity: self.cores };
        Part { requirements: self.requirements.clone(), ..Part::new(wanted, self.kind.clone()) }
    }
}

impl Delay {
    /// Of a task at a site.
    pub fn of(task: &Task, site: &Site) -> Delay {
        Delay { transfer: transfer(task, site), wait: wait(site), run: run(task, site) }
    }

    /// All of it: formula (6).
    pub fn total(&self) -> Millis {
        self.transfer + self.wait + self.run
    }

    /// The earliest finish, now that a site has promised a start: formula (7), with what is left of the delay by then.
    /// The reservation is asked for from the end of the transfer on, so the files are there at its start, and the
    /// promised start takes the place of the guessed wait. What is left is the run. Read to the letter, the formula adds
    /// the whole delay to the start, and so counts the wait and the transfer a second time.
    pub fn finish(&self, start: Moment) -> Moment {
        start + self.run
    }

    /// How long a reservation must last for the run, in whole seconds, at least one.
    pub fn duration(&self) -> Seconds {
        Seconds(seconds_up(self.run).max(1))
    }

    /// When the files are there, if they are sent now: the first whole second.
    pub fn ready(&self, now: Moment) -> Time {
        first_second(now + self.transfer)
    }
}

impl Ranked {
    /// The first whole second at which a reservation there may begin: the files are there, and the site has had notice.
    pub fn ready(&self, now: Moment) -> Time {
        self.delay.ready(now).max(first_second(now + self.notice))
    }
}

/// Formula (5). Without network data there is nothing to compute, and it counts as no time, as in Migol.
fn transfer(task: &Task, site: &Site) -> Millis {
    let size: u128 = task.files.iter().map(|&bytes| u128::from(bytes)).sum();
    match site.bandwidth {
        None => Millis::ZERO,
        Some(_) if size == 0 => Millis::ZERO,
        Some(bandwidth) => divided_up(size.saturating_mul(1_000), u128::from(bandwidth)),
    }
}

/// Formula (4): as many full rounds of the longest job as the requested cores fill the machine.
fn wait(site: &Site) -> Millis {
    let cores = u64::from(site.resource.capacity.0);
    let Some(rounds) = site.requested.checked_div(cores) else { return Millis(i64::MAX) };
    let wait = i128::from(rounds) * i128::from(site.longest_wall_time.0.max(0));
    Millis(i64::try_from(wait).unwrap_or(i64::MAX))
}

/// Formulas (1) to (3): the reference run time, scaled by the largest of the speed factors, which is that of the slowest
/// CPU. It is rounded up, since a run that is cut short is worth nothing.
fn run(task: &Task, site: &Site) -> Millis {
    let slowest = site.rates.iter().copied().min().unwrap_or(0);
    let reference = u128::from(task.run.0.max(0).unsigned_abs()) * u128::from(task.rate);
    divided_up(reference, u128::from(slowest))
}

/// Rounded up; never where there is nothing to divide by.
fn divided_up(amount: u128, by: u128) -> Millis {
    if by == 0 {
        return Millis(i64::MAX);
    }
    Millis(i64::try_from(amount.div_ceil(by)).unwrap_or(i64::MAX))
}

fn first_second(from: Moment) -> Time {
    Time(seconds_up(Millis(from.0)))
}

fn seconds_up(length: Millis) -> i64 {
    length.0.div_euclid(1_000) + i64::from(length.0.rem_euclid(1_000) > 0)
}
