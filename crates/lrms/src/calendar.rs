//! Dates as batch systems write and read them, in UTC: all commands run with `TZ=UTC`. It knows the proleptic Gregorian
//! calendar and nothing else: no time zones, no leap seconds, no clock.

use bookahead_plan::Time;

const DAY: i64 = 86_400;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `CCYYMMDDhhmm.SS`, as `qrsub -a`, `pbs_rsub -R` and their like read it; None outside of the years 1970 to 9999.
pub(crate) fn compact(time: Time) -> Option<String> {
    let days = time.0.div_euclid(DAY);
    let second = time.0.rem_euclid(DAY);
    let (year, month, day) = date_of(days)?;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    Some(format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}.{second:02}"))
}

/// What `2026-11-15T11:33:53` says.
pub(crate) fn iso(text: &str) -> Option<Time> {
    let (date, clock) = text.trim().split_once('T')?;
    let mut parts = date.splitn(3, '-').map(number);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    instant(year, month, day, clock)
}

/// What `Sun Nov 15 11:34:56 2026` says, as `ctime` of C writes it.
pub(crate) fn ctime(text: &str) -> Option<Time> {
    let mut words = text.split_whitespace();
    let _weekday = words.next()?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|name| *name == month)?;
    let day = number(words.next()?)?;
    let clock = words.next()?;
    let year = number(words.next()?)?;
    instant(year, i64::try_from(month).ok()? + 1, day, clock)
}

/// How many seconds `h:m:s`, `m:s` or `s` are, as limits are written.
pub(crate) fn length(text: &str) -> Option<i64> {
    let parts: Vec<i64> = text.trim().split(':').map(number).collect::<Option<_>>()?;
    if parts.len() > 4 {
        return None;
    }
    let factors = [1, 60, 3600, DAY];
    let terms = parts.iter().rev().zip(factors).map(|(part, factor)| part.checked_mul(factor));
    terms.sum::<Option<i64>>()
}

fn instant(year: i64, month: i64, day: i64, clock: &str) -> Option<Time> {
    let mut parts = clock.splitn(3, ':').map(number);
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let legal = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    legal.then(|| Time(days_until(year, month, day) * DAY + hour * 3600 + minute * 60 + second))
}

/// Digits only: no sign, no blank.
fn number(text: &str) -> Option<i64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// Days since 1970-01-01. Years begin in March here, so that the leap day is the last.
fn days_until(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leaps + (153 * month + 2) / 5 + day - 1 - 719_468
}

fn date_of(days: i64) -> Option<(i64, i64, i64)> {
    let last = days_until(9999, 12, 31);
    if !(0..=last).contains(&days) {
        return None;
    }
    // A guess that is at most one too high or too low.
    let mut year = 1970 + days * 400 / 146_097;
    while days_until(year + 1, 1, 1) <= days {
        year += 1;
    }
    while days_until(year, 1, 1) > days {
        year -= 1;
    }
    let month = (1..=12).rev().find(|month| days_until(year, *month, 1) <= days)?;
    Some((year, month, days - days_until(year, month, 1) + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(compact(Time(0)).unwrap(), "197001010000.00");
        assert_eq!(compact(Time(1_794_742_433)).unwrap(), "202611151133.53");
        assert_eq!(compact(Time(1_709_251_199)).unwrap(), "202402292359.59");
        assert_eq!(compact(Time(253_402_300_799)).unwrap(), "999912312359.59");
        assert_eq!(
            (compact(Time(-1)), compact(Time(253_402_300_800)), compact(Time::MAX)),
            (None, None, None)
        );
    }

    #[test]
    fn every_day_is_read_as_it_is_written() {
        for day in 0..(days_until(9999, 12, 31)) {
            let (year, month, in_month) = date_of(day).unwrap();
            assert_eq!(days_until(year, month, in_month), day);
        }
    }

    #[test]
    fn what_is_no_date_is_not_read() {
        assert_eq!(iso("2026-11-15T11:33:53"), Some(Time(1_794_742_433)));
        assert_eq!(ctime("Sun Nov 15 11:33:53 2026"), Some(Time(1_794_742_433)));
        assert_eq!(ctime("Tue Jan  1 00:00:00 2030"), Some(Time(1_893_456_000)));
        for text in
            ["", "T", "2026-11-15", "2026-13-15T11:33:53", "2026-11-15T25:33:53", "-1-1-1T1:1:1", "-/-"]
        {
            assert_eq!((iso(text), ctime(text)), (None, None), "{text}");
        }
    }

    #[test]
    fn lengths_are_hours_minutes_and_seconds() {
        assert_eq!(["600", "10:00", "0:10:0", "1:00:00:00"].map(length), [600, 600, 600, 86_400].map(Some));
        for text in ["", "INFINITY", "1:2:3:4:5", "-1", "1:", "99999999999999999999", "9223372036854775807:0"]
        {
            assert_eq!(length(text), None, "{text}");
        }
    }
}
