//! Lengths of time as people write them, on command lines, in requests and in configurations: `90s`, `2h30m`, `1d`,
//! `50ms`.

use bookahead_plan::{Seconds, Time};
use bookahead_protocol::{Millis, Moment};
use serde::de::{Deserialize, Deserializer, Error};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A length of time. Text such as `90s`, `2h30m` or `50ms` is never negative; [`Length::signed`] parses offsets, which
/// may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Length(pub Millis);

/// Why a text is not a length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLength {
    /// It has none of the forms.
    #[error("'{0}' is not a length of time; write 90s, 30m, 2h30m, 1d12h, 4:00:00 or 1-12:00:00")]
    Unreadable(String),
    /// `4:30` is four hours and a half to people, and four minutes and a half to Slurm.
    #[error("'{text}' could be hours or minutes; write {hours} or {minutes}")]
    HoursOrMinutes {
        /// As it was written.
        text: String,
        /// As hours and minutes.
        hours: Length,
        /// As minutes and seconds.
        minutes: Length,
    },
}

/// The names of a unit and its seconds, the largest unit first. The first name is the one that is written.
const UNITS: [(&[&str], i64); 5] = [
    (&["w", "week", "weeks"], 604_800),
    (&["d", "day", "days"], 86_400),
    (&["h", "hr", "hrs", "hour", "hours"], 3_600),
    (&["m", "min", "mins", "minute", "minutes"], 60),
    (&["s", "sec", "secs", "second", "seconds"], 1),
];

/// Parses `5400` (seconds), `90m`, `2h30m`, `4 hours`, `1.5h`, Slurm's `4:00:00` and `1-12:00:00`, and ISO 8601's
/// `PT2H30M`.
pub fn whole_seconds(text: &str) -> Result<Seconds, BadLength> {
    let small = text.trim().to_ascii_lowercase();
    let seconds = match small.strip_prefix('p') {
        Some(rest) => iso(rest),
        None if small.contains(':') || small.contains('-') => slurm(&small)?,
        None => digits(&small).map(i64::from).or_else(|| sum(&small, &UNITS)),
    };
    seconds.map(Seconds).ok_or_else(|| BadLength::Unreadable(text.to_owned()))
}

/// A number without a sign: `parse` accepts a plus, but `+90` and `+1-12:00` are typing errors.
fn digits(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// What follows the `P`: weeks and days, then behind a `T` hours, minutes and seconds. Units have one letter.
fn iso(text: &str) -> Option<i64> {
    let words = text.split(|c: char| !c.is_ascii_alphabetic());
    if words.into_iter().any(|word| !matches!(word, "" | "t" | "dt" | "wt" | "w" | "d" | "h" | "m" | "s")) {
        return None;
    }
    // Before the `T` an `m` means months, which have no fixed length: only weeks and days are tried there.
    let (days, units) = UNITS.split_at(2);
    match text.split_once('t') {
        Some(("", time)) => sum(time, units),
        Some((date, time)) => Some(sum(date, days)?.saturating_add(sum(time, units)?)),
        None => sum(text, days),
    }
}

/// `hours:minutes:seconds`, and with days in front `days-hours`, `days-hours:minutes`, `days-hours:minutes:seconds`.
fn slurm(text: &str) -> Result<Option<i64>, BadLength> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(days), clock),
        None => (None, text),
    };
    let fields: Option<Vec<u32>> = clock.split(':').map(digits).collect();
    let days = days.map(digits);
    let (days, hours, minutes, seconds) = match (days, fields.as_deref()) {
        (None, Some(&[hours, minutes, seconds])) => (0, hours, minutes, seconds),
        (None, Some(&[first, second])) if second < 60 => {
            let minutes = Seconds(i64::from(first) * 60 + i64::from(second));
            let hours = Length::from(Seconds(minutes.0 * 60));
            return Err(BadLength::HoursOrMinutes { text: text.to_owned(), hours, minutes: minutes.into() });
        }
        (Some(Some(days)), Some(&[hours])) => (days, hours, 0, 0),
        (Some(Some(days)), Some(&[hours, minutes])) => (days, hours, minutes, 0),
        (Some(Some(days)), Some(&[hours, minutes, seconds])) => (days, hours, minutes, seconds),
        _ => return Ok(None),
    };
    let length =
        i64::from(days) * 86_400 + i64::from(hours) * 3_600 + i64::from(minutes) * 60 + i64::from(seconds);
    Ok((minutes < 60 && seconds < 60).then_some(length))
}

/// Adds up `2h 30m`. None unless each piece is a number and a unit, and the whole is a whole number of seconds.
fn sum(text: &str, units: &[(&[&str], i64)]) -> Option<i64> {
    let mut total = 0i64;
    let mut rest = text;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let after = rest[number..].trim_start();
        let unit = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (_, seconds) = units.iter().find(|(names, _)| names.contains(&&after[..unit]))?;
        total = total.saturating_add(times(&rest[..number], *seconds)?);
        rest = after[unit..].trim_start();
    }
    (!text.is_empty()).then_some(total)
}

/// A number, perhaps with a decimal point, of a unit; None unless that is a whole number of seconds.
fn times(number: &str, unit: i64) -> Option<i64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // With at most six digits the product below cannot overflow.
    if number.ends_with('.') || fraction.len() > 6 {
        return None;
    }
    // Parsed as 32 bits, so that the product with any unit fits into 64 bits.
    let whole = i64::from(whole.parse::<u32>().ok()?).saturating_mul(unit);
    if fraction.is_empty() {
        return Some(whole);
    }
    let scale = 10i64.pow(u32::try_from(fraction.len()).ok()?);
    let part = fraction.parse::<i64>().ok()? * unit;
    (part % scale == 0).then(|| whole.saturating_add(part / scale))
}

impl FromStr for Length {
    type Err = BadLength;

    fn from_str(text: &str) -> Result<Length, BadLength> {
        match text.strip_suffix("ms").map(digits) {
            Some(Some(millis)) => Ok(Length(Millis(millis.into()))),
            Some(None) => Err(BadLength::Unreadable(text.to_owned())),
            None => whole_seconds(text).map(Length::from),
        }
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
        if self.0.0 < 0 {
            f.write_str("-")?;
        }
        let millis = self.0.0.unsigned_abs();
        if !millis.is_multiple_of(1_000) {
            return write!(f, "{millis}ms");
        }
        let mut rest = millis / 1_000;
        if rest == 0 {
            return f.write_str("0s");
        }
        // Weeks are read but not written: ten days are clearer than a week and three days.
        for (names, unit) in UNITS.into_iter().skip(1) {
            let unit = unit.unsigned_abs();
            if rest >= unit {
                write!(f, "{}{}", rest / unit, names[0])?;
                rest %= unit;
            }
        }
        Ok(())
    }
}

impl Length {
    /// Parses whole seconds, with a minus in front for a negative offset.
    pub fn signed(text: &str) -> Result<Length, BadLength> {
        let text = text.trim();
        match text.strip_prefix('-') {
            Some(rest) => whole_seconds(rest).map(|length| Length::of_seconds(-length.0)),
            None => whole_seconds(text).map(Length::from),
        }
    }

    /// This number of seconds.
    pub const fn of_seconds(seconds: i64) -> Length {
        Length(Millis::seconds(seconds))
    }

    /// As an instant so long after the beginning of time.
    pub fn moment(self) -> Moment {
        Moment(self.0.0)
    }

    /// In whole seconds, as plans are made: what is begun counts.
    pub fn seconds(self) -> Seconds {
        Seconds(self.0.0.saturating_add(999).div_euclid(1_000))
    }

    /// As an instant of plans, so long after the beginning of time.
    pub fn time(self) -> Time {
        Time(self.seconds().0)
    }

    /// As the system counts it.
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
        for text in ["", "ms", "-5ms", "1s5ms", "5 ms", "1.0001s", "2ü", "+90", "+90s"] {
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
