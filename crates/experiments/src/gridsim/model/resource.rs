//! A grid resource: the operations a user has on it, each at an instant, and the passing of time in between.
//! It relies on the profile of the plan, which holds a span for every reservation that is accepted, committed or
//! active and for every job that was started from the queue; what it accepts it keeps.
//!
//! The events of one instant come in this order: ends of jobs, ends of slots, expiries, beginnings of slots; then the
//! queue gets what CPUs are left; then come the operations of users, in the order in which they are called.
//!
//! It never lets a job from the queue run into a reservation: one that would, by its size and the rating of the CPU it
//! would get, waits, and all behind it wait with it (first come, first served, no backfilling). A reservation is
//! granted where running jobs and other reservations leave room; the queue is not asked.

use super::cpus::{Cpus, Rating};
use super::dispatch::{Event, Running};
use super::job::{Job, Piece, Returned};
use super::reservation::{Booked, Refusal, Request, Reservation, ReservationId, Status, busy_hint};
use super::zone::Zone;
use bookahead_plan::{Capacity, Interval, Need, Profile, Seconds, Span, Time};
use bookahead_protocol::{IllegalMove, Move, State};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;

/// What a resource does where the user does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Where it is.
    pub zone: Zone,
    /// An accepted reservation expires after this, or at its start where that is earlier. An immediate one must be
    /// committed within the second.
    pub patience: Seconds,
    /// The unit of the busy-time hint.
    pub hint_unit: Seconds,
    /// A reservation without a duration is cut here, if nothing cuts it earlier.
    pub longest_open_slot: Seconds,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            zone: Zone::default(),
            patience: Seconds(600),
            hint_unit: Seconds(60),
            longest_open_slot: Seconds(3600),
        }
    }
}

/// Why an operation on a reservation cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UseError {
    /// There is no such reservation.
    Unknown(ReservationId),
    /// Not in its state.
    Illegal(IllegalMove),
    /// The new terms cannot be had; the old ones stay.
    Refused(Refusal),
}

/// CPUs, a queue, and reservations.
#[derive(Clone)]
pub struct Resource {
    pub(super) rules: Rules,
    pub(super) cpus: Cpus,
    pub(super) profile: Profile,
    pub(super) now: Time,
    pub(super) queue: VecDeque<Job>,
    /// Of each CPU.
    pub(super) running: Vec<Option<Running>>,
    pub(super) events: BTreeSet<(Time, Event)>,
    pub(super) reservations: Vec<Reservation>,
    pub(super) pieces: Vec<Piece>,
    pub(super) returned: Vec<Returned>,
}

impl Resource {
    /// Idle from `origin` on, with a CPU for each rating; None without a CPU or with one that is rated zero.
    pub fn new(ratings: Vec<Rating>, rules: Rules, origin: Time) -> Option<Resource> {
        let count = u32::try_from(ratings.len()).ok().filter(|&count| count > 0)?;
        if ratings.contains(&Rating(0)) {
            return None;
        }
        Some(Resource {
            rules,
            running: vec![None; ratings.len()],
            cpus: Cpus::new(ratings),
            profile: Profile::new(Capacity(count), origin),
            now: origin,
            queue: VecDeque::new(),
            events: BTreeSet::new(),
            reservations: Vec::new(),
            pieces: Vec::new(),
            returned: Vec::new(),
        })
    }

    /// The ratings of its CPUs.
    pub fn ratings(&self) -> &[Rating] {
        self.cpus.ratings()
    }

    /// What jobs have had which CPU when, in the order in which they left it.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// What went back to users, in order.
    pub fn returned(&self) -> &[Returned] {
        &self.returned
    }

    /// Lets time pass. An instant before the last one counts as the last one, here and in every operation.
    pub fn advance(&mut self, now: Time) {
        while let Some(&(next, _)) = self.events.first().filter(|(next, _)| *next <= now) {
            self.instant(next);
        }
        self.instant(now.max(self.now));
    }

    /// Lets time pass until nothing happens any more.
    pub fn finish(&mut self) {
        while let Some(&(next, _)) = self.events.first() {
            self.instant(next);
        }
    }

    /// Puts a job without a reservation at the end of the queue.
    pub fn submit(&mut self, now: Time, job: Job) {
        self.advance(now);
        self.queue.push_back(job);
        self.serve_queue();
    }

    /// Asks for a reservation: accepted until its expiry, or refused.
    pub fn create(&mut self, now: Time, request: &Request) -> Result<Booked, Refusal> {
        self.advance(now);
        request.check(self.now, self.capacity())?;
        let id = ReservationId(self.reservations.len() as u32);
        let start = request.start_at(self.now);
        let capacity = Capacity(request.cpus);
        let Some(slot) = self.room(request, start) else {
            let length = request.duration.unwrap_or(Seconds(1));
            let mut rejected = Reservation::new(Span::starting(start, length, capacity));
            legal(rejected.apply(Move::Reject));
            self.reservations.push(rejected);
            return Err(Refusal::Busy { id, hint: self.hint(request, start) });
        };
        let mut accepted = Reservation::new(Span { interval: slot, capacity });
        legal(accepted.apply(Move::Accept));
        accepted.expires = (self.now + self.rules.patience).min(start).max(self.now + Seconds(1));
        self.profile.add(accepted.span);
        self.events.insert((accepted.expires, Event::Expiry(id)));
        let booked = Booked { id, slot, expires: accepted.expires };
        self.reservations.push(accepted);
        Ok(booked)
    }

    /// Confirms a reservation, with the jobs that are to run in it: none, one or more. Until its start it can be
    /// committed again to attach more. Jobs start in order, as many at a time as there are CPUs in it.
    pub fn commit(
        &mut self,
        now: Time,
        id: ReservationId,
        jobs: impl IntoIterator<Item = Job>,
    ) -> Result<(), UseError> {
        self.advance(now);
        let reservation = self.reservations.get_mut(id.0 as usize).ok_or(UseError::Unknown(id))?;
        reservation.apply(Move::Commit).map_err(UseError::Illegal)?;
        reservation.jobs.extend(jobs);
        self.events.remove(&(reservation.expires, Event::Expiry(id)));
        self.events.insert((reservation.span.interval.begin, Event::Begin(id)));
        self.advance(self.now);
        Ok(())
    }

    /// Asks for other terms for a committed reservation. Where there is no room for them it keeps the old ones.
    pub fn modify(&mut self, now: Time, id: ReservationId, terms: &Request) -> Result<Interval, UseError> {
        self.advance(now);
        let old = self.apply(id, Move::RequestChange)?;
        self.withdraw(id, old);
        let answer = self.other_terms(terms, id);
        let span = answer.unwrap_or(old);
        self.profile.add(span);
        self.events.insert((span.interval.begin, Event::Begin(id)));
        self.reservations[id.0 as usize].span = span;
        legal(self.reservations[id.0 as usize].apply(Move::SettleChange));
        self.advance(self.now);
        answer.map(|span| span.interval).map_err(UseError::Refused)
    }

    /// Gives a reservation up: cancels it before its start, terminates it while active. Its jobs go back as they are.
    pub fn cancel(&mut self, now: Time, id: ReservationId) -> Result<State, UseError> {
        self.advance(now);
        let active = self.reservations.get(id.0 as usize).is_some_and(|known| known.state() == State::Active);
        let span = self.apply(id, if active { Move::Terminate } else { Move::Cancel })?;
        self.withdraw(id, span);
        for job in self.release(id) {
            self.returned.push(Returned { job: job.id, at: self.now, left: job.work });
        }
        self.serve_queue();
        Ok(self.reservations[id.0 as usize].state())
    }

    /// How a reservation stands.
    pub fn query(&mut self, now: Time, id: ReservationId) -> Option<Status> {
        self.advance(now);
        Some(self.reservations.get(id.0 as usize)?.status(self.rules.zone))
    }

    pub(super) fn capacity(&self) -> Capacity {
        Capacity(self.cpus.ratings().len() as u32)
    }

    fn apply(&mut self, id: ReservationId, step: Move) -> Result<Span, UseError> {
        let reservation = self.reservations.get_mut(id.0 as usize).ok_or(UseError::Unknown(id))?;
        reservation.apply(step).map_err(UseError::Illegal)?;
        Ok(reservation.span)
    }

    /// Takes a reservation's span out of the profile, and what is going to happen to it out of the events.
    fn withdraw(&mut self, id: ReservationId, span: Span) {
        self.profile.remove(span);
        let Interval { begin, end } = span.interval;
        let expires = self.reservations[id.0 as usize].expires;
        for event in [(expires, Event::Expiry(id)), (begin, Event::Begin(id)), (end, Event::SlotEnd(id))] {
            self.events.remove(&event);
        }
    }

    /// The slot for a request, if there is room for it at its start.
    fn room(&self, request: &Request, start: Time) -> Option<Interval> {
        let capacity = Capacity(request.cpus);
        if let Some(length) = request.duration {
            let fits = self.profile.fits(start, Need { capacity, length });
            return fits.then(|| Interval::starting(start, length));
        }
        let needed_by_others = self.profile.first_below(start, i64::from(capacity.0));
        let end = needed_by_others.map_or(Time::MAX, |(below, _)| below);
        let slot = Interval::new(start, end.min(start + self.rules.longest_open_slot));
        (!slot.is_empty()).then_some(slot)
    }

    fn hint(&self, request: &Request, start: Time) -> Seconds {
        let need = Need { capacity: Capacity(request.cpus), length: request.duration.unwrap_or(Seconds(1)) };
        let fit = self.profile.earliest_fit(start, need, None).unwrap_or(Time::MAX);
        busy_hint(fit - start, self.rules.hint_unit)
    }

    fn other_terms(&self, terms: &Request, id: ReservationId) -> Result<Span, Refusal> {
        terms.check(self.now, self.capacity())?;
        let start = terms.start_at(self.now);
        let busy = || Refusal::Busy { id, hint: self.hint(terms, start) };
        let interval = self.room(terms, start).ok_or_else(busy)?;
        Ok(Span { interval, capacity: Capacity(terms.cpus) })
    }
}

/// A move that the resource makes itself, which is legal by construction.
pub(super) fn legal(step: Result<(), IllegalMove>) {
    debug_assert!(step.is_ok(), "the resource makes only legal moves: {step:?}");
}

impl fmt::Display for UseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UseError::Unknown(id) => write!(f, "there is no reservation {}", id.0),
            UseError::Illegal(step) => step.fmt(f),
            UseError::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for UseError {}
