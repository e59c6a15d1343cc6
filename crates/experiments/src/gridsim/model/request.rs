//! What users give to a grid resource and get back: jobs, requests for reservations with times of the user's zone, and
//! their answers. A job occupies one CPU at a time; a parallel application is a list of jobs. The size of a job is
//! declared with it and exact, as in GridSim; only the durations of reservations are guesses. It never looks for room.

use super::cpus::{CpuId, Work};
use bookahead_plan::{Capacity, Interval, Seconds, Time};

/// The steps of the busy-time hint, in the resource's unit.
const HINT_STEPS: [i64; 5] = [5, 10, 15, 30, 45];

/// A time zone as a fixed offset, daylight saving time included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Zone {
    ahead: Seconds,
}

/// What a wall clock shows, in seconds; means an instant only together with a [`Zone`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalTime(pub i64);

impl Zone {
    /// So many hours ahead of the common time; negative in the west.
    pub const fn hours(hours: i64) -> Zone {
        Zone { ahead: Seconds(hours.saturating_mul(3600)) }
    }

    /// What the clocks of the zone show at an instant.
    pub fn local(self, instant: Time) -> LocalTime {
        LocalTime((instant + self.ahead).0)
    }

    /// The instant at which the clocks of the zone show this.
    pub fn instant(self, shown: LocalTime) -> Time {
        Time(shown.0) - self.ahead
    }
}

/// A job, by a number that its submitter chooses and keeps unique on the resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(pub u32);

/// Something to compute on one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Its name.
    pub id: JobId,
    /// Its size; of a job that was paused, what is left.
    pub work: Work,
    /// What becomes of it where its slot is too short.
    pub stopped: Stopped,
}

/// What becomes of a reserved job that is not done at the end of its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stopped {
    /// It is restartable: it joins the end of the queue and goes on from where it was. If the queue is empty and a CPU
    /// is free it goes on at once.
    Queue,
    /// It is not: it is pre-empted and goes back to its user unfinished.
    Return,
}

/// A stretch of time for which a job had a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The job.
    pub job: JobId,
    /// The CPU.
    pub cpu: CpuId,
    /// When.
    pub interval: Interval,
    /// The reservation in which it ran; none for a job from the queue.
    pub reservation: Option<ReservationId>,
}

/// A job that went back to its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Returned {
    /// The job.
    pub job: JobId,
    /// When.
    pub at: Time,
    /// What was not done: nothing where it was finished.
    pub left: Work,
}

/// A reservation of one resource, by the order in which they were accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReservationId(pub u32);

/// What a user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The user's time zone, in which `start` is meant.
    pub zone: Zone,
    /// From when.
    pub start: Start,
    /// For how long.
    pub duration: Seconds,
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
        /// About how much later there might be: 5, 10, 15, 30 or 45 of the resource's unit, rounded up; 45 also where
        /// it takes longer.
        hint: Seconds,
    },
    /// More CPUs than the resource has, or none.
    Width,
    /// The start lies in the past.
    InThePast,
    /// A duration below one second.
    NoDuration,
}

impl Request {
    /// When it is to start, given that it is now.
    pub(super) fn start_at(&self, now: Time) -> Time {
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
        if self.duration < Seconds(1) {
            return Err(Refusal::NoDuration);
        }
        Ok(())
    }
}

/// The hint for a resource that is busy for so long: the smallest step that is not shorter, or the largest.
pub(super) fn busy_hint(busy: Seconds, unit: Seconds) -> Seconds {
    let steps = HINT_STEPS.map(|step| Seconds(unit.0.max(1).saturating_mul(step)));
    steps.into_iter().find(|&step| step >= busy).unwrap_or(steps[HINT_STEPS.len() - 1])
}

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

    #[test]
    fn clocks_of_two_zones_show_one_instant_differently() {
        let (melbourne, chicago) = (Zone::hours(10), Zone::hours(-5));
        let noon = LocalTime(12 * 3600);
        let instant = melbourne.instant(noon);
        assert_eq!(instant, Time(2 * 3600));
        assert_eq!(chicago.local(instant), LocalTime(-3 * 3600));
        assert_eq!(chicago.instant(chicago.local(instant)), instant);
    }
}
