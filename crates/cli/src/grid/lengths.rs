//! Lengths of time in a description of a grid: as on the command line, and in milliseconds where the network is meant.

use crate::times;
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::{Millis, Moment};
use serde::de::{Deserialize, Deserializer, Error};
use std::str::FromStr;

/// Text such as `90s`, `2h30m` or `50ms`. From the start of the simulation, or from whatever it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Length(pub(crate) Millis);

#[derive(Debug, thiserror::Error)]
#[error(
    "\"{0}\" is no length of time; give milliseconds (\"50ms\") or larger units (\"90s\", \"2h30m\", \"1d\")"
)]
pub(crate) struct BadLength(String);

impl FromStr for Length {
    type Err = BadLength;

    fn from_str(text: &str) -> Result<Length, BadLength> {
        let bad = || BadLength(text.to_owned());
        let millis =
            text.strip_suffix("ms").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        match millis {
            Some(digits) => {
                digits.parse::<u32>().map(|millis| Length(Millis(millis.into()))).map_err(|_| bad())
            }
            None => times::length(text).map(|length| Length(Millis::seconds(length.0))).map_err(|_| bad()),
        }
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Length, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl Length {
    /// As an instant, from the start of the simulation.
    pub(crate) fn moment(self) -> Moment {
        Moment(self.0.0)
    }

    /// In whole seconds, as plans are made: what is begun counts.
    pub(crate) fn seconds(self) -> Seconds {
        Seconds(self.0.0.saturating_add(999).div_euclid(1_000))
    }

    /// As an instant of plans, from the start of the simulation.
    pub(crate) fn time(self) -> Time {
        Time(self.seconds().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_reach_from_milliseconds_to_days() {
        for (text, millis) in [("5ms", 5), ("90s", 90_000), ("1h30m", 5_400_000), ("2", 2_000)] {
            assert_eq!(text.parse::<Length>().expect(text).0, Millis(millis));
        }
        assert_eq!("1ms".parse::<Length>().expect("a length").seconds(), Seconds(1));
        for text in ["", "ms", "-5ms", "1s5ms", "5 ms", "1.5h"] {
            assert!(text.parse::<Length>().is_err(), "{text}");
        }
    }
}
