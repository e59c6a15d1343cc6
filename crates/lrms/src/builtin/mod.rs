//! A site without a batch system: the scheduler of `plan` runs the jobs. Each resource has its own queue. Local jobs
//! come from a source ([`sources`]) and are simulated; submitted ones are simulated or, with a folder for jobs, real
//! programs on this machine ([`processes`]).
//!
//! # Time
//! The caller passes in the time, which may run faster than real time. Real programs then make no sense, as they do
//! not run faster. With real programs, overdue events happen at the next call, since nothing can be started in the
//! past; otherwise each event happens when it was due, in order.
//!
//! # Orders
//! [`Builtin::carry_out`] executes an order at once. Its consequences (starts, and ends of jobs that must make room)
//! happen in the next [`Builtin::advance`], so that the order of several orders at one moment does not matter.
//!
//! # Restart
//! Reservations do not survive a restart; the ledger has them and orders them again. The first [`Builtin::advance`]
//! therefore starts and ends nothing: it only reports the fate of programs.
//!
//! # Bounds
//! At most [`MOST_JOBS`] submitted jobs wait or run, and [`REMEMBERED`] finished ones are remembered, with their
//! folders. Local jobs are forgotten when they end, and dropped if too many wait.

mod cluster;
pub mod processes;
mod progress;
mod reserved;
pub mod sources;

pub use processes::{Account, Processes};

use crate::error::LrmsError;
use crate::maintenance::Window;
use bookahead_party::{
    Backing, BatchError, BatchOrder, BatchReport, Ended, Job, JobChange, JobState, Look, OrderId, Work,
};
use bookahead_plan::{Capacity, Policy};
use bookahead_protocol::{JobId, Millis, Moment, Name};
use cluster::Cluster;
use processes::folder::Record;
use progress::{Entry, Register};
use reserved::most_room;
use sources::{Nothing, Source};
use std::collections::{BTreeMap, BTreeSet};

/// Limit of submitted jobs that wait or run. It bounds memory and the number of job folders.
pub const MOST_JOBS: usize = 10_000;

/// Default number of remembered finished jobs, each with its folder.
pub const REMEMBERED: usize = 1_000;

/// Interval between checks of running programs, which bounds the delay in noticing an exit.
pub const LOOK_EVERY: Millis = Millis(250);

/// A resource of the site with its policy and local jobs.
pub struct Hosted {
    /// Unique within the site.
    pub name: Name,
    /// Total capacity.
    pub capacity: Capacity,
    /// Which waiting jobs are promised a start, and whether others may overtake them.
    pub policy: Policy,
    /// Numbers of the priority classes that jobs may name; other jobs have 0.
    pub priorities: BTreeMap<Name, i32>,
    /// Source of local jobs.
    pub source: Box<dyn Source>,
    /// Recurring maintenance.
    pub maintenance: Vec<Window>,
}

impl Hosted {
    /// A resource with EASY backfilling and no local jobs.
    pub fn new(name: Name, capacity: Capacity) -> Hosted {
        Hosted {
            name,
            capacity,
            policy: Policy::EASY,
            priorities: BTreeMap::new(),
            source: Box::new(Nothing),
            maintenance: Vec::new(),
        }
    }
}

/// The built-in resource manager.
pub struct Builtin {
    clusters: BTreeMap<Name, Cluster>,
    register: Register,
    processes: Option<Processes>,
    /// Changes of jobs that are not reported yet.
    untold: Vec<JobChange>,
    /// Jobs whose end is not written to disk yet.
    unwritten: BTreeSet<JobId>,
    /// Jobs that go back to the queue as soon as the processes of their last run are gone.
    requeuing: BTreeMap<JobId, Requeuing>,
    remembered: usize,
    now: Moment,
    phase: Phase,
    /// Version of the state that was last reported.
    shown: Option<u64>,
    /// Whether a write error was already reported.
    troubled: bool,
}

/// An order that waits until a job has no processes.
struct Requeuing {
    order: OrderId,
    job: Job,
    restarts: u32,
}

/// Progress after the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Before the first [`Builtin::advance`].
    Asleep,
    /// Has reported the state that it found.
    Looked,
    /// Starts and ends jobs.
    Awake,
}

impl Builtin {
    /// The resources, idle except for programs that survived the last restart.
    pub fn new(
        resources: Vec<Hosted>,
        start: Moment,
        processes: Option<Processes>,
    ) -> Result<Builtin, LrmsError> {
        let mut clusters = BTreeMap::new();
        for hosted in resources {
            let name = hosted.name.clone();
            if clusters.insert(name.clone(), Cluster::new(hosted, start.second())).is_some() {
                return Err(LrmsError::SameName { resource: name });
            }
        }
        let mut builtin = Builtin {
            clusters,
            register: Register::default(),
            processes,
            untold: Vec::new(),
            unwritten: BTreeSet::new(),
            requeuing: BTreeMap::new(),
            remembered: REMEMBERED,
            now: start,
            phase: Phase::Asleep,
            shown: None,
            troubled: false,
        };
        builtin.load()?;
        Ok(builtin)
    }

    /// Marks more capacity of a resource as failed, at most all of it.
    pub fn fail(&mut self, now: Moment, resource: &Name, capacity: Capacity) -> Result<(), LrmsError> {
        self.catch_up(now);
        let cluster = self.cluster(resource)?;
        let lost = cluster.lost.0.saturating_add(capacity.0).min(cluster.capacity.0);
        cluster.set_lost(Capacity(lost));
        Ok(())
    }

    /// Marks failed capacity as available again.
    pub fn repair(&mut self, now: Moment, resource: &Name, capacity: Capacity) -> Result<(), LrmsError> {
        self.catch_up(now);
        let cluster = self.cluster(resource)?;
        cluster.set_lost(Capacity(cluster.lost.0.saturating_sub(capacity.0)));
        Ok(())
    }

    /// Sets how many finished jobs to remember, with their folders.
    pub fn remember(&mut self, jobs: usize) {
        self.remembered = jobs;
    }

    /// Number of stored items for local and submitted jobs, to check memory bounds.
    pub fn remembered(&self) -> usize {
        self.clusters.values().map(Cluster::remembered).sum::<usize>() + self.register.len()
    }

    fn cluster(&mut self, resource: &Name) -> Result<&mut Cluster, LrmsError> {
        let unknown = || LrmsError::UnknownResource { resource: resource.clone() };
        self.clusters.get_mut(resource).ok_or_else(unknown)
    }

    fn check(&self, job: &Job) -> Result<(), LrmsError> {
        let real = !matches!(job.work, Work::Pretended { .. });
        if real && self.processes.is_none() {
            return Err(LrmsError::OnlyPretends);
        }
        processes::command::check_job(job)?;
        self.check_room(job)?;
        if self.register.live() >= MOST_JOBS {
            return Err(LrmsError::Full { most: MOST_JOBS });
        }
        Ok(())
    }

    /// Whether a job can ever fit.
    fn check_room(&self, job: &Job) -> Result<(), LrmsError> {
        let resource = &job.resource;
        let unknown = || LrmsError::UnknownResource { resource: resource.clone() };
        let cluster = self.clusters.get(resource).ok_or_else(unknown)?;
        let (within, available) = match job.reservation {
            None => (resource.to_string(), cluster.capacity),
            Some(id) => match most_room(cluster.reserved.spans(id), self.now.second()) {
                Capacity::ZERO => return Err(LrmsError::NoBacking { resource: resource.clone(), id }),
                room => (id.to_string(), room),
            },
        };
        if job.capacity > available {
            return Err(LrmsError::TooWide { needed: job.capacity, within, available });
        }
        Ok(())
    }
}

impl Builtin {
    /// Executes an order and returns the reports. A look does not contain reservations: they are lost with this
    /// process, so only the site knows them.
    pub fn carry_out(&mut self, now: Moment, order: BatchOrder) -> Vec<BatchReport> {
        self.catch_up(now);
        let of_job = |order, job, outcome: Result<(), LrmsError>| {
            vec![BatchReport::Job { order, job, outcome: outcome.map_err(BatchError::from) }]
        };
        match order {
            BatchOrder::Keep { order, backing } => {
                let outcome = self.keep(&backing).map_err(BatchError::from);
                vec![BatchReport::Kept { order, id: backing.id, outcome }]
            }
            BatchOrder::Submit { order, job } => of_job(order, job.id, self.submit(&job)),
            BatchOrder::Bind { order, job } => of_job(order, job.id, self.bind(&job)),
            // Its jobs are in this process or beside it, so none is submitted on hold.
            BatchOrder::Release { order, job } => of_job(order, job, Ok(())),
            BatchOrder::Go { order, job } => of_job(order, job, self.go(job)),
            BatchOrder::Requeue { order, job, restarts } => {
                self.requeuing.insert(job.id, Requeuing { order, job: *job, restarts });
                self.requeue_what_is_gone()
            }
            BatchOrder::Warn { order, job } => of_job(order, job, self.warn(job)),
            BatchOrder::Cancel { order, job } => of_job(order, job, self.cancel(job)),
            BatchOrder::Look { order } => vec![self.looked(Some(order))],
        }
    }

    /// Advances the time to `now`: jobs start and end. Reports changes of jobs in order of time, and the visible
    /// state if it changed since the last report.
    pub fn advance(&mut self, now: Moment) -> Vec<BatchReport> {
        self.now = self.now.max(now);
        self.look_after_processes();
        match self.phase {
            // Nothing starts yet: the site must first order its reservations again.
            Phase::Asleep => self.phase = Phase::Looked,
            Phase::Looked | Phase::Awake => {
                self.phase = Phase::Awake;
                self.go_on();
            }
        }
        let written = self.write_what_is_unwritten();
        let changes = std::mem::take(&mut self.untold).into_iter();
        let mut reports: Vec<BatchReport> = changes.map(BatchReport::JobChanged).collect();
        reports.extend(self.requeue_what_is_gone());
        let was_troubled = std::mem::replace(&mut self.troubled, written.is_err());
        match written {
            // Report a write error once, not in every step until the disk is repaired.
            Err(why) if !was_troubled => {
                let outcome = Err(BatchError::Unknown(why.to_string()));
                reports.push(BatchReport::Looked { order: None, at: self.now, outcome });
            }
            // After a write error, a look is reported even without changes: it tells that writing works again.
            Ok(()) if was_troubled || self.shown != Some(self.version()) => reports.push(self.looked(None)),
            _ => {}
        }
        reports
    }

    /// When [`Builtin::advance`] has something to do, as far as is known.
    pub fn next_event(&self) -> Option<Moment> {
        if self.phase != Phase::Awake || !self.untold.is_empty() {
            return Some(self.now);
        }
        let planned = self.clusters.values().filter_map(Cluster::next_event).min().map(Moment::of);
        let busy = self.processes.as_ref().is_some_and(Processes::is_busy) || !self.unwritten.is_empty();
        // The end of a process is not signalled, so running programs are polled.
        let look = busy.then_some(self.now + LOOK_EVERY);
        [planned, look].into_iter().flatten().min().map(|event| event.max(self.now))
    }

    fn version(&self) -> u64 {
        self.clusters.values().map(|cluster| cluster.version).sum()
    }

    fn looked(&mut self, order: Option<OrderId>) -> BatchReport {
        self.shown = Some(self.version());
        let seen = |(name, cluster): (&Name, &mut Cluster)| (name.clone(), cluster.seen());
        let resources = self.clusters.iter_mut().map(seen).collect();
        let expected = self.clusters.values().flat_map(Cluster::expected_starts).collect();
        let look = Look { resources, jobs: self.register.statuses(&expected), ..Look::default() };
        BatchReport::Looked { order, at: self.now, outcome: Ok(look) }
    }

    fn keep(&mut self, backing: &Backing) -> Result<(), LrmsError> {
        self.cluster(&backing.resource)?.back(backing.id, &backing.spans);
        Ok(())
    }

    fn submit(&mut self, job: &Job) -> Result<(), LrmsError> {
        if let Some(known) = self.register.get(job.id) {
            return if known.is(job) { Ok(()) } else { Err(LrmsError::OtherJob { id: job.id }) };
        }
        self.check(job)?;
        let record = Record::new(job.clone(), self.now.second(), self.register.next_order());
        // On disk before it counts as submitted: an acknowledged job must survive a crash.
        if let Some(processes) = &self.processes {
            processes.add(&record)?;
        }
        self.take(record, None);
        Ok(())
    }

    /// Moves a waiting job from the queue into its reservation.
    fn bind(&mut self, job: &Job) -> Result<(), LrmsError> {
        let waits = self.register.get(job.id).filter(|known| known.state == JobState::Waiting);
        let Some(known) = waits else {
            let said = "it is unknown, already running or over".into();
            return Err(LrmsError::Refused { what: format!("to put {} into a reservation", job.id), said });
        };
        if known.job == *job {
            return Ok(());
        }
        let record =
            Record { restarts: known.restarts, ..Record::new(job.clone(), known.submitted, known.order) };
        // Check first: the record on disk must not change if the order is refused.
        self.check_room(job)?;
        if let Some(processes) = &self.processes {
            processes.add(&record)?;
        }
        self.cluster(&job.resource)?.remove(job.id);
        self.take(record, None);
        Ok(())
    }

    fn go(&mut self, id: JobId) -> Result<(), LrmsError> {
        let claiming = self.register.get(id).filter(|entry| entry.state == JobState::Claiming);
        let Some(resource) = claiming.map(|entry| entry.job.resource.clone()) else {
            let said = "it does not claim: it has no capacity yet, already runs, or is over".into();
            return Err(LrmsError::Refused { what: format!("to let {id} run"), said });
        };
        let at = self.now.second();
        self.cluster(&resource)?.go(id, at);
        self.note(JobChange { id, state: JobState::Running, at });
        Ok(())
    }

    fn cancel(&mut self, id: JobId) -> Result<(), LrmsError> {
        self.requeuing.remove(&id);
        let over = |entry: &Entry| entry.state.is_over();
        if self.register.get(id).is_none_or(over) {
            return Ok(());
        }
        self.leave(id, JobState::Killed(Ended::Cancelled), self.now.second());
        self.write_what_is_unwritten()
    }
}
