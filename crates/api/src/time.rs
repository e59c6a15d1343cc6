//! Instants on the wire: read as RFC 3339 with any offset, written in UTC, in whole seconds. A time without an
//! offset is refused as ambiguous. Relies on `jiff` for the calendar; never reads a clock.

use bookahead_plan::Time;
use bookahead_protocol::Moment;
use jiff::Timestamp as Calendar;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;
use utoipa::ToSchema;

/// An instant in whole seconds, as RFC 3339 with an offset: `2026-11-16T09:00:00Z` or `2026-11-16T10:00:00+01:00`.
/// Answers are in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ToSchema)]
#[schema(
    value_type = String,
    format = DateTime,
    pattern = r"^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.0+)?([Zz]|[+-]\d{2}:\d{2})$",
    example = "2026-11-16T09:00:00Z"
)]
pub struct Timestamp(Time);

/// An instant to the millisecond, as RFC 3339 in UTC: `2026-11-16T09:00:00.250Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ToSchema)]
#[schema(value_type = String, format = DateTime, example = "2026-11-16T09:00:00.250Z")]
pub struct FineTimestamp(Moment);

/// An instant outside of the years that RFC 3339 can express.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the instant {0} seconds after 1970 is outside of the years 0000 to 9999 and cannot be written as a date"
)]
pub struct OutOfCalendar(pub Time);

/// A text that is not a valid instant.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotATimestamp {
    /// Without an offset the instant is ambiguous.
    #[error("{0:?} has no offset from UTC; write 2026-11-16T09:00:00Z, or 2026-11-16T10:00:00+01:00")]
    NoOffset(String),
    /// A plus sign decoded as a space from a URL.
    #[error("{0:?} has a space before its offset; in a URL the plus sign is written %2B")]
    LostPlus(String),
    /// Plans use whole seconds.
    #[error("{0:?} has a fraction of a second; give whole seconds, such as 2026-11-16T09:00:00Z")]
    Fraction(String),
    /// Any other error.
    #[error("{text:?} is not a time ({why}); write it as RFC 3339, such as 2026-11-16T09:00:00Z")]
    Other {
        /// The input.
        text: String,
        /// What is wrong with it.
        why: String,
    },
}

/// First second of the year 0000. RFC 3339 has no earlier dates.
const FIRST: Time = Time(-62_167_219_200);
/// 9999-12-30T22:00:00Z, the last second that has a four-digit year in every time zone.
const LAST: Time = Time(253_402_207_200);

impl Timestamp {
    /// The nearest instant within the calendar.
    pub fn nearest(time: Time) -> Timestamp {
        Timestamp(time.clamp(FIRST, LAST))
    }

    /// The instant as plans count it, in seconds since 1970.
    pub fn time(self) -> Time {
        self.0
    }
}

impl FineTimestamp {
    /// The instant in milliseconds since 1970.
    pub fn moment(self) -> Moment {
        self.0
    }
}

impl TryFrom<Time> for Timestamp {
    type Error = OutOfCalendar;

    fn try_from(time: Time) -> Result<Timestamp, OutOfCalendar> {
        if (FIRST..=LAST).contains(&time) { Ok(Timestamp(time)) } else { Err(OutOfCalendar(time)) }
    }
}

impl From<Timestamp> for Time {
    fn from(timestamp: Timestamp) -> Time {
        timestamp.0
    }
}

impl TryFrom<Moment> for FineTimestamp {
    type Error = OutOfCalendar;

    fn try_from(moment: Moment) -> Result<FineTimestamp, OutOfCalendar> {
        Timestamp::try_from(moment.second()).map(|_| FineTimestamp(moment))
    }
}

impl From<Infallible> for OutOfCalendar {
    fn from(never: Infallible) -> OutOfCalendar {
        match never {}
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Constructors check the range, so the conversion cannot fail.
        let date = Calendar::from_second(self.0.0).map_err(|_| fmt::Error)?;
        write!(f, "{date}")
    }
}

impl fmt::Display for FineTimestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = Calendar::from_millisecond(self.0.0).map_err(|_| fmt::Error)?;
        write!(f, "{date:.3}")
    }
}

impl FromStr for Timestamp {
    type Err = NotATimestamp;

    fn from_str(text: &str) -> Result<Timestamp, NotATimestamp> {
        let date = instant(text)?;
        if date.subsec_nanosecond() != 0 {
            return Err(NotATimestamp::Fraction(text.into()));
        }
        within(text, Time(date.as_second()))
    }
}

impl FromStr for FineTimestamp {
    type Err = NotATimestamp;

    /// Truncates to milliseconds.
    fn from_str(text: &str) -> Result<FineTimestamp, NotATimestamp> {
        let date = instant(text)?;
        // Euclidean division rounds down before 1970, too.
        let moment = Moment(date.as_nanosecond().div_euclid(1_000_000) as i64);
        within(text, moment.second()).map(|_| FineTimestamp(moment))
    }
}

fn within(text: &str, time: Time) -> Result<Timestamp, NotATimestamp> {
    Timestamp::try_from(time)
        .map_err(|error| NotATimestamp::Other { text: text.into(), why: error.to_string() })
}

/// Checks the syntax before parsing, because jiff accepts more than RFC 3339 allows.
fn instant(text: &str) -> Result<Calendar, NotATimestamp> {
    let rest = local_part(text).ok_or_else(|| other(text, "expected the form 2026-11-16T09:00:00Z"))?;
    let rest = after_fraction(rest).ok_or_else(|| other(text, "there are no digits after the point"))?;
    match rest.as_bytes() {
        [b'Z' | b'z'] => {}
        [b'+' | b'-', offset @ ..] if has_shape(offset, b"00:00") => {}
        [] => return Err(NotATimestamp::NoOffset(text.into())),
        // A client that does not escape `+` in a query sends a space.
        [b' ', offset @ ..] if has_shape(offset, b"00:00") => {
            return Err(NotATimestamp::LostPlus(text.into()));
        }
        _ => return Err(other(text, "its offset from UTC is neither Z nor +hh:mm nor -hh:mm")),
    }
    text.parse().map_err(|error: jiff::Error| other(text, &error.to_string()))
}

fn other(text: &str, why: &str) -> NotATimestamp {
    NotATimestamp::Other { text: text.into(), why: why.into() }
}

/// Returns the rest after date and time of day.
fn local_part(text: &str) -> Option<&str> {
    const LENGTH: usize = "0000-00-00T00:00:00".len();
    let (local, rest) = text.split_at_checked(LENGTH)?;
    let shapes: [&[u8]; 3] = [b"0000-00-00T00:00:00", b"0000-00-00t00:00:00", b"0000-00-00 00:00:00"];
    shapes.iter().any(|shape| has_shape(local.as_bytes(), shape)).then_some(rest)
}

/// Returns the rest after an optional fraction of a second. `None` for a point without digits.
fn after_fraction(rest: &str) -> Option<&str> {
    let Some(fraction) = rest.strip_prefix('.') else { return Some(rest) };
    let after = fraction.trim_start_matches(|digit: char| digit.is_ascii_digit());
    (after.len() < fraction.len()).then_some(after)
}

/// Whether `text` matches `shape`, in which `0` stands for any digit.
fn has_shape(text: &[u8], shape: &[u8]) -> bool {
    let fits = |(byte, wanted): (&u8, &u8)| match wanted {
        b'0' => byte.is_ascii_digit(),
        _ => byte == wanted,
    };
    text.len() == shape.len() && text.iter().zip(shape).all(fits)
}

macro_rules! written_as_text {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let text = Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

written_as_text!(Timestamp);
written_as_text!(FineTimestamp);

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<i64, NotATimestamp> {
        text.parse::<Timestamp>().map(|timestamp| timestamp.time().0)
    }

    #[test]
    fn an_instant_is_read_with_any_offset_and_written_in_utc() {
        let nine = 1_794_819_600;
        for text in [
            "2026-11-16T09:00:00Z",
            "2026-11-16t09:00:00z",
            "2026-11-16 09:00:00Z",
            "2026-11-16T10:00:00+01:00",
            "2026-11-16T04:00:00-05:00",
            "2026-11-16T09:00:00.000Z",
            "2026-11-16T09:00:00-00:00",
        ] {
            assert_eq!(read(text), Ok(nine), "{text}");
        }
        assert_eq!(Timestamp::try_from(Time(nine)).unwrap().to_string(), "2026-11-16T09:00:00Z");
    }

    #[test]
    fn a_time_without_an_offset_is_refused_and_the_error_says_what_to_write() {
        let error = read("2026-11-16T09:00:00").unwrap_err();
        assert!(matches!(error, NotATimestamp::NoOffset(_)));
        assert!(error.to_string().contains("2026-11-16T09:00:00Z"), "{error}");
        let lost = read("2026-11-16T09:00:00 01:00").unwrap_err();
        assert!(lost.to_string().contains("%2B"), "{lost}");
    }

    #[test]
    fn a_fraction_of_a_second_is_refused_where_seconds_are_planned() {
        assert!(matches!(read("2026-11-16T09:00:00.5Z"), Err(NotATimestamp::Fraction(_))));
        let fine: FineTimestamp = "2026-11-16T09:00:00.2509Z".parse().unwrap();
        assert_eq!(fine.to_string(), "2026-11-16T09:00:00.250Z");
        assert_eq!(fine.moment(), Moment(1_794_819_600_250));
        assert_eq!(FineTimestamp::try_from(Moment(-1)).unwrap().to_string(), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for text in [
            "",
            "tomorrow",
            "2026-11-16",
            "2026-11-16T09:00Z",
            "2026-13-16T09:00:00Z",
            "2026-11-16T25:00:00Z",
            "2026-11-16T09:00:00.Z",
            "2026-11-16T09:00:00+1",
            "2026-11-16T09:00:00+01:00[Europe/Berlin]",
            "2026-11-16T09:00:00+24:00x",
            "-002026-11-16T09:00:00Z",
            "99999-11-16T09:00:00Z",
            "0000-01-01T00:00:00+01:00",
            "9999-12-31T23:59:59Z",
            "２026-11-16T09:00:00Z",
        ] {
            assert!(matches!(read(text), Err(NotATimestamp::Other { .. })), "{text}: {:?}", read(text));
        }
    }

    #[test]
    fn instants_without_a_date_cannot_be_made() {
        for far in [Time::MIN, Time(FIRST.0 - 1), Time(LAST.0 + 1), Time::MAX] {
            assert_eq!(Timestamp::try_from(far), Err(OutOfCalendar(far)));
        }
        assert!(FineTimestamp::try_from(Moment::MAX).is_err());
        for edge in [FIRST, LAST] {
            let written = Timestamp::try_from(edge).unwrap().to_string();
            assert_eq!(read(&written), Ok(edge.0), "{written}");
        }
    }
}
