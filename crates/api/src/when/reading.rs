//! Parsing of times. The error for an unknown form suggests the nearest known one.

use super::{BadWhen, Day, When};
use crate::length::{BadLength, whole_seconds as length};
use bookahead_plan::Seconds;
use jiff::civil::{self, Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use std::str::FromStr;

impl FromStr for When {
    type Err = BadWhen;

    fn from_str(text: &str) -> Result<When, BadWhen> {
        let text = text.trim();
        parse(text).map_err(|error| match error {
            BadWhen::Unreadable { .. } => {
                BadWhen::Unreadable { text: text.to_owned(), nearest: nearest(text) }
            }
            other => other,
        })
    }
}

fn parse(text: &str) -> Result<When, BadWhen> {
    if text.eq_ignore_ascii_case("now") {
        return Ok(When::Now);
    }
    if let Some(relative) = relative(text) {
        return relative.map(When::In);
    }
    if let Some((rest, zone)) = text.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
        return with_zone_in_brackets(text, rest, zone);
    }
    if let Some(instant) = exact(without_weekday(text))? {
        return Ok(When::Exactly(instant));
    }
    wall(text)
}

/// `Mon 2026-11-16 09:00+01:00`, as answers show it, without the name of the day.
fn without_weekday(text: &str) -> &str {
    match text.split_once(' ') {
        Some((day, rest)) if WEEKDAYS.iter().any(|(name, _)| name[..3].eq_ignore_ascii_case(day)) => rest,
        _ => text,
    }
}

fn unreadable(text: &str) -> BadWhen {
    BadWhen::Unreadable { text: text.to_owned(), nearest: None }
}

/// `+2h`, `-90m`, `now+2hours`, `in 2 hours`. None where the text has another form.
fn relative(text: &str) -> Option<Result<Seconds, BadWhen>> {
    let lower = text.to_ascii_lowercase();
    let after_now =
        lower.strip_prefix("now").map(str::trim_start).filter(|rest| rest.starts_with(['+', '-']));
    let rest = after_now.unwrap_or(&lower);
    let (sign, rest) = match (rest.strip_prefix("in "), rest.strip_prefix('+'), rest.strip_prefix('-')) {
        (Some(rest), ..) | (_, Some(rest), _) => (1, rest),
        (.., Some(rest)) => (-1, rest),
        _ => return None,
    };
    let rest = rest.trim_start();
    // A bare number is minutes to Slurm and seconds in traces, so no unit is assumed.
    if rest != "0" && !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Err(BadWhen::NoUnit(text.to_owned())));
    }
    Some(length(rest).map(|length| Seconds(sign * length.0)).map_err(|error| match error {
        BadLength::Unreadable(_) => unreadable(text),
        ambiguous => BadWhen::Length(ambiguous),
    }))
}

/// Parses a time with an offset from UTC. None if it has no offset.
fn exact(text: &str) -> Result<Option<Timestamp>, BadWhen> {
    match text.parse::<Timestamp>() {
        // Plans count whole seconds. Rounding would move the start without telling the user.
        Ok(instant) if instant.subsec_nanosecond() != 0 => Err(BadWhen::Fraction(text.to_owned())),
        Ok(instant) => Ok(Some(instant)),
        Err(_) => Ok(None),
    }
}

/// `2026-11-16T09:00:00+01:00[Europe/Berlin]`, whose offset must match the zone, or the same without an offset.
fn with_zone_in_brackets(text: &str, rest: &str, name: &str) -> Result<When, BadWhen> {
    let zone = zone(name).ok_or_else(|| no_such_zone(text, name))?;
    if exact(rest)?.is_some() {
        let other = |_| BadWhen::OtherOffset { text: text.to_owned(), zone: name.to_owned() };
        let both: Zoned = text.parse().map_err(other)?;
        return Ok(When::Exactly(both.timestamp()));
    }
    match wall(rest)? {
        When::Wall { day, time, zone: None } => Ok(When::Wall { day, time, zone: Some(zone) }),
        _ => Err(unreadable(text)),
    }
}

fn no_such_zone(text: &str, zone: &str) -> BadWhen {
    BadWhen::NoSuchZone { text: text.to_owned(), zone: zone.to_owned() }
}

/// A time of day and, optionally, a day and a zone, in any order: `tomorrow 9am`, `9:00 mon`, `16 Nov 9:00
/// Europe/Berlin`.
fn wall(text: &str) -> Result<When, BadWhen> {
    let words = words(text);
    let mut words: &[String] = &words;
    let (mut day, mut weekday, mut time, mut zone) = (None, None, None, None);
    let mut hour = None;
    while let Some(word) = words.first() {
        let taken = if let Some((found, taken)) = date(words) {
            set(&mut day, found, text)?;
            taken
        } else if let Some((found, taken)) = named_day(words) {
            // `Mon 2026-11-16` has the day twice; the weekday is checked below.
            set(if matches!(found, Day::Coming(_)) { &mut weekday } else { &mut day }, found, text)?;
            taken
        } else if let Some((found, taken)) = time_of_day(words) {
            set(&mut time, found, text)?;
            taken
        } else if word == "midnight" {
            let others = words.len() > 1 || day.is_some() || weekday.is_some();
            // Midnight of a day could be its start or its end.
            if others {
                return Err(BadWhen::WhichMidnight(text.to_owned()));
            }
            set(&mut time, civil::Time::midnight(), text)?;
            1
        } else if let Some(found) = plain_hour(word) {
            set(&mut hour, (found, word.clone()), text)?;
            1
        } else if day.is_some() || weekday.is_some() || time.is_some() || hour.is_some() {
            let like_a_zone = word.contains('/') || time.is_some() && word.len() <= 5;
            let found = self::zone(word).ok_or_else(|| match like_a_zone {
                true => no_such_zone(text, word),
                false => unreadable(text),
            })?;
            set(&mut zone, found, text)?;
            1
        } else {
            return Err(unreadable(text));
        };
        words = words.get(taken..).unwrap_or_default();
    }
    if let (Some(Day::On(date)), Some(Day::Coming(Some(weekday)))) = (day, weekday)
        && date.weekday() != weekday
    {
        let is = format!("{:?}", date.weekday());
        return Err(BadWhen::OtherWeekday { text: text.to_owned(), date: date.to_string(), is });
    }
    let day = day.or(weekday);
    // A number alone could be an hour, a minute or a day.
    let time = match (time, hour) {
        (Some(time), None) => Some(time),
        (None, Some((_, number))) if day.is_none() => return Err(BadWhen::OnlyANumber(number)),
        (None, Some((time, _))) => Some(time),
        (None, None) => None,
        (Some(_), Some(_)) => return Err(unreadable(text)),
    };
    match (day, time) {
        (day, Some(time)) => Ok(When::Wall { day: day.unwrap_or(Day::Coming(None)), time, zone }),
        (Some(_), None) => Err(BadWhen::NoTime(text.to_owned())),
        (None, None) => Err(unreadable(text)),
    }
}

/// Sets a value that may occur only once in the text.
fn set<T>(place: &mut Option<T>, value: T, text: &str) -> Result<(), BadWhen> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(unreadable(text)),
    }
}

/// The words in lower case, except zones; without filler words.
fn words(text: &str) -> Vec<String> {
    // 2026-11-16T09:00 is one word with a day and a time of day.
    let spaced = split_date_and_time(text);
    let small = |word: &str| {
        let zone_like =
            word.contains('/') || word.eq_ignore_ascii_case("utc") || word.eq_ignore_ascii_case("z");
        if zone_like { word.to_owned() } else { word.to_ascii_lowercase() }
    };
    let words = spaced.split_whitespace().map(|word| small(word.trim_end_matches(',')));
    words.filter(|word| !matches!(word.as_str(), "at" | "on" | "the" | "of" | "@" | "")).collect()
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

const WEEKDAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// A day by name, and how many words that takes.
fn named_day(words: &[String]) -> Option<(Day, usize)> {
    let weekday = |word: &str| {
        let known = |name: &str| name == word || word.len() >= 3 && word.len() <= 5 && name.starts_with(word);
        WEEKDAYS.iter().find(|(name, _)| known(name)).map(|(_, weekday)| *weekday)
    };
    match words {
        [next, word, ..] if next == "next" => weekday(word).map(|weekday| (Day::Next(weekday), 2)),
        [this, word, ..] if this == "this" => weekday(word).map(|weekday| (Day::Coming(Some(weekday)), 2)),
        [word, ..] => {
            let day = match word.as_str() {
                "yesterday" => Some(Day::Yesterday),
                "today" => Some(Day::Today),
                "tomorrow" => Some(Day::Tomorrow),
                word => weekday(word).map(|weekday| Day::Coming(Some(weekday))),
            };
            day.map(|day| (day, 1))
        }
        [] => None,
    }
}

/// Parses `2026-11-16`, `16 nov`, `nov 16 2026`; also returns the number of words used.
fn date(words: &[String]) -> Option<(Day, usize)> {
    let month = |word: &String| {
        let at = MONTHS
            .iter()
            .position(|name| *name == word || word.len() >= 3 && name.starts_with(word.as_str()));
        at.and_then(|at| i8::try_from(at + 1).ok())
    };
    let number = |word: &String| {
        let digits = word.trim_end_matches(['s', 't', 'n', 'd', 'r', 'h', '.']);
        if (1..=2).contains(&digits.len()) { digits.parse::<i8>().ok() } else { None }
    };
    let first = words.first()?;
    let plain =
        first.len() == "2026-11-16".len() && first.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    if plain && let Ok(date) = first.parse() {
        return Some((Day::On(date), 1));
    }
    let second = words.get(1)?;
    let (day, month) = match (month(first), month(second)) {
        (Some(month), None) => (number(second)?, month),
        (None, Some(month)) => (number(first)?, month),
        _ => return None,
    };
    let year = words.get(2).filter(|word| word.len() == 4).and_then(|word| word.parse::<i16>().ok());
    match year {
        Some(year) => Some((Day::On(Date::new(year, month, day).ok()?), 3)),
        // A leap year has all days.
        None => Date::new(2024, month, day).ok().map(|_| (Day::Yearly { month, day }, 2)),
    }
}

/// `9:00`, `09:00:30`, `9am`, `9:30 pm`, `noon`, and how many words that takes.
fn time_of_day(words: &[String]) -> Option<(civil::Time, usize)> {
    let word = words.first()?;
    if word == "noon" {
        return Some((civil::time(12, 0, 0, 0), 1));
    }
    let half = |word: &str| match word {
        "am" | "a.m." => Some(0),
        "pm" | "p.m." => Some(12),
        _ => None,
    };
    let behind = words.get(1).and_then(|word| half(word));
    let split = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
    let (clock, ending) = word.split_at(split);
    let (offset, taken) = match (half(ending), behind) {
        (Some(offset), None) => (Some(offset), 1),
        (None, Some(offset)) if ending.is_empty() => (Some(offset), 2),
        (None, None) if ending.is_empty() => (None, 1),
        _ => return None,
    };
    let time = match (offset, clock.contains(':')) {
        (None, true) | (Some(_), true) => clock_time(clock)?,
        (Some(_), false) => plain_hour(clock)?,
        (None, false) => return None,
    };
    match offset {
        None => Some((time, taken)),
        Some(offset) if (1..=12).contains(&time.hour()) => {
            let hour = time.hour() % 12 + offset;
            Some((civil::Time::new(hour, time.minute(), time.second(), 0).ok()?, taken))
        }
        Some(_) => None,
    }
}

fn digits(text: &str, count: std::ops::RangeInclusive<usize>) -> Option<i8> {
    let plain = count.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse::<i8>().ok() } else { None }
}

fn plain_hour(word: &str) -> Option<civil::Time> {
    civil::Time::new(digits(word, 1..=2)?, 0, 0, 0).ok()
}

/// `9:00` and `09:00:30`.
fn clock_time(word: &str) -> Option<civil::Time> {
    let pieces: Vec<&str> = word.split(':').collect();
    let (hour, minute, second) = match pieces.as_slice() {
        [hour, minute] => (hour, minute, "00"),
        [hour, minute, second] => (hour, minute, *second),
        _ => return None,
    };
    civil::Time::new(digits(hour, 1..=2)?, digits(minute, 2..=2)?, digits(second, 2..=2)?, 0).ok()
}

/// A zone by its IANA name, `Z`, or an offset from UTC.
pub fn zone(name: &str) -> Option<TimeZone> {
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
    let time = clock_time(text.get(1..)?)?;
    let seconds = i32::from(time.hour()) * 3_600 + i32::from(time.minute()) * 60 + i32::from(time.second());
    jiff::tz::Offset::from_seconds(sign * seconds).ok()
}

/// The text with as little changed as makes it a time, where that is obvious: a word misspelt, a date or a time with
/// other signs between its numbers, a length without `in`.
fn nearest(text: &str) -> Option<String> {
    const KNOWN: [&str; 5] = ["tomorrow", "yesterday", "today", "noon", "midnight"];
    if length(text).is_ok() && !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(format!("in {text}"));
    }
    let corrected = |word: &str| {
        let lower = word.to_ascii_lowercase();
        let names = KNOWN.iter().chain(WEEKDAYS.iter().map(|(name, _)| name)).chain(&MONTHS);
        let distance = |name: &str| strsim::damerau_levenshtein(name, &lower);
        // Of a short word two letters are half of it. What is a name already needs no other.
        let most = if lower.len() < 7 { 1 } else { 2 };
        let nearest = names.map(|name| (distance(name), name)).min();
        let name =
            nearest.filter(|(far, _)| lower.len() >= 5 && (1..=most).contains(far)).map(|(_, name)| name);
        name.map(|name| (*name).to_owned()).or_else(|| date_with_other_signs(&lower)).or_else(|| {
            let hours = lower.replace(['.', 'h', 'u'], ":");
            clock_time(&hours).is_some().then_some(hours)
        })
    };
    let words: Vec<String> =
        text.split_whitespace().map(|word| corrected(word).unwrap_or_else(|| word.to_owned())).collect();
    let changed = words.join(" ");
    let is_day = |changed: &str| matches!(parse(changed), Err(BadWhen::NoTime(_)));
    let changed = if is_day(&changed) { format!("{changed} 9:00") } else { changed };
    (changed != text && parse(&changed).is_ok()).then_some(changed)
}

/// `16.11.2026`, `2026/11/16` and `11/16/2026` as `2026-11-16`; None where day and month could be either.
fn date_with_other_signs(word: &str) -> Option<String> {
    let sign = word.chars().find(|c| matches!(c, '/' | '.' | '-'))?;
    let pieces: Vec<&str> = word.split(sign).collect();
    let number =
        |text: &&str| text.parse::<i16>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let numbers: Vec<i16> = pieces.iter().map(number).collect::<Option<_>>()?;
    let &[first, second, third] = numbers.as_slice() else { return None };
    let (year, month, day) = match (sign, first, second, third) {
        (_, 1000.., month, day) => (first, month, day),
        ('.', day, month, 1000..) => (third, month, day),
        ('/', month, day @ 13.., 1000..) | ('/', day @ 13.., month, 1000..) => (third, month, day),
        _ => return None,
    };
    let date = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    Some(date.to_string())
}
