//! What a site and its batch system say to each other: orders go out, reports come back as inputs, in any order and as late
//! as a batch system takes. Whoever carries orders out keeps the order of those for one reservation, and the order of those
//! for one job; it may carry out several others at once, and one look may serve several that were ordered before it began.

use crate::job::{Job, JobChange, JobStatus};
use bookahead_plan::{Capacity, Seconds, Span, Time};
use bookahead_protocol::ledger::View;
use bookahead_protocol::{JobId, Moment, Name, ReservationId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thiserror::Error;

/// Counts the orders of one life of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OrderId(pub u64);

/// Something that the batch system is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchOrder {
    /// From now on exactly this is kept free for a reservation; nothing where there are no spans. Saying it twice changes
    /// nothing.
    Keep {
        /// Which order.
        order: OrderId,
        /// What.
        backing: Backing,
    },
    /// Take a job. The same id twice changes nothing if it is the same job.
    Submit {
        /// Which order.
        order: OrderId,
        /// What.
        job: Box<Job>,
    },
    /// A job that claims may run.
    Go {
        /// Which order.
        order: OrderId,
        /// Which job.
        job: JobId,
    },
    /// End a job, whether it waits or runs. An unknown one, or one that is over, is left as it is.
    Cancel {
        /// Which order.
        order: OrderId,
        /// Which job.
        job: JobId,
    },
    /// Tell what is there. The look must begin after the order was given.
    Look {
        /// Which order.
        order: OrderId,
    },
}

/// What the batch system did, or what is seen there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchReport {
    /// What came of [`BatchOrder::Keep`].
    Kept {
        /// Which order.
        order: OrderId,
        /// For which reservation.
        id: ReservationId,
        /// Whether it is kept exactly as ordered.
        outcome: Result<(), BatchError>,
    },
    /// What came of [`BatchOrder::Submit`], [`BatchOrder::Go`] or [`BatchOrder::Cancel`].
    Job {
        /// Which order.
        order: OrderId,
        /// Which job.
        job: JobId,
        /// Whether it was done.
        outcome: Result<(), BatchError>,
    },
    /// What came of [`BatchOrder::Look`], or of a look that nobody ordered.
    Looked {
        /// The newest order that was given before the look began; None where it was not ordered.
        order: Option<OrderId>,
        /// When the look began, by the clock of the site.
        at: Moment,
        /// What was seen.
        outcome: Result<Look, BatchError>,
    },
    /// A job is in another state.
    JobChanged(JobChange),
}

/// Why an order was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BatchError {
    /// The batch system says no, and what is kept is as it was before the order.
    #[error("{0}")]
    Refused(String),
    /// No answer, or none that is understood: it may have been carried out or not, and may be later. A look tells.
    #[error("{0}")]
    Unknown(String),
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
    /// Whether it is less than was promised, since something failed, and not because its owner wants less. Then what jobs
    /// wait or run in stays as it is, where it still has what is wanted: no job ends because less is kept.
    pub spares_jobs: bool,
}

/// What is there at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Look {
    /// By name of the resource.
    pub resources: BTreeMap<Name, Arc<Seen>>,
    /// Jobs that were submitted by this site, also those that are over and still shown.
    pub jobs: Vec<JobStatus>,
    /// All that is kept free because of this site, as it is found: from it a lost book can be made anew.
    pub tagged: Vec<Tagged>,
    /// The time here and there; None where both go by one clock, or it is not told.
    pub clocks: Option<Clocks>,
}

/// What is there on one resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// Jobs outside of reservations, and reservations that Bookahead did not make. Jobs inside a reservation use its room and
    /// are not here.
    pub view: View,
    /// What failed and is not repaired.
    pub lost: Capacity,
    /// What is kept free, for the reservations that are not over.
    pub backings: BTreeMap<ReservationId, Vec<Span>>,
    /// The reservations that jobs wait or run in, where they could not be given other machines at once.
    pub in_use: BTreeSet<ReservationId>,
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
    /// That of the site.
    pub ours: Time,
    /// That of the batch system.
    pub theirs: Time,
}

impl BatchOrder {
    /// Its number.
    pub fn order(&self) -> OrderId {
        match self {
            BatchOrder::Keep { order, .. }
            | BatchOrder::Submit { order, .. }
            | BatchOrder::Go { order, .. }
            | BatchOrder::Cancel { order, .. }
            | BatchOrder::Look { order } => *order,
        }
    }
}

impl BatchError {
    /// Whether nothing was done, and will not be.
    pub fn is_refusal(&self) -> bool {
        matches!(self, BatchError::Refused(_))
    }
}

impl Clocks {
    /// By how much theirs is ahead; negative where it is behind.
    pub fn skew(&self) -> Seconds {
        self.theirs - self.ours
    }
}
