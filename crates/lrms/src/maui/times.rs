//! Times as Maui takes and prints them. All are UTC, since the commands run with `TZ=UTC`.

use crate::text::calendar::{Date, length_of_time};
use bookahead_plan::{Seconds, Time};

/// `HH:MM:SS_MO/DD/YY`, for `setres -s` and `-e`.
pub(super) fn asked(time: Time) -> String {
    let Date { year, month, day, hour, minute, second } = Date::of(time);
    format!("{hour:02}:{minute:02}:{second:02}_{month:02}/{day:02}/{:02}", year.rem_euclid(100))
}

/// The years that can be asked for with two digits: Maui takes those from 97 on for the last century.
pub(super) fn can_be_asked(time: Time) -> bool {
    (2000..2097).contains(&Date::of(time).year)
}

/// A length of time: `[[DD:]HH:]MM:SS`, or none where it is endless (100 days and more).
pub(super) fn length(text: &str) -> Option<Option<Seconds>> {
    if text.starts_with("INFINIT") {
        return Some(None);
    }
    length_of_time(text).map(|seconds| Some(Seconds(seconds)))
}

/// A length of time with a sign; None where it is endless or none at all. Maui cuts off the first digit of tens of days behind a
/// minus, so what is longer ago than a day is not taken.
pub(super) fn signed(text: &str) -> Option<Seconds> {
    match text.strip_prefix('-') {
        Some(ago) => length_of_time(ago).filter(|ago| *ago < 86_400).map(|ago| Seconds(-ago)),
        None => length_of_time(text).map(Seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_asked_for_with_seconds_and_a_year() {
        assert_eq!(asked(Time(1_794_700_801)), "00:00:01_11/15/26");
        assert!(can_be_asked(Time(1_794_700_801)) && !can_be_asked(Time::MAX) && !can_be_asked(Time::MIN));
    }

    #[test]
    fn lengths_are_read_with_and_without_a_sign() {
        assert_eq!(length("1:06:00:00"), Some(Some(Seconds(108_000))));
        assert_eq!((length("INFINITY"), length("INFINITE"), length("x")), (Some(None), Some(None), None));
        assert_eq!((signed("-00:05:01"), signed("2:41:39")), (Some(Seconds(-301)), Some(Seconds(9699))));
        assert_eq!((signed("-INFINITY"), signed("-1:00:00:00")), (None, None));
    }
}
