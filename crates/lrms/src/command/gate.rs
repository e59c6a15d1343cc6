//! How many commands run at once: so many and no more, whoever asks. Those who come later wait, in no particular order.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What commands pass before they run.
#[derive(Debug)]
pub(super) struct Gate {
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Debug)]
struct Counts {
    inside: usize,
    most: usize,
}

/// Whoever has it is inside; it leaves when this is dropped.
#[derive(Debug)]
pub(super) struct Pass<'a>(&'a Gate);

/// Why somebody did not get in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outside {
    /// No place became free in time.
    Full,
    /// It gave up.
    GaveUp,
}

impl Gate {
    pub(super) fn new(most: usize) -> Gate {
        Gate { counts: Mutex::new(Counts { inside: 0, most: most.max(1) }), changed: Condvar::new() }
    }

    /// How many may be inside from now on; at least one. Nobody is sent out.
    pub(super) fn set_most(&self, most: usize) {
        self.counts().most = most.max(1);
        self.changed.notify_all();
    }

    /// How many may be inside.
    pub(super) fn most(&self) -> usize {
        self.counts().most
    }

    /// Waits for a place until then, unless `gives_up` says that there is no point in it. Whoever changes what that says
    /// calls [`Gate::look_again`].
    pub(super) fn enter(&self, until: Instant, gives_up: impl Fn() -> bool) -> Result<Pass<'_>, Outside> {
        let mut counts = self.counts();
        loop {
            if gives_up() {
                return Err(Outside::GaveUp);
            }
            if counts.inside < counts.most {
                counts.inside += 1;
                return Ok(Pass(self));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Outside::Full);
            }
            counts = self.changed.wait_timeout(counts, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Lets those who wait see whether they give up.
    pub(super) fn look_again(&self) {
        // Who has looked and does not wait yet still holds this; it would miss the call.
        drop(self.counts());
        self.changed.notify_all();
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut counts = self.0.counts();
        counts.inside = counts.inside.saturating_sub(1);
        drop(counts);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::{Gate, Outside};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[test]
    fn no_more_get_in_than_may_and_a_place_that_is_left_is_taken() {
        let gate = Gate::new(2);
        let first = gate.enter(soon(), || false).unwrap();
        let _second = gate.enter(soon(), || false).unwrap();
        assert_eq!(gate.enter(Instant::now(), || false).unwrap_err(), Outside::Full);
        std::thread::scope(|scope| {
            let third = scope.spawn(|| gate.enter(soon(), || false).is_ok());
            drop(first);
            assert!(third.join().unwrap());
        });
    }

    #[test]
    fn who_waits_gives_up_as_soon_as_there_is_no_point_in_it() {
        let (gate, pointless) = (Gate::new(1), AtomicBool::new(false));
        let _first = gate.enter(soon(), || false).unwrap();
        std::thread::scope(|scope| {
            let second = scope
                .spawn(|| gate.enter(soon(), || pointless.load(Ordering::SeqCst)).map(|_| ()).unwrap_err());
            pointless.store(true, Ordering::SeqCst);
            gate.look_again();
            assert_eq!(second.join().unwrap(), Outside::GaveUp);
        });
    }

    #[test]
    fn there_is_always_room_for_one() {
        let gate = Gate::new(0);
        assert!(gate.enter(Instant::now(), || false).is_ok());
        gate.set_most(0);
        assert_eq!(gate.most(), 1);
    }
}
