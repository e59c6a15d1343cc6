//! Jobs without a reservation of their own: which site would have them done first, and how to get them there once.
//!
//! - [`words`]: what is to be run, and how it stands; sites by the shortest expected delay
//! - [`choice`]: the best of three reservations, for a job that is to run in one
//! - [`race`]: copies of a best-effort job at several sites, of which one runs
//!
//! After Migol's Job Broker Service. The heads are values: messages and the time go in; events, messages and an outcome
//! come out. Events are journalled before anything is sent, and are all that a restart needs.

pub mod choice;
pub mod race;
pub mod words;

pub use choice::{Choice, Order};
pub use race::Race;
pub use words::{
    Delay, Ending, JobAnswer, JobRequest, JobView, JobWord, MOST_COPIES, Mode, Ranked, Site, Task, Work, rank,
};

use crate::clock::{Millis, Moment};
use serde::{Deserialize, Serialize};

/// When to say the same again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Patience {
    /// After so long for the first time; then after twice as long, and so on.
    pub first: Millis,
    /// Never less often than this.
    pub longest: Millis,
}

impl Default for Patience {
    /// A second at first, a minute in the end.
    fn default() -> Patience {
        Patience { first: Millis::seconds(1), longest: Millis::seconds(60) }
    }
}

/// A message that is repeated until it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Repeated {
    /// When next.
    pub(super) at: Moment,
    pause: Millis,
}

impl Repeated {
    /// It is not sent.
    pub(super) const NEVER: Repeated = Repeated { at: Moment::MAX, pause: Millis(1) };

    /// It is sent now for the first time.
    pub(super) fn new(patience: &Patience, now: Moment) -> Repeated {
        // A pause below a millisecond would repeat without end in one instant.
        let pause = patience.first.max(Millis(1));
        Repeated { at: now + pause, pause }
    }

    /// Whether it is to be sent again now; if so, the next time is further away.
    pub(super) fn is_due(&mut self, patience: &Patience, now: Moment) -> bool {
        if now < self.at {
            return false;
        }
        self.pause = (self.pause + self.pause).min(patience.longest).max(Millis(1));
        self.at = now + self.pause;
        true
    }
}
