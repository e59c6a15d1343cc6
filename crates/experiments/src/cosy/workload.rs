//! The jobs of the experiment, and which of them would rather have a reservation. Both are functions of the seed: a job
//! that asks for a reservation at a small share asks for the same one at every larger share.

use bookahead_plan::{Capacity, Seconds};
use bookahead_sim::Job;
use bookahead_workload::models::{Cirne, Setting};

/// The machine: a cluster of the size that was usual for the systems in the archive that the model is fitted to.
pub(super) const MACHINE: Capacity = Capacity(128);
/// The offered load, run times counted: high enough that most of the day somebody waits.
pub(super) const LOAD: f64 = 0.7;
/// Reservations are asked for up to so long ahead, every second alike: "today".
pub(super) const LONGEST_BOOK_AHEAD: Seconds = Seconds(24 * 3600);
/// The shares of jobs that ask for a reservation, in per cent, from none on.
pub(super) const SHARES: [u32; 6] = [0, 5, 10, 20, 30, 40];
/// The largest of them. Jobs beyond it are never reservations: theirs is the wait that is compared.
const LARGEST_SHARE: u32 = SHARES[SHARES.len() - 1];

/// A job, and the reservation that its owner might ask for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// The job: what is asked for, and how long it really runs.
    pub(super) job: Job,
    /// How long after its submission it would have to start.
    pub(super) book_ahead: Seconds,
    /// From 0 to 1: it asks for a reservation where the share is above this.
    chance: f64,
}

impl Asked {
    /// Whether the owner asks for a reservation where `share` per cent do.
    pub(super) fn wants_reservation(&self, share: u32) -> bool {
        self.chance < f64::from(share) / 100.0
    }

    /// Whether it is in the queue in every run.
    pub(super) fn always_queues(&self) -> bool {
        !self.wants_reservation(LARGEST_SHARE)
    }
}

/// Draws the jobs.
pub(super) fn draw(seed: u64, jobs: usize) -> Vec<Asked> {
    let setting = Setting { jobs, processors: MACHINE, load: Some(LOAD), seed };
    let drawn = Cirne { setting, ..Cirne::default() }.generate();
    let drawn = drawn.expect("the model draws from the constants above");
    drawn.iter().zip(0..).map(|(job, number)| ask(seed, number, job.into())).collect()
}

fn ask(seed: u64, number: u64, job: Job) -> Asked {
    let ahead = unit(seed, number, 1) * LONGEST_BOOK_AHEAD.0 as f64;
    Asked { job, book_ahead: Seconds(ahead as i64), chance: unit(seed, number, 0) }
}

/// Uniform in [0, 1): a number for each seed, job and purpose, by the mixing function of SplitMix64 (G. Steele, D. Lea,
/// C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
fn unit(seed: u64, number: u64, purpose: u64) -> f64 {
    let mixed = mix(mix(mix(seed) ^ number) ^ purpose);
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixing_function_is_the_published_one() {
        // The first number of the generator that begins with the state 0.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn shares_are_kept_and_nested_and_book_ahead_times_fill_their_range() {
        let asked = draw(1, 10_000);
        for share in SHARES {
            let count = asked.iter().filter(|asked| asked.wants_reservation(share)).count();
            assert!((count as f64 / 100.0 - f64::from(share)).abs() < 1.5, "{share}: {count}");
        }
        assert!(asked.iter().all(|asked| !asked.wants_reservation(5) || asked.wants_reservation(10)));
        let mean = asked.iter().map(|asked| asked.book_ahead.0).sum::<i64>() / 10_000;
        assert!((mean - LONGEST_BOOK_AHEAD.0 / 2).abs() < 1000, "{mean}");
        assert!(asked.iter().all(|asked| asked.book_ahead < LONGEST_BOOK_AHEAD));
    }
}
