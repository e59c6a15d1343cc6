//! Dates of the UTC calendar and durations, in the formats of batch systems. Commands run with `TZ=UTC`, so all their
//! times are in this calendar. Nothing here reads a clock, and no date that a command may print makes it panic.

use bookahead_plan::Time;
use jiff::SignedDuration;
use jiff::civil::DateTime;

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// The last second of the year 9999: no batch system accepts later dates.
const LATEST: i64 = 253_402_300_799;

/// Clamped to 1970 to 9999, as no command accepts other dates.
pub(crate) fn date(time: Time) -> DateTime {
    EPOCH.saturating_add(SignedDuration::from_secs(time.0.clamp(0, LATEST)))
}

/// None before 1970.
fn time(date: DateTime) -> Option<Time> {
    (date >= EPOCH).then(|| Time(date.duration_since(EPOCH).as_secs()))
}

/// Formats a time with strftime.
pub(crate) fn written(time: Time, format: &str) -> String {
    date(time).strftime(format).to_string()
}

/// Parses a time with strptime.
pub(crate) fn read(text: &str, format: &str) -> Option<Time> {
    DateTime::strptime(format, text).ok().and_then(time)
}

/// `CCYYMMDDhhmm.SS`, as read by `qrsub -a`, `pbs_rsub -R` and others; None outside of 1970 to 9999.
pub(crate) fn compact(time: Time) -> Option<String> {
    (0..=LATEST).contains(&time.0).then(|| written(time, "%Y%m%d%H%M.%S"))
}

/// Parses `2026-11-15T11:33:53`.
pub(crate) fn iso(text: &str) -> Option<Time> {
    // The parser would take a date without a time for midnight.
    Some(text.trim()).filter(|text| text.contains('T'))?.parse().ok().and_then(time)
}

/// Parses `Sun Nov 15 11:34:56 2026`, the format of `ctime` in C.
pub(crate) fn ctime(text: &str) -> Option<Time> {
    // `ctime` pads a day of one digit with a second blank, which splitting and joining removes.
    let words: Vec<&str> = text.split_whitespace().collect();
    read(&words.get(1..5)?.join(" "), "%b %d %H:%M:%S %Y")
}

/// Parses `[[[days:]hours:]minutes:]seconds` without a sign; returns seconds.
pub(crate) fn length_of_time(text: &str) -> Option<i64> {
    // `parse` alone would accept a sign.
    let digits = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let number = |part: &str| Some(part).filter(digits)?.parse::<i64>().ok();
    let parts: Vec<i64> = text.trim().split(':').map(number).collect::<Option<_>>()?;
    let units = [1, 60, 3600, 86_400];
    let mut parts = Some(parts).filter(|parts| parts.len() <= units.len())?.into_iter().rev().zip(units);
    // Checked: a damaged number that wraps around would look like a short limit.
    parts.try_fold(0_i64, |sum, (part, unit)| sum.checked_add(part.checked_mul(unit)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let known = [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_798_761_599, "2026-12-31T23:59:59"),
            (1_835_438_461, "2028-02-29T12:01:01"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (253_402_300_799, "9999-12-31T23:59:59"),
        ];
        for (seconds, text) in known {
            assert_eq!(written(Time(seconds), "%Y-%m-%dT%H:%M:%S"), text);
            assert_eq!(iso(text), Some(Time(seconds)));
        }
    }

    #[test]
    fn every_day_comes_back() {
        for day in 0..=LATEST / 86_400 {
            let seconds = Time(day * 86_400 + day % 86_400);
            assert_eq!(time(date(seconds)), Some(seconds));
        }
    }

    #[test]
    fn what_is_no_date_has_no_time() {
        let read = |text| super::read(text, "%Y/%m/%d %H:%M:%S");
        assert_eq!(read("2026/11/15 11:33:53"), Some(Time(1_794_742_433)));
        for odd in [
            "1970/13/1 0:0:0",
            "1970/2/29 0:0:0",
            "1970/1/1 24:0:0",
            "1969/12/31 23:59:59",
            "1970/1/1 0:0:-1",
        ] {
            assert_eq!(read(odd), None, "{odd}");
        }
        assert_eq!((date(Time::MIN), date(Time::MAX).year()), (EPOCH, 9999));
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
