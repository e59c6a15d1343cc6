//! Shared by the benches: deterministic random numbers, timing, and formatting of figures. Benches print nanoseconds
//! and ratios to a baseline measured in the same run. They do not assert times, which are not reliable on a shared
//! machine.

mod bare;
mod plain;

pub use bare::{bare_easy, replanned_conservative};
pub use plain::PlainProfile;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The allocator of the program that is installed.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// xorshift64*: random enough for a bench, and the same on every machine.
pub struct Chance(u64);

impl Chance {
    /// Any seed is fine, zero included.
    pub fn new(seed: u64) -> Chance {
        Chance(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// Uniform in `0..below`.
    pub fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16;
        drawn % below
    }

    /// Uniform in `low..=high`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }
}

/// Nanoseconds of one call: the median of several batches, after a warm-up, within about `budget`.
pub fn nanoseconds<T>(budget: Duration, mut call: impl FnMut() -> T) -> f64 {
    let warm = Instant::now();
    let mut calls = 0u32;
    while warm.elapsed() < budget / 8 || calls == 0 {
        black_box(call());
        calls += 1;
    }
    let batch = (calls / 2).max(1);
    let begin = Instant::now();
    let mut batches = Vec::new();
    while begin.elapsed() < budget || batches.is_empty() {
        let start = Instant::now();
        for _ in 0..batch {
            black_box(call());
        }
        batches.push(start.elapsed().as_nanos() as f64 / f64::from(batch));
    }
    batches.sort_by(f64::total_cmp);
    batches[batches.len() / 2]
}

/// A duration for people: `830 ns`, `1.24 µs`, `3.6 ms`.
pub fn people(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n.is_nan() => "-".to_owned(),
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.2} µs", n / 1e3),
        n if n < 1e9 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}
