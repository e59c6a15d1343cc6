//! Jobs without a reservation of their own: which site would finish them first, and how to submit them there
//! exactly once.
//!
//! - [`words`]: jobs and their states; sites ranked by expected delay
//! - [`choice`]: the best of three reservations, for a job that should run in one
//! - [`rerun`]: what may run again, and what did
//! - [`race`]: copies of a best-effort job at several sites, only one of which runs
//!
//! Modelled after Migol's Job Broker Service. State machines without I/O: messages and the time go in;
//! events, messages and an outcome come out. Events are journalled before anything is sent, and a restart
//! needs nothing else.

pub mod choice;
pub mod race;
pub mod rerun;
pub mod words;

pub use choice::{Choice, Order};
pub use race::Race;
pub use rerun::{LostAttempt, MOST_RETRIES, Rerun, Runs};
pub use words::{
    Delay, Ending, JobAnswer, JobRequest, JobView, JobWord, MOST_COPIES, Mode, Ranked, Site, Task, Work, rank,
};

use crate::clock::{Millis, Moment};
use serde::{Deserialize, Serialize};

/// Intervals between repetitions of an unanswered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Patience {
    /// First interval; doubled with each repetition.
    pub first: Millis,
    /// Longest interval.
    pub longest: Millis,
}

impl Default for Patience {
    /// From one second to one minute.
    fn default() -> Patience {
        Patience { first: Millis::seconds(1), longest: Millis::seconds(60) }
    }
}

/// Timer of a message that is repeated until it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Repeated {
    /// Time of the next repetition.
    pub(super) at: Moment,
    pause: Millis,
}

impl Repeated {
    /// For a message that was not sent.
    pub(super) const NEVER: Repeated = Repeated { at: Moment::MAX, pause: Millis(1) };

    pub(super) fn new(patience: &Patience, now: Moment) -> Repeated {
        // An interval below a millisecond would repeat forever within one instant.
        let pause = patience.first.max(Millis(1));
        Repeated { at: now + pause, pause }
    }

    /// Whether a repetition is due; if so, schedules the next one.
    pub(super) fn is_due(&mut self, patience: &Patience, now: Moment) -> bool {
        if now < self.at {
            return false;
        }
        self.pause = (self.pause + self.pause).min(patience.longest).max(Millis(1));
        self.at = now + self.pause;
        true
    }
}
