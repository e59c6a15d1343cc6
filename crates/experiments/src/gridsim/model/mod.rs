//! A computational grid as GridSim models it: resources of rated CPUs with a first-come-first-served queue and
//! advance reservations. It relies on the availability profile of the plan for every promise. Resources know nothing
//! of one another, and a run is a function of what is asked of it and when.
//!
//! CPUs are rated in million instructions per second (MIPS), work is in million instructions (MI). A job occupies one CPU
//! at a time; a parallel application is a list of jobs. The size of a job is declared with it and exact, as in GridSim;
//! only the durations of reservations are guesses.
//!
//! After A. Sulistio and R. Buyya, *A Grid simulation infrastructure supporting advance reservation* (2004).

mod resource;

pub use resource::{CommitError, Resource, Rules};

use bookahead_plan::{Capacity, Interval, Seconds, Time};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// An amount of computing, in million instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Work(pub u64);

/// The speed of a CPU, in million instructions per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rating(pub u32);

/// A CPU, by its place in the resource's list of ratings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuId(pub u32);

impl Work {
    /// Nothing.
    pub const NONE: Work = Work(0);

    /// How long a CPU of this rating takes, in whole seconds rounded up, and at least one.
    pub fn run_time(self, rating: Rating) -> Seconds {
        let seconds = self.0.div_ceil(u64::from(rating.0.max(1))).max(1);
        Seconds(i64::try_from(seconds).unwrap_or(i64::MAX))
    }

    /// What is left after a CPU of this rating has worked on it for so long.
    pub fn after(self, rating: Rating, length: Seconds) -> Work {
        let done = u64::from(rating.0).saturating_mul(length.0.max(0).cast_unsigned());
        Work(self.0.saturating_sub(done))
    }
}

/// Which CPUs of a resource are free, never for how long. The fastest is taken first, of equals the one with the lowest
/// number.
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

    /// The one that would be taken next.
    fn fastest_free(&self) -> Option<CpuId> {
        self.free.first().map(|&(_, cpu)| cpu)
    }

    fn take(&mut self, cpu: CpuId) {
        let was_free = self.free.remove(&(Reverse(self.rating(cpu)), cpu));
        debug_assert!(was_free, "only a free CPU is taken");
    }

    fn give_back(&mut self, cpu: CpuId) {
        let is_new = self.free.insert((Reverse(self.rating(cpu)), cpu));
        debug_assert!(is_new, "only a taken CPU is given back");
    }
}

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
    fn start_at(&self, now: Time) -> Time {
        match self.start {
            Start::Now => now,
            Start::At(shown) => self.zone.instant(shown),
        }
    }

    /// The refusal of a request that no resource with so many CPUs could ever grant.
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

/// The hint for a resource that is busy for so long: the smallest step that is not shorter, or the largest.
fn busy_hint(busy: Seconds, unit: Seconds) -> Seconds {
    let steps = HINT_STEPS.map(|step| Seconds(unit.0.max(1).saturating_mul(step)));
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
