//! Times of one command. They are parsed by one clock in the user's time zone, and shown as wall time with the offset
//! from UTC, and in UTC. Assumptions made while parsing are collected, so that the answer can mention them. A time that
//! is shown can be entered again as it is, without the weekday in front. This module never reads a clock: the caller
//! passes the time.

use super::when::{Clock, Unclear, When, zone_name};
use crate::output;
use bookahead_api::Timestamp;
use bookahead_plan::Time;
use jiff::Zoned;
use jiff::tz::TimeZone;
use std::cell::{Cell, RefCell};

/// Formats times in the user's zone.
#[derive(Debug, Clone)]
pub(crate) struct Dates {
    zone: TimeZone,
}

impl Dates {
    pub(crate) fn new(zone: TimeZone) -> Dates {
        Dates { zone }
    }

    pub(crate) fn zone_name(&self) -> String {
        zone_name(&self.zone)
    }

    /// Whether the user's zone is UTC, so that times need not be shown twice.
    pub(crate) fn are_utc(&self) -> bool {
        self.zone == TimeZone::UTC || matches!(self.zone.iana_name(), Some("UTC" | "Etc/UTC"))
    }

    /// `Mon 2026-11-16 09:00+01:00`.
    pub(crate) fn wall(&self, at: Timestamp) -> String {
        let Some(zoned) = self.zoned(at) else { return at.to_string() };
        format!("{} {}", zoned.strftime("%a %Y-%m-%d"), clock(&zoned))
    }

    /// The end of an interval that starts at `begin`, without the date if it is the same day.
    pub(crate) fn wall_end(&self, begin: Timestamp, end: Timestamp) -> String {
        match (self.zoned(begin), self.zoned(end)) {
            (Some(first), Some(last)) if first.date() == last.date() => clock(&last),
            _ => self.wall(end),
        }
    }

    /// `Mon 2026-11-16 09:00+01:00 (2026-11-16T08:00:00Z)`.
    pub(crate) fn both(&self, at: Timestamp) -> String {
        if self.are_utc() { self.wall(at) } else { format!("{} ({at})", self.wall(at)) }
    }

    /// For use on a command line: RFC 3339 with the user's offset.
    pub(crate) fn written(&self, at: Timestamp) -> String {
        match self.zoned(at) {
            Some(zoned) if !self.are_utc() => zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            _ => at.to_string(),
        }
    }

    fn zoned(&self, at: Timestamp) -> Option<Zoned> {
        let Time(second) = at.time();
        jiff::Timestamp::from_second(second).ok().map(|instant| instant.to_zoned(self.zone.clone()))
    }
}

fn clock(zoned: &Zoned) -> String {
    let offset = if zoned.offset().is_zero() { "Z".to_owned() } else { zoned.strftime("%:z").to_string() };
    let time = if zoned.second() == 0 { "%H:%M" } else { "%H:%M:%S" };
    format!("{}{offset}", zoned.strftime(time))
}

/// `2026-11-16 08:00–10:00`, in UTC.
pub(crate) fn utc_span(begin: Timestamp, end: Timestamp) -> String {
    let ((first, begins), (last, ends)) = (date_and_time(begin), date_and_time(end));
    if first == last {
        format!("{first} {begins}–{ends}")
    } else {
        format!("{first} {begins}–{last} {ends}")
    }
}

fn date_and_time(at: Timestamp) -> (String, String) {
    let text = at.to_string();
    let (date, time) = text.trim_end_matches('Z').split_once('T').unwrap_or((&text, ""));
    (date.to_owned(), time.strip_suffix(":00").unwrap_or(time).to_owned())
}

/// A duration in its two largest units: `2h 30m`, `45s`.
pub(crate) fn length(seconds: i64) -> String {
    output::length(seconds as f64)
}

/// The remaining time of a hold: `4:59`, `1:00:00`.
pub(crate) fn countdown(millis: i64) -> String {
    let whole = millis.max(0) / 1_000;
    let (hours, minutes, seconds) = (whole / 3_600, whole / 60 % 60, whole % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// Resolves all times of a command by one clock reading and one zone.
#[derive(Debug)]
pub(crate) struct Reader {
    clock: Clock,
    dates: Dates,
    assumed: RefCell<Vec<String>>,
    used_now: Cell<bool>,
}

impl Reader {
    pub(crate) fn new(now: Timestamp, zone: TimeZone) -> Reader {
        let dates = Dates::new(zone.clone());
        let Time(second) = now.time();
        // Cannot fail: a `Timestamp` is always within the range of the calendar.
        let clock = Clock { now: jiff::Timestamp::from_second(second).unwrap_or_default(), zone };
        Reader { clock, dates, assumed: RefCell::default(), used_now: Cell::new(false) }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.used_now.set(true);
        Timestamp::nearest(Time(self.clock.now.as_second()))
    }

    /// Whether a resolved time depended on the present.
    pub(crate) fn has_used_now(&self) -> bool {
        self.used_now.get()
    }

    pub(crate) fn read(&self, when: &When) -> Result<Timestamp, Unclear> {
        self.used_now.set(self.used_now.get() || when.needs_now());
        let time = when.resolve(&self.clock)?;
        let instant = Timestamp::try_from(time).map_err(|_| Unclear::Beyond(when.to_string()))?;
        if when.assumes_zone() {
            let note =
                format!("'{when}' is taken in {}: {}", self.dates.zone_name(), self.dates.both(instant));
            let mut assumed = self.assumed.borrow_mut();
            if !assumed.contains(&note) {
                assumed.push(note);
            }
        }
        Ok(instant)
    }

    /// Wall time in the user's zone.
    pub(crate) fn shown(&self, at: Timestamp) -> String {
        self.dates.wall(at)
    }

    /// Assumptions made since the last call.
    pub(crate) fn take_assumed(&self) -> Vec<String> {
        std::mem::take(&mut self.assumed.borrow_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::super::when::{Clock, When};
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn instants_are_shown_on_the_users_wall_and_in_utc() {
        let berlin = Dates::new(TimeZone::get("Europe/Berlin").unwrap());
        let (begin, end) = (at("2026-11-16T08:00:00Z"), at("2026-11-16T10:00:30Z"));
        assert_eq!(berlin.both(begin), "Mon 2026-11-16 09:00+01:00 (2026-11-16T08:00:00Z)");
        assert_eq!(berlin.wall_end(begin, end), "11:00:30+01:00");
        assert_eq!(berlin.wall_end(begin, at("2026-11-16T23:00:00Z")), "Tue 2026-11-17 00:00+01:00");
        assert_eq!(berlin.written(begin), "2026-11-16T09:00:00+01:00");
        let utc = Dates::new(TimeZone::UTC);
        assert_eq!(utc.both(begin), "Mon 2026-11-16 08:00Z");
        assert_eq!(utc_span(begin, end), "2026-11-16 08:00–10:00:30");
        assert_eq!(utc_span(begin, at("2026-11-17T00:00:00Z")), "2026-11-16 08:00–2026-11-17 00:00");
    }

    #[test]
    fn what_is_shown_can_be_written() {
        let dates = Dates::new(TimeZone::get("America/St_Johns").unwrap());
        let clock = Clock { now: jiff::Timestamp::UNIX_EPOCH, zone: TimeZone::UTC };
        for text in ["2026-11-16T08:00:00Z", "2027-06-16T08:00:59Z"] {
            for shown in [dates.wall(at(text))[4..].to_owned(), dates.written(at(text))] {
                let read = shown.parse::<When>().unwrap().resolve(&clock).unwrap();
                assert_eq!(read, at(text).time(), "{shown}");
            }
        }
    }

    #[test]
    fn a_hold_counts_down() {
        assert_eq!([countdown(299_999), countdown(3_600_000), countdown(-5)], ["4:59", "1:00:00", "0:00"]);
    }
}
