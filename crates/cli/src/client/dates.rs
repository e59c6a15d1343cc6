//! Times of one command. They are parsed by one clock in the user's time zone, and shown as wall time with the offset
//! from UTC, and in UTC. Assumptions made while parsing are collected, so that the answer can mention them. A time that
//! is shown can be entered again as it is, without the weekday in front. This module never reads a clock: the caller
//! passes the time.

use crate::output;
use bookahead_api::Timestamp;
use bookahead_api::when::{Clock, Unclear, When, zone_name};
use bookahead_plan::{Seconds, Time};
use jiff::Zoned;
use jiff::tz::TimeZone;
use std::cell::{Cell, RefCell};

/// Formats times in the user's zone, relative to today there.
#[derive(Debug, Clone)]
pub(crate) struct Dates {
    zone: TimeZone,
    now: Timestamp,
}

impl Dates {
    pub(crate) fn new(zone: TimeZone, now: Timestamp) -> Dates {
        Dates { zone, now }
    }

    /// Short form for tables, whose head names the zone: `today 09:00`, `tomorrow 09:00`, `Thu 09:00` in the next six
    /// days, `16 Dec 09:00` in the next eleven months, and the full date otherwise. It can be parsed again and means
    /// the same.
    pub(crate) fn short(&self, at: Timestamp) -> String {
        let (Some(zoned), Some(now)) = (self.zoned(at), self.zoned(self.now)) else { return at.to_string() };
        let days = now.date().until(zoned.date()).map_or(i32::MAX, |span| span.get_days());
        let day = match days {
            -1 => "yesterday".to_owned(),
            0 => "today".to_owned(),
            1 => "tomorrow".to_owned(),
            // Not 7: the name of today is read as today if the time of day is still to come.
            2..=6 => zoned.strftime("%a").to_string(),
            // Well below a year: a date without a year is read as the next one of that name.
            7..=330 => zoned.strftime("%-d %b").to_string(),
            _ => zoned.strftime("%Y-%m-%d").to_string(),
        };
        format!("{day} {}", wall_clock(&zoned))
    }

    /// Short form of the end of an interval that starts at `begin`, without the day if it is the same.
    pub(crate) fn short_end(&self, begin: Timestamp, end: Timestamp) -> String {
        match (self.zoned(begin), self.zoned(end)) {
            (Some(first), Some(last)) if first.date() == last.date() => wall_clock(&last),
            _ => self.short(end),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    pub(crate) fn zone_name(&self) -> String {
        zone_name(&self.zone)
    }

    /// The IANA name of the user's zone. None for UTC, and for a zone without a name.
    pub(crate) fn named_zone(&self) -> Option<String> {
        self.zone.iana_name().filter(|_| !self.are_utc()).map(ToOwned::to_owned)
    }

    /// Whether the user's zone is UTC, so that times need not be shown twice.
    pub(crate) fn are_utc(&self) -> bool {
        self.zone == TimeZone::UTC || matches!(self.zone.iana_name(), Some("UTC" | "Etc/UTC"))
    }

    /// The first instant from `begin` on whose wall time is a multiple of `step` since midnight.
    pub(crate) fn first_round(&self, begin: Time, step: Seconds) -> Time {
        let zoned = self.zoned(Timestamp::nearest(begin));
        // Only the offset at the begin counts. Marks after a change of the clocks may not be round, but their
        // labels are still right, because each is formatted by its own offset.
        let offset = zoned.map_or(0, |zoned| i64::from(zoned.offset().seconds()));
        let over = (begin.0.saturating_add(offset)).rem_euclid(step.0.max(1));
        if over == 0 { begin } else { begin + Seconds(step.0 - over) }
    }

    /// Axis label: `14:00`, with the day at midnight, or only the date.
    pub(crate) fn tick(&self, at: Time, dates_only: bool) -> String {
        let Some(zoned) = self.zoned(Timestamp::nearest(at)) else { return String::new() };
        let midnight = zoned.hour() == 0 && zoned.minute() == 0;
        let form = match (dates_only, midnight) {
            (true, _) => "%a %-d %b",
            (false, true) => "%a %H:%M",
            (false, false) => "%H:%M",
        };
        zoned.strftime(form).to_string()
    }

    /// `Mon 2026-11-16 09:00+01:00`.
    pub(crate) fn wall(&self, at: Timestamp) -> String {
        let Some(zoned) = self.zoned(at) else { return at.to_string() };
        format!("{} {}", zoned.strftime("%a %Y-%m-%d"), clock(&zoned))
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
    format!("{}{offset}", wall_clock(zoned))
}

fn wall_clock(zoned: &Zoned) -> String {
    zoned.strftime(if zoned.second() == 0 { "%H:%M" } else { "%H:%M:%S" }).to_string()
}

/// A duration in its two largest units: `2h 30m`, `45s`.
pub(crate) fn length(seconds: i64) -> String {
    output::length(seconds as f64)
}

/// The remaining time of a hold: `4:59`, `1:00:00`.
pub(crate) fn countdown(millis: i64) -> String {
    // Rounded down: a hold must not seem to last longer than it does. A hold past its deadline may be listed
    // for a moment, hence the maximum.
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
        let dates = Dates::new(zone.clone(), now);
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
            // Several parts often have the same time; one note is enough.
            if !assumed.contains(&note) {
                assumed.push(note);
            }
        }
        Ok(instant)
    }

    /// The error text if `when`, resolved to `at`, is in the past. Times that do not depend on a clock are left to the
    /// server, whose clock may differ.
    pub(crate) fn in_the_past(&self, when: &When, at: Timestamp) -> Option<String> {
        // Not by `now()`, which would mark the request as dependent on the clock.
        let now = Timestamp::nearest(Time(self.clock.now.as_second()));
        let past = when.needs_now() && !when.is_now() && at < now;
        past.then(|| {
            format!("'{when}' is in the past: it means {}, and now is {}", self.shown(at), self.shown(now))
        })
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
    use super::*;
    use bookahead_api::when::{Clock, When};

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn instants_are_shown_on_the_users_wall_and_in_utc() {
        let berlin = Dates::new(TimeZone::get("Europe/Berlin").unwrap(), at("2026-11-15T15:30:00Z"));
        let begin = at("2026-11-16T08:00:00Z");
        assert_eq!(berlin.both(begin), "Mon 2026-11-16 09:00+01:00 (2026-11-16T08:00:00Z)");
        assert_eq!(berlin.written(begin), "2026-11-16T09:00:00+01:00");
        let utc = Dates::new(TimeZone::UTC, at("2026-11-15T15:30:00Z"));
        assert_eq!(utc.both(begin), "Mon 2026-11-16 08:00Z");
    }

    #[test]
    fn what_is_shown_can_be_written() {
        let now = at("2026-11-15T15:30:00Z");
        let dates = Dates::new(TimeZone::get("America/St_Johns").unwrap(), now);
        let clock = Clock { now: jiff::Timestamp::UNIX_EPOCH, zone: TimeZone::UTC };
        for text in ["2026-11-16T08:00:00Z", "2027-06-16T08:00:59Z"] {
            for shown in [dates.wall(at(text))[4..].to_owned(), dates.written(at(text))] {
                let read = shown.parse::<When>().unwrap().resolve(&clock).unwrap();
                assert_eq!(read, at(text).time(), "{shown}");
            }
        }
    }

    #[test]
    fn times_in_tables_are_short_and_mean_the_same_when_they_are_written() {
        let (zone, now) = (TimeZone::get("Europe/Berlin").unwrap(), at("2026-11-15T15:30:00Z"));
        let dates = Dates::new(zone.clone(), now);
        let short = |text: &str| dates.short(at(text));
        assert_eq!(short("2026-11-15T08:00:00Z"), "today 09:00");
        assert_eq!(short("2026-11-15T22:30:00Z"), "today 23:30");
        assert_eq!(short("2026-11-15T23:30:00Z"), "tomorrow 00:30");
        assert_eq!(short("2026-11-14T08:00:00Z"), "yesterday 09:00");
        assert_eq!(short("2026-11-21T08:00:05Z"), "Sat 09:00:05");
        assert_eq!(short("2026-11-22T08:00:00Z"), "22 Nov 09:00");
        assert_eq!(short("2027-06-01T08:00:00Z"), "1 Jun 10:00");
        assert_eq!(short("2026-11-10T08:00:00Z"), "2026-11-10 09:00");
        assert_eq!(short("2028-01-01T08:00:00Z"), "2028-01-01 09:00");
        assert_eq!(dates.short_end(at("2026-11-16T08:00:00Z"), at("2026-11-16T10:00:00Z")), "11:00");
        let clock = Clock { now: now.to_string().parse().unwrap(), zone };
        for hours in (-24 * 40..24 * 800).step_by(7) {
            let then = Timestamp::nearest(now.time() + bookahead_plan::Seconds(hours * 3_600));
            // On some nights a time is there twice.
            let Ok(read) = dates.short(then).parse::<When>().unwrap().resolve(&clock) else { continue };
            assert_eq!(read, then.time(), "{}", dates.short(then));
        }
    }

    #[test]
    fn a_hold_counts_down() {
        assert_eq!([countdown(299_999), countdown(3_600_000), countdown(-5)], ["4:59", "1:00:00", "0:00"]);
    }
}
