//! Parsing of times. Every error states what to write instead.

use super::{BadWhen, Day, When};
use crate::times::length;
use bookahead_plan::Seconds;
use jiff::civil::{self, Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use std::str::FromStr;

impl FromStr for When {
    type Err = BadWhen;

    fn from_str(text: &str) -> Result<When, BadWhen> {
        let text = text.trim();
        let lower = text.to_ascii_lowercase();
        match lower.as_str() {
            "now" => return Ok(When::Now),
            "noon" => return Ok(coming(civil::time(12, 0, 0, 0))),
            "midnight" => return Ok(coming(civil::Time::midnight())),
            _ => {}
        }
        if let Some(relative) = relative(text) {
            return Ok(When::In(relative));
        }
        if let Some((rest, zone)) = text.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
            return with_zone_in_brackets(text, rest, zone);
        }
        match exact(text)? {
            Some(instant) => Ok(When::Exactly(instant)),
            None => wall(text),
        }
    }
}

fn coming(time: civil::Time) -> When {
    When::Wall { day: Day::Coming(None), time, zone: None }
}

/// `+2h` and `-90m`.
fn relative(text: &str) -> Option<Seconds> {
    let later = text.strip_prefix('+').and_then(|rest| length(rest.trim_start()).ok());
    let earlier = || text.strip_prefix('-').and_then(|rest| length(rest.trim_start()).ok());
    later.or_else(|| earlier().map(|length| Seconds(-length.0)))
}

/// Parses a time with an offset from UTC. None if it has no offset.
fn exact(text: &str) -> Result<Option<Timestamp>, BadWhen> {
    match text.parse::<Timestamp>() {
        Ok(instant) if instant.subsec_nanosecond() != 0 => Err(BadWhen::Fraction(text.to_owned())),
        Ok(instant) => Ok(Some(instant)),
        Err(_) => Ok(None),
    }
}

/// `2026-11-16T09:00:00+01:00[Europe/Berlin]`, whose offset must match the zone, or the same without an offset.
fn with_zone_in_brackets(text: &str, rest: &str, name: &str) -> Result<When, BadWhen> {
    let zone = zone(name).ok_or_else(|| no_such_zone(text, name))?;
    if exact(rest)?.is_some() {
        let both: Zoned = text.parse().map_err(|_| no_such_zone(text, name))?;
        return Ok(When::Exactly(both.timestamp()));
    }
    match wall(rest)? {
        When::Wall { day, time, zone: None } => Ok(When::Wall { day, time, zone: Some(zone) }),
        _ => Err(BadWhen::Unreadable(text.to_owned())),
    }
}

fn no_such_zone(text: &str, zone: &str) -> BadWhen {
    BadWhen::NoSuchZone { text: text.to_owned(), zone: zone.to_owned() }
}

/// A day, a time of day and, optionally, a zone.
fn wall(text: &str) -> Result<When, BadWhen> {
    let unreadable = || BadWhen::Unreadable(text.to_owned());
    // 2026-11-16T09:00 is one word with a day and a time of day.
    let spaced = split_date_and_time(text);
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (day, clock, zone_name) = match words.as_slice() {
        [clock] if time_of_day(clock).is_some() => return Err(BadWhen::NoDay(text.to_owned())),
        [word] if day(word).is_some() => return Err(BadWhen::NoTime(text.to_owned())),
        [_, second] if second.eq_ignore_ascii_case("midnight") => {
            return Err(BadWhen::WhichMidnight(text.to_owned()));
        }
        [day, clock] => (*day, *clock, None),
        [day, clock, zone] => (*day, *clock, Some(*zone)),
        _ => return Err(unreadable()),
    };
    let day = self::day(day).ok_or_else(unreadable)?;
    let time = time_of_day(clock).ok_or_else(unreadable)?;
    let zone = match zone_name {
        Some(name) => Some(zone(name).ok_or_else(|| no_such_zone(text, name))?),
        None => None,
    };
    Ok(When::Wall { day, time, zone })
}

fn split_date_and_time(text: &str) -> String {
    const DATE: usize = "2026-11-16".len();
    match text.split_at_checked(DATE) {
        Some((date, rest)) if date.parse::<Date>().is_ok() => match rest.strip_prefix(['T', 't']) {
            Some(time) => format!("{date} {time}"),
            None => text.to_owned(),
        },
        _ => text.to_owned(),
    }
}

fn day(word: &str) -> Option<Day> {
    const WEEKDAYS: [(&str, Weekday); 7] = [
        ("monday", Weekday::Monday),
        ("tuesday", Weekday::Tuesday),
        ("wednesday", Weekday::Wednesday),
        ("thursday", Weekday::Thursday),
        ("friday", Weekday::Friday),
        ("saturday", Weekday::Saturday),
        ("sunday", Weekday::Sunday),
    ];
    let word = word.to_ascii_lowercase();
    let weekday = WEEKDAYS.iter().find(|(name, _)| *name == word || name[..3] == word);
    match word.as_str() {
        "yesterday" => Some(Day::Yesterday),
        "today" => Some(Day::Today),
        "tomorrow" => Some(Day::Tomorrow),
        _ => weekday.map(|(_, weekday)| Day::Coming(Some(*weekday))).or_else(|| date(&word)),
    }
}

/// `2026-11-16`. The format is checked here because jiff also accepts other ones, such as a date with a time.
fn date(word: &str) -> Option<Day> {
    let plain =
        word.len() == "2026-11-16".len() && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    if plain { word.parse().ok().map(Day::On) } else { None }
}

/// `9:00`, `09:00:30`, `noon`.
fn time_of_day(word: &str) -> Option<civil::Time> {
    if word.eq_ignore_ascii_case("noon") {
        return Some(civil::time(12, 0, 0, 0));
    }
    let number = |text: &str, digits: std::ops::RangeInclusive<usize>| {
        let plain = digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        if plain { text.parse::<i8>().ok() } else { None }
    };
    let pieces: Vec<&str> = word.split(':').collect();
    let (hour, minute, second) = match pieces.as_slice() {
        [hour, minute] => (hour, minute, "00"),
        [hour, minute, second] => (hour, minute, *second),
        _ => return None,
    };
    civil::Time::new(number(hour, 1..=2)?, number(minute, 2..=2)?, number(second, 2..=2)?, 0).ok()
}

/// A zone by its IANA name, `Z`, or an offset from UTC.
pub(crate) fn zone(name: &str) -> Option<TimeZone> {
    if let Some(offset) = offset(name) {
        return Some(TimeZone::fixed(offset));
    }
    if name.eq_ignore_ascii_case("z") {
        return Some(TimeZone::UTC);
    }
    TimeZone::get(name).ok()
}

/// `+01:00` and `-05:30`.
fn offset(text: &str) -> Option<jiff::tz::Offset> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let time = time_of_day(text.get(1..)?)?;
    let seconds = i32::from(time.hour()) * 3_600 + i32::from(time.minute()) * 60 + i32::from(time.second());
    jiff::tz::Offset::from_seconds(sign * seconds).ok()
}
