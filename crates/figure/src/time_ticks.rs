//! Where the marks of a time axis stand: at the steps of clocks and calendars, never at odd seconds.
//! It relies on the clock for its zero and on arithmetic wide enough for any 64-bit instant. It never returns
//! more than a few dozen marks and never draws.

use crate::clock::{Clock, DAY, Date, HOUR, MINUTE, civil_from_days, days_to_month, time_of_day};
use bookahead_plan::{Interval, Time};

/// Marks of a time axis.
#[derive(Debug, PartialEq)]
pub(crate) struct TimeTicks {
    /// What the labels count, with their unit.
    pub(crate) caption: String,
    /// The instants to mark, ascending.
    pub(crate) marks: Vec<TimeMark>,
}

/// One mark of a time axis.
#[derive(Debug, PartialEq)]
pub(crate) struct TimeMark {
    pub(crate) at: Time,
    pub(crate) label: String,
    /// What the labels from here on leave out, given where it changes: the day of an hour, the year of a day.
    pub(crate) context: Option<String>,
}

/// Marks for a time axis over `range` with room for about `room` of them.
pub(crate) fn time_ticks(range: Interval, clock: Clock, room: u32) -> TimeTicks {
    let shown = Shown::of(range, clock);
    match clock {
        Clock::Utc { .. } => calendar_ticks(shown, room.max(1)),
        Clock::SinceStart | Clock::Since(_) => elapsed_ticks(shown, room.max(1)),
    }
}

/// The range as the clock shows it, and the way back to instants.
#[derive(Debug, Clone, Copy)]
struct Shown {
    begin: i128,
    end: i128,
    zero: i128,
}

impl Shown {
    fn of(range: Interval, clock: Clock) -> Shown {
        let zero = clock.zero(range);
        Shown { begin: i128::from(range.begin.0) - zero, end: i128::from(range.end.0) - zero, zero }
    }

    fn instant(self, shown: i128) -> Time {
        let clamped = (shown + self.zero).clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        Time(i64::try_from(clamped).unwrap_or(i64::MAX))
    }

    /// The multiples of `step`, counted from `origin`, that lie in the range.
    fn multiples(self, step: i128, origin: i128) -> impl Iterator<Item = i128> {
        let first = (self.begin - origin + step - 1).div_euclid(step);
        (first..).map(move |index| origin + index * step).take_while(move |&at| at <= self.end)
    }
}

/// Steps shorter than a day, in seconds.
const CLOCK_STEPS: [i128; 17] = [
    1,
    2,
    5,
    10,
    15,
    30,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
];

/// Steps of days that keep to the rhythm of weeks.
const DAY_STEPS: [i128; 4] = [DAY, 2 * DAY, 7 * DAY, 14 * DAY];

/// 10, 20, 50, 100, 200, … and so on, further than any axis needs.
fn decades() -> impl Iterator<Item = i128> {
    (1..20).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_i128.pow(power)))
}

/// The first of `steps`, which ascend, of which at most `room` fit into `length`.
fn first_fitting(mut steps: impl Iterator<Item = i128>, length: i128, room: u32) -> Option<i128> {
    steps.find(|step| length / step <= i128::from(room))
}

fn elapsed_ticks(shown: Shown, room: u32) -> TimeTicks {
    let long_steps = decades().skip_while(|&days| days < 50).map(|days| days * DAY);
    let steps = CLOCK_STEPS.into_iter().chain(DAY_STEPS).chain([28 * DAY]).chain(long_steps);
    let step = first_fitting(steps, shown.end - shown.begin, room).unwrap_or(i128::MAX / 4);
    let (unit, name) = match step {
        step if step >= DAY => (DAY, "days"),
        step if step >= HOUR => (HOUR, "hours"),
        step if step >= MINUTE => (MINUTE, "minutes"),
        _ => (1, "seconds"),
    };
    let mark = |at| TimeMark { at: shown.instant(at), label: (at / unit).to_string(), context: None };
    TimeTicks {
        caption: format!("Elapsed time ({name})"),
        marks: shown.multiples(step, 0).map(mark).collect(),
    }
}

/// A Monday at midnight: weeks are counted from here.
const A_MONDAY: i128 = 4 * DAY;

fn calendar_ticks(shown: Shown, room: u32) -> TimeTicks {
    let length = shown.end - shown.begin;
    let marks = match first_fitting(CLOCK_STEPS.into_iter().chain(DAY_STEPS), length, room) {
        Some(step) if step < DAY => hour_marks(shown, step),
        Some(step) => dated_marks(shown, shown.multiples(step, A_MONDAY), |date| {
            format!("{} {}", date.day, date.month_name())
        }),
        None => month_marks(shown, length, room),
    };
    TimeTicks { caption: "Time (UTC)".to_owned(), marks }
}

fn hour_marks(shown: Shown, step: i128) -> Vec<TimeMark> {
    let mut day_before = None;
    let mark = |at: i128| {
        let day = at.div_euclid(DAY);
        let date = civil_from_days(day);
        let new_day = day_before.replace(day) != Some(day);
        let mut label = time_of_day(at.rem_euclid(DAY));
        label.truncate(if step < MINUTE { "hh:mm:ss".len() } else { "hh:mm".len() });
        let context = new_day.then(|| format!("{} {} {}", date.day, date.month_name(), date.year));
        TimeMark { at: shown.instant(at), label, context }
    };
    shown.multiples(step, A_MONDAY).map(mark).collect()
}

/// Marks labelled with the date that they fall on, with the year wherever it changes.
fn dated_marks(
    shown: Shown,
    instants: impl Iterator<Item = i128>,
    label: impl Fn(Date) -> String,
) -> Vec<TimeMark> {
    let mut year_before = None;
    let mark = |at: i128| {
        let date = civil_from_days(at.div_euclid(DAY));
        let new_year = year_before.replace(date.year) != Some(date.year);
        TimeMark {
            at: shown.instant(at),
            label: label(date),
            context: new_year.then(|| date.year.to_string()),
        }
    };
    instants.map(mark).collect()
}

/// Half a day less than the shortest month, in seconds.
const SHORT_MONTH: i128 = 55 * HOUR * 12;

fn month_marks(shown: Shown, length: i128, room: u32) -> Vec<TimeMark> {
    let months = [1, 2, 3, 6].into_iter().chain([12, 24, 60]).chain(decades().map(|years| years * 12));
    let step = first_fitting(months.map(|months| months * SHORT_MONTH), length, room);
    let step = step.unwrap_or(i128::MAX / 4) / SHORT_MONTH;
    let begin = civil_from_days(shown.begin.div_euclid(DAY));
    let first = (begin.year * 12 + begin.month - 1).div_euclid(step);
    let instants = (first..)
        .map(|index| index * step)
        .map(|month| days_to_month(month.div_euclid(12), month.rem_euclid(12)) * DAY)
        .skip_while(|&at| at < shown.begin)
        .take_while(|&at| at <= shown.end);
    if step < 12 {
        return dated_marks(shown, instants, |date| date.month_name().to_owned());
    }
    let year = |at: i128| civil_from_days(at.div_euclid(DAY)).year.to_string();
    instants.map(|at| TimeMark { at: shown.instant(at), label: year(at), context: None }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time_labels(begin: i64, end: i64, clock: Clock) -> (String, Vec<String>) {
        let ticks = time_ticks(Interval::new(Time(begin), Time(end)), clock, 6);
        let both = |mark: TimeMark| match mark.context {
            Some(context) => format!("{}|{context}", mark.label),
            None => mark.label,
        };
        (ticks.caption, ticks.marks.into_iter().map(both).collect())
    }

    #[test]
    fn elapsed_time_is_counted_in_its_unit() {
        let check = |length: i64, caption: &str, expected: &[&str]| {
            let (found, labels) = time_labels(500, 500 + length, Clock::SinceStart);
            assert_eq!((found.as_str(), labels), (caption, expected.iter().map(|&l| l.to_owned()).collect()));
        };
        check(1, "Elapsed time (seconds)", &["0", "1"]);
        check(1500, "Elapsed time (minutes)", &["0", "5", "10", "15", "20", "25"]);
        check(86_400, "Elapsed time (hours)", &["0", "6", "12", "18", "24"]);
        check(86_400 * 30, "Elapsed time (days)", &["0", "7", "14", "21", "28"]);
        check(86_400 * 1000, "Elapsed time (days)", &["0", "200", "400", "600", "800", "1000"]);
    }

    #[test]
    fn dates_follow_the_calendar() {
        let unix = Clock::Utc { unix_of_zero: 0 };
        let check = |begin: i64, length: i64, expected: &[&str]| {
            let (caption, labels) = time_labels(begin, begin + length, unix);
            assert_eq!(caption, "Time (UTC)");
            assert_eq!(labels, expected);
        };
        let new_year = 946_684_800; // 2000-01-01, a Saturday
        check(new_year - 3600, 7200, &["23:00|31 Dec 1999", "23:30", "00:00|1 Jan 2000", "00:30", "01:00"]);
        let days = ["27 Dec|1999", "3 Jan|2000", "10 Jan", "17 Jan", "24 Jan"];
        check(new_year - 86_400 * 5, 86_400 * 30, &days);
        let months = ["Nov|1999", "Jan|2000", "Mar", "May", "Jul"];
        check(new_year - 86_400 * 62, 86_400 * 300, &months);
        check(new_year + 1, 86_400 * 365 * 30, &["2005", "2010", "2015", "2020", "2025"]);
    }

    #[test]
    fn the_longest_time_has_few_marks() {
        for clock in [Clock::SinceStart, Clock::Since(Time::MAX), Clock::Utc { unix_of_zero: i64::MIN }] {
            let (_, labels) = time_labels(i64::MIN, i64::MAX, clock);
            assert!((2..=8).contains(&labels.len()), "{labels:?}");
            assert!(time_labels(i64::MAX - 1, i64::MAX, clock).1.len() <= 2);
        }
    }
}
