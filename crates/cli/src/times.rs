//! Times and durations on the command line of trace commands. A time is in seconds of the trace, a day and a time of
//! day of the trace (`day 3 04:12:00`) or, if the trace has a start date, an RFC 3339 instant; a wall time without an
//! offset is refused.

use bookahead_api::Length;
pub(crate) use bookahead_api::whole_seconds as length;
use bookahead_plan::{Seconds, Time};
use jiff::Timestamp;
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instant {
    /// Seconds of the trace.
    Trace(Time),
    /// An instant on the calendar.
    Calendar(Timestamp),
}

#[derive(Debug, thiserror::Error)]
#[error(
    "invalid time '{0}'; use seconds of the trace (430593), its day and time ('day 5 23:36:33') or RFC 3339 with an \
     offset (2000-04-30T21:36:36Z)"
)]
pub(crate) struct BadInstant(String);

impl FromStr for Instant {
    type Err = BadInstant;

    fn from_str(text: &str) -> Result<Instant, BadInstant> {
        if let Ok(seconds) = text.parse() {
            return Ok(Instant::Trace(Time(seconds)));
        }
        if let Some(time) = text.strip_prefix("day ").and_then(day_and_time) {
            return Ok(Instant::Trace(time));
        }
        text.parse().map(Instant::Calendar).map_err(|_| BadInstant(text.to_owned()))
    }
}

/// What follows `day `: a number and a time of day. The first day is day 1.
fn day_and_time(text: &str) -> Option<Time> {
    let (day, clock) = text.split_once(' ').unwrap_or((text, "0:00"));
    let mut fields = clock.split(':').map(|field| field.parse::<u32>().ok());
    let (hours, minutes) = (fields.next()??, fields.next()??);
    let seconds = fields.next().unwrap_or(Some(0))?;
    if fields.next().is_some() || hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    // 32 bits, so that the product below cannot overflow.
    let days = day.parse::<i32>().ok()?.checked_sub(1)?;
    Some(Time(i64::from(days) * 86_400 + i64::from(hours * 3_600 + minutes * 60 + seconds)))
}

#[derive(Debug, thiserror::Error)]
#[error("{0} is a calendar time, but the trace has no start date (UnixStartTime); use seconds of the trace")]
pub(crate) struct NoCalendar(Timestamp);

impl Instant {
    /// Converts to seconds of a trace that began at `unix_start`, in Unix seconds.
    pub(crate) fn in_trace(self, unix_start: Option<i64>) -> Result<Time, NoCalendar> {
        match (self, unix_start) {
            (Instant::Trace(time), _) => Ok(time),
            (Instant::Calendar(timestamp), Some(start)) => {
                Ok(Time(timestamp.as_second().saturating_sub(start)))
            }
            (Instant::Calendar(timestamp), None) => Err(NoCalendar(timestamp)),
        }
    }
}

/// A duration in the form that [`length`] parses: `2h30m`. A negative one has a minus in front.
pub(crate) fn written(length: Seconds) -> String {
    Length::from(length).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_day_of_the_trace_is_read_as_it_is_printed() {
        let read = |text: &str| text.parse::<Instant>().ok();
        for seconds in [0, 86_399, 280_000, -1] {
            let printed = crate::trace::since_start(Time(seconds));
            assert_eq!(read(&printed), Some(Instant::Trace(Time(seconds))), "{printed}");
        }
        assert_eq!(crate::trace::since_start(Time(280_000)), "day 4 05:46:40");
        assert_eq!(read("day 2"), Some(Instant::Trace(Time(86_400))));
        assert_eq!(read("day 2 4:05"), Some(Instant::Trace(Time(86_400 + 4 * 3_600 + 300))));
        for wrong in ["day", "day x", "day 1 24:00", "day 1 1", "day 1 1:2:3:4"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn lengths_are_read_as_people_write_them() {
        for (text, seconds) in [("0", 0), ("5400", 5400), ("90m", 5400), ("2h30m", 9000), ("1d 12h", 129_600)]
        {
            assert_eq!(length(text).expect(text), Seconds(seconds));
        }
        for (text, seconds) in [("PT2H", 7_200), ("P1DT1M", 86_460), ("P1W", 604_800), ("PT1h30m", 5_400)] {
            assert_eq!(length(text).expect(text), Seconds(seconds));
        }
        for text in
            ["", "h", "2 hors", "-5", "2h30", "1.3333s", "99999999999999999999s", "2ü", "P", "PT", "P2H"]
        {
            assert!(length(text).is_err(), "{text}");
        }
    }

    proptest! {
        #![proptest_config(bookahead_tests::cases::cases(256))]

        #[test]
        fn a_length_that_is_written_is_read_again(seconds in 0..100_000_000_000i64) {
            prop_assert_eq!(length(&written(Seconds(seconds))), Ok(Seconds(seconds)));
        }

        #[test]
        fn no_length_is_too_strange(text in prop_oneof!["P?[0-9a-zA-Z ]{0,30}", any::<String>()]) {
            if let Ok(length) = length(&text) {
                prop_assert!(length >= Seconds::ZERO);
            }
        }
    }

    #[test]
    fn instants_need_an_offset_and_a_trace_that_knows_its_date() {
        let instant: Instant = "1970-01-01T01:00:10+01:00".parse().expect("RFC 3339");
        assert_eq!(instant.in_trace(Some(4)).expect("a date"), Time(6));
        assert!(instant.in_trace(None).is_err());
        assert_eq!("-3".parse::<Instant>().expect("seconds"), Instant::Trace(Time(-3)));
        let end_of_time = instant.in_trace(Some(i64::MIN)).expect("a date");
        assert_eq!(end_of_time, Time::MAX, "a trace may begin at any second");
        assert!("2000-04-30T15:36:36".parse::<Instant>().is_err(), "a wall time without a zone");
    }
}
