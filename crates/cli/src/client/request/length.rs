//! Lengths of time in a request: how long something takes, and the gap between two things.

use super::text::read_from_text;
use crate::times::{BadLength, length, written};
use bookahead_plan::Seconds;
use std::fmt;
use std::str::FromStr;

/// How long something takes, or by how much it is later; less than nothing with a minus in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Length(pub(crate) Seconds);

impl FromStr for Length {
    type Err = BadLength;

    fn from_str(text: &str) -> Result<Length, BadLength> {
        let text = text.trim();
        match text.strip_prefix('-') {
            Some(rest) => length(rest).map(|length| Length(Seconds(-length.0))),
            None => length(text).map(Length),
        }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{}", written(Seconds(self.0.0.saturating_abs())))
    }
}

/// Reads a length of at least a second, for what would be nothing otherwise.
pub(crate) fn some_time(text: &str) -> Result<Length, String> {
    let length: Length = text.parse().map_err(|error: BadLength| error.to_string())?;
    if length.0 < Seconds(1) {
        Err(format!("'{text}' is no time at all; give a second or more"))
    } else {
        Ok(length)
    }
}

read_from_text!(Length, "a length of time in quotes, such as \"2h30m\"");

/// How long something may be apart: `0s..10m`, `5m..` for at least, `..10m` for at most, `10m` for exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) least: Seconds,
    pub(crate) most: Option<Seconds>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no gap; write \"0s..10m\", \"5m..\" for at least, \"..10m\" for at most, or \"10m\" for exactly that"
)]
pub(crate) struct BadGap(String);

impl FromStr for Gap {
    type Err = BadGap;

    fn from_str(text: &str) -> Result<Gap, BadGap> {
        let bad = || BadGap(text.to_owned());
        let length = |text: &str| text.parse::<Length>().map(|length| length.0).map_err(|_| bad());
        let (least, most) = match text.split_once("..") {
            None => (length(text)?, Some(length(text)?)),
            Some((least, most)) if least.trim().is_empty() => (Seconds::ZERO, Some(length(most)?)),
            Some((least, most)) if most.trim().is_empty() => (length(least)?, None),
            Some((least, most)) => (length(least)?, Some(length(most)?)),
        };
        if most.is_some_and(|most| most < least) { Err(bad()) } else { Ok(Gap { least, most }) }
    }
}

read_from_text!(Gap, "a gap in quotes, such as \"0s..10m\"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_has_a_least_and_perhaps_a_most() {
        let gap = |least, most: Option<i64>| Ok(Gap { least: Seconds(least), most: most.map(Seconds) });
        assert_eq!("0s..10m".parse::<Gap>(), gap(0, Some(600)));
        assert_eq!("5m..".parse::<Gap>(), gap(300, None));
        assert_eq!("..10m".parse::<Gap>(), gap(0, Some(600)));
        assert_eq!("10m".parse::<Gap>(), gap(600, Some(600)));
        for text in ["", "..", "10m..5m", "soon", "1m..2m..3m"] {
            assert!(text.parse::<Gap>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_length_may_be_less_than_nothing() {
        assert_eq!("-15m".parse::<Length>(), Ok(Length(Seconds(-900))));
        assert_eq!(Length(Seconds(-900)).to_string(), "-15m");
        assert!("--15m".parse::<Length>().is_err());
        assert_eq!(some_time("1s"), Ok(Length(Seconds(1))));
        assert!(some_time("0s").is_err() && some_time("-15m").is_err() && some_time("soon").is_err());
    }
}
