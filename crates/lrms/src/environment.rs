//! The variables that tell a job about itself and its reservation. They have the same names on every batch system.
//! The times are in RFC 3339, in UTC.

use bookahead_plan::{Interval, Span, Time};
use bookahead_protocol::{JobId, ReservationId};
use jiff::Timestamp;

pub(crate) const JOB: &str = "BOOKAHEAD_JOB";
pub(crate) const CAPACITY: &str = "BOOKAHEAD_CAPACITY";
const RESERVATION: &str = "BOOKAHEAD_RESERVATION";
const BEGIN: &str = "BOOKAHEAD_BEGIN";
const END: &str = "BOOKAHEAD_END";

/// The reservation that a job runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Within {
    /// Its id.
    pub id: ReservationId,
    /// From its begin to its end, as far as they are known when the variables are set.
    pub interval: Interval,
}

impl Within {
    /// The reservation that consists of these spans; without times if there are none.
    pub(crate) fn of<'a>(id: ReservationId, spans: impl Iterator<Item = &'a Span> + Clone) -> Within {
        let begin = spans.clone().map(|span| span.interval.begin).min();
        let end = spans.map(|span| span.interval.end).max();
        // Neither end of time has a date, so its variable is left out.
        Within { id, interval: Interval { begin: begin.unwrap_or(Time::MIN), end: end.unwrap_or(Time::MAX) } }
    }

    /// Names and values, in which no character has a meaning to a shell or to `sbatch`.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let time =
            |name, time: Time| Timestamp::from_second(time.0).ok().map(|time| (name, time.to_string()));
        let times = [time(BEGIN, self.interval.begin), time(END, self.interval.end)];
        [(RESERVATION, self.id.to_string())].into_iter().chain(times.into_iter().flatten()).collect()
    }
}

/// All variables of a job.
pub(crate) fn variables(
    job: Option<JobId>,
    capacity: u32,
    within: Option<&Within>,
) -> Vec<(&'static str, String)> {
    let job = job.map(|id| (JOB, id.to_string()));
    let own = job.into_iter().chain([(CAPACITY, capacity.to_string())]);
    own.chain(within.into_iter().flat_map(Within::variables)).collect()
}

/// Whether a variable is set by us, so that a job cannot choose its value.
pub(crate) fn is_own(name: &str) -> bool {
    [JOB, CAPACITY, RESERVATION, BEGIN, END].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_plan::Capacity;

    #[test]
    fn a_reservation_of_several_spans_has_one_begin_and_one_end() {
        let span =
            |begin, end| Span { interval: Interval::new(Time(begin), Time(end)), capacity: Capacity(1) };
        let within = Within::of(ReservationId(0x4f), [span(3600, 7200), span(0, 5400)].iter());
        let expected = [
            ("BOOKAHEAD_RESERVATION", "rsv_4f"),
            ("BOOKAHEAD_BEGIN", "1970-01-01T00:00:00Z"),
            ("BOOKAHEAD_END", "1970-01-01T02:00:00Z"),
        ];
        assert_eq!(within.variables(), expected.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn unknown_times_are_left_out() {
        let within = Within::of(ReservationId(0x4f), [].iter());
        assert_eq!(within.variables(), [("BOOKAHEAD_RESERVATION", "rsv_4f".to_owned())]);
    }
}
