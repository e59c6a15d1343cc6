//! Reservations: what a user asks for, what the resource answers, and what is booked. The state is private here, so
//! that `Reservation::apply` is the only way to change it. It never looks for room: the resource does.

use super::cpus::CpuId;
use super::job::Job;
use super::zone::{LocalTime, Zone};
use bookahead_plan::{Capacity, Interval, Seconds, Span, Time};
use bookahead_protocol::{IllegalMove, Move, State};
use std::collections::VecDeque;
use std::fmt;

/// The steps of the busy-time hint, in the resource's unit.
pub const HINT_STEPS: [i64; 5] = [5, 10, 15, 30, 45];

/// A reservation of one resource, by the order of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReservationId(pub u32);

/// What a user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Where the user is: her times are meant there.
    pub zone: Zone,
    /// From when.
    pub start: Start,
    /// For how long. Without it, until somebody else needs the CPUs, and no longer than the resource's rules allow.
    pub duration: Option<Seconds>,
    /// How many CPUs.
    pub cpus: u32,
}

/// From when a reservation is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At once: an immediate reservation.
    Now,
    /// When the user's clock shows this: an advance reservation.
    At(LocalTime),
}

/// The answer to a request that is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Booked {
    /// Its name from now on.
    pub id: ReservationId,
    /// When the CPUs are there.
    pub slot: Interval,
    /// It must be committed before this.
    pub expires: Time,
}

/// The answer to a request that is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There is no room at the time asked for.
    Busy {
        /// The rejected reservation.
        id: ReservationId,
        /// About how much later there might be: one of [`HINT_STEPS`] of the resource's unit, rounded up, the last one
        /// also where it takes longer.
        hint: Seconds,
    },
    /// More CPUs than the resource has, or none.
    Width,
    /// The start lies in the past.
    InThePast,
    /// A duration below one second.
    NoDuration,
}

/// What a query tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Where in its life it is.
    pub state: State,
    /// When the CPUs are, were or would have been there.
    pub slot: Interval,
    /// Its beginning and end on the resource's clocks.
    pub local: (LocalTime, LocalTime),
    /// How many CPUs.
    pub cpus: u32,
    /// Until when it must have been committed.
    pub expires: Time,
    /// Attached jobs that have not started.
    pub waiting_jobs: usize,
}

/// What the resource keeps.
#[derive(Debug, Clone)]
pub(super) struct Reservation {
    state: State,
    pub(super) span: Span,
    pub(super) expires: Time,
    /// Attached and not started, in the order in which they start.
    pub(super) jobs: VecDeque<Job>,
    /// The CPUs it holds while active.
    pub(super) cpus: Vec<CpuId>,
}

impl Reservation {
    /// As requested.
    pub(super) fn new(span: Span) -> Reservation {
        let jobs = VecDeque::new();
        Reservation { state: State::Requested, span, expires: span.interval.begin, jobs, cpus: Vec::new() }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// The only way to change the state. GridSim confirms, attaches jobs and cancels only before expiry and start: of the
    /// moves in the table it knows none from an expired reservation, and no commit of an active one.
    pub(super) fn apply(&mut self, step: Move) -> Result<(), IllegalMove> {
        let early = matches!(self.state, State::Accepted | State::Committed);
        if matches!(step, Move::Commit | Move::Cancel) && !early {
            return Err(IllegalMove { from: self.state, attempted: step });
        }
        self.state = self.state.after(step)?;
        Ok(())
    }

    pub(super) fn status(&self, zone: Zone) -> Status {
        let Interval { begin, end } = self.span.interval;
        Status {
            state: self.state,
            slot: self.span.interval,
            local: (zone.local(begin), zone.local(end)),
            cpus: self.span.capacity.0,
            expires: self.expires,
            waiting_jobs: self.jobs.len(),
        }
    }
}

impl Request {
    /// When it is to start, given that it is now.
    pub fn start_at(&self, now: Time) -> Time {
        match self.start {
            Start::Now => now,
            Start::At(shown) => self.zone.instant(shown),
        }
    }

    /// The refusal of a request that no resource with so many CPUs could ever grant.
    pub(super) fn check(&self, now: Time, cpus: Capacity) -> Result<(), Refusal> {
        if self.cpus == 0 || self.cpus > cpus.0 {
            return Err(Refusal::Width);
        }
        if self.start_at(now) < now {
            return Err(Refusal::InThePast);
        }
        if self.duration.is_some_and(|duration| duration < Seconds(1)) {
            return Err(Refusal::NoDuration);
        }
        Ok(())
    }
}

/// The hint for a resource that is busy for so long: the smallest step that is not shorter, or the largest.
pub fn busy_hint(busy: Seconds, unit: Seconds) -> Seconds {
    let steps = HINT_STEPS.map(|step| Seconds(unit.0.max(1).saturating_mul(step)));
    steps.into_iter().find(|&step| step >= busy).unwrap_or(steps[HINT_STEPS.len() - 1])
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Busy { hint, .. } => write!(f, "no room at that time; try {hint} seconds later"),
            Refusal::Width => f.write_str("no CPUs, or more than the resource has"),
            Refusal::InThePast => f.write_str("the start lies in the past"),
            Refusal::NoDuration => f.write_str("the duration is below one second"),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_steps_of_the_unit_rounded_up_and_end_at_the_last() {
        let minute = Seconds(60);
        for (busy, hint) in [(1, 5), (5, 5), (6, 10), (14, 15), (16, 30), (45, 45), (46, 45), (9000, 45)] {
            assert_eq!(busy_hint(Seconds(busy * 60), minute), Seconds(hint * 60), "busy for {busy} minutes");
        }
    }
}
