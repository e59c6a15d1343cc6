//! Jobs as owners, sites and brokers see them, and sites ranked by the expected delay of a job: file
//! transfer, wait in the queue, run time. The ranking is a rough forecast from data that sites publish, good
//! enough to choose the sites to ask. It does not predict when a job starts.
//!
//! The formulas are those of Migol's Job Broker Service, in milliseconds, bytes and megahertz. Sums saturate.
//! A division by zero means that the site would never finish.

use crate::clock::{Millis, Moment};
use crate::description::Description;
use crate::ids::{JobId, Name, ReservationId};
use crate::jobs::rerun::{Rerun, Runs};
use crate::problem::Problem;
use crate::request::{Part, Requirement, Resource};
use bookahead_plan::{Capacity, Seconds, Time, placement};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Most copies of a job at the same time. Each takes a place in its site's queue and costs its broker one
/// call per second.
pub const MOST_COPIES: u32 = 32;

/// A job to run. Its id is passed separately.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobRequest {
    /// The reservation to run in. Without one it waits in the queue.
    #[serde(default)]
    pub reservation: Option<ReservationId>,
    /// The resource to run on. Default: any suitable one.
    #[serde(default)]
    pub resource: Option<Name>,
    /// Kind of resource.
    pub kind: Name,
    /// Required capacity.
    pub capacity: Capacity,
    /// Time limit, after which it is cancelled.
    pub limit: Seconds,
    /// Latest useful end time. Broker only.
    #[serde(default)]
    pub latest_end: Option<Time>,
    /// Required attributes of the resource.
    #[serde(default)]
    pub requirements: Vec<Requirement>,
    /// Clock rate in MHz of the machine that `limit` was measured on. Broker only.
    #[serde(default)]
    pub reference_mhz: Option<u32>,
    /// Bytes that must be transferred to the site before it can start. Broker only.
    #[serde(default)]
    pub input_bytes: Option<u64>,
    /// Program or script.
    pub work: Work,
    /// How a broker places it. Default: the broker's setting. Broker only.
    #[serde(default)]
    pub mode: Option<Mode>,
    /// For a flooded job: number of copies that wait at the same time.
    #[serde(default)]
    pub copies: Option<u32>,
    /// Whether it is one of several copies, of which only one may run. When its turn comes it claims, and
    /// runs only after a go.
    #[serde(default)]
    pub claims: bool,
    /// Whether and where it may run again.
    #[serde(default, skip_serializing_if = "Rerun::is_empty")]
    pub rerun: Rerun,
    /// Name, note and labels.
    #[serde(default, skip_serializing_if = "Description::is_empty")]
    pub description: Description,
}

/// How a broker places a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum Mode {
    /// Asks the best sites for reservations, and keeps the one that ends first.
    #[default]
    Reserve,
    /// Submits copies to the queues of the best sites. The first whose turn comes runs, the others are
    /// cancelled.
    Flood,
}

/// The work of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A program with arguments, run without a shell.
    Program {
        /// A path, or a name to be found in the job's `PATH`.
        program: String,
        /// Passed unchanged.
        arguments: Vec<String>,
        /// Working directory, an absolute path. Default: the job's own directory.
        folder: Option<PathBuf>,
        /// Added to the variables that every job gets.
        environment: BTreeMap<String, String>,
    },
    /// A script, run by the interpreter in its `#!` line. Default: `/bin/sh`.
    Script {
        /// The script itself.
        text: String,
        /// Passed unchanged.
        arguments: Vec<String>,
    },
    /// A placeholder that only occupies the slot.
    Pretended {
        /// Run time.
        run: Seconds,
    },
}

impl Work {
    /// Approximate memory use of its texts.
    pub fn bytes(&self) -> usize {
        let all = |texts: &[String]| texts.iter().map(|text| size_of::<String>() + text.len()).sum::<usize>();
        match self {
            Work::Program { program, arguments, folder, environment } => {
                let pairs = environment
                    .iter()
                    .map(|(name, value)| 2 * size_of::<String>() + name.len() + value.len());
                let folder = folder.as_ref().map_or(0, |folder| folder.as_os_str().len());
                program.len() + folder + all(arguments) + pairs.sum::<usize>()
            }
            Work::Script { text, arguments } => text.len() + all(arguments),
            Work::Pretended { .. } => 0,
        }
    }
}

/// A job as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobView {
    /// Chosen by the party that submitted it.
    pub id: JobId,
    /// The user it belongs to.
    pub owner: Name,
    /// Its site. None while a broker looks for one.
    pub site: Option<Name>,
    /// Its resource. None while a broker looks for one.
    pub resource: Option<Name>,
    /// The reservation that it runs in.
    pub reservation: Option<ReservationId>,
    /// Capacity that it uses.
    pub capacity: Capacity,
    /// Time limit.
    pub limit: Seconds,
    /// Its state.
    pub state: JobWord,
    /// When it was submitted.
    pub submitted: Time,
    /// When it started.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
    /// Expected start by the current plan, while it waits.
    pub expected_start: Option<Time>,
    /// Exit code, once it is done.
    pub exit: Option<i32>,
    /// Its id in the batch system, such as the number that `squeue` shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_id: Option<String>,
    /// Further information, such as why it could not start.
    pub detail: Option<String>,
    /// Whether and where it may run again.
    #[serde(default, skip_serializing_if = "Rerun::is_empty")]
    pub rerun: Rerun,
    /// What happened to it before its present run.
    #[serde(default, skip_serializing_if = "Runs::is_empty")]
    pub runs: Runs,
    /// Name, note and labels.
    #[serde(default, skip_serializing_if = "Description::is_empty")]
    pub description: Description,
}

/// Answer of a site or broker about a job.
pub type JobAnswer = Result<Box<JobView>, Problem>;

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum JobWord {
    /// A broker looks for a site, or is about to submit it there.
    Placing,
    /// In the queue.
    Waiting,
    /// Its turn has come; it waits for the go of its broker.
    Claiming,
    /// Running.
    Running,
    /// Ended by itself; `exit` has the exit code.
    Done,
    /// Cancelled by its owner or an operator.
    Cancelled,
    /// Cancelled because it reached its time limit.
    OutOfTime,
    /// Cancelled because its reservation ended.
    ReservationOver,
    /// Its end is unknown.
    Lost,
    /// Could not be started; `detail` has the reason.
    CouldNotStart,
}

impl JobWord {
    /// Whether its state is final.
    pub fn is_over(self) -> bool {
        !matches!(self, JobWord::Placing | JobWord::Waiting | JobWord::Claiming | JobWord::Running)
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Ending {
    /// Ended by itself.
    Finished,
    /// With an error, or stopped by the site.
    Failed,
    /// The site went down after it had started the job. The job may have finished or not.
    Lost,
}

/// A site's current state, as it publishes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Site {
    /// The resource. Its capacity is the number of cores.
    pub resource: Resource,
    /// Clock rates of its CPUs in MHz, each kind once. The slowest counts.
    pub rates: Vec<u32>,
    /// Cores requested by all waiting and running jobs together.
    pub requested: u64,
    /// The longest time limit of its jobs.
    pub longest_wall_time: Millis,
    /// Bandwidth between the job's files and the site in bytes per second, if known.
    pub bandwidth: Option<u64>,
    /// Timeout for the site's answer to a hold.
    pub hold_time: Millis,
    /// Shortest notice for a reservation there: a hold ends at its start at the latest, and the site needs
    /// time to grant and commit it.
    pub notice: Millis,
}

/// A job's needs, as its owner states them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Task {
    /// Number of cores.
    pub cores: Capacity,
    /// Run time on the reference machine.
    pub run: Millis,
    /// Clock rate of the reference machine in MHz.
    pub rate: u32,
    /// Sizes of its input files in bytes.
    pub files: Vec<u64>,
    /// Kind of resource, such as "processors".
    pub kind: Name,
    /// Required attributes of the resource.
    pub requirements: Vec<Requirement>,
    /// Of the job. Only what decides about its place.
    #[serde(default, skip_serializing_if = "Description::is_empty")]
    pub description: Description,
}

/// Expected time until a job is done at a site, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Delay {
    /// File transfer.
    pub transfer: Millis,
    /// Wait in the queue.
    pub wait: Millis,
    /// Run time.
    pub run: Millis,
}

/// A resource that could run a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ranked {
    /// Its site.
    pub site: Name,
    /// Its name there.
    pub resource: Name,
    /// Expected delay of the job there.
    pub delay: Delay,
    /// Timeout for the site's answer to a hold.
    #[serde(default)]
    pub hold_time: Millis,
    /// Shortest notice for a reservation there.
    #[serde(default)]
    pub notice: Millis,
}

/// The suitable resources, shortest expected delay first. Ties are broken by cost, then by name.
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

    /// The total: formula (6).
    pub fn total(&self) -> Millis {
        self.transfer + self.wait + self.run
    }

    /// The earliest finish with a promised start: formula (7) without the parts of the delay that are over by
    /// then. The reservation is requested from the end of the transfer on, so the files are there at its
    /// start, and the promised start replaces the estimated wait. Only the run time remains. Taken literally,
    /// the formula adds the whole delay to the start, and so counts wait and transfer twice.
    pub fn finish(&self, start: Moment) -> Moment {
        start + self.run
    }

    /// Duration of a reservation for the run, in seconds, at least one.
    pub fn duration(&self) -> Seconds {
        Seconds(seconds_up(self.run).max(1))
    }

    /// The first second at which the files are there, if sent now.
    pub fn ready(&self, now: Moment) -> Time {
        first_second(now + self.transfer)
    }
}

impl Ranked {
    /// The first second at which a reservation there may start: the files are there, and the notice is kept.
    pub fn ready(&self, now: Moment) -> Time {
        self.delay.ready(now).max(first_second(now + self.notice))
    }
}

/// Formula (5). Zero without network data, as in Migol.
fn transfer(task: &Task, site: &Site) -> Millis {
    let size: u128 = task.files.iter().map(|&bytes| u128::from(bytes)).sum();
    match site.bandwidth {
        None => Millis::ZERO,
        Some(_) if size == 0 => Millis::ZERO,
        Some(bandwidth) => divided_up(size.saturating_mul(1_000), u128::from(bandwidth)),
    }
}

/// Formula (4): the longest job, as many times as the requested cores fill the machine.
fn wait(site: &Site) -> Millis {
    let cores = u64::from(site.resource.capacity.0);
    let Some(rounds) = site.requested.checked_div(cores) else { return Millis(i64::MAX) };
    let wait = i128::from(rounds) * i128::from(site.longest_wall_time.0.max(0));
    Millis(i64::try_from(wait).unwrap_or(i64::MAX))
}

/// Formulas (1) to (3): the reference run time scaled by the slowest CPU. Rounded up, because a run that is
/// cut short is worthless.
fn run(task: &Task, site: &Site) -> Millis {
    let slowest = site.rates.iter().copied().min().unwrap_or(0);
    let reference = u128::from(task.run.0.max(0).unsigned_abs()) * u128::from(task.rate);
    divided_up(reference, u128::from(slowest))
}

/// Rounded up. The maximum if the divisor is zero.
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
