//! What a site wants of a local resource manager. The built-in scheduler and the adapters of batch systems implement it.
//! Who drives it is one thread: calls come one after the other and may take as long as a batch system takes.
//!
//! # Starting anew
//! After a restart the site says [`Lrms::back`] for every reservation of its ledger. A manager that does not keep its
//! backings over a restart starts and ends nothing in its first [`Lrms::advance`], so that the site may look first.

use crate::batch::Finding;
use crate::error::LrmsError;
use crate::job::{Job, JobChange, JobStatus};
use bookahead_plan::{Capacity, Seconds, Span, Time};
use bookahead_protocol::ledger::{View, Views};
use bookahead_protocol::{JobId, Moment, Name, ReservationId};
use std::collections::{BTreeMap, BTreeSet};

/// A local resource manager, as a site drives it. Time never goes back: an earlier `now` counts as the latest that
/// was said.
pub trait Lrms: Send {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Lets it go on until `now`: jobs start and end. (A batch system works by itself; it is only asked.) Says what
    /// became of jobs that were submitted here since it was last asked, in the order in which it happened.
    fn advance(&mut self, now: Moment) -> Result<Vec<JobChange>, LrmsError>;

    /// When [`Lrms::advance`] has something to do, as far as is known.
    fn next_event(&self) -> Option<Moment>;

    /// What is to be seen on its resources now.
    fn snapshot(&mut self, now: Moment) -> Result<Snapshot, LrmsError>;

    /// The views of [`Lrms::snapshot`] alone: what every probe needs.
    fn views(&mut self, now: Moment) -> Result<Views, LrmsError> {
        let resources = self.snapshot(now)?.resources;
        Ok(Views(resources.into_iter().map(|(name, seen)| (name, seen.view)).collect()))
    }

    /// From now on exactly these spans are kept free for a reservation; nothing where there are none. Saying it twice
    /// changes nothing.
    fn back(&mut self, now: Moment, backing: &Backing) -> Result<(), LrmsError>;

    /// Takes a job. The same id twice changes nothing if it is the same job.
    fn submit(&mut self, now: Moment, job: &Job) -> Result<(), LrmsError>;

    /// Ends a job, whether it waits or runs. One that is unknown or over is left as it is.
    fn cancel(&mut self, now: Moment, id: JobId) -> Result<(), LrmsError>;

    /// Jobs that were submitted here, in the order of submission, also those that are over and not yet forgotten.
    fn jobs(&self) -> Vec<JobStatus>;

    /// Whether it keeps its jobs while the site is away. One that it does not know any more then ended meanwhile; else it
    /// has to be submitted again.
    fn keeps_jobs(&self) -> bool {
        true
    }

    /// All that is kept free because of this site, as it is found: from it a lost ledger can be made anew. Nothing where
    /// only the ledger knows.
    fn tagged(&mut self, _now: Moment) -> Result<Vec<Tagged>, LrmsError> {
        Ok(Vec::new())
    }

    /// What time it was here and there when it was last looked at; None where both go by one clock, or it is not told.
    fn clock(&self) -> Option<Clocks> {
        None
    }

    /// Checks that it can be used as it is configured, for an operator to read. A reservation may be made far ahead, and
    /// deleted again.
    fn examine(&mut self, _now: Moment) -> Vec<Finding> {
        Vec::new()
    }
}

/// What a resource manager can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Backings begin and end at multiples of it: a second, or a minute.
    pub smallest_step: Seconds,
    /// Whether capacity can only be kept free in whole nodes.
    pub whole_nodes: bool,
    /// Whether a backing may change after it has begun.
    pub change_while_active: bool,
    /// Whether backings can only be made as an operator of the batch system.
    pub operator_only: bool,
}

/// What is to be kept free for a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backing {
    /// On which resource.
    pub resource: Name,
    /// For which reservation.
    pub id: ReservationId,
    /// Whose jobs may use it.
    pub owner: Name,
    /// When, and how much; spans of the same time add up.
    pub spans: Vec<Span>,
    /// Whether it is less than was promised, since something failed, and not by anybody's wish. Then what jobs wait or run in
    /// stays as it is, where it still has what is wanted: no job ends because less is kept.
    pub spares_jobs: bool,
}

/// A backing that was found, with what its name tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tagged {
    /// For which reservation.
    pub id: ReservationId,
    /// Whose it is, if its name had room for that.
    pub owner: Option<Name>,
    /// On which resource.
    pub resource: Name,
    /// What was granted, whether or not all of it is there now.
    pub spans: Vec<Span>,
}

/// Two clocks that were read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// That of the caller.
    pub ours: Time,
    /// That of the batch system.
    pub theirs: Time,
}

impl Clocks {
    /// By how much theirs is ahead; negative where it is behind.
    pub fn skew(&self) -> Seconds {
        self.theirs - self.ours
    }
}

/// What is to be seen on each resource at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// By name of the resource.
    pub resources: BTreeMap<Name, Seen>,
}

/// What is to be seen on one resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// Jobs outside of reservations, and reservations that Bookahead did not make. Jobs inside a reservation use its room and
    /// are not here.
    pub view: View,
    /// What failed and is not repaired.
    pub lost: Capacity,
    /// What is kept free, for the reservations that are not over.
    pub backings: BTreeMap<ReservationId, Vec<Span>>,
    /// The reservations that jobs wait or run in, where that matters: where they could not be given other machines at once.
    pub in_use: BTreeSet<ReservationId>,
}
