//! Shared by the benches: deterministic random numbers, timing, baselines, and the comparison of measured ratios with
//! committed ones. Benches print times and ratios to a baseline measured in the same run. Only ratios are checked,
//! because times are not reliable on a shared machine.

mod bare;
mod guard;
pub mod peer;
mod plain;
mod tokens;

pub use bare::{bare_easy, replanned_conservative};
pub use guard::{Guard, Report, guard};
pub use plain::PlainProfile;
use std::error::Error;
use std::hint::black_box;
use std::time::Duration;
pub use tokens::Secret;

/// What a bench returns.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

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

/// How long the calling thread has computed. Unlike a clock it stands still while other processes use the processor.
pub struct CpuTime(Duration);

impl CpuTime {
    /// Reading it takes about 0.3 µs.
    pub fn now() -> CpuTime {
        let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
        CpuTime(time.expect("every thread has a clock").into())
    }

    /// Since that time, in the same thread.
    pub fn elapsed(&self) -> Duration {
        CpuTime::now().0.saturating_sub(self.0)
    }
}

/// Something to measure: makes a number of calls and says how long they took.
pub type Timed<'a> = Box<dyn FnMut(u32) -> Duration + 'a>;

/// Measures calls without the cost of an indirect call for each.
pub fn timed<'a, T>(mut call: impl FnMut() -> T + 'a) -> Timed<'a> {
    Box::new(move |calls| {
        let start = CpuTime::now();
        for _ in 0..calls {
            black_box(call());
        }
        start.elapsed()
    })
}

/// Nanoseconds of one call of each: medians of batches that take turns, so that whatever slows the machine slows all
/// alike. After a warm-up, and within about `budget` for each.
pub fn in_turn<const N: usize>(budget: Duration, mut of: [Timed<'_>; N]) -> [f64; N] {
    let batches = of.each_mut().map(|timed| {
        let (mut took, mut calls) = (Duration::ZERO, 0u32);
        while took < budget / 8 {
            let more = calls.max(1);
            took += timed(more);
            calls += more;
        }
        // A batch takes about a sixteenth of the budget.
        let share = budget.as_secs_f64() / 16.0 / took.as_secs_f64();
        ((f64::from(calls) * share) as u32).max(1)
    });
    let begin = CpuTime::now();
    let mut times = [(); N].map(|()| Vec::new());
    while begin.elapsed() < budget * N as u32 {
        for ((timed, batch), times) in of.iter_mut().zip(batches).zip(&mut times) {
            times.push(timed(batch).as_nanos() as f64 / f64::from(batch));
        }
    }
    times.map(median)
}

/// Nanoseconds of one call.
pub fn nanoseconds<T>(budget: Duration, call: impl FnMut() -> T) -> f64 {
    let [time] = in_turn(budget, [timed(call)]);
    time
}

/// The middle one of at least one figure.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
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
