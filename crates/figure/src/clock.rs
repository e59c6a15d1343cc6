//! How instants are written: as time elapsed since a start, or as dates of the UTC calendar.
//! It relies on arithmetic wide enough that no 64-bit instant overflows it. It never reads a real clock, and
//! knows no time zones and no leap seconds.

use bookahead_plan::{Interval, Time};

/// What the labels of a time axis count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// Time elapsed since the left edge of the picture.
    #[default]
    SinceStart,
    /// Time elapsed since this instant.
    Since(Time),
    /// Dates and hours in UTC.
    Utc {
        /// The Unix time, in seconds, of the instant `Time(0)`: zero on a live site, `UnixStartTime` of the
        /// header in a trace.
        unix_of_zero: i64,
    },
}

pub(crate) const MINUTE: i128 = 60;
pub(crate) const HOUR: i128 = 60 * MINUTE;
pub(crate) const DAY: i128 = 24 * HOUR;

impl Clock {
    /// The instant, in the seconds of [`Time`], at which this clock shows zero.
    pub(crate) fn zero(self, range: Interval) -> i128 {
        match self {
            Clock::SinceStart => i128::from(range.begin.0),
            Clock::Since(start) => i128::from(start.0),
            Clock::Utc { unix_of_zero } => -i128::from(unix_of_zero),
        }
    }

    /// One instant in full, as tooltips and descriptions give it.
    pub(crate) fn written(self, instant: Time, range: Interval) -> String {
        if instant == Time::MAX {
            return "never".to_owned();
        }
        let shown = i128::from(instant.0) - self.zero(range);
        match self {
            Clock::Utc { .. } => {
                format!("{} {} UTC", iso_date(shown.div_euclid(DAY)), time_of_day(shown.rem_euclid(DAY)))
            }
            Clock::SinceStart | Clock::Since(_) => elapsed(shown),
        }
    }
}

fn elapsed(seconds: i128) -> String {
    let sign = if seconds < 0 { "-" } else { "" };
    let seconds = seconds.abs();
    format!("{sign}{} d {}", seconds / DAY, time_of_day(seconds % DAY))
}

/// `seconds` after midnight as hours, minutes and seconds.
pub(crate) fn time_of_day(seconds: i128) -> String {
    format!("{:02}:{:02}:{:02}", seconds / HOUR, seconds % HOUR / MINUTE, seconds % MINUTE)
}

fn iso_date(days: i128) -> String {
    let date = civil_from_days(days);
    format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
}

/// A day of the proleptic Gregorian calendar; January is month 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Date {
    pub(crate) year: i128,
    pub(crate) month: i128,
    pub(crate) day: i128,
}

impl Date {
    /// The name of the month, in three letters.
    pub(crate) fn month_name(&self) -> &'static str {
        const NAMES: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        usize::try_from(self.month - 1).ok().and_then(|index| NAMES.get(index)).copied().unwrap_or("")
    }
}

/// Days in the 400 years after which the calendar repeats.
const DAYS_PER_ERA: i128 = 146_097;
/// From 1 March of year 0 to 1 January 1970. Years are counted from March so that a leap day comes last.
const EPOCH_FROM_MARCH_ZERO: i128 = 719_468;

/// The date that is `days` after 1 January 1970.
pub(crate) fn civil_from_days(days: i128) -> Date {
    let days = days + EPOCH_FROM_MARCH_ZERO;
    let (era, day_of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    Date { year: era * 400 + year_of_era + i128::from(month <= 2), month, day }
}

/// How many days after 1 January 1970 the month begins that is `month` (0 is January) of `year`.
pub(crate) fn days_to_month(year: i128, month: i128) -> i128 {
    let (year, month_from_march) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month_from_march + 2) / 5;
    let day_of_era = 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - EPOCH_FROM_MARCH_ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_a_thousand_years_follows_the_one_before() {
        let mut before = civil_from_days(-200_000);
        for days in -199_999..200_000 {
            let date = civil_from_days(days);
            if date.day == 1 {
                assert_eq!(days_to_month(date.year, date.month - 1), days);
                assert!((28..=31).contains(&before.day));
            } else {
                assert_eq!(date, Date { day: before.day + 1, ..before });
            }
            before = date;
        }
    }

    #[test]
    fn instants_are_written_in_full() {
        let range = Interval::new(Time(100), Time(200));
        let utc = Clock::Utc { unix_of_zero: 951_782_400 };
        assert_eq!(utc.written(Time(3661), range), "2000-02-29 01:01:01 UTC");
        assert_eq!(utc.written(Time(86_400), range), "2000-03-01 00:00:00 UTC");
        assert_eq!(Clock::SinceStart.written(Time(90_100), range), "1 d 01:00:00");
        assert_eq!(Clock::Since(Time(130)).written(Time(100), range), "-0 d 00:00:30");
        assert_eq!(Clock::SinceStart.written(Time::MAX, range), "never");
        assert!(Clock::Utc { unix_of_zero: i64::MAX }.written(Time(i64::MAX - 1), range).ends_with("UTC"));
        assert!(Clock::Utc { unix_of_zero: i64::MIN }.written(Time::MIN, range).starts_with('-'));
    }
}
