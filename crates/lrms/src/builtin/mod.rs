//! A site without a batch system: the scheduler of `plan` runs the jobs. Each resource has a queue of its own; local jobs
//! come from a source ([`sources`]) and are only pretended, submitted ones are pretended or, where there is a folder for them, real
//! programs on the local machine ([`processes`]).
//!
//! # Time
//! It is what the caller says, as fast as the caller says, and it may be accelerated. Then real programs make no sense: they
//! take as long as they take. Where programs can be run, what was due earlier happens when time is next said, since
//! nothing can be started in the past; everywhere else it happens when it was due, in order.
//!
//! # Orders
//! [`Builtin::carry_out`] carries an order out at once, but what follows from it (starts, and ends of jobs that are in the way)
//! happens in the next [`Builtin::advance`], so that several orders of one moment count together, in any order.
//!
//! # Starting anew
//! What is kept free is not kept over a restart; the ledger has it and orders it again. So nothing starts and nothing is ended
//! in the first [`Builtin::advance`]: it only tells what became of programs meanwhile.
//!
//! # Bounds
//! So many submitted jobs may wait or run ([`MOST_JOBS`]); of those that are over so many are remembered
//! ([`REMEMBERED`]), with their folders. A local job is forgotten when it is over, and does not come where too many wait.

mod cluster;
pub mod processes;
mod progress;
mod reserved;
pub mod sources;

pub use processes::{Account, Processes};

use crate::error::LrmsError;
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

/// So many submitted jobs may wait or run.
pub const MOST_JOBS: usize = 10_000;

/// So many submitted jobs that are over are remembered, unless told otherwise.
pub const REMEMBERED: usize = 1_000;

/// While programs run they are looked after so often.
pub const LOOK_EVERY: Millis = Millis(250);

/// A resource.
pub struct Hosted {
    /// What it is called.
    pub name: Name,
    /// What there is.
    pub capacity: Capacity,
    /// Which waiting jobs are promised a start, and whether others may overtake them.
    pub policy: Policy,
    /// The local jobs to come.
    pub source: Box<dyn Source>,
}

impl Hosted {
    /// A resource with EASY backfilling and no local jobs.
    pub fn new(name: Name, capacity: Capacity) -> Hosted {
        Hosted { name, capacity, policy: Policy::EASY, source: Box::new(Nothing) }
    }
}

/// A resource manager of our own.
pub struct Builtin {
    clusters: BTreeMap<Name, Cluster>,
    register: Register,
    processes: Option<Processes>,
    /// What became of jobs and was not told yet.
    untold: Vec<JobChange>,
    /// Jobs whose end could not be written down yet.
    unwritten: BTreeSet<JobId>,
    remembered: usize,
    now: Moment,
    phase: Phase,
    /// The version of what was last shown.
    shown: Option<u64>,
    /// Whether it was told that something could not be written.
    troubled: bool,
}

/// How far it has come after its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nobody has let it go on yet.
    Asleep,
    /// It has told what it found.
    Looked,
    /// Jobs start and end.
    Awake,
}

impl Builtin {
    /// The resources, idle but for the programs that outlived the last one.
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
            remembered: REMEMBERED,
            now: start,
            phase: Phase::Asleep,
            shown: None,
            troubled: false,
        };
        builtin.load()?;
        Ok(builtin)
    }

    /// So much more of a resource fails from now on; it cannot have lost more than it has.
    pub fn fail(&mut self, now: Moment, resource: &Name, capacity: Capacity) -> Result<(), LrmsError> {
        self.catch_up(now);
        let cluster = self.cluster(resource)?;
        let lost = cluster.lost.0.saturating_add(capacity.0).min(cluster.capacity.0);
        cluster.set_lost(Capacity(lost));
        Ok(())
    }

    /// So much of what has failed is back.
    pub fn repair(&mut self, now: Moment, resource: &Name, capacity: Capacity) -> Result<(), LrmsError> {
        self.catch_up(now);
        let cluster = self.cluster(resource)?;
        cluster.set_lost(Capacity(cluster.lost.0.saturating_sub(capacity.0)));
        Ok(())
    }

    /// From now on so many submitted jobs that are over are remembered, with their folders.
    pub fn remember(&mut self, jobs: usize) {
        self.remembered = jobs;
    }

    /// How many things it remembers of jobs, local and submitted: for those who watch its memory.
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

    /// Whether there ever is room for a job.
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
    /// Carries out an order, and answers what came of it. A look shows neither what is kept free nor what it is called: it is
    /// forgotten with this process, so only the site knows.
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
            BatchOrder::Go { order, job } => of_job(order, job, self.go(job)),
            BatchOrder::Cancel { order, job } => of_job(order, job, self.cancel(job)),
            BatchOrder::Look { order } => vec![self.looked(Some(order))],
        }
    }

    /// Lets time pass until `now`: jobs start and end. Reports what became of jobs, in the order in which it happened, and what
    /// is shown, if that has changed since it was last reported.
    pub fn advance(&mut self, now: Moment) -> Vec<BatchReport> {
        self.now = self.now.max(now);
        self.look_after_processes();
        match self.phase {
            Phase::Asleep => self.phase = Phase::Looked,
            Phase::Looked | Phase::Awake => {
                self.phase = Phase::Awake;
                self.go_on();
            }
        }
        let written = self.write_what_is_unwritten();
        let changes = std::mem::take(&mut self.untold).into_iter();
        let mut reports: Vec<BatchReport> = changes.map(BatchReport::JobChanged).collect();
        let was_troubled = std::mem::replace(&mut self.troubled, written.is_err());
        match written {
            Err(why) if !was_troubled => {
                let outcome = Err(BatchError::Unknown(why.to_string()));
                reports.push(BatchReport::Looked { order: None, at: self.now, outcome });
            }
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
            return if known.job == *job { Ok(()) } else { Err(LrmsError::OtherJob { id: job.id }) };
        }
        self.check(job)?;
        let record =
            Record { job: job.clone(), submitted: self.now.second(), order: self.register.next_order() };
        if let Some(processes) = &self.processes {
            processes.add(&record)?;
        }
        self.take(record, None);
        Ok(())
    }

    /// A job that waits in the queue runs inside its reservation instead.
    fn bind(&mut self, job: &Job) -> Result<(), LrmsError> {
        let waits = self.register.get(job.id).filter(|known| known.state == JobState::Waiting);
        let Some(known) = waits else {
            let said = "it runs already, is over, or nobody knows it".into();
            return Err(LrmsError::Refused { what: format!("to put {} into a reservation", job.id), said });
        };
        if known.job == *job {
            return Ok(());
        }
        let record = Record { job: job.clone(), submitted: known.submitted, order: known.order };
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
            let said = "it does not claim: it has not got its room yet, runs already, or is over".into();
            return Err(LrmsError::Refused { what: format!("to let {id} run"), said });
        };
        let at = self.now.second();
        self.cluster(&resource)?.go(id, at);
        self.note(JobChange { id, state: JobState::Running, at });
        Ok(())
    }

    fn cancel(&mut self, id: JobId) -> Result<(), LrmsError> {
        let over = |entry: &Entry| entry.state.is_over();
        if self.register.get(id).is_none_or(over) {
            return Ok(());
        }
        self.leave(id, JobState::Killed(Ended::Cancelled), self.now.second());
        self.write_what_is_unwritten()
    }
}
