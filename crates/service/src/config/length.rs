//! Durations in configuration files: `90s`, `2h30m`, `1d`, and `50ms` for network timeouts.

use bookahead_plan::{Seconds, Time};
use bookahead_protocol::{Millis, Moment};
use serde::de::{Deserialize, Deserializer, Error};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A duration, written as `90s`, `2h30m` or `50ms`. Never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Length(pub Millis);

/// A text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid duration \"{0}\"; use milliseconds (\"50ms\") or larger units (\"90s\", \"2h30m\", \"1d\")")]
pub struct BadLength(String);

/// Units in seconds, largest first.
const UNITS: [(char, i64); 5] = [('w', 604_800), ('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// Parses `5400`, `90m`, `2h30m`, `1d12h`, `1w`, and ISO 8601: `PT2H30M`, `P1DT12H`.
pub fn whole_seconds(text: &str) -> Option<Seconds> {
    let seconds = match text.strip_prefix('P') {
        Some(rest) => iso_sum(rest),
        None => text.parse::<u32>().map(i64::from).ok().or_else(|| sum(text, &UNITS)),
    };
    seconds.map(Seconds)
}

/// Parses the part after `P`: weeks and days, and after `T` hours, minutes and seconds.
fn iso_sum(text: &str) -> Option<i64> {
    let small = text.to_ascii_lowercase();
    let (days, units) = UNITS.split_at(2);
    match small.split_once('t') {
        Some(("", time)) => sum(time, units),
        Some((date, time)) => Some(sum(date, days)?.saturating_add(sum(time, units)?)),
        None => sum(&small, days),
    }
}

/// Adds up `2h 30m`. `None` if the text is empty, or a part is not a whole number with a unit.
fn sum(text: &str, units: &[(char, i64)]) -> Option<i64> {
    let mut total = 0i64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u32 = rest[..digits].parse().ok()?;
        let mut after = rest[digits..].chars();
        let letter = after.next()?;
        let (_, unit) = units.iter().find(|(name, _)| *name == letter)?;
        total = total.saturating_add(i64::from(number).saturating_mul(*unit));
        rest = after.as_str().trim_start();
    }
    (!text.is_empty()).then_some(total)
}

impl FromStr for Length {
    type Err = BadLength;

    fn from_str(text: &str) -> Result<Length, BadLength> {
        let digits =
            text.strip_suffix("ms").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let millis = match digits {
            Some(digits) => digits.parse::<u32>().ok().map(|millis| Millis(millis.into())),
            None => whole_seconds(text).map(|length| Millis::seconds(length.0)),
        };
        millis.map(Length).ok_or_else(|| BadLength(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Length, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.0.max(0);
        if millis % 1_000 != 0 {
            return write!(f, "{millis}ms");
        }
        let mut rest = millis / 1_000;
        if rest == 0 {
            return f.write_str("0s");
        }
        // Weeks are parsed but not printed: `10d` is easier to read than `1w3d`.
        for (letter, unit) in UNITS.into_iter().skip(1) {
            if rest >= unit {
                write!(f, "{}{letter}", rest / unit)?;
                rest %= unit;
            }
        }
        Ok(())
    }
}

impl Length {
    /// A duration in seconds.
    pub const fn of_seconds(seconds: i64) -> Length {
        Length(Millis::seconds(seconds))
    }

    /// The instant this long after 1970.
    pub fn moment(self) -> Moment {
        Moment(self.0.0)
    }

    /// In whole seconds, rounded up, as plans count.
    pub fn seconds(self) -> Seconds {
        Seconds(self.0.0.saturating_add(999).div_euclid(1_000))
    }

    /// The instant this long after 1970, as plans count.
    pub fn time(self) -> Time {
        Time(self.seconds().0)
    }

    /// As `std::time::Duration`.
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0.0.max(0).unsigned_abs())
    }
}

impl From<Seconds> for Length {
    fn from(seconds: Seconds) -> Length {
        Length(Millis::seconds(seconds.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_reach_from_milliseconds_to_days() {
        for (text, millis) in
            [("5ms", 5), ("90s", 90_000), ("1h30m", 5_400_000), ("2", 2_000), ("PT1M", 60_000)]
        {
            assert_eq!(text.parse::<Length>().expect(text).0, Millis(millis));
        }
        assert_eq!("1ms".parse::<Length>().expect("a length").seconds(), Seconds(1));
        for text in ["", "ms", "-5ms", "1s5ms", "5 ms", "1.5h", "2ü"] {
            assert!(text.parse::<Length>().is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_are_read_as_they_are_written() {
        for text in ["0s", "50ms", "1500ms", "90ms", "1m30s", "2h30m", "10d", "1d1h1m1s"] {
            assert_eq!(text.parse::<Length>().expect(text).to_string(), text);
        }
        assert_eq!("1w".parse::<Length>().expect("a week").to_string(), "7d");
    }
}
