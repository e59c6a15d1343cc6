//! The grid model of GridSim: resources of rated CPUs with a first-come-first-served queue and advance reservations.
//! All commitments are kept in an availability profile of `bookahead_plan`. Resources are independent of each other,
//! and a run depends only on the operations and their times.
//!
//! CPUs are rated in million instructions per second (MIPS), work is in million instructions (MI). A job occupies one
//! CPU at a time; a parallel application is a list of jobs. The declared size of a job is exact, as in GridSim; only
//! the durations of reservations are estimates.
//!
//! After A. Sulistio and R. Buyya, *A Grid simulation infrastructure supporting advance reservation* (2004).

mod resource;

pub use resource::{CommitError, Counted, Resource, Rules};

use bookahead_plan::{Capacity, Interval, Seconds, Time};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// An amount of computing, in million instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Work(pub u64);

/// The speed of a CPU, in million instructions per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rating(pub u32);

/// A CPU, by its index in the resource's list of ratings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuId(pub u32);

impl Work {
    /// No work left.
    pub const NONE: Work = Work(0);

    /// Run time on a CPU of this rating, in whole seconds rounded up, and at least one.
    pub(crate) fn run_time(self, rating: Rating) -> Seconds {
        // Rounded up, so that `after` finds no work left at the end. At least one second, because an empty
        // interval is not recorded as a piece and the job would seem never to have run.
        let seconds = self.0.div_ceil(u64::from(rating.0.max(1))).max(1);
        Seconds(i64::try_from(seconds).unwrap_or(i64::MAX))
    }

    /// The work left after a CPU of this rating has run for `length`.
    pub fn after(self, rating: Rating, length: Seconds) -> Work {
        // A job that ends by itself has up to a second more than it needs; the rest saturates to zero.
        let done = u64::from(rating.0).saturating_mul(length.0.max(0).cast_unsigned());
        Work(self.0.saturating_sub(done))
    }
}

/// The free CPUs of a resource. The fastest is taken first; ties go to the lowest number.
#[derive(Debug, Clone)]
struct Cpus {
    ratings: Vec<Rating>,
    /// Fastest first.
    free: BTreeSet<(Reverse<Rating>, CpuId)>,
}

impl Cpus {
    fn new(ratings: Vec<Rating>) -> Cpus {
        let free = (0..).zip(&ratings).map(|(at, &rating)| (Reverse(rating), CpuId(at))).collect();
        Cpus { ratings, free }
    }

    fn rating(&self, cpu: CpuId) -> Rating {
        self.ratings[cpu.0 as usize]
    }

    /// The CPU that would be taken next.
    fn fastest_free(&self) -> Option<CpuId> {
        self.free.first().map(|&(_, cpu)| cpu)
    }

    fn take(&mut self, cpu: CpuId) {
        let was_free = self.free.remove(&(Reverse(self.rating(cpu)), cpu));
        debug_assert!(was_free, "only a free CPU is taken");
    }

    fn give_back(&mut self, cpu: CpuId) {
        let is_new = self.free.insert((Reverse(self.rating(cpu)), cpu));
        debug_assert!(is_new, "only a taken CPU is released");
    }
}

/// The steps of the busy-time hint in the paper, in the resource's unit.
const HINT_STEPS: [i64; 5] = [5, 10, 15, 30, 45];

/// A time zone as a fixed offset, including daylight saving time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Zone {
    ahead: Seconds,
}

/// Wall-clock time in seconds; an instant only together with a [`Zone`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalTime(pub i64);

impl Zone {
    /// Hours ahead of UTC; negative in the west.
    pub const fn hours(hours: i64) -> Zone {
        Zone { ahead: Seconds(hours.saturating_mul(3600)) }
    }

    /// The wall-clock time of the zone at an instant.
    pub fn local(self, instant: Time) -> LocalTime {
        LocalTime((instant + self.ahead).0)
    }

    /// The instant of a wall-clock time in the zone.
    pub fn instant(self, shown: LocalTime) -> Time {
        Time(shown.0) - self.ahead
    }
}

/// Job number, chosen by the submitter; must be unique on the resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(pub u32);

/// A computation on one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Unique on the resource.
    pub id: JobId,
    /// Its size; after an interruption, the work left.
    pub work: Work,
    /// What happens to it if its slot is too short.
    pub stopped: Stopped,
}

/// What happens to a reserved job that is not done at the end of its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stopped {
    /// Restartable: it joins the end of the queue and continues from where it was stopped. If the queue is empty and a
    /// CPU is free, it continues at once.
    Queue,
    /// Not restartable: it is pre-empted and returned to its user unfinished.
    Return,
}

/// An interval in which a job had a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Job that had the CPU.
    pub job: JobId,
    /// CPU that it ran on.
    pub cpu: CpuId,
    /// Never empty.
    pub interval: Interval,
    /// The reservation in which it ran; None for a job from the queue.
    pub reservation: Option<ReservationId>,
}

/// A job that was returned to its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Returned {
    /// Job that was returned.
    pub job: JobId,
    /// Time of its end, or of the end of its slot.
    pub at: Time,
    /// Work left; [`Work::NONE`] if it finished.
    pub left: Work,
}

/// A reservation of one resource, numbered in the order of acceptance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReservationId(pub u32);

/// A reservation request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The user's time zone, which `start` refers to.
    pub zone: Zone,
    /// Start of the slot.
    pub start: Start,
    /// At least one second.
    pub duration: Seconds,
    /// Number of CPUs, from 1 to those of the resource.
    pub cpus: u32,
}

/// The requested start of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At once: an immediate reservation.
    Now,
    /// At this wall-clock time of the user: an advance reservation.
    At(LocalTime),
}

/// An accepted request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Booked {
    /// Used to commit it.
    pub id: ReservationId,
    /// The reserved interval.
    pub slot: Interval,
    /// It must be committed before this time.
    pub expires: Time,
}

/// A refused request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There is no room at the requested time.
    Busy {
        /// About how much later there might be room: 5, 10, 15, 30 or 45 of the resource's unit, rounded up; 45 also if
        /// it takes longer.
        hint: Seconds,
    },
    /// More CPUs than the resource has, or none.
    Width,
    /// The start is in the past.
    InThePast,
    /// A duration below one second.
    NoDuration,
}

impl Request {
    /// The requested start as an instant.
    fn start_at(&self, now: Time) -> Time {
        match self.start {
            Start::Now => now,
            Start::At(shown) => self.zone.instant(shown),
        }
    }

    /// Fails if no resource with this number of CPUs could ever grant the request.
    fn check(&self, now: Time, cpus: Capacity) -> Result<(), Refusal> {
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

/// The smallest step that is not shorter than `busy`, or the largest step.
fn busy_hint(busy: Seconds, unit: Seconds) -> Seconds {
    let steps = HINT_STEPS.map(|step| Seconds(unit.0.max(1).saturating_mul(step)));
    // A user who retries after a hint that is too short is refused again, so the hint is rounded up. No step
    // is longer than 45 units in the paper, however long the resource is busy.
    steps.into_iter().find(|&step| step >= busy).unwrap_or(steps[HINT_STEPS.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_times_are_rounded_up_to_whole_seconds() {
        assert_eq!(Work(8_000_000).run_time(Rating(377)), Seconds(21_221));
        assert_eq!(Work(754).run_time(Rating(377)), Seconds(2));
        assert_eq!(Work::NONE.run_time(Rating(377)), Seconds(1));
    }

    #[test]
    fn the_fastest_free_cpu_is_taken_first_then_the_lowest_number() {
        let mut cpus = Cpus::new([400, 700, 700].map(Rating).to_vec());
        let mut order = Vec::new();
        while let Some(cpu) = cpus.fastest_free() {
            cpus.take(cpu);
            order.push(cpu.0);
        }
        assert_eq!(order, [1, 2, 0]);
        cpus.give_back(CpuId(0));
        cpus.give_back(CpuId(2));
        assert_eq!(cpus.fastest_free(), Some(CpuId(2)));
    }

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
