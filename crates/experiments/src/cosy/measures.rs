//! The runs of the experiment and their measures: one run for each seed, rule and share of reservations. Only the
//! measures of a run are kept, and of seed 1 the waits without reservations and at the largest share.

use super::site::{Answer, Asked, Decision, Fate, MACHINE, SHARES, draw, simulate};
use crate::{Estimate, Progress, Scale, run_each};
use bookahead_plan::Seconds;
use bookahead_plan::notice::{NoticeRule, Predictor, QuantileBound};

/// Jobs of a run: months at the load of the experiment, so that each seed has many busy days.
const JOBS: usize = 20_000;
/// Jobs of a quick run.
const QUICK_JOBS: usize = 4000;
/// The first 1/`WARM_UP` of the jobs is not measured: the machine and the history are empty at first.
const WARM_UP: usize = 10;

/// Factors of the mean wait, in hundredths, starting with 0.
pub(super) const FACTORS: [u32; 5] = [0, 50, 100, 200, 400];
/// Index of factor 1 in [`RULES`]: from it on, a notice is at least the predicted wait.
pub(super) const FACTOR_ONE: usize = 2;
/// Index of the quantile bound in [`RULES`].
pub(super) const QUANTILE: usize = FACTORS.len();

/// The compared rules: the mean wait with each factor, then the quantile bound.
pub(super) const RULES: [NoticeRule; FACTORS.len() + 1] = [
    mean_times(FACTORS[0]),
    mean_times(FACTORS[1]),
    mean_times(FACTORS[2]),
    mean_times(FACTORS[3]),
    mean_times(FACTORS[4]),
    NoticeRule { predictor: Predictor::Quantile(QuantileBound::USUAL), percent: 100 },
];

const fn mean_times(percent: u32) -> NoticeRule {
    NoticeRule { predictor: Predictor::Mean, percent }
}

/// Classes of jobs by processors: name and largest size.
pub(super) const CLASSES: [(&str, u32); 4] =
    [("1 processor", 1), ("2 to 8", 8), ("9 to 32", 32), ("33 to 128", u32::MAX)];
/// Runs shorter than this count as this long in slowdowns, as usual, because very short jobs would dominate the mean.
const SHORTEST_RUN: f64 = 10.0;

/// Measures of one run. Times are in hours, shares from 0 to 1; a mean without values is zero.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Measures {
    /// Mean wait of the jobs that queue in every run.
    pub(super) wait: f64,
    /// Share of requests that were granted.
    pub(super) granted: f64,
    /// Share of requests with too short a notice.
    pub(super) too_short: f64,
    /// Share of requests without room.
    pub(super) no_room: f64,
    /// Mean required notice.
    pub(super) needed: f64,
    /// How much earlier granted reservations start than as jobs, planned with real run times.
    pub(super) advantage: f64,
    /// The same, planned with estimates.
    pub(super) planned_advantage: f64,
    /// Share of granted reservations that start earlier than as jobs.
    pub(super) gaining: f64,
    /// Waits of refused requests in the queue: real, and by the two plans.
    pub(super) refused: Waits,
    /// Mean bounded slowdown of the jobs that queue in every run, in each of [`CLASSES`].
    pub(super) slowdown: [f64; CLASSES.len()],
}

impl Measures {
    /// How much earlier a reservation with the shortest allowed notice would start than as a job, on average. Requests
    /// are a random sample of the jobs, so the mean wait of queued jobs is also that of the requests as jobs.
    pub(super) fn shortest_advantage(&self) -> f64 {
        self.wait - self.needed
    }
}

/// Selects a measure of a run.
pub(super) type Figure = fn(&Measures) -> f64;

/// Mean wait of the same requests: real, planned with real run times, and planned with estimates.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Waits {
    pub(super) real: f64,
    pub(super) informed: f64,
    pub(super) planned: f64,
}

/// The runs of one seed, in the order of [`RULES`] and [`SHARES`].
type Runs = [[Measures; SHARES.len()]; RULES.len()];

pub(super) struct Results {
    runs: Vec<Runs>,
    /// Of seed 1: rule, share, and the waits in minutes of the jobs that queue in every run.
    waits: Vec<(usize, usize, Vec<f64>)>,
}

pub(super) fn run(scale: &Scale, progress: Progress<'_>) -> Results {
    let seeds = scale.seeds.max(1);
    let count = if scale.quick { QUICK_JOBS } else { JOBS };
    let workloads = scale.each_seed().map(|seed| draw(seed, count)).collect::<Vec<_>>();
    let mut inputs = Vec::new();
    for seed in 0..seeds {
        // Without reservations all rules are the same.
        inputs.push((seed, 0, 0));
        inputs.extend((0..RULES.len()).flat_map(|rule| (1..SHARES.len()).map(move |at| (seed, rule, at))));
    }
    let measured = run_each(&inputs, scale, progress, |&(seed, rule, at)| {
        let jobs = &workloads[seed];
        let fates = simulate(MACHINE, jobs, SHARES[at], RULES[rule]);
        let shown = seed == 0 && (at == 0 || at + 1 == SHARES.len());
        (
            measure(jobs, &fates),
            shown.then(|| queued(jobs, &fates).map(|(_, wait)| wait.0 as f64 / 60.0).collect()),
        )
    });
    let mut runs = vec![[[Measures::default(); SHARES.len()]; RULES.len()]; seeds];
    let mut waits = Vec::new();
    for (&(seed, rule, at), (measures, shown)) in inputs.iter().zip(measured) {
        runs[seed][rule][at] = measures;
        waits.extend(shown.map(|shown| (rule, at, shown)));
        if at == 0 {
            runs[seed].iter_mut().for_each(|rule| rule[0] = measures);
        }
    }
    Results { runs, waits }
}

impl Results {
    /// The waits of seed 1 in minutes, of the jobs that queue in every run; only without reservations (with rule 0) and
    /// at the largest share.
    pub(super) fn waits(&self, rule: usize, share: usize) -> &[f64] {
        let found = self.waits.iter().find(|(of_rule, of_share, _)| (*of_rule, *of_share) == (rule, share));
        found.map_or(&[], |(.., waits)| waits)
    }

    /// A measure over the seeds; `rule` and `share` are indices.
    pub(super) fn estimate(&self, rule: usize, share: usize, of: impl Fn(&Measures) -> f64) -> Estimate {
        self.per_seed(|run| of(&run[rule][share]))
    }

    /// Relative increase of the queue wait against that without reservations. Computed seed by seed, because the jobs
    /// of a seed are the same in all runs.
    pub(super) fn increase(&self, rule: usize, share: usize) -> Estimate {
        self.per_seed(|run| increase(run, rule, share))
    }

    /// The smallest factor of the mean wait that keeps the increase at a share within `tolerated`, seed by seed, by
    /// linear interpolation. If even the largest factor does not, the largest is used.
    pub(super) fn needed_factor(&self, share: usize, tolerated: f64) -> Estimate {
        self.per_seed(|run| {
            let increases = std::array::from_fn(|rule| increase(run, rule, share));
            needed_factor(&increases, tolerated)
        })
    }

    /// Number of seeds in which not even the largest factor keeps the increase within `tolerated`.
    pub(super) fn out_of_reach(&self, share: usize, tolerated: f64) -> usize {
        let beyond = |run: &&Runs| (0..FACTORS.len()).all(|rule| increase(run, rule, share) > tolerated);
        self.runs.iter().filter(beyond).count()
    }

    fn per_seed(&self, of: impl Fn(&Runs) -> f64) -> Estimate {
        Estimate::of(&self.runs.iter().map(of).collect::<Vec<f64>>())
    }
}

fn increase(run: &Runs, rule: usize, share: usize) -> f64 {
    // A queue without any wait has no relative increase.
    let none = run[rule][0].wait;
    if none > 0.0 { run[rule][share].wait / none - 1.0 } else { 0.0 }
}

/// See [`Results::needed_factor`].
fn needed_factor(increases: &[f64; FACTORS.len()], tolerated: f64) -> f64 {
    let factor = |at: usize| f64::from(FACTORS[at]) / 100.0;
    match increases.iter().position(|&increase| increase <= tolerated) {
        None => factor(FACTORS.len() - 1),
        Some(0) => factor(0),
        Some(at) => {
            // `before` is above the tolerated increase and `after` is not, so the divisor is positive.
            let (before, after) = (increases[at - 1], increases[at]);
            factor(at - 1) + (factor(at) - factor(at - 1)) * (before - tolerated) / (before - after)
        }
    }
}

/// The jobs after the warm-up, each with its fate.
fn after_warm_up<'a>(jobs: &'a [Asked], fates: &'a [Fate]) -> impl Iterator<Item = (&'a Asked, &'a Fate)> {
    jobs.iter().zip(fates).skip(jobs.len() / WARM_UP)
}

/// The measured jobs that queue in every run, with their waits.
fn queued<'a>(jobs: &'a [Asked], fates: &'a [Fate]) -> impl Iterator<Item = (&'a Asked, Seconds)> {
    let always = after_warm_up(jobs, fates).filter(|(asked, _)| asked.always_queues());
    always.map(|(asked, fate)| (asked, fate.start - asked.job.asked.submit))
}

/// Mean bounded slowdown of the jobs of a class.
fn slowdown<'a>(class: usize, queued: impl Iterator<Item = (&'a Asked, Seconds)>) -> f64 {
    let size = |asked: &Asked| asked.job.asked.capacity.0;
    let here =
        queued.filter(|(asked, _)| CLASSES.iter().position(|(_, most)| size(asked) <= *most) == Some(class));
    let (sum, count) = here.fold((0.0, 0u32), |(sum, count), (asked, wait)| {
        let run = asked.job.run.0 as f64;
        (sum + ((wait.0 as f64 + run) / run.max(SHORTEST_RUN)).max(1.0), count + 1)
    });
    sum / f64::from(count.max(1))
}

fn measure(jobs: &[Asked], fates: &[Fate]) -> Measures {
    let measured = || after_warm_up(jobs, fates);
    let waited = |(asked, fate): (&Asked, &Fate)| fate.start - asked.job.asked.submit;
    let decisions = || measured().filter_map(|(asked, fate)| Some((asked, fate, fate.asked?)));
    let answered = |answer: Answer| share(decisions().map(|(.., decision)| decision.answer == answer));
    let granted = || decisions().filter(|(.., decision)| decision.answer == Answer::Granted);
    let refused = || decisions().filter(|(.., decision)| decision.answer != Answer::Granted);
    let of_refused = |wait: fn(&Decision) -> Seconds| mean(refused().map(|(.., decision)| wait(&decision)));
    Measures {
        wait: mean(queued(jobs, fates).map(|(_, wait)| wait)),
        slowdown: std::array::from_fn(|class| slowdown(class, queued(jobs, fates))),
        granted: answered(Answer::Granted),
        too_short: answered(Answer::TooShort),
        no_room: answered(Answer::NoRoom),
        needed: mean(decisions().map(|(.., decision)| decision.needed)),
        advantage: mean(granted().map(|(asked, _, decision)| less(decision.informed_wait, asked.book_ahead))),
        planned_advantage: mean(
            granted().map(|(asked, _, decision)| less(decision.planned_wait, asked.book_ahead)),
        ),
        gaining: share(granted().map(|(asked, _, decision)| decision.informed_wait > asked.book_ahead)),
        refused: Waits {
            real: mean(refused().map(|(asked, fate, _)| waited((asked, fate)))),
            informed: of_refused(|decision| decision.informed_wait),
            planned: of_refused(|decision| decision.planned_wait),
        },
    }
}

fn less(wait: Seconds, by: Seconds) -> Seconds {
    Seconds(wait.0.saturating_sub(by.0))
}

/// In hours. Summed as integers, so that the result does not depend on the order.
fn mean(lengths: impl Iterator<Item = Seconds>) -> f64 {
    let (sum, count) =
        lengths.fold((0i128, 0u32), |(sum, count), length| (sum + i128::from(length.0), count + 1));
    sum as f64 / 3600.0 / f64::from(count.max(1))
}

fn share(hits: impl Iterator<Item = bool>) -> f64 {
    let (hits, count) = hits.fold((0u32, 0u32), |(hits, count), hit| (hits + u32::from(hit), count + 1));
    f64::from(hits) / f64::from(count.max(1))
}

#[cfg(test)]
impl Results {
    /// Results made by hand, from the measures of a seed (from 0 on), rule and share.
    pub(super) fn made(seeds: usize, measures: impl Fn(usize, usize, usize) -> Measures) -> Results {
        let rule = |seed, rule| std::array::from_fn(|share| measures(seed, rule, share));
        let run = |seed| std::array::from_fn(|at| rule(seed, at));
        Results { runs: (0..seeds).map(run).collect(), waits: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_needed_factor_lies_on_the_line_between_two_runs() {
        let increases = [0.5, 0.3, 0.2, 0.1, 0.05];
        // Half way between the factors 1 and 2.
        assert!((needed_factor(&increases, 0.15) - 1.5).abs() < 1e-12);
        assert!((needed_factor(&increases, 0.5) - 0.0).abs() < 1e-12);
        assert!((needed_factor(&increases, 0.01) - 4.0).abs() < 1e-12);
    }
}
