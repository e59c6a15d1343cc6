//! Clock of a party: the time of day, or an accelerated clock for demonstrations and trials, which all services of
//! a grid compute alike from the time of day.

use crate::journal::DatabaseTime;
use crate::{kernel_clock, time_of_day};
use bookahead_party::{ClockState, JournalTime};
use bookahead_protocol::{Millis, Moment};
use std::time::Duration;

/// Longest sleep at a time, so that a change of the clock is noticed.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// A clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// Instant from which time runs faster.
    origin: Moment,
    speed: u32,
}

impl Clock {
    /// The time of day.
    pub const WALL: Clock = Clock { origin: Moment(0), speed: 1 };

    /// A clock with `speed`, which equals the time of day at `origin`. Two services with the same values agree,
    /// even after a restart.
    pub fn accelerated(origin: Moment, speed: u32) -> Clock {
        // `sleep_until` divides by it.
        Clock { origin, speed: speed.max(1) }
    }

    /// Trusts the system clock at the start of all parties of this process, because an operator knows that it is right.
    /// The clock of a database still decides.
    pub fn trust_at_start() {
        time_of_day::trust();
    }

    /// Current time of the clock.
    pub fn now(&self) -> Moment {
        let passed = time_of_day::now() - self.origin;
        self.origin + Millis(passed.0.saturating_mul(i64::from(self.speed)))
    }

    /// Compares with the clock of another machine, such as the batch system's.
    pub(crate) fn confirm(&self, elsewhere: Moment, by: &str) {
        // Other machines show the time of day, from which an accelerated clock differs on purpose.
        if self.speed == 1 {
            time_of_day::confirm(elsewhere, by);
        }
    }

    /// State of the system clock.
    pub(crate) fn state(&self) -> ClockState {
        time_of_day::state()
    }

    /// Compares it with a journal before its party starts: with the clock of its database, if it has one, and with its
    /// newest entry. An accelerated clock is compared with nothing.
    pub(crate) fn start(&self, journal: Option<JournalTime>, database: Option<DatabaseTime>) {
        if self.speed != 1 {
            return;
        }
        if let Some(DatabaseTime { time, boot, is_elsewhere }) = database
            && (!time_of_day::decide_by_database(time, boot) || is_elsewhere)
        {
            return;
        }
        journal.into_iter().for_each(time_of_day::start);
        // At once, so that a clock that is known to be right is never in doubt for clients.
        kernel_clock::confirm();
    }

    /// Speed relative to the time of day.
    pub fn speed(&self) -> u32 {
        self.speed
    }

    /// Instant at which it equals the time of day.
    pub fn origin(&self) -> Moment {
        self.origin
    }

    /// How long to sleep until a moment, or less.
    pub(crate) fn sleep_until(&self, moment: Moment) -> Duration {
        let ahead = (moment - self.now()).0.max(0);
        // Rounded up: waking too early would only mean to sleep again.
        let millis = ahead.unsigned_abs().div_ceil(u64::from(self.speed));
        Duration::from_millis(millis).min(LONGEST_SLEEP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accelerated_clock_passes_through_its_origin_and_is_as_much_ahead_as_it_is_faster() {
        let origin = time_of_day::now() - Millis::seconds(10);
        let clock = Clock::accelerated(origin, 60);
        let ahead = clock.now() - origin;
        assert!((600_000..660_000).contains(&ahead.0), "{ahead}");
        assert!(clock.sleep_until(clock.now() + Millis::seconds(60)) <= Duration::from_secs(1));
        assert_eq!(clock.sleep_until(Moment(0)), Duration::ZERO);
        assert_eq!(Clock::WALL.sleep_until(Moment::MAX), LONGEST_SLEEP);
    }
}
