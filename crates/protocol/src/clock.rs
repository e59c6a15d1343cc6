//! Protocol time in milliseconds: round trips and hold deadlines are far shorter than the seconds of plans
//! ([`bookahead_plan::Time`]). Conversions are here. Sums saturate.

use bookahead_plan::Time;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};

/// An instant, in milliseconds since the origin of the clock that owns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Moment(pub i64);

/// A length of time, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Millis(pub i64);

impl Moment {
    /// Never.
    pub const MAX: Moment = Moment(i64::MAX);

    /// The second that it lies in, rounded down; for negative times too.
    pub fn second(self) -> Time {
        // An ordinary division rounds towards zero and would put a negative moment into the second after it.
        Time(self.0.div_euclid(1_000))
    }

    /// The first moment of a second.
    pub fn of(second: Time) -> Moment {
        Moment(second.0.saturating_mul(1_000))
    }
}

impl Millis {
    /// Zero milliseconds.
    pub const ZERO: Millis = Millis(0);

    /// From seconds.
    pub const fn seconds(seconds: i64) -> Millis {
        Millis(seconds.saturating_mul(1_000))
    }
}

impl Add<Millis> for Moment {
    type Output = Moment;
    fn add(self, length: Millis) -> Moment {
        // `Moment::MAX` means never, and must not wrap to the past when a length is added.
        Moment(self.0.saturating_add(length.0))
    }
}

impl Sub<Millis> for Moment {
    type Output = Moment;
    fn sub(self, length: Millis) -> Moment {
        Moment(self.0.saturating_sub(length.0))
    }
}

impl Sub for Moment {
    type Output = Millis;
    fn sub(self, earlier: Moment) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Millis {
    type Output = Millis;
    fn add(self, other: Millis) -> Millis {
        Millis(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0.div_euclid(1_000), self.0.rem_euclid(1_000))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_lies_in_the_second_that_began_before_it() {
        for (moment, second) in [(0, 0), (999, 0), (1_000, 1), (-1, -1), (-1_000, -1)] {
            assert_eq!(Moment(moment).second(), Time(second));
        }
        assert_eq!(Moment::of(Time(3)).second(), Time(3));
        assert_eq!(Moment(-1).to_string(), "-1.999");
    }
}
