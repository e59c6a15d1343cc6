//! The job broker: ranking, the best of three reservations, and races of copies.

mod choice;
mod choice_faults;
mod race;
mod race_faults;
mod ranking;
mod sites;

use bookahead_plan::Capacity;
use bookahead_protocol::jobs::{Site, Task};
use bookahead_protocol::{Millis, Resource};
use bookahead_tests::cases::fewer;

/// Random numbers for fault tests, from a seed (SplitMix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..count`.
    fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }

    fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }
}

/// The seeds of the fault tests; a quarter of them with `./test --quick`.
fn seeds(count: u64) -> std::ops::Range<u64> {
    0..fewer(count)
}

fn site(name: &str, cores: u32, rate: u32) -> Site {
    Site {
        resource: Resource::new(name, "cluster", "processors", cores),
        rates: vec![rate],
        requested: 0,
        longest_wall_time: Millis::seconds(3_600),
        bandwidth: None,
        hold_time: Millis::seconds(10),
        notice: Millis::ZERO,
    }
}

/// Four cores for ten minutes on a machine with 2000 MHz.
fn task() -> Task {
    Task {
        cores: Capacity(4),
        run: Millis::seconds(600),
        rate: 2_000,
        files: Vec::new(),
        kind: "processors".into(),
        requirements: Vec::new(),
        description: Default::default(),
    }
}
