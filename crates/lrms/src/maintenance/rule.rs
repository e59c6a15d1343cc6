//! The days of a recurring window: the part of RFC 5545 (3.3.10) that selects whole days. The crate `rrule` implements
//! all of it, but on `chrono` and with a second time zone database; whole days need a page of code, and the zone is
//! applied afterwards.

use jiff::civil::{Date, Weekday};
use std::collections::BTreeSet;

/// Longest rule in characters, more than a rule with every part needs.
const LONGEST: usize = 500;

/// Largest INTERVAL: longer than the time that windows are known ahead, in days.
const MOST_INTERVAL: u32 = 1_000;

/// The days on which a window takes place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    frequency: Option<Frequency>,
    interval: u32,
    start: Option<Date>,
    until: Option<Date>,
    /// Weekdays; in a month only the first, second, …, or counted from its end if negative. 0 for all.
    by_day: BTreeSet<(i8, i8)>,
    /// Days of the month; negative ones count from its end.
    by_month_day: BTreeSet<i8>,
    by_month: BTreeSet<i8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frequency {
    Daily,
    Weekly,
    Monthly,
    Yearly,
}

impl Rule {
    /// Only on one day.
    pub fn once(day: Date) -> Rule {
        Rule { start: Some(day), ..Rule::every(None) }
    }

    fn every(frequency: Option<Frequency>) -> Rule {
        let (by_day, by_month_day, by_month) = Default::default();
        Rule { frequency, interval: 1, start: None, until: None, by_day, by_month_day, by_month }
    }

    /// Parses a rule such as `FREQ=WEEKLY;BYDAY=WE`. `start` is the first day on which it can take place. The error
    /// says what to change.
    pub fn parse(text: &str, start: Option<Date>) -> Result<Rule, String> {
        if text.len() > LONGEST {
            return Err(format!("the rule has {} characters; use at most {LONGEST}", text.len()));
        }
        let mut rule = Rule { start, ..Rule::every(None) };
        let mut seen = BTreeSet::new();
        for part in text.trim().trim_start_matches("RRULE:").split(';') {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| format!("{part:?} is not NAME=VALUE, such as FREQ=WEEKLY"))?;
            let name = name.trim().to_ascii_uppercase();
            rule.set(&name, value.trim())?;
            if !seen.insert(name.clone()) {
                return Err(format!("{name} is there twice"));
            }
        }
        rule.complete()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "FREQ" => self.frequency = Some(frequency(value)?),
            "INTERVAL" => {
                let number = value.parse().ok().filter(|number| (1..=MOST_INTERVAL).contains(number));
                self.interval =
                    number.ok_or(format!("INTERVAL must be 1 to {MOST_INTERVAL}, not {value}"))?;
            }
            "UNTIL" => {
                let day = Date::strptime("%Y%m%d", value).ok();
                self.until =
                    Some(day.ok_or(format!("UNTIL must be the last day, such as 20271231, not {value}"))?);
            }
            "BYDAY" => self.by_day = list(value, weekday, "BYDAY has days such as MO,WE, 1TU or -1FR")?,
            "BYMONTHDAY" => {
                let day = |text: &str| number(text, 31).filter(|day| *day != 0);
                self.by_month_day = list(value, day, "BYMONTHDAY has days from 1 to 31, or from -31 to -1")?;
            }
            "BYMONTH" => {
                let month = |text: &str| number(text, 12).filter(|month| *month > 0);
                self.by_month = list(value, month, "BYMONTH has months from 1 to 12")?;
            }
            "WKST" if value.eq_ignore_ascii_case("MO") => {}
            "WKST" => return Err("weeks begin on Monday here; remove WKST".into()),
            "COUNT" => {
                return Err(
                    "COUNT is not supported; use UNTIL with the last day, such as UNTIL=20271231".into()
                );
            }
            "BYSETPOS" => {
                return Err("BYSETPOS is not supported; number the days in BYDAY, such as 2TU or -1FR".into());
            }
            "BYHOUR" | "BYMINUTE" | "BYSECOND" => {
                return Err(format!("{name} is not supported; the times are in from and to"));
            }
            "BYYEARDAY" | "BYWEEKNO" => {
                return Err(format!("{name} is not supported; use BYMONTH with BYMONTHDAY or BYDAY"));
            }
            _ => return Err(format!("{name} is not part of a recurrence rule; see RFC 5545")),
        }
        Ok(())
    }

    /// Checks that the parts fit together, and takes from `start` what RFC 5545 takes from it.
    fn complete(mut self) -> Result<Rule, String> {
        let frequency = self.frequency.ok_or("the rule has no FREQ; use DAILY, WEEKLY, MONTHLY or YEARLY")?;
        if self.interval > 1 && self.start.is_none() {
            return Err("with INTERVAL, give the first day as start = \"2026-11-18\"".into());
        }
        let numbered = self.by_day.iter().any(|(which, _)| *which != 0);
        let counts_in_a_month =
            frequency == Frequency::Monthly || (frequency == Frequency::Yearly && !self.by_month.is_empty());
        if numbered && !counts_in_a_month {
            return Err("a numbered day such as 2TU needs FREQ=MONTHLY, or FREQ=YEARLY with BYMONTH".into());
        }
        if frequency == Frequency::Weekly && !self.by_month_day.is_empty() {
            return Err("FREQ=WEEKLY has no BYMONTHDAY; use FREQ=MONTHLY".into());
        }
        if frequency == Frequency::Daily || !self.by_day.is_empty() || !self.by_month_day.is_empty() {
            return Ok(self);
        }
        let Some(start) = self.start else {
            return Err(
                "the rule does not say which days; give BYDAY or BYMONTHDAY, or the first day as start"
                    .into(),
            );
        };
        match frequency {
            Frequency::Weekly => drop(self.by_day.insert((0, offset(start.weekday())))),
            _ => drop(self.by_month_day.insert(start.day())),
        }
        if frequency == Frequency::Yearly && self.by_month.is_empty() {
            self.by_month.insert(start.month());
        }
        Ok(self)
    }

    /// Whether a window takes place on this day.
    pub fn includes(&self, day: Date) -> bool {
        if self.start.is_some_and(|start| day < start) || self.until.is_some_and(|until| day > until) {
            return false;
        }
        let Some(frequency) = self.frequency else { return self.start == Some(day) };
        self.is_turn(frequency, day)
            && (self.by_month.is_empty() || self.by_month.contains(&day.month()))
            && (self.by_month_day.is_empty() || self.has_month_day(day))
            && (self.by_day.is_empty() || self.has_weekday(day))
    }

    /// Whether this day, week, month or year is one of every `interval`.
    fn is_turn(&self, frequency: Frequency, day: Date) -> bool {
        let Some(start) = self.start.filter(|_| self.interval > 1) else { return true };
        let passed = match frequency {
            Frequency::Daily => number_of(day) - number_of(start),
            Frequency::Weekly => week_of(day) - week_of(start),
            Frequency::Monthly => month_of(day) - month_of(start),
            Frequency::Yearly => i64::from(day.year()) - i64::from(start.year()),
        };
        passed % i64::from(self.interval) == 0
    }

    fn has_month_day(&self, day: Date) -> bool {
        let from_end = day.day() - day.days_in_month() - 1;
        self.by_month_day.contains(&day.day()) || self.by_month_day.contains(&from_end)
    }

    fn has_weekday(&self, day: Date) -> bool {
        let weekday = offset(day.weekday());
        let from_begin = (day.day() - 1) / 7 + 1;
        let from_end = -((day.days_in_month() - day.day()) / 7 + 1);
        [0, from_begin, from_end].iter().any(|which| self.by_day.contains(&(*which, weekday)))
    }
}

fn frequency(value: &str) -> Result<Frequency, String> {
    match value.to_ascii_uppercase().as_str() {
        "DAILY" => Ok(Frequency::Daily),
        "WEEKLY" => Ok(Frequency::Weekly),
        "MONTHLY" => Ok(Frequency::Monthly),
        "YEARLY" => Ok(Frequency::Yearly),
        "HOURLY" | "MINUTELY" | "SECONDLY" => {
            Err(format!("FREQ={value} is not supported; a window takes place at most once a day"))
        }
        _ => Err(format!("FREQ must be DAILY, WEEKLY, MONTHLY or YEARLY, not {value}")),
    }
}

fn list<T: Ord>(value: &str, parse: impl Fn(&str) -> Option<T>, wrong: &str) -> Result<BTreeSet<T>, String> {
    let each =
        value.split(',').map(|text| parse(text.trim()).ok_or_else(|| format!("{wrong}, not {text:?}")));
    each.collect()
}

/// A number from `-most` to `most`.
fn number(text: &str, most: i8) -> Option<i8> {
    text.parse().ok().filter(|number: &i8| (-most..=most).contains(number))
}

/// `TU`, `2TU` or `-1TU`.
fn weekday(text: &str) -> Option<(i8, i8)> {
    let (which, day) = text.split_at_checked(text.len().checked_sub(2)?)?;
    let names = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];
    let day = names.iter().position(|name| name.eq_ignore_ascii_case(day))?;
    let which = if which.is_empty() { 0 } else { number(which, 5).filter(|which| *which != 0)? };
    Some((which, i8::try_from(day).ok()?))
}

fn offset(day: Weekday) -> i8 {
    day.to_monday_zero_offset()
}

/// Days since 1970.
fn number_of(day: Date) -> i64 {
    day.duration_since(Date::constant(1970, 1, 1)).as_secs() / super::DAY
}

/// Weeks from Monday on.
fn week_of(day: Date) -> i64 {
    // 1970 began on a Thursday.
    (number_of(day) + 3).div_euclid(7)
}

fn month_of(day: Date) -> i64 {
    i64::from(day.year()) * 12 + i64::from(day.month())
}
