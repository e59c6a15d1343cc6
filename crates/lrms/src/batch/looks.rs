//! The last look at a batch system, updated with our own changes, which saves a new look after each change. Changes
//! made during a look are applied to its result again, as it may have been read before them. Looks are numbered from
//! 1: a change made when n looks had begun is shown by look n + 1 and later. Nothing here runs a command.

use super::system::{FactState, Handle, Picture, Reserved, Unreadable};
use crate::error::LrmsError;
use bookahead_party::Clocks;
use bookahead_plan::Time;
use bookahead_protocol::{Millis, Moment};

/// A change of ours to reservations in the batch system.
#[derive(Debug, Clone)]
pub(super) enum Own {
    /// It exists, on these terms.
    Made(Reserved),
    Gone(Handle),
    /// It is deleted, but its cores may be in use until `free_at`.
    Leaving {
        handle: Handle,
        free_at: Time,
    },
    /// Jobs of these accounts may use it now.
    Shared {
        handle: Handle,
        accounts: Vec<String>,
    },
    /// Its jobs now belong to another reservation.
    Moved {
        from: Handle,
        to: Handle,
    },
}

impl Own {
    fn put_into(&self, picture: &mut Picture) {
        match self {
            Own::Made(reserved) => {
                // The granted nodes are free, so reservations that were leaving them are gone.
                let is_freed = |one: &Reserved| {
                    one.name.is_empty() && one.cores.keys().any(|node| reserved.cores.contains_key(node))
                };
                picture.reservations.retain(|one| one.handle != reserved.handle && !is_freed(one));
                picture.reservations.push(reserved.clone());
            }
            Own::Gone(handle) => picture.reservations.retain(|one| one.handle != *handle),
            Own::Leaving { handle, free_at } => {
                for one in picture.reservations.iter_mut().filter(|one| one.handle == *handle) {
                    // Without a name it no longer belongs to us, but still occupies its nodes.
                    one.name.clear();
                    one.accounts.clear();
                    one.interval.end = one.interval.end.min(*free_at);
                }
            }
            Own::Shared { handle, accounts } => {
                for one in picture.reservations.iter_mut().filter(|one| one.handle == *handle) {
                    one.accounts.clone_from(accounts);
                }
            }
            Own::Moved { from, to } => {
                let live = picture.jobs.iter_mut().filter(|job| !job.state.is_over());
                let named = live.flat_map(|job| &mut job.reservations).filter(|handle| *handle == from);
                named.for_each(|handle| handle.clone_from(to));
            }
        }
    }
}

/// Result of one look.
#[derive(Debug, Clone)]
pub(crate) struct Looked {
    pub(crate) number: u64,
    /// Begin of the look.
    pub(crate) at: Moment,
    pub(crate) outcome: Result<(), LrmsError>,
}

#[derive(Debug, Default)]
pub(super) struct Looks {
    /// Result of the last look with our own changes; empty before the first look.
    pub(super) picture: Picture,
    /// Begin of that look.
    taken: Option<Moment>,
    /// Duration of that look. The other clock was read at some moment within it.
    took: Millis,
    /// Number of looks begun, and when the last one began, whatever its outcome.
    pub(super) begun: u64,
    pub(super) tried: Option<Moment>,
    /// The last look that ended.
    ended: Option<Looked>,
    /// During a look: our changes since it began.
    meanwhile: Option<Vec<Own>>,
    /// Nodes chosen for reservations that are being created.
    pub(super) chosen: Vec<Reserved>,
}

impl Looks {
    /// The last picture, with its clock advanced to `now`.
    pub(super) fn picture_at(&self, now: Moment) -> Picture {
        let passed = self.taken.map(|taken| now.second() - taken.second());
        let clock = self.picture.clock.zip(passed).map(|(clock, passed)| clock + passed);
        // A copy, so that the state is not locked while the command that needs it runs.
        Picture { clock, ..self.picture.clone() }
    }

    pub(super) fn is_there(&self) -> bool {
        self.taken.is_some()
    }

    pub(super) fn is_young(&self, now: Moment, than: Millis) -> bool {
        self.taken.is_some_and(|taken| now - taken < than)
    }

    /// Number of looks begun and number of looks ended.
    pub(super) fn numbers(&self) -> (u64, u64) {
        (self.begun, self.begun - u64::from(self.is_under_way()))
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.meanwhile.is_some()
    }

    /// The last look that ended, if its number is above `begun`.
    pub(super) fn ended_after(&self, begun: u64) -> Option<Looked> {
        self.ended.clone().filter(|looked| looked.number > begun)
    }

    pub(super) fn begin(&mut self, now: Moment) {
        self.begun += 1;
        self.tried = Some(now);
        self.meanwhile = Some(Vec::new());
    }

    /// Ends the look in progress with this result and duration.
    pub(super) fn end(&mut self, seen: Result<Picture, LrmsError>, took: Millis) -> Looked {
        let meanwhile = self.meanwhile.take().unwrap_or_default();
        let outcome = seen.map(|mut picture| {
            // Before our own changes: these replace an entry with the same handle, so none is there twice.
            self.carry_over(&mut picture);
            meanwhile.iter().for_each(|own| own.put_into(&mut picture));
            // Its age counts from its begin: changes by others since then may be missing in it.
            (self.picture, self.taken, self.took) = (picture, self.tried, took);
        });
        let at = self.tried.unwrap_or(Moment(i64::MIN));
        let looked = Looked { number: self.begun, at, outcome };
        // Also after a failure: all callers that wait for this look get its error, and none waits forever.
        self.ended = Some(looked.clone());
        looked
    }

    /// Keeps the last known state of a reservation that cannot be parsed now.
    fn carry_over(&self, picture: &mut Picture) {
        for unreadable in &picture.unreadable {
            let Unreadable::Reservation { handle, .. } = unreadable else { continue };
            let before = self.picture.reservations.iter().find(|one| one.handle == *handle);
            picture.reservations.extend(before.cloned());
        }
    }

    /// Whether the last look showed it or it was created since.
    pub(super) fn knows(&self, handle: &Handle) -> bool {
        self.picture.reservations.iter().any(|one| one.handle == *handle)
    }

    pub(super) fn runs_in(&self, handle: &Handle) -> bool {
        let mut running = self.picture.jobs.iter().filter(|job| job.state == FactState::Running);
        running.any(|job| job.reservations.contains(handle))
    }

    pub(super) fn note(&mut self, own: &Own) {
        own.put_into(&mut self.picture);
        self.meanwhile.iter_mut().for_each(|meanwhile| meanwhile.push(own.clone()));
    }

    /// Runs a choice of nodes that also sees the nodes chosen by parallel orders.
    pub(super) fn choose<T>(&mut self, choice: impl FnOnce(&Picture) -> T) -> T {
        let known = self.picture.reservations.len();
        self.picture.reservations.extend(self.chosen.iter().cloned());
        let made = choice(&self.picture);
        // They are not granted yet, so they must not become part of the picture.
        self.picture.reservations.truncate(known);
        made
    }

    /// Both clocks at the time of the last look. The other clock was read at an unknown moment of the look. Of our
    /// times during it, take the closest one: a slow command must not look like clock skew.
    pub(super) fn clocks(&self) -> Option<Clocks> {
        let (began, theirs) = (self.taken?, self.picture.clock?);
        let ours = theirs.clamp(began.second(), (began + self.took.max(Millis::ZERO)).second());
        Some(Clocks { ours, theirs, elsewhere: self.picture.clock_elsewhere })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_plan::{Seconds, Time};

    #[test]
    fn a_slow_look_is_no_clock_that_is_ahead() {
        let skew = |clock: i64, took: Millis| {
            let mut looks = Looks::default();
            looks.begin(Moment::of(Time(100)));
            looks.end(Ok(Picture { clock: Some(Time(clock)), ..Picture::default() }), took);
            looks.clocks().unwrap().skew()
        };
        assert_eq!(skew(105, Millis::seconds(5)), Seconds(0));
        assert_eq!(skew(103, Millis::seconds(5)), Seconds(0));
        assert_eq!(skew(105, Millis(100)), Seconds(5));
        assert_eq!(skew(112, Millis::seconds(5)), Seconds(7), "more than the command took");
        assert_eq!(skew(95, Millis::seconds(5)), Seconds(-5));
    }
}
