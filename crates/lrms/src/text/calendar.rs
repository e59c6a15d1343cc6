//! Dates of the UTC calendar. Commands run with `TZ=UTC`, so what they print and what they are asked for are times of this
//! calendar. Nothing here reads a clock, and no date that a command may print makes it panic.

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
const YEARS: std::ops::RangeInclusive<i64> = 1900..=9999;

impl Date {
    /// The date of a time; of one that is further away than any batch system plans, the nearest that can be written.
    pub(crate) fn of(time: Time) -> Date {
        let days_of = |year| days_before(year, 1, 1);
        let earliest = days_of(*YEARS.start()) * DAY;
        let latest = days_of(*YEARS.end() + 1) * DAY - 1;
        let seconds = time.0.clamp(earliest, latest);
        let (days, rest) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        // Never later than the year of these days, and close to it.
        let mut year = 1970 + days.div_euclid(if days < 0 { 365 } else { 366 });
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

/// The number of a month by the first three letters of its English name.
pub(crate) fn month(name: &str) -> Option<i64> {
    let at = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name))?;
    i64::try_from(at + 1).ok()
}

/// A time of day: `hour:minute` or `hour:minute:second`.
pub(crate) fn time_of_day(text: &str) -> Option<(i64, i64, i64)> {
    let parts: Vec<i64> = text.split(':').map(str::parse).collect::<Result<_, _>>().ok()?;
    match parts[..] {
        [hour, minute] => Some((hour, minute, 0)),
        [hour, minute, second] => Some((hour, minute, second)),
        _ => None,
    }
}

/// A length of time as `[[[days:]hours:]minutes:]seconds`, without a sign.
pub(crate) fn length_of_time(text: &str) -> Option<i64> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 4 || !parts.iter().all(|part| digits(part)) {
        return None;
    }
    let units = [1, 60, 3600, DAY];
    let seconds =
        parts.iter().rev().zip(units).map(|(part, unit)| part.parse::<i64>().ok()?.checked_mul(unit));
    seconds.sum::<Option<i64>>()
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
            (-1, date(1969, 12, 31, 23, 59, 59)),
        ];
        for (seconds, date) in known {
            assert_eq!(Date::of(Time(seconds)), date);
            assert_eq!(date.time(), Some(Time(seconds)));
        }
    }

    #[test]
    fn every_hour_of_two_centuries_comes_back() {
        for hour in (-60 * 365 * 24)..(140 * 365 * 24) {
            let time = Time(hour * 3600 + 17);
            assert_eq!(Date::of(time).time(), Some(time));
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
        assert_eq!(Date::of(Time::MIN).year, 1900);
    }

    #[test]
    fn lengths_of_time_are_read_with_and_without_days() {
        assert_eq!(length_of_time("45"), Some(45));
        assert_eq!(length_of_time("6:40:00"), Some(24_000));
        assert_eq!(length_of_time("1:06:00:00"), Some(108_000));
        for nonsense in
            ["", ":", "-1:00", "1:2:3:4:5", "INFINITY", "99999999999999999999", "9223372036854775807:0:0:0"]
        {
            assert_eq!(length_of_time(nonsense), None, "{nonsense}");
        }
    }
}
