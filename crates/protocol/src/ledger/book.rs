//! The free capacity of one resource, and its live reservations by time. All of it is derived from the
//! entries of the ledger and kept up to date to avoid searches.

use super::entry::Entry;
use super::notice::Waits;
use super::spans::{area, since};
use super::tres::{TresBook, TresSpans, all_since};
use crate::ids::{Name, ReservationId};
use crate::tres::Tres;
use bookahead_plan::{Capacity, Interval, Profile, Seconds, Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The reservations of one resource.
#[derive(Clone)]
pub(super) struct Book {
    /// Capacity left by live reservations and failures.
    pub(super) profile: Profile,
    /// Live reservations by start.
    pub(super) begins: BTreeSet<(Time, ReservationId)>,
    /// Live reservations with missing capacity, oldest first.
    pub(super) degraded: BTreeSet<(u64, ReservationId)>,
    /// Configured capacity, failed capacity included.
    pub(super) capacity: Capacity,
    /// Failed capacity.
    pub(super) lost: Capacity,
    /// For each user with live reservations: [`u32::MAX`] less the capacity promised to the user. None if no
    /// share is limited.
    pub(super) shares: Option<BTreeMap<Name, Profile>>,
    /// What live reservations leave of the things beside the capacity.
    pub(super) tres: TresBook,
    /// Waits of its jobs. Not derived from the entries.
    pub(super) waits: Waits,
}

/// The effect of an entry on a book.
pub(super) struct Footprint {
    begin: Time,
    serial: u64,
    missing: bool,
    promised: Vec<Span>,
    takes: Vec<Span>,
    tres: TresSpans,
}

/// Capacity taken in one second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Taken {
    /// By all live reservations.
    all: i64,
    /// Promised to each user, without zeros. None if no share is limited.
    by_user: Option<BTreeMap<Name, i64>>,
    /// Amounts beside the capacity, without zeros.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    tres: BTreeMap<Name, i64>,
}

impl Footprint {
    pub(super) const NONE: Footprint = Footprint {
        begin: Time::MIN,
        serial: 0,
        missing: false,
        promised: Vec::new(),
        takes: Vec::new(),
        tres: TresSpans::new(),
    };

    pub(super) fn of(entry: &Entry) -> Footprint {
        Footprint {
            begin: entry.promised().first().map_or(entry.begin(), |span| span.interval.begin),
            serial: entry.serial,
            missing: entry.is_live() && entry.missing > Capacity::ZERO,
            promised: entry.promised().to_vec(),
            takes: entry.takes(),
            tres: entry.tres_taken(),
        }
    }

    /// For [`crate::flaw::Flaw::HoldsTakeNoRoom`].
    pub(super) fn without_room(self) -> Footprint {
        Footprint { takes: Vec::new(), tres: TresSpans::new(), ..self }
    }

    pub(super) fn is_live(&self) -> bool {
        !self.promised.is_empty()
    }

    pub(super) fn area(&self) -> i128 {
        area(&self.promised)
    }

    /// The promised and the taken spans from an instant on.
    fn since(&self, instant: Time) -> (Vec<Span>, Vec<Span>) {
        (since(&self.promised, instant), since(&self.takes, instant))
    }
}

impl Book {
    pub(super) fn new(capacity: Capacity, tres: &Tres, limit_shares: bool) -> Book {
        Book {
            profile: Profile::new(capacity, Time::MIN),
            begins: BTreeSet::new(),
            degraded: BTreeSet::new(),
            capacity,
            lost: Capacity::ZERO,
            shares: limit_shares.then(BTreeMap::new),
            tres: TresBook::new(tres),
            waits: Waits::default(),
        }
    }

    /// Capacity that has not failed.
    pub(super) fn standing(&self) -> Capacity {
        Capacity(self.capacity.0 - self.lost.0)
    }

    pub(super) fn advance(&mut self, now: Time) {
        self.profile.advance(now);
        self.tres.advance(now);
    }

    /// Sets the total failed capacity, from now on.
    pub(super) fn set_lost(&mut self, lost: Capacity) {
        let always = |capacity| Span { interval: Interval::new(Time::MIN, Time::MAX), capacity };
        self.profile.remove(always(self.lost));
        self.lost = lost.min(self.capacity);
        self.profile.add(always(self.lost));
    }

    /// Replaces the old form of an entry by its new one. If it was live, its spans before `instant` stay
    /// taken: the past cannot be given back. Returns its spans before and after the change, from then on.
    pub(super) fn replace(
        &mut self,
        id: ReservationId,
        owner: &Name,
        before: &Footprint,
        after: &Footprint,
        instant: Time,
    ) -> (Vec<Span>, Vec<Span>) {
        if before.is_live() {
            self.begins.remove(&(before.begin, id));
        }
        if before.missing {
            self.degraded.remove(&(before.serial, id));
        }
        self.begins.extend(after.is_live().then_some((after.begin, id)));
        self.degraded.extend(after.missing.then_some((after.serial, id)));
        let from = if before.is_live() { instant } else { Time::MIN };
        let ((had_promise, had), (has_promise, has)) = (before.since(from), after.since(from));
        if had != has {
            had.iter().for_each(|&span| self.profile.remove(span));
            has.iter().for_each(|&span| self.profile.add(span));
        }
        if before.tres != after.tres {
            self.tres.remove(&all_since(&before.tres, from));
            self.tres.add(&all_since(&after.tres, from));
        }
        if had_promise != has_promise {
            self.change_share(owner, &had_promise, &has_promise);
        }
        (had, has)
    }

    /// Capacity taken in the current second. It may differ from the sum of the entries: capacity released in
    /// the middle of a second stays taken until the end of the second.
    pub(super) fn taken_in(&self, second: Time) -> Taken {
        let promised = |left: &Profile| i64::from(u32::MAX).saturating_sub(left.free_at(second));
        let by_user = self.shares.as_ref().map(|shares| {
            let all = shares.iter().map(|(user, left)| (user.clone(), promised(left)));
            all.filter(|(_, promised)| *promised != 0).collect()
        });
        let all = i64::from(self.standing().0).saturating_sub(self.profile.free_at(second));
        Taken { all, by_user, tres: self.tres.taken_in(second) }
    }

    /// Sets the capacity taken in one second; other seconds stay as they are.
    pub(super) fn set_taken_in(&mut self, second: Time, taken: &Taken) {
        let now = self.taken_in(second);
        take_more(&mut self.profile, second, taken.all.saturating_sub(now.all));
        self.tres.set_taken_in(second, &taken.tres);
        let (Some(shares), Some(had), Some(has)) = (&mut self.shares, now.by_user, &taken.by_user) else {
            return;
        };
        for user in had.keys().chain(has.keys().filter(|user| !had.contains_key(*user))) {
            let of = |users: &BTreeMap<Name, i64>| users.get(user).copied().unwrap_or(0);
            let more = of(has).saturating_sub(of(&had));
            let share = shares.entry(user.clone()).or_insert_with(nothing_promised);
            take_more(share, second, more);
        }
    }

    /// Starts or stops keeping the capacity promised to each user. It starts without any.
    pub(super) fn limit_shares(&mut self, limit: bool) {
        self.shares = limit.then(BTreeMap::new);
    }

    /// Counts what is promised to a user, from the start of the profile on.
    pub(super) fn add_to_share(&mut self, owner: &Name, promised: &[Span]) {
        let from_now_on = since(promised, self.profile.origin());
        self.change_share(owner, &[], &from_now_on);
    }

    fn change_share(&mut self, owner: &Name, gave_back: &[Span], took: &[Span]) {
        let Some(shares) = &mut self.shares else { return };
        if !shares.contains_key(owner) {
            shares.insert(owner.clone(), nothing_promised());
        }
        if let Some(share) = shares.get_mut(owner) {
            share.advance(self.profile.origin());
            gave_back.iter().for_each(|&span| share.remove(span));
            took.iter().for_each(|&span| share.add(span));
            // An empty profile is dropped, so the map stays as small as the number of users with live
            // reservations.
            if share.breakpoints() == 0 {
                shares.remove(owner);
            }
        }
    }
}

/// Profile of a user without reservations.
fn nothing_promised() -> Profile {
    Profile::new(Capacity(u32::MAX), Time::MIN)
}

/// Takes `more` capacity in one second; gives back if negative.
pub(super) fn take_more(profile: &mut Profile, second: Time, more: i64) {
    let capacity = Capacity(u32::try_from(more.unsigned_abs()).unwrap_or(u32::MAX));
    let span = Span::starting(second, Seconds(1), capacity);
    if more > 0 { profile.add(span) } else { profile.remove(span) }
}
