//! Selective flooding: a best-effort job is sent to the best few sites, the first that could start it runs it, and the
//! other copies are dropped.
//!
//! Two sites could start their copies at the same moment, so a copy asks before it runs. When its turn comes, the site
//! claims the job; the broker grants exactly one claim and journals that before it says so; every other copy is denied
//! and dropped. A copy that gets no answer does not run: after a while the site passes over it and tries again later.
//!
//! At most once is the rule. A site journals the grant, and journals the start before it runs the job; a copy that was
//! started when its site went down is reported as lost and not run again.
//!
//! ```text
//! broker                                  site
//!   Submit  ─────────────────────────────►  queued
//!           ◄───────────────────────────── Submitted
//!           ◄───────────────────────────── Claim        its turn has come
//!   Granted ─────────────────────────────►  started
//!   or Denied, Drop ─────────────────────►  removed
//!           ◄───────────────────────────── Dropped, Ended
//!   Noted   ─────────────────────────────►
//! ```
//!
//! Submit and Drop are repeated by the broker, Claim, Dropped and Ended by the site, until they are answered. All
//! messages may be lost, repeated or overtake one another.
//!
//! - [`Flood`]: one job at the broker
//! - [`Copies`]: the copies at a site

mod broker;
mod site;

pub use broker::{Event as FloodEvent, Flood, FloodEffects, Outcome as FloodOutcome, answer_stranger};
pub use site::{Action, Copies, Event as CopyEvent, SiteEffects};

pub use super::words::Ending;
use crate::ids::{JobId, Name};
use bookahead_plan::{Capacity, Seconds};

/// What broker and site say to each other about copies of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum JobMessage {
    /// To the site: queue a copy.
    Submit {
        /// Which job.
        job: JobId,
        /// What it is.
        work: Work,
    },
    /// To the broker: it is queued.
    Submitted {
        /// Which job.
        job: JobId,
    },
    /// To the broker: its turn has come; may it run?
    Claim {
        /// Which job.
        job: JobId,
    },
    /// To the site: it may.
    Granted {
        /// Which job.
        job: JobId,
    },
    /// To the site: it may not, and never will.
    Denied {
        /// Which job.
        job: JobId,
    },
    /// To the site: the copy is not needed any more.
    Drop {
        /// Which job.
        job: JobId,
    },
    /// To the broker: there is no copy here, and it did not run.
    Dropped {
        /// Which job.
        job: JobId,
    },
    /// To the broker: it ran.
    Ended {
        /// Which job.
        job: JobId,
        /// How that ended.
        how: Ending,
    },
    /// To the site: that it was dropped or has ended is known.
    Noted {
        /// Which job.
        job: JobId,
    },
}

/// What a site must know to queue a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Work {
    /// Whose it is.
    pub owner: Name,
    /// What it needs.
    pub cores: Capacity,
    /// How long it takes there at most.
    pub estimate: Seconds,
}

/// A message to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Outgoing {
    /// To whom.
    pub to: Name,
    /// What.
    pub message: JobMessage,
}

impl JobMessage {
    /// The job that it is about.
    pub fn job(&self) -> JobId {
        match *self {
            JobMessage::Submit { job, .. }
            | JobMessage::Submitted { job }
            | JobMessage::Claim { job }
            | JobMessage::Granted { job }
            | JobMessage::Denied { job }
            | JobMessage::Drop { job }
            | JobMessage::Dropped { job }
            | JobMessage::Ended { job, .. }
            | JobMessage::Noted { job } => job,
        }
    }
}
