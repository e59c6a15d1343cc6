//! How often an unanswered message is repeated: soon at first, then ever less often.

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
