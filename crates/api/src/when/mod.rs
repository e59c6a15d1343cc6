//! Times in human notation: `tomorrow 9:00`, `monday 08:30 Europe/Berlin`, `+2h`, RFC 3339. Parsing ([`reading`]) is
//! independent of the present; [`When::resolve`] gets a clock and a zone and returns the instant. A wall time that
//! occurs twice or never, because clocks are changed, is refused. Relies on `jiff` for the calendar; never reads a
//! clock.

mod reading;
#[cfg(test)]
mod tests;

pub use reading::zone;

use crate::length::{BadLength, Length};
use bookahead_plan::{Seconds, Time};
use jiff::civil::{self, Date, DateTime, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan, Zoned};
use serde::de::{Deserialize, Deserializer, Visitor};
use std::fmt;

/// A time as the user wrote it, not resolved yet.
#[derive(Debug, Clone, PartialEq)]
pub enum When {
    /// The present.
    Now,
    /// Relative to now; negative for the past.
    In(Seconds),
    /// With an offset from UTC.
    Exactly(Timestamp),
    /// Wall time in a zone.
    Wall {
        /// The day.
        day: Day,
        /// The time of day.
        time: civil::Time,
        /// None for the user's zone.
        zone: Option<TimeZone>,
    },
}

/// The day of a wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Day {
    Yesterday,
    Today,
    Tomorrow,
    /// The next day (or weekday) on which the time of day is still to come.
    Coming(Option<Weekday>),
    /// The first of its name after today.
    Next(Weekday),
    /// The next one on which the time of day is still to come.
    Yearly {
        month: i8,
        day: i8,
    },
    On(Date),
}

/// Why a text is not a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum BadWhen {
    #[error("'{text}' is not a time; {}", hint(nearest.as_deref()))]
    Unreadable { text: String, nearest: Option<String> },
    #[error(transparent)]
    Length(BadLength),
    #[error("'{0}' alone is not a time; use {0}:00 or 'in {0} hours'")]
    OnlyANumber(String),
    #[error("'{0}' has no unit; add minutes, hours or days after the number")]
    NoUnit(String),
    #[error("the offset in '{text}' does not match {zone} at that time; remove one of them")]
    OtherOffset { text: String, zone: String },
    #[error("'{0}' has no time of day; use '{0} 9:00'")]
    NoTime(String),
    #[error("the weekday in '{text}' is wrong: {date} is a {is}")]
    OtherWeekday { text: String, date: String, is: String },
    #[error("'{0}' could be the start or the end of that day; use 0:00 of the day that starts then")]
    WhichMidnight(String),
    #[error(
        "unknown time zone '{zone}' in '{text}'; use a name such as Europe/Berlin, UTC, or an offset +01:00"
    )]
    NoSuchZone { text: String, zone: String },
    #[error("'{0}' has a fraction of a second; use whole seconds")]
    Fraction(String),
}

fn hint(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("did you mean '{nearest}'?"),
        None => "write 'tomorrow 9:00', 'mon 9am', '16 Nov 9:00', '2026-11-16 09:00' (with a zone such as Europe/Berlin \
                 if you like), 'in 2 hours', '+2h', noon, now, or RFC 3339 (2026-11-16T09:00:00+01:00)"
            .to_owned(),
    }
}

/// A wall time that is not one instant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum Unclear {
    #[error("{wall} occurs twice in {zone}, because clocks are set back then; use {first} or {second}")]
    Twice { wall: String, zone: String, first: String, second: String },
    #[error(
        "{wall} does not exist in {zone}, because clocks are set forward past it; use {first} or {second}"
    )]
    Never { wall: String, zone: String, first: String, second: String },
    #[error("'{0}' is out of range; use a time in the years 0001 to 9999")]
    Beyond(String),
}

impl<'de> Deserialize<'de> for When {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<When, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = When;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time in quotes, such as \"tomorrow 9:00\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<When, E> {
                text.parse().map_err(E::custom)
            }
        }

        from.deserialize_str(Text)
    }
}

/// The present and the zone that times are resolved by.
#[derive(Debug, Clone)]
pub struct Clock {
    /// By the user's clock, or by the server's if that runs faster.
    pub now: Timestamp,
    /// The user's zone.
    pub zone: TimeZone,
}

/// The name of a zone, or its offset.
pub fn zone_name(zone: &TimeZone) -> String {
    match (zone.iana_name(), zone.to_fixed_offset()) {
        (Some(name), _) => name.to_owned(),
        (None, Ok(offset)) => offset.to_string(),
        (None, Err(_)) => "your time zone".to_owned(),
    }
}

impl When {
    /// Whether it depends on the present.
    pub fn needs_now(&self) -> bool {
        !matches!(self, When::Exactly(_) | When::Wall { day: Day::On(_), .. })
    }

    /// Whether it means the present itself.
    pub fn is_now(&self) -> bool {
        matches!(self, When::Now) || *self == When::In(Seconds::ZERO)
    }

    /// Whether it is the present, or a length of time from it.
    pub fn is_relative(&self) -> bool {
        matches!(self, When::Now | When::In(_))
    }

    /// Whether it names no zone, so that the user's is assumed.
    pub fn assumes_zone(&self) -> bool {
        matches!(self, When::Wall { zone: None, .. })
    }

    /// The instant, in Unix seconds.
    pub fn resolve(&self, clock: &Clock) -> Result<Time, Unclear> {
        let beyond = || Unclear::Beyond(self.to_string());
        match self {
            When::Now => Ok(Time(clock.now.as_second())),
            // The length may have any size: the sum is saturated first and then checked against the calendar.
            When::In(length) => {
                let second = clock.now.as_second().saturating_add(length.0);
                Timestamp::from_second(second).map(|_| Time(second)).map_err(|_| beyond())
            }
            When::Exactly(instant) => Ok(Time(instant.as_second())),
            When::Wall { day, time, zone } => {
                let zone = zone.as_ref().unwrap_or(&clock.zone);
                let date = day.date(*time, &clock.now.to_zoned(zone.clone())).ok_or_else(beyond)?;
                on_the_wall(date.to_datetime(*time), zone, beyond)
            }
        }
    }
}

impl Day {
    /// The date, relative to `now`. None if it is beyond the calendar.
    fn date(self, time: civil::Time, now: &Zoned) -> Option<Date> {
        let today = now.date();
        match self {
            Day::Yesterday => today.yesterday().ok(),
            Day::Today => Some(today),
            Day::Tomorrow => today.tomorrow().ok(),
            Day::On(date) => Some(date),
            Day::Coming(weekday) => {
                // "monday 9:00" on a Monday at 10:00 means next week; without a weekday it means tomorrow.
                let passed = i32::from(time <= now.time());
                let days = match weekday {
                    None => passed,
                    Some(weekday) => match today.weekday().until(weekday) {
                        0 => 7 * passed,
                        days => i32::from(days),
                    },
                };
                today.checked_add(days.days()).ok()
            }
            Day::Next(weekday) => match today.weekday().until(weekday) {
                0 => today.checked_add(7.days()).ok(),
                days => today.checked_add(i32::from(days).days()).ok(),
            },
            // There is a 29th of February within eight years.
            Day::Yearly { month, day } => (0..9)
                .filter_map(|years| Date::new(today.year().checked_add(years)?, month, day).ok())
                .find(|date| date.to_datetime(time) > now.datetime()),
        }
    }
}

fn on_the_wall(wall: DateTime, zone: &TimeZone, beyond: impl Fn() -> Unclear) -> Result<Time, Unclear> {
    let at = |offset: jiff::tz::Offset| offset.to_timestamp(wall).map_err(|_| beyond());
    let shown =
        |instant: Timestamp| instant.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    let wall_text = wall.strftime("%Y-%m-%d %H:%M").to_string();
    match zone.to_ambiguous_zoned(wall).offset() {
        AmbiguousOffset::Unambiguous { offset } => Ok(Time(at(offset)?.as_second())),
        AmbiguousOffset::Fold { before, after } => Err(Unclear::Twice {
            wall: wall_text,
            zone: zone_name(zone),
            first: shown(at(before)?),
            second: shown(at(after)?),
        }),
        // The offset after the change is the larger one, hence it gives the earlier instant.
        AmbiguousOffset::Gap { before, after } => Err(Unclear::Never {
            wall: wall_text,
            zone: zone_name(zone),
            first: shown(at(after)?),
            second: shown(at(before)?),
        }),
    }
}

impl fmt::Display for When {
    /// In a form that can be parsed again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            When::Now => f.write_str("now"),
            When::In(length) if length.0 < 0 => write!(f, "{}", Length::from(*length)),
            When::In(length) => write!(f, "+{}", Length::from(*length)),
            When::Exactly(instant) => write!(f, "{instant}"),
            When::Wall { day, time, zone } => {
                if *day != Day::Coming(None) {
                    write!(f, "{day} ")?;
                }
                write!(f, "{}", time.strftime(if time.second() == 0 { "%H:%M" } else { "%H:%M:%S" }))?;
                zone.as_ref().map_or(Ok(()), |zone| write!(f, " {}", zone_word(zone)))
            }
        }
    }
}

/// In a form that [`zone`] parses.
fn zone_word(zone: &TimeZone) -> String {
    match (zone.iana_name(), zone.to_fixed_offset()) {
        (None, Ok(offset)) => {
            let (sign, seconds) = (if offset.seconds() < 0 { '-' } else { '+' }, offset.seconds().abs());
            format!("{sign}{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
        }
        _ => zone_name(zone),
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Day::Yesterday => f.write_str("yesterday"),
            Day::Today => f.write_str("today"),
            Day::Tomorrow => f.write_str("tomorrow"),
            Day::Coming(None) => Ok(()),
            Day::Coming(Some(weekday)) => write!(f, "{weekday:?}"),
            Day::Next(weekday) => write!(f, "next {weekday:?}"),
            Day::Yearly { month, day } => {
                // Every day of the year is in a leap year.
                let date = Date::new(2024, *month, *day).map_err(|_| fmt::Error)?;
                write!(f, "{}", date.strftime("%-d %b"))
            }
            Day::On(date) => write!(f, "{date}"),
        }
    }
}
