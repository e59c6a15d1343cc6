//! Outages: from a command that timed out, or a host that could not be reached, until something answers again. During
//! an outage commands fail at once. A probe detects the end, if one is configured; otherwise the first command after
//! a pause is let through as a trial.
//!
//! Also the limit on parallel commands. Waiting commands get a slot in no particular order.
//!
//! This module decides and remembers. It runs nothing; the runner starts the probe thread.

use super::command_line::Command;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Pause before a trial if no probe is configured. A trial may cost its caller a whole timeout.
const UNTIL_TRIAL: Duration = Duration::from_secs(5);

/// Pause between probes at the beginning of an outage.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// Pause between probes in a long outage. More frequent connections could look like an attack to a host that refuses
/// us.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Outage(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    silence: Option<Silence>,
    /// End of the last outage.
    ended: Option<Instant>,
    probe: Option<Command>,
}

#[derive(Debug, Clone, Copy)]
struct Silence {
    since: Instant,
    /// Time of the last unanswered command.
    noticed: Instant,
    /// Whether the probe thread or a trial is under way.
    is_tried: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Free,
    /// Run it; its outcome tells whether the outage is over.
    Trial,
    /// Do not run it; the outage has lasted this long.
    Refused(Duration),
}

impl Outage {
    pub(super) fn set_probe(&self, probe: Command) {
        self.state().probe = Some(probe);
    }

    /// Whether a command may run. After a trial the caller must report its outcome with [`Outage::note`],
    /// [`Outage::is_over`] or [`Outage::not_tried`].
    pub(super) fn admit(&self, now: Instant) -> Admission {
        let mut state = self.state();
        let Some(silence) = &mut state.silence else { return Admission::Free };
        if silence.is_tried || now.saturating_duration_since(silence.noticed) < UNTIL_TRIAL {
            return Admission::Refused(now.saturating_duration_since(silence.since));
        }
        silence.is_tried = true;
        Admission::Trial
    }

    /// Records an unanswered command that was sent at `asked`. If it returns a probe, the caller must start it, and
    /// call [`Outage::not_tried`] if that fails.
    pub(super) fn note(&self, asked: Instant, now: Instant, was_trial: bool) -> Option<Command> {
        let mut state = self.state();
        // A command sent before the last outage ended says nothing about the present.
        if state.ended.is_some_and(|ended| asked < ended) {
            return None;
        }
        let fresh = Silence { since: now, noticed: now, is_tried: false };
        let mut silence = state.silence.unwrap_or(fresh);
        silence.noticed = now;
        // Only the trial itself ends the trial: other commands that were under way when the outage began also time
        // out.
        silence.is_tried &= !was_trial;
        let probe = state.probe.clone().filter(|_| !silence.is_tried);
        silence.is_tried |= probe.is_some();
        state.silence = Some(silence);
        probe
    }

    /// Records an answer.
    pub(super) fn is_over(&self, now: Instant) {
        let mut state = self.state();
        state.silence = None;
        state.ended = Some(now);
    }

    /// The trial or probe did not happen; the next command may try.
    pub(super) fn not_tried(&self) {
        if let Some(silence) = &mut self.state().silence {
            silence.is_tried = false;
        }
    }

    pub(super) fn since(&self) -> Option<Instant> {
        self.state().silence.map(|silence| silence.since)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pause before the next probe: a twentieth of the outage, which bounds the delay in noticing its end to 5 %.
pub(super) fn pause(silent_for: Duration) -> Duration {
    (silent_for / 20).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

/// Limits the number of commands that run in parallel.
#[derive(Debug)]
pub(super) struct Slots {
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Debug)]
struct Counts {
    inside: usize,
    most: usize,
}

/// A slot; dropping it frees the slot.
#[derive(Debug)]
pub(super) struct Slot<'a>(&'a Slots);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outside {
    /// No slot became free in time.
    Full,
    GaveUp,
}

impl Slots {
    pub(super) fn new(most: usize) -> Slots {
        Slots { counts: Mutex::new(Counts { inside: 0, most: most.max(1) }), changed: Condvar::new() }
    }

    /// Sets the limit, at least 1. Commands that already run are not affected.
    pub(super) fn set_most(&self, most: usize) {
        self.counts().most = most.max(1);
        self.changed.notify_all();
    }

    pub(super) fn most(&self) -> usize {
        self.counts().most
    }

    /// Waits for a slot until `until`, or until `gives_up` returns true. After a change of its result, call
    /// [`Slots::look_again`].
    pub(super) fn enter(&self, until: Instant, gives_up: impl Fn() -> bool) -> Result<Slot<'_>, Outside> {
        let mut counts = self.counts();
        loop {
            if gives_up() {
                return Err(Outside::GaveUp);
            }
            if counts.inside < counts.most {
                counts.inside += 1;
                return Ok(Slot(self));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Outside::Full);
            }
            counts = self.changed.wait_timeout(counts, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Makes waiting callers check whether to give up.
    pub(super) fn look_again(&self) {
        // Take the lock once: a caller between its check and its wait still holds it, and would miss the
        // notification.
        drop(self.counts());
        self.changed.notify_all();
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut counts = self.0.counts();
        counts.inside = counts.inside.saturating_sub(1);
        drop(counts);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::{Admission, Command, LONGEST_PAUSE, Outage, SHORTEST_PAUSE, UNTIL_TRIAL, pause};
    use super::{Outside, Slots};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn without_a_probe_one_command_after_some_time_is_the_trial() {
        let (outage, start) = (Outage::default(), Instant::now());
        assert_eq!(outage.admit(start), Admission::Free);
        assert_eq!(outage.note(start, start, false), None);
        assert_eq!(outage.since(), Some(start));
        assert_eq!(outage.admit(start + SECOND), Admission::Refused(SECOND));
        assert_eq!(outage.admit(start + UNTIL_TRIAL), Admission::Trial);
        assert_eq!(outage.admit(start + UNTIL_TRIAL), Admission::Refused(UNTIL_TRIAL), "one is enough");
        outage.note(start + 2 * UNTIL_TRIAL, start + 2 * UNTIL_TRIAL, true);
        assert_eq!(outage.since(), Some(start), "it lasts");
        assert_eq!(outage.admit(start + 2 * UNTIL_TRIAL), Admission::Refused(2 * UNTIL_TRIAL));
        assert_eq!(outage.admit(start + 3 * UNTIL_TRIAL), Admission::Trial);
        outage.is_over(start + 4 * UNTIL_TRIAL);
        assert_eq!(outage.admit(start + 4 * UNTIL_TRIAL), Admission::Free);
        assert_eq!(outage.since(), None);
    }

    #[test]
    fn a_trial_that_was_not_made_is_left_to_the_next() {
        let (outage, start) = (Outage::default(), Instant::now());
        outage.note(start, start, false);
        assert_eq!(outage.admit(start + UNTIL_TRIAL), Admission::Trial);
        outage.not_tried();
        assert_eq!(outage.admit(start + UNTIL_TRIAL), Admission::Trial);
    }

    #[test]
    fn what_ran_when_silence_began_and_goes_unanswered_later_makes_no_second_trial() {
        let (outage, start) = (Outage::default(), Instant::now());
        outage.note(start, start, false);
        assert_eq!(outage.admit(start + UNTIL_TRIAL), Admission::Trial);
        outage.note(start + UNTIL_TRIAL, start + UNTIL_TRIAL, false);
        assert!(matches!(outage.admit(start + 3 * UNTIL_TRIAL), Admission::Refused(_)));
    }

    #[test]
    fn what_was_asked_before_silence_ended_begins_no_new_one() {
        let (outage, start) = (Outage::default(), Instant::now());
        outage.note(start, start, false);
        outage.is_over(start + 2 * SECOND);
        outage.note(start + SECOND, start + 3 * SECOND, false);
        assert_eq!(outage.since(), None);
        outage.note(start + 2 * SECOND, start + 3 * SECOND, false);
        assert_eq!(outage.since(), Some(start + 3 * SECOND));
    }

    #[test]
    fn the_probe_is_started_once_and_then_nobody_else_tries() {
        let (outage, start) = (Outage::default(), Instant::now());
        outage.set_probe(Command::new("ping"));
        assert_eq!(outage.note(start, start, false), Some(Command::new("ping")));
        assert_eq!(outage.note(start + SECOND, start + SECOND, false), None);
        assert!(matches!(outage.admit(start + 9 * UNTIL_TRIAL), Admission::Refused(_)));
        outage.not_tried();
        assert_eq!(outage.admit(start + 9 * UNTIL_TRIAL), Admission::Trial, "where it could not be started");
        assert_eq!(
            outage.note(start + 9 * UNTIL_TRIAL, start + 9 * UNTIL_TRIAL, true),
            Some(Command::new("ping"))
        );
    }

    #[test]
    fn probes_come_seldom_when_silence_lasts() {
        assert_eq!(pause(Duration::ZERO), SHORTEST_PAUSE);
        assert_eq!(pause(60 * SECOND), 3 * SECOND);
        assert_eq!(pause(3_600 * SECOND), LONGEST_PAUSE);
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[test]
    fn no_more_get_in_than_may_and_a_place_that_is_left_is_taken() {
        let slots = Slots::new(2);
        let first = slots.enter(soon(), || false).unwrap();
        let _second = slots.enter(soon(), || false).unwrap();
        assert_eq!(slots.enter(Instant::now(), || false).unwrap_err(), Outside::Full);
        std::thread::scope(|scope| {
            let third = scope.spawn(|| slots.enter(soon(), || false).is_ok());
            drop(first);
            assert!(third.join().unwrap());
        });
    }

    #[test]
    fn who_waits_gives_up_as_soon_as_there_is_no_point_in_it() {
        let (slots, pointless) = (Slots::new(1), AtomicBool::new(false));
        let _first = slots.enter(soon(), || false).unwrap();
        std::thread::scope(|scope| {
            let second = scope
                .spawn(|| slots.enter(soon(), || pointless.load(Ordering::SeqCst)).map(|_| ()).unwrap_err());
            pointless.store(true, Ordering::SeqCst);
            slots.look_again();
            assert_eq!(second.join().unwrap(), Outside::GaveUp);
        });
    }

    #[test]
    fn there_is_always_room_for_one() {
        let slots = Slots::new(0);
        assert!(slots.enter(Instant::now(), || false).is_ok());
        slots.set_most(0);
        assert_eq!(slots.most(), 1);
    }
}
