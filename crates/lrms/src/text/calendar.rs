//! Dates of the UTC calendar, and lengths of time, as batch systems write and read them. Commands run with `TZ=UTC`, so what
//! they print and what they are asked for are times of this calendar. It knows no time zones and no leap seconds, nothing here
//! reads a clock, and no date that a command may print makes it panic.

use bookahead_plan::Time;

/// A moment as people write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Date {
    pub(crate) year: i64,
    /// From 1.
    pub(crate) month: i64,
    /// From 1.
    pub(crate) day: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY: i64 = 86_400;
/// Years outside of it are no dates of a batch system, and would overflow.
const YEARS: std::ops::RangeInclusive<i64> = 1970..=9999;

impl Date {
    /// The date of a time; of one that is further away than any batch system plans, the nearest that can be written.
    pub(crate) fn of(time: Time) -> Date {
        let days_of = |year| days_before(year, 1, 1);
        let earliest = days_of(*YEARS.start()) * DAY;
        let latest = days_of(*YEARS.end() + 1) * DAY - 1;
        let seconds = time.0.clamp(earliest, latest);
        let (days, rest) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        // Never later than the year of these days, and close to it.
        let mut year = YEARS.start() + days / 366;
        while days_of(year + 1) <= days {
            year += 1;
        }
        let is_in = |month: &i64| days_before(year, *month, 1) <= days;
        let month = (1..=12).rev().find(is_in).unwrap_or(1);
        let day = days - days_before(year, month, 1) + 1;
        Date { year, month, day, hour: rest / 3600, minute: rest / 60 % 60, second: rest % 60 }
    }

    /// The time of a date; None where the calendar has no such date.
    pub(crate) fn time(&self) -> Option<Time> {
        let in_range = YEARS.contains(&self.year)
            && (1..=12).contains(&self.month)
            && (1..=length(self.year, self.month)).contains(&self.day)
            && (0..24).contains(&self.hour)
            && (0..60).contains(&self.minute)
            && (0..=60).contains(&self.second);
        let days = || days_before(self.year, self.month, self.day);
        in_range.then(|| Time(days() * DAY + self.hour * 3600 + self.minute * 60 + self.second))
    }
}

/// `CCYYMMDDhhmm.SS`, as `qrsub -a`, `pbs_rsub -R` and their like read it; None where no date can be written.
pub(crate) fn compact(time: Time) -> Option<String> {
    let date = Date::of(time);
    let Date { year, month, day, hour, minute, second } = date;
    let text = || format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}.{second:02}");
    (date.time() == Some(time)).then(text)
}

/// What `2026-11-15T11:33:53` says.
pub(crate) fn iso(text: &str) -> Option<Time> {
    let (date, time) = text.trim().split_once('T')?;
    let parts: Vec<i64> = date.split('-').map(number).collect::<Option<_>>()?;
    let [year, month, day] = parts[..] else { return None };
    let (hour, minute, second) = time_of_day(time)?;
    Date { year, month, day, hour, minute, second }.time()
}

/// What `Sun Nov 15 11:34:56 2026` says, as `ctime` of C writes it.
pub(crate) fn ctime(text: &str) -> Option<Time> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_weekday, name, day, time, year, ..] = words[..] else { return None };
    let (hour, minute, second) = time_of_day(time)?;
    let (month, day, year) = (month(name)?, number(day)?, number(year)?);
    Date { year, month, day, hour, minute, second }.time()
}

/// The number of a month by the first three letters of its English name.
pub(crate) fn month(name: &str) -> Option<i64> {
    let at = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name))?;
    i64::try_from(at + 1).ok()
}

/// A time of day: `hour:minute` or `hour:minute:second`.
pub(crate) fn time_of_day(text: &str) -> Option<(i64, i64, i64)> {
    let parts: Vec<i64> = text.split(':').map(number).collect::<Option<_>>()?;
    match parts[..] {
        [hour, minute] => Some((hour, minute, 0)),
        [hour, minute, second] => Some((hour, minute, second)),
        _ => None,
    }
}

/// A length of time in seconds, from `[[[days:]hours:]minutes:]seconds` without a sign.
pub(crate) fn length_of_time(text: &str) -> Option<i64> {
    let parts: Vec<i64> = text.trim().split(':').map(number).collect::<Option<_>>()?;
    let units = [1, 60, 3600, DAY];
    if parts.len() > units.len() {
        return None;
    }
    parts
        .iter()
        .rev()
        .zip(units)
        .try_fold(0_i64, |sum, (part, unit)| sum.checked_add(part.checked_mul(unit)?))
}

/// Digits only: no sign, no blank.
fn number(text: &str) -> Option<i64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn length(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from the beginning of 1970 to a date.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let leaps = |year: i64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leaps(year - 1) - leaps(1969);
    years + (1..month).map(|month| length(year, month)).sum::<i64>() + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let date = |year, month, day, hour, minute, second| Date { year, month, day, hour, minute, second };
        let known = [
            (0, date(1970, 1, 1, 0, 0, 0)),
            (951_782_399, date(2000, 2, 28, 23, 59, 59)),
            (951_782_400, date(2000, 2, 29, 0, 0, 0)),
            (1_798_761_599, date(2026, 12, 31, 23, 59, 59)),
            (1_835_438_461, date(2028, 2, 29, 12, 1, 1)),
            (253_402_300_799, date(9999, 12, 31, 23, 59, 59)),
        ];
        for (seconds, date) in known {
            assert_eq!(Date::of(Time(seconds)), date);
            assert_eq!(date.time(), Some(Time(seconds)));
        }
    }

    #[test]
    fn every_day_comes_back() {
        let mut last = Date::of(Time(0));
        for day in 1..days_before(10_000, 1, 1) {
            let time = Time(day * DAY + day % DAY);
            let date = Date::of(time);
            assert_eq!(date.time(), Some(time));
            let follows = (date.year, date.month, date.day) == (last.year, last.month, last.day + 1);
            assert!(follows || date.day == 1 && last.day == length(last.year, last.month), "{date:?}");
            last = date;
        }
    }

    #[test]
    fn what_is_no_date_has_no_time() {
        let date = Date::of(Time(0));
        assert_eq!(Date { month: 13, ..date }.time(), None);
        assert_eq!(Date { month: 2, day: 29, ..date }.time(), None);
        assert_eq!(Date { hour: 24, ..date }.time(), None);
        assert_eq!(Date { year: i64::MAX, ..date }.time(), None);
        assert_eq!(Date::of(Time::MAX).year, 9999);
        assert_eq!((Date::of(Time::MIN), Date { second: -1, ..date }.time()), (date, None));
    }

    #[test]
    fn dates_are_written_in_digits_alone() {
        assert_eq!(compact(Time(1_794_742_433)).unwrap(), "202611151133.53");
        assert_eq!(compact(Time(1_709_251_199)).unwrap(), "202402292359.59");
        let outside = [Time(-1), Time(253_402_300_800), Time::MIN, Time::MAX].map(compact);
        assert_eq!(outside, [const { None }; 4]);
    }

    #[test]
    fn dates_are_read_as_they_are_printed() {
        assert_eq!(iso("2026-11-15T11:33:53"), Some(Time(1_794_742_433)));
        assert_eq!(ctime("Sun Nov 15 11:33:53 2026"), Some(Time(1_794_742_433)));
        assert_eq!(ctime("Tue Jan  1 00:00:00 2030"), Some(Time(1_893_456_000)));
        let nonsense = [
            "",
            "T",
            "2026-11-15",
            "2026-13-15T11:33:53",
            "2026-11-15T25:33:53",
            "2026-02-30T11:33:53",
            "-1-1-1T1:1:1",
            "+2026-1-1T1:1:1",
            "-/-",
            "Sun Nov 15 11:33:53",
            "Sun Nov 31 11:33:53 2026",
            "Sun Nov 15 -1:33:53 2026",
            "Thu Jan 1 00:00:00 99999999999999999999",
        ];
        for text in nonsense {
            assert_eq!((iso(text), ctime(text)), (None, None), "{text}");
        }
    }

    #[test]
    fn lengths_of_time_are_read_with_and_without_days() {
        assert_eq!(length_of_time("45"), Some(45));
        assert_eq!(length_of_time("6:40:00"), Some(24_000));
        assert_eq!(length_of_time("1:06:00:00"), Some(108_000));
        assert_eq!(["10:00", "0:10:0", " 600"].map(length_of_time), [Some(600); 3]);
        let nonsense = [
            "",
            ":",
            "1:",
            "-1",
            "-1:00",
            "1:2:3:4:5",
            "INFINITY",
            "99999999999999999999",
            "9223372036854775807:0",
            "1:9223372036854775807",
        ];
        for nonsense in nonsense {
            assert_eq!(length_of_time(nonsense), None, "{nonsense}");
        }
    }
}
