//! Times as Slurm's commands want them: `2026-11-15T00:02:51`, in the time zone of the command, which is always UTC here. (They
//! take no seconds since the epoch; what they print is asked for as such, with `SLURM_TIME_FORMAT=%s`.)

use bookahead_plan::Time;

const DAY: i64 = 86_400;

/// As text. Years before 1970 and after 9999 are none that a command would take, and are written as the nearest.
pub(super) fn written(time: Time) -> String {
    let seconds = time.0.clamp(0, 253_402_300_799);
    let (days, second) = (seconds / DAY, seconds % DAY);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// The date that many days after the first of January 1970. Years are counted from March, so that the day that a leap year
/// has more is its last.
fn date(days: i64) -> (i64, i64, i64) {
    // The first of March in the year 0 was 719 468 days before; 400 years have 146 097 days.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Five months from March on have 153 days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// A time that was printed as seconds since the epoch; None for `Unknown`, `N/A` and such.
pub(super) fn read(printed: &str) -> Option<Time> {
    printed.parse().ok().map(Time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_are_written_as_calendars_have_them() {
        let cases = [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_794_701_734, "2026-11-15T00:15:34"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (253_402_300_799, "9999-12-31T23:59:59"),
        ];
        for (seconds, text) in cases {
            assert_eq!(written(Time(seconds)), text);
        }
    }

    #[test]
    fn the_ends_of_time_are_written_as_the_nearest_years() {
        assert_eq!(written(Time::MIN), "1970-01-01T00:00:00");
        assert_eq!(written(Time::MAX), "9999-12-31T23:59:59");
    }

    #[test]
    fn every_day_follows_the_day_before() {
        let mut before = date(0);
        for days in 1..60_000 {
            let (year, month, day) = date(days);
            let next_day = (year, month, day) == (before.0, before.1, before.2 + 1);
            let next_month = (year, month, day) == (before.0, before.1 + 1, 1) && before.2 >= 28;
            let next_year = (month, day) == (1, 1) && before == (year - 1, 12, 31);
            assert!(next_day || next_month || next_year, "{before:?} {:?}", (year, month, day));
            before = (year, month, day);
        }
    }
}
