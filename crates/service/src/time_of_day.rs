//! Validated time of day. The system clock may be changed by hand, by NTP, or by a hypervisor. A service that
//! followed a clock three days ahead for two seconds would complete and drop tomorrow's reservations. So the clock
//! is compared with the time since boot, which cannot be set and which includes suspend. While the two differ by
//! more than [`BOUND`], time continues as before. The clock is followed again when it is back, when the batch
//! system or a peer confirms it, and after a restart. A clock that is behind the journal at the start is certainly
//! wrong: it is accepted as soon as it has passed the journal.

use bookahead_protocol::{Millis, Moment};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Largest jump that is followed at once. More than NTP steps on a running machine, less than a hold would miss.
const BOUND: Millis = Millis::seconds(5);

/// The clock of this machine, shared by all parties of the process.
static MACHINE: LazyLock<Mutex<TimeOfDay>> =
    LazyLock::new(|| Mutex::new(TimeOfDay::new(system(), since_boot())));

/// The validated time of day.
pub(crate) fn now() -> Moment {
    let (wall, boot) = (system(), since_boot());
    with(|time| time.read(wall, boot))
}

/// How far the system clock is ahead of the validated time, while it is not followed.
pub(crate) fn jump() -> Option<Millis> {
    // Reading the clock updates the jump.
    now();
    with(|time| time.jump)
}

/// Compares with another machine. If the system clock agrees with it, it is followed again.
pub(crate) fn confirm(elsewhere: Moment, by: &str) {
    let wall = system();
    with(|time| time.confirm(wall, elsewhere, by));
}

/// How far the time is behind an earlier moment, if that is more than a correction of the clock.
pub(crate) fn behind(newest: Moment) -> Option<Millis> {
    Some(newest - now()).filter(|behind| *behind > BOUND)
}

/// Whether a moment has passed. A clock that was set to after it is accepted.
pub(crate) fn has_passed(newest: Moment) -> bool {
    let (wall, boot) = (system(), since_boot());
    with(|time| time.has_passed(wall, boot, newest))
}

fn with<T>(work: impl FnOnce(&mut TimeOfDay) -> T) -> T {
    work(&mut MACHINE.lock().unwrap_or_else(PoisonError::into_inner))
}

fn system() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Moment(since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
}

/// Time since the machine was started, including the time that it slept.
#[cfg(target_os = "linux")]
pub(crate) fn since_boot() -> Millis {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Millis(time.tv_sec.saturating_mul(1_000).saturating_add(time.tv_nsec / 1_000_000))
}

/// Other systems do not count suspended time: waking up is a jump until the service is restarted.
#[cfg(not(target_os = "linux"))]
pub(crate) fn since_boot() -> Millis {
    static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    Millis(i64::try_from(START.elapsed().as_millis()).unwrap_or(i64::MAX))
}

/// Both clocks at their last reading.
struct TimeOfDay {
    believed: Moment,
    boot: Millis,
    /// How far the system clock is ahead, while it is not followed.
    jump: Option<Millis>,
}

impl TimeOfDay {
    fn new(wall: Moment, boot: Millis) -> TimeOfDay {
        TimeOfDay { believed: wall, boot, jump: None }
    }

    fn read(&mut self, wall: Moment, boot: Millis) -> Moment {
        let passed = Millis(boot.0.saturating_sub(self.boot.0).max(0));
        let expected = self.believed + passed;
        let ahead = wall - expected;
        // Other threads may have read the clocks in between, so this reading can be older than the last one.
        self.boot = self.boot.max(boot);
        if ahead.0.saturating_abs() <= BOUND.0 {
            self.believed = wall;
            if self.jump.take().is_some() {
                tracing::info!(event = "clock_is_back", "the system clock is back and is followed again");
            }
        } else {
            self.believed = expected;
            if self.jump.is_none() {
                let seconds = ahead.0 / 1_000;
                tracing::error!(
                    event = "clock_jumped",
                    seconds,
                    "the system clock was set by {seconds} s and is not followed; time continues as before. Set the clock \
                     right, or restart the service if it is right now"
                );
            }
            self.jump = Some(ahead);
        }
        self.believed
    }

    fn confirm(&mut self, wall: Moment, elsewhere: Moment, by: &str) {
        if self.jump.is_some() && (wall - elsewhere).0.saturating_abs() <= BOUND.0 {
            self.jump = None;
            self.believed = wall;
            tracing::warn!(
                event = "clock_confirmed",
                by,
                "{by} shows the same time as the system clock, which is followed again"
            );
        }
    }

    fn has_passed(&mut self, wall: Moment, boot: Millis, newest: Moment) -> bool {
        if self.read(wall, boot) < newest && wall >= newest {
            self.jump = None;
            self.believed = wall;
        }
        self.believed >= newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten seconds after boot the time is 1,000 s.
    fn ten() -> TimeOfDay {
        TimeOfDay::new(Moment(1_000_000), Millis(10_000))
    }

    #[test]
    fn a_clock_that_goes_as_time_passes_is_followed_with_its_small_corrections() {
        let mut time = ten();
        for step in 1..=100 {
            // Ten seconds each, with half a second of correction: NTP slews, or steps a little.
            let wall = Moment(1_000_000 + step * 10_500);
            assert_eq!(time.read(wall, Millis(10_000 + step * 10_000)), wall);
        }
        assert_eq!(time.jump, None);
    }

    #[test]
    fn a_clock_that_is_set_is_not_followed_until_it_is_back() {
        for by in [3 * 86_400_000, -3 * 86_400_000, 6_000, -6_000] {
            let mut time = ten();
            for second in 1..=10 {
                let wall = Moment(1_000_000 + second * 1_000 + by);
                let read = time.read(wall, Millis(10_000 + second * 1_000));
                assert_eq!(read, Moment(1_000_000 + second * 1_000), "time goes on");
            }
            assert_eq!(time.jump, Some(Millis(by)));
            assert_eq!(time.read(Moment(1_011_200), Millis(21_000)), Moment(1_011_200));
            assert_eq!(time.jump, None);
        }
    }

    #[test]
    fn a_suspended_machine_wakes_up_hours_later() {
        let mut time = ten();
        assert_eq!(time.read(Moment(11_000_000), Millis(10_010_000)), Moment(11_000_000));
        assert_eq!(time.jump, None);
    }

    #[test]
    fn a_clock_that_was_set_right_is_followed_once_somebody_else_shows_the_same() {
        let mut time = ten();
        let right = Moment(87_400_000);
        time.read(right, Millis(10_000));
        time.confirm(right, Moment(1_000_000), "north");
        assert_eq!(time.jump, Some(Millis(86_400_000)), "that is the old time");
        time.confirm(right, right + Millis(900), "north");
        assert_eq!((time.jump, time.read(right + Millis(10), Millis(10_010))), (None, right + Millis(10)));
    }

    #[test]
    fn a_clock_that_was_behind_at_the_start_is_followed_once_it_is_past_what_has_been() {
        let newest = Moment(87_400_000);
        let mut time = ten();
        assert!(!time.has_passed(Moment(1_000_500), Millis(10_500), newest));
        assert!(!time.has_passed(Moment(5_000_000), Millis(11_000), newest), "not far enough");
        assert_eq!(time.believed, Moment(1_001_000), "and so it is a jump like any other");
        assert!(time.has_passed(Moment(90_000_000), Millis(12_000), newest));
        assert_eq!((time.believed, time.jump), (Moment(90_000_000), None));
        let mut waiting = ten();
        assert!(waiting.has_passed(newest, Millis(86_410_000), newest), "it gets there by itself, too");
    }
}
