//! CPUs rated in million instructions per second (MIPS), work in million instructions (MI), and which of a resource's
//! CPUs are free. The fastest free CPU is taken first, of equals the one with the lowest number. It never says for
//! how long a CPU is free: that is the profile's business.

use bookahead_plan::Seconds;
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

/// The CPUs of a resource.
#[derive(Debug, Clone)]
pub(super) struct Cpus {
    ratings: Vec<Rating>,
    /// Fastest first.
    free: BTreeSet<(Reverse<Rating>, CpuId)>,
}

impl Cpus {
    /// All free.
    pub(super) fn new(ratings: Vec<Rating>) -> Cpus {
        let free = (0..).zip(&ratings).map(|(at, &rating)| (Reverse(rating), CpuId(at))).collect();
        Cpus { ratings, free }
    }

    pub(super) fn rating(&self, cpu: CpuId) -> Rating {
        self.ratings[cpu.0 as usize]
    }

    /// The one that would be taken next.
    pub(super) fn fastest_free(&self) -> Option<CpuId> {
        self.free.first().map(|&(_, cpu)| cpu)
    }

    pub(super) fn take(&mut self, cpu: CpuId) {
        let was_free = self.free.remove(&(Reverse(self.rating(cpu)), cpu));
        debug_assert!(was_free, "only a free CPU is taken");
    }

    pub(super) fn give_back(&mut self, cpu: CpuId) {
        let is_new = self.free.insert((Reverse(self.rating(cpu)), cpu));
        debug_assert!(is_new, "only a taken CPU is given back");
    }
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
}
