//! Samples of test jobs with their estimated and real start. The estimate uses what a site knows at that moment; the
//! real start is that in the simulated cluster, with all jobs submitted later. The samples give the accuracy of
//! estimates and how often they rank two clusters correctly. Each drawing is an independent run, so that even one seed
//! gives margins.

use super::setup::{CLUSTERS, Drawn, PAIRS, SMALL, Size, TEST_JOBS, TestJob, WALL_TIMES, WORKLOADS};
use crate::{Estimate, Progress, Scale, run_each};
use bookahead_plan::metrics::prediction_accuracy;
use bookahead_plan::placement::Prober;
use bookahead_plan::{Need, Owner, Policy, Seconds, Time, Waiting};
use bookahead_sim::{EarliestFit, Fate, Job, Overrun, Site, freeze, simulate};

/// How a start is estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Estimator {
    /// As in the paper: each queued job at its first fit, in the order of the queue, then the test job.
    VacancyList,
    /// The queue is planned like the scheduler of the cluster does.
    OwnPolicy,
}

impl Estimator {
    pub(super) const ALL: [Estimator; 2] = [Estimator::VacancyList, Estimator::OwnPolicy];

    pub(super) fn name(self) -> &'static str {
        match self {
            Estimator::VacancyList => "vacancy list",
            Estimator::OwnPolicy => "the scheduler's own plan",
        }
    }

    fn policy(self) -> Policy {
        match self {
            Estimator::VacancyList => Policy::CONSERVATIVE,
            Estimator::OwnPolicy => LOCAL,
        }
    }
}

/// The scheduler of the clusters.
const LOCAL: Policy = Policy::EASY;

/// Estimated and real waits of one test job, from its submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sample {
    /// By [`Estimator::ALL`].
    pub(super) estimated: [Seconds; Estimator::ALL.len()],
    pub(super) real: Seconds,
}

impl Sample {
    /// Formula (8); None if the job is estimated to start at once and does, because the formula divides by the wait.
    pub(super) fn accuracy(&self, estimator: usize) -> Option<f64> {
        let nothing_to_predict = self.real == Seconds::ZERO && self.estimated[estimator] == Seconds::ZERO;
        (!nothing_to_predict).then(|| prediction_accuracy(self.estimated[estimator], self.real))
    }
}

/// All samples of one drawing: by test job, wall time, cluster, workload and moment.
pub(super) struct Samples {
    all: Vec<Sample>,
    moments: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    pub(super) test_job: usize,
    pub(super) wall_time: usize,
    pub(super) cluster: usize,
    pub(super) workload: usize,
}

impl Samples {
    /// Draws all workloads for all clusters, and submits the test jobs.
    pub(super) fn draw(seed: u64, drawing: usize, size: Size) -> Samples {
        let moments = size.moments;
        let blank = vec![Sample::default(); At::COUNT * moments];
        let mut samples = Samples { all: blank, moments };
        for (cluster, machine) in CLUSTERS.iter().enumerate() {
            for (workload, load) in WORKLOADS.iter().enumerate() {
                // Drawn once for all wall times: only the estimates differ between them, not the jobs.
                let drawn = Drawn::new(load, machine, seed, drawing, moments);
                for wall_time in 0..WALL_TIMES.len() {
                    samples.submit(&drawn, cluster, workload, wall_time);
                }
            }
        }
        samples
    }

    fn submit(&mut self, drawn: &Drawn, cluster: usize, workload: usize, wall_time: usize) {
        let site = Site { policy: LOCAL, capacity: CLUSTERS[cluster].capacity(), overrun: Overrun::Kill };
        let jobs = drawn.jobs(WALL_TIMES[wall_time]);
        let mut prober = Prober::default();
        for (moment, &now) in drawn.moments.iter().enumerate() {
            let frozen = freeze(site, &jobs, now);
            // Planned once for both test jobs: the plan has only the jobs that are there without them.
            let rooms =
                Estimator::ALL.map(|estimator| prober.room(estimator.policy(), &frozen.cluster(), true));
            for (test_job, test) in TEST_JOBS.iter().enumerate() {
                let need = Need { capacity: test.cores, length: test.wall_time };
                // Always fits, because the test jobs are smaller than the clusters. If not, `real_wait` has
                // the same maximum.
                let estimated =
                    |at: usize| rooms[at].earliest_fit(now, need, None).unwrap_or(Time::MAX) - now;
                let at = At { test_job, wall_time, cluster, workload };
                self.all[at.index() * self.moments + moment] = Sample {
                    estimated: [estimated(0), estimated(1)],
                    real: real_wait(site, &jobs, test, now),
                };
            }
        }
    }

    pub(super) fn at(&self, at: At) -> &[Sample] {
        let first = at.index() * self.moments;
        &self.all[first..first + self.moments]
    }
}

impl At {
    const COUNT: usize = TEST_JOBS.len() * WALL_TIMES.len() * CLUSTERS.len() * WORKLOADS.len();

    pub(super) fn all() -> impl Iterator<Item = At> {
        let by_job = (0..TEST_JOBS.len()).flat_map(|job| (0..WALL_TIMES.len()).map(move |wall| (job, wall)));
        let by_place = || (0..CLUSTERS.len()).flat_map(|at| (0..WORKLOADS.len()).map(move |load| (at, load)));
        by_job.flat_map(move |(test_job, wall_time)| {
            by_place().map(move |(cluster, workload)| At { test_job, wall_time, cluster, workload })
        })
    }

    fn index(self) -> usize {
        let by_job = self.test_job * WALL_TIMES.len() + self.wall_time;
        (by_job * CLUSTERS.len() + self.cluster) * WORKLOADS.len() + self.workload
    }

    pub(super) fn is_small(&self) -> bool {
        self.test_job == SMALL
    }
}

/// The wait of the test job in a simulation, submitted after all other jobs of the same second.
fn real_wait(site: Site, jobs: &[Job], test: &TestJob, now: Time) -> Seconds {
    // The estimate counts all jobs of this second as queued before the test job, so the simulation does too.
    let at = jobs.partition_point(|job| job.asked.submit <= now);
    let asked = Waiting {
        submit: now,
        estimate: test.wall_time,
        capacity: test.cores,
        priority: 0,
        owner: Owner::NONE,
    };
    let mut with_test = Vec::with_capacity(jobs.len() + 1);
    with_test.extend_from_slice(&jobs[..at]);
    with_test.push(Job { asked, run: test.wall_time });
    with_test.extend_from_slice(&jobs[at..]);
    let outcome = simulate(site, &with_test, &[], &mut EarliestFit, |_| {});
    match outcome.jobs[at] {
        Fate::Ran(ran) => ran.start - now,
        Fate::TooWide => Time::MAX - now,
    }
}

pub(super) struct Results {
    drawings: Vec<Samples>,
}

pub(super) fn run(scale: &Scale, progress: Progress<'_>) -> Results {
    let size = Size::of(scale.quick);
    let inputs: Vec<(u64, usize)> =
        scale.each_seed().flat_map(|seed| (0..size.drawings).map(move |drawing| (seed, drawing))).collect();
    let draw = |&(seed, drawing): &(u64, usize)| Samples::draw(seed, drawing, size);
    Results { drawings: run_each(&inputs, scale, progress, draw) }
}

impl Results {
    pub(super) fn drawings(&self) -> usize {
        self.drawings.len()
    }

    /// Mean accuracy, in percent, of the samples that `wanted` selects, with one value per drawing.
    pub(super) fn accuracy(&self, estimator: usize, wanted: impl Fn(&At) -> bool) -> Estimate {
        self.mean(&wanted, |sample| sample.accuracy(estimator).map(|accuracy| 100.0 * accuracy))
    }

    /// Mean wait in minutes: estimated, or real if `estimator` is None.
    pub(super) fn wait(&self, estimator: Option<usize>, wanted: impl Fn(&At) -> bool) -> Estimate {
        self.mean(&wanted, |sample| {
            let wait = estimator.map_or(sample.real, |estimator| sample.estimated[estimator]);
            Some(wait.0 as f64 / 60.0)
        })
    }

    /// The number of samples without an accuracy, and of all samples.
    pub(super) fn left_out(&self, estimator: usize) -> (usize, usize) {
        let all = || self.drawings.iter().flat_map(|drawing| At::all().flat_map(|at| drawing.at(at)));
        (all().filter(|sample| sample.accuracy(estimator).is_none()).count(), all().count())
    }

    /// How often, in percent, the chosen cluster is the one that starts the test job first. Decisions in which both
    /// start it at the same time are left out, because no choice is wrong.
    pub(super) fn ranked_right(
        &self,
        chooser: Chooser,
        clusters: (usize, usize),
        wanted: impl Fn(&Decision) -> bool,
    ) -> Estimate {
        let per_drawing = self.drawings.iter().filter_map(|drawing| {
            // One value per drawing, because decisions of one drawing share their workloads and are not
            // independent.
            let right: Vec<f64> = Decision::all(clusters)
                .filter(|decision| wanted(decision))
                .flat_map(|decision| decision.verdicts(drawing, chooser))
                .map(|right| if right { 100.0 } else { 0.0 })
                .collect();
            mean(&right)
        });
        Estimate::of(&per_drawing.collect::<Vec<f64>>())
    }

    fn mean(&self, wanted: &impl Fn(&At) -> bool, value: impl Fn(&Sample) -> Option<f64>) -> Estimate {
        let per_drawing = self.drawings.iter().filter_map(|drawing| {
            // Samples of a drawing share one workload and are not independent. An interval over all samples
            // would be too narrow, so each drawing gives one value.
            let samples = At::all().filter(|at| wanted(at)).flat_map(|at| drawing.at(at));
            mean(&samples.filter_map(&value).collect::<Vec<f64>>())
        });
        Estimate::of(&per_drawing.collect::<Vec<f64>>())
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chooser {
    /// By an estimate (index in [`Estimator::ALL`]): the cluster with the earlier estimated start; ties go to the
    /// first.
    Estimate(usize),
    /// Always the second cluster, as a baseline.
    AlwaysSecond,
}

/// Siemens and Highland.
pub(super) const AS_IN_PAPER: (usize, usize) = (0, 1);

/// A choice for a test job: the first cluster with the first workload of a pair, or the second cluster with the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decision {
    /// Index in [`PAIRS`].
    pub(super) pair: usize,
    first: At,
    second: At,
}

impl Decision {
    /// All decisions between two clusters.
    fn all(clusters: (usize, usize)) -> impl Iterator<Item = Decision> {
        (0..PAIRS.len()).flat_map(move |pair| {
            let of_first = move |at: &At| (at.cluster, at.workload) == (clusters.0, PAIRS[pair].0);
            At::all().filter(of_first).map(move |first| {
                let second = At { cluster: clusters.1, workload: PAIRS[pair].1, ..first };
                Decision { pair, first, second }
            })
        })
    }

    /// Index in [`WALL_TIMES`].
    pub(super) fn wall_time(&self) -> usize {
        self.first.wall_time
    }

    /// Index in [`TEST_JOBS`].
    pub(super) fn test_job(&self) -> usize {
        self.first.test_job
    }

    fn verdicts(self, drawing: &Samples, chooser: Chooser) -> impl Iterator<Item = bool> {
        let pairs = drawing.at(self.first).iter().zip(drawing.at(self.second));
        pairs.filter_map(move |(first, second)| verdict(first, second, chooser))
    }
}

/// Whether the chosen cluster really starts first; None if both start at the same time.
fn verdict(first: &Sample, second: &Sample, chooser: Chooser) -> Option<bool> {
    let chooses_first = match chooser {
        Chooser::Estimate(at) => first.estimated[at] <= second.estimated[at],
        Chooser::AlwaysSecond => false,
    };
    (first.real != second.real).then_some(chooses_first == (first.real < second.real))
}

#[cfg(test)]
impl Results {
    /// Results of two drawings (from 0 on) made by hand, with one sample for each test job, wall time, cluster and
    /// workload.
    pub(super) fn made(sample: impl Fn(At, usize) -> Sample) -> Results {
        let drawing = |number| {
            let mut all = vec![Sample::default(); At::COUNT];
            At::all().for_each(|at| all[at.index()] = sample(at, number));
            Samples { all, moments: 1 }
        };
        Results { drawings: [0, 1].map(drawing).into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_has_a_place_of_its_own() {
        let mut places: Vec<usize> = At::all().map(At::index).collect();
        places.sort_unstable();
        assert_eq!(places, (0..At::COUNT).collect::<Vec<_>>());
    }

    #[test]
    fn a_start_at_once_that_was_foreseen_is_no_prediction() {
        let sample = |estimated, real| Sample { estimated: [Seconds(estimated); 2], real: Seconds(real) };
        assert_eq!(sample(0, 0).accuracy(0), None);
        assert_eq!(sample(10, 0).accuracy(0), Some(0.0), "foreseen later than it came");
        assert_eq!(sample(150, 100).accuracy(1), Some(0.5));
    }

    #[test]
    fn behind_one_job_with_an_exact_wall_time_the_estimate_is_exact() {
        let site = Site { policy: LOCAL, capacity: bookahead_plan::Capacity(10), overrun: Overrun::Kill };
        let asked = Waiting {
            submit: Time(0),
            estimate: Seconds(500),
            capacity: bookahead_plan::Capacity(10),
            priority: 0,
            owner: Owner::NONE,
        };
        let jobs = [Job { asked, run: Seconds(500) }];
        let frozen = freeze(site, &jobs, Time(100));
        let room = Prober::default().room(Policy::CONSERVATIVE, &frozen.cluster(), true);
        let need = Need { capacity: TEST_JOBS[0].cores, length: TEST_JOBS[0].wall_time };
        assert_eq!(room.earliest_fit(Time(100), need, None), Some(Time(500)));
        assert_eq!(real_wait(site, &jobs, &TEST_JOBS[0], Time(100)), Seconds(400));
    }

    #[test]
    fn a_decision_is_right_where_the_chosen_cluster_starts_first() {
        let sample = |estimated, real| Sample { estimated: [Seconds(estimated); 2], real: Seconds(real) };
        let by_estimate = Chooser::Estimate(0);
        assert_eq!(verdict(&sample(10, 20), &sample(30, 25), by_estimate), Some(true));
        assert_eq!(verdict(&sample(10, 20), &sample(30, 25), Chooser::AlwaysSecond), Some(false));
        assert_eq!(verdict(&sample(10, 26), &sample(30, 25), by_estimate), Some(false));
        assert_eq!(verdict(&sample(30, 26), &sample(10, 25), by_estimate), Some(true));
        assert_eq!(verdict(&sample(10, 20), &sample(30, 20), by_estimate), None, "nothing could be wrong");
    }

    #[test]
    fn every_pair_is_decided_for_every_test_job_and_wall_time() {
        let all = || Decision::all(AS_IN_PAPER);
        assert_eq!(all().count(), 3 * 2 * 5);
        assert!(all().all(|decision| (decision.first.cluster, decision.second.cluster) == AS_IN_PAPER));
    }
}
