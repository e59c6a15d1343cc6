//! Where the local jobs of a site without a batch system come from: nowhere, a list that is repeated for ever, or a
//! steady stream. Each is an iterator, so that a workload without end takes no more memory than its next job.
//! What comes is a function of what it was made from and of the seed; nothing here is a floating-point number.

use bookahead_plan::{Capacity, Seconds, Time};

/// A local job that is only pretended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalJob {
    /// When it comes.
    pub submit: Time,
    /// How long it will take at most, as its owner says; then it is ended.
    pub estimate: Seconds,
    /// How long it really takes.
    pub run: Seconds,
    /// What it needs.
    pub capacity: Capacity,
}

/// Local jobs in order of submission. One that comes too early for its place is taken to come together with the one
/// before it. Only so many may come before any instant, or time would not get past it.
pub trait Source: Iterator<Item = LocalJob> + Send {}

impl<Jobs: Iterator<Item = LocalJob> + Send> Source for Jobs {}

/// No local jobs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nothing;

impl Iterator for Nothing {
    type Item = LocalJob;

    fn next(&mut self) -> Option<LocalJob> {
        None
    }
}

/// A list of jobs, again and again.
#[derive(Debug, Clone)]
pub struct Repeated {
    jobs: Vec<LocalJob>,
    period: Seconds,
    /// What is added to the times of the list in this round.
    shift: Seconds,
    next: usize,
}

impl Repeated {
    /// The submit times of `jobs` count from `start`; after each `period` they count from there. A period that is shorter
    /// than the list is made as long as the list.
    pub fn new(mut jobs: Vec<LocalJob>, period: Seconds, start: Time) -> Repeated {
        jobs.sort_by_key(|job| job.submit);
        let last = jobs.last().map_or(Time(0), |job| job.submit);
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

/// What the jobs of a [`Steady`] stream are like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mix {
    /// What the resource has; wider jobs do not come.
    pub capacity: Capacity,
    /// How much of it the jobs use in the long run, in percent.
    pub load: u32,
    /// What jobs need, each as often as the others; name one twice and it is twice as frequent.
    pub widths: Vec<Capacity>,
    /// For how long jobs ask, likewise. They run for any part of it, half of it on average.
    pub estimates: Vec<Seconds>,
}

/// A stream of jobs that come independently of each other, without end.
#[derive(Debug, Clone)]
pub struct Steady {
    widths: Vec<Capacity>,
    estimates: Vec<Seconds>,
    /// From one job to the next, on average.
    gap: Milliseconds,
    at: Milliseconds,
    chance: Chance,
}

/// Gaps may be shorter than a second, so they are added up in finer steps.
type Milliseconds = i128;

impl Steady {
    /// Jobs like those of the mix, from `start` on. None come where the mix has no jobs or no load.
    pub fn new(mix: &Mix, start: Time, seed: u64) -> Steady {
        let widths: Vec<Capacity> =
            mix.widths.iter().copied().filter(|width| (1..=mix.capacity.0).contains(&width.0)).collect();
        let estimates: Vec<Seconds> =
            mix.estimates.iter().copied().filter(|estimate| (1..=LONGEST).contains(&estimate.0)).collect();
        let gap = mean_gap(mix, &widths, &estimates).unwrap_or(0);
        Steady { widths, estimates, gap, at: i128::from(start.0) * 1_000, chance: Chance(seed) }
    }
}

/// Jobs of a stream ask for at most so many seconds, which is three hundred years.
const LONGEST: i64 = 10_000_000_000;

/// A job takes on average the mean width for half of the mean estimate and half a second (a run is at least a second).
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

/// Numbers that look like chance and are a function of the seed (the generator known as splitmix64).
#[derive(Debug, Clone)]
struct Chance(u64);

impl Chance {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Any number below `end`; zero where there is none.
    fn below(&mut self, end: u64) -> u64 {
        let product = u128::from(self.number()) * u128::from(end);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    fn one_of<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        let at = self.below(among.len() as u64);
        among.get(usize::try_from(at).ok()?)
    }

    /// The time between two arrivals that know nothing of each other: exponentially distributed, from a table.
    fn gap(&mut self, mean: Milliseconds) -> Milliseconds {
        let quantile = *self.one_of(&QUANTILES).unwrap_or(&0);
        mean * i128::from(quantile) * QUANTILES.len() as i128 / i128::from(QUANTILES_SUM)
    }
}

/// The exponential distribution with mean 1000, in the middle of each of 32 steps of equal probability.
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
