//! Sources of local jobs for sites without a batch system: none, a list repeated forever, or a steady stream. Each is
//! an iterator, so an endless workload needs no more memory than its next job. The jobs depend only on the input and
//! the seed; there is no floating-point arithmetic.

use bookahead_plan::{Capacity, Seconds, Time};

/// A simulated local job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalJob {
    /// Time of submission.
    pub submit: Time,
    /// Run time limit as estimated by its owner; the job is killed then.
    pub estimate: Seconds,
    /// Actual run time.
    pub run: Seconds,
    /// Capacity that it needs.
    pub capacity: Capacity,
}

/// Local jobs in order of submission. A job with an earlier time than its predecessor is taken to come with it. The
/// number of jobs before any instant must be finite, or time could not pass it.
pub trait Source: Iterator<Item = LocalJob> + Send {}

impl<Jobs: Iterator<Item = LocalJob> + Send> Source for Jobs {}

/// A source without jobs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nothing;

impl Iterator for Nothing {
    type Item = LocalJob;

    fn next(&mut self) -> Option<LocalJob> {
        None
    }
}

/// A list of jobs, repeated forever.
#[derive(Debug, Clone)]
pub struct Repeated {
    jobs: Vec<LocalJob>,
    period: Seconds,
    /// Offset of the current round from the times of the list.
    shift: Seconds,
    next: usize,
}

impl Repeated {
    /// The submit times of `jobs` count from `start`, and again from each `period` after it. A period shorter than
    /// the list is extended to its length.
    pub fn new(mut jobs: Vec<LocalJob>, period: Seconds, start: Time) -> Repeated {
        jobs.sort_by_key(|job| job.submit);
        let last = jobs.last().map_or(Time(0), |job| job.submit);
        // With a period of zero, endless rounds would come at one instant, and time could not pass it.
        let period = period.max(last - jobs.first().map_or(last, |job| job.submit)).max(Seconds(1));
        Repeated { jobs, period, shift: start - Time(0), next: 0 }
    }
}

impl Iterator for Repeated {
    type Item = LocalJob;

    fn next(&mut self) -> Option<LocalJob> {
        if self.next == self.jobs.len() {
            self.next = 0;
            self.shift = self.shift + self.period;
        }
        let job = self.jobs.get(self.next)?;
        self.next += 1;
        let submit = job.submit + self.shift;
        // At the end of time all rounds would come at once.
        (submit < Time::MAX).then_some(LocalJob { submit, ..*job })
    }
}

/// Parameters of a [`Steady`] stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mix {
    /// Capacity of the resource; wider jobs are left out.
    pub capacity: Capacity,
    /// Share of the capacity that the jobs use in the long run, in percent.
    pub load: u32,
    /// Widths of jobs, equally likely; list one twice to double its frequency.
    pub widths: Vec<Capacity>,
    /// Estimates of jobs, likewise. Actual run times are uniform up to the estimate, half of it on average.
    pub estimates: Vec<Seconds>,
}

/// An endless stream of independent jobs.
#[derive(Debug, Clone)]
pub struct Steady {
    widths: Vec<Capacity>,
    estimates: Vec<Seconds>,
    /// Mean time from one job to the next.
    gap: Milliseconds,
    at: Milliseconds,
    chance: Chance,
}

/// Gaps may be shorter than a second, so they are summed in milliseconds.
type Milliseconds = i128;

impl Steady {
    /// Jobs according to the mix, from `start` on. Empty if the mix has no jobs or no load.
    pub fn new(mix: &Mix, start: Time, seed: u64) -> Steady {
        let widths: Vec<Capacity> =
            mix.widths.iter().copied().filter(|width| (1..=mix.capacity.0).contains(&width.0)).collect();
        let estimates: Vec<Seconds> =
            mix.estimates.iter().copied().filter(|estimate| (1..=LONGEST).contains(&estimate.0)).collect();
        // Without jobs or load there is no mean; a gap of zero makes the stream empty.
        let gap = mean_gap(mix, &widths, &estimates).unwrap_or(0);
        Steady { widths, estimates, gap, at: i128::from(start.0) * 1_000, chance: Chance(seed) }
    }
}

/// Longest estimate in a stream, in seconds: about three hundred years, which keeps sums far from overflow.
const LONGEST: i64 = 10_000_000_000;

/// Mean gap from the load. A job uses on average the mean width for half of the mean estimate plus half a second (a
/// run lasts at least a second).
fn mean_gap(mix: &Mix, widths: &[Capacity], estimates: &[Seconds]) -> Option<Milliseconds> {
    let width: i128 = widths.iter().map(|width| i128::from(width.0)).sum();
    let estimate: i128 = estimates.iter().map(|estimate| i128::from(estimate.0) + 1).sum();
    let used = i128::from(mix.capacity.0) * i128::from(mix.load);
    let kinds = 2 * widths.len() as i128 * estimates.len() as i128;
    (width * estimate * 1_000 * 100).checked_div(used.checked_mul(kinds)?)
}

impl Iterator for Steady {
    type Item = LocalJob;

    fn next(&mut self) -> Option<LocalJob> {
        if self.gap == 0 {
            return None;
        }
        self.at += self.chance.gap(self.gap);
        let submit = i64::try_from(self.at.div_euclid(1_000)).ok()?;
        let capacity = *self.chance.one_of(&self.widths)?;
        let estimate = *self.chance.one_of(&self.estimates)?;
        let run = Seconds(1 + self.chance.below(estimate.0.unsigned_abs()).cast_signed());
        Some(LocalJob { submit: Time(submit), estimate, run, capacity })
    }
}

/// Pseudo-random numbers from the seed (splitmix64).
#[derive(Debug, Clone)]
struct Chance(u64);

impl Chance {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; zero if `end` is zero.
    fn below(&mut self, end: u64) -> u64 {
        // Multiply and shift: a remainder would favour small numbers.
        let product = u128::from(self.number()) * u128::from(end);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    fn one_of<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        let at = self.below(among.len() as u64);
        among.get(usize::try_from(at).ok()?)
    }

    /// Time between two independent arrivals: exponentially distributed, from a table.
    fn gap(&mut self, mean: Milliseconds) -> Milliseconds {
        let quantile = *self.one_of(&QUANTILES).unwrap_or(&0);
        mean * i128::from(quantile) * QUANTILES.len() as i128 / i128::from(QUANTILES_SUM)
    }
}

/// Quantiles of the exponential distribution with mean 1000, in the middle of 32 steps of equal probability.
const QUANTILES: [u32; 32] = [
    16, 48, 81, 116, 152, 189, 227, 267, 309, 352, 398, 445, 495, 548, 604, 662, 725, 792, 863, 940, 1023,
    1114, 1214, 1326, 1451, 1594, 1761, 1962, 2213, 2549, 3060, 4159,
];
const QUANTILES_SUM: u32 = {
    let (mut sum, mut at) = (0, 0);
    while at < QUANTILES.len() {
        sum += QUANTILES[at];
        at += 1;
    }
    sum
};
