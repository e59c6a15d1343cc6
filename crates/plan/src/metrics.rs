//! Figures of a schedule: waits, slowdowns, makespan, utilisation, backlog. Sums are exact integers, so a
//! figure does not depend on the order of the jobs.

use crate::units::{Capacity, Interval, Seconds, Span, Time};

/// Shortest run time assumed for [`Completed::bounded_slowdown`]: without it, very short jobs would dominate
/// the mean.
pub const SLOWDOWN_THRESHOLD: Seconds = Seconds(10);

/// A job that has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed {
    /// When it was submitted.
    pub submit: Time,
    /// When it started.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// Its estimated run time.
    pub estimate: Seconds,
    /// Capacity that it used.
    pub capacity: Capacity,
}

impl Completed {
    /// From submission to start.
    pub fn wait(&self) -> Seconds {
        self.start - self.submit
    }

    /// From submission to end.
    pub fn response(&self) -> Seconds {
        self.end - self.submit
    }

    /// Its rectangle in the schedule.
    pub fn span(&self) -> Span {
        Span { interval: Interval::new(self.start, self.end), capacity: self.capacity }
    }

    /// Response time divided by run time, with run times of at least [`SLOWDOWN_THRESHOLD`]. Never below 1.
    pub fn bounded_slowdown(&self) -> f64 {
        let run = (self.end - self.start).max(SLOWDOWN_THRESHOLD);
        (self.response().0 as f64 / run.0 as f64).max(1.0)
    }
}

/// Figures of a schedule. All zero without jobs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Summary {
    /// Number of jobs.
    pub jobs: usize,
    /// Mean wait, in seconds.
    pub mean_wait: f64,
    /// Median wait.
    pub median_wait: Seconds,
    /// 95th percentile of the waits.
    pub p95_wait: Seconds,
    /// Longest wait.
    pub max_wait: Seconds,
    /// Mean time from submission to end, in seconds.
    pub mean_response: f64,
    /// Mean of [`Completed::bounded_slowdown`].
    pub mean_bounded_slowdown: f64,
    /// From the first submission to the last end.
    pub makespan: Seconds,
    /// Share of the capacity that jobs used during the makespan.
    pub utilisation: f64,
}

impl Summary {
    /// Figures of `jobs` on a resource of `capacity`.
    pub fn of(jobs: &[Completed], capacity: Capacity) -> Summary {
        if jobs.is_empty() {
            return Summary::default();
        }
        let mut waits: Vec<Seconds> = jobs.iter().map(Completed::wait).collect();
        waits.sort_unstable();
        // Nearest rank, so that a percentile is a wait that occurred.
        let within = |share: usize| waits[((waits.len() * share).div_ceil(100)).max(1) - 1];
        let first = jobs.iter().map(|job| job.submit).min().unwrap_or_default();
        let last = jobs.iter().map(|job| job.end).max().unwrap_or_default();
        let area: i128 = jobs.iter().map(|job| job.span().area()).sum();
        Summary {
            jobs: jobs.len(),
            mean_wait: mean(jobs, |job| job.wait().0),
            median_wait: within(50),
            p95_wait: within(95),
            max_wait: within(100),
            mean_response: mean(jobs, |job| job.response().0),
            mean_bounded_slowdown: jobs.iter().map(Completed::bounded_slowdown).sum::<f64>()
                / jobs.len() as f64,
            makespan: last - first,
            utilisation: share(area, capacity, last - first),
        }
    }
}

fn mean(jobs: &[Completed], value: impl Fn(&Completed) -> i64) -> f64 {
    let sum: i128 = jobs.iter().map(|job| i128::from(value(job))).sum();
    sum as f64 / jobs.len() as f64
}

fn share(area: i128, capacity: Capacity, length: Seconds) -> f64 {
    let whole = f64::from(capacity.0) * length.0 as f64;
    if whole > 0.0 { area as f64 / whole } else { 0.0 }
}

/// Accuracy of a predicted time, from 0 to 1: 1 less the relative error, and 0 if the error is as large as
/// the real time or larger.
pub fn prediction_accuracy(predicted: Seconds, real: Seconds) -> f64 {
    let error = (predicted.0 as f64 - real.0 as f64).abs();
    let real = real.0 as f64;
    if error < real { 1.0 - error / real } else { 0.0 }
}

/// Share of the capacity used in each stretch of `step` inside `window`; the last one is cut at the end of
/// the window. Empty if the step is not positive.
pub fn utilisation_over_time(
    spans: impl IntoIterator<Item = Span>,
    capacity: Capacity,
    window: Interval,
    step: Seconds,
) -> Vec<f64> {
    let mut changes: Vec<(Time, i64)> = Vec::new();
    for span in spans.into_iter().filter(|span| !span.interval.is_empty()) {
        changes.push((span.interval.begin, i64::from(span.capacity.0)));
        changes.push((span.interval.end, -i64::from(span.capacity.0)));
    }
    changes.sort_unstable();
    let mut changes = changes.into_iter().peekable();
    let mut held = 0i64;
    stretches(window, step)
        .map(|stretch| {
            let (mut at, mut area) = (stretch.begin, 0i128);
            while let Some((time, change)) = changes.next_if(|&(time, _)| time < stretch.end) {
                let time = time.max(stretch.begin);
                area += i128::from(held) * i128::from((time - at).0);
                at = time;
                held += change;
            }
            area += i128::from(held) * i128::from((stretch.end - at).0);
            share(area, capacity, stretch.length())
        })
        .collect()
}

/// The backlog at the beginning of each stretch of `step` inside `window`, in seconds: the remaining
/// estimated work of running and waiting jobs, divided by the whole capacity.
pub fn backlog_over_time(
    jobs: &[Completed],
    capacity: Capacity,
    window: Interval,
    step: Seconds,
) -> Vec<f64> {
    let mut moments: Vec<(Time, Moment)> = Vec::new();
    for (at, job) in jobs.iter().enumerate() {
        moments.push((job.submit, Moment::Submit(at)));
        moments.push((job.start, Moment::Start(at)));
        // Beyond its estimate a job has no remaining work to count.
        moments.push((job.end.min(job.start + job.estimate), Moment::Done(at)));
    }
    moments.sort_unstable();
    let mut moments = moments.into_iter().peekable();
    let mut backlog = Backlog::default();
    stretches(window, step)
        .map(|stretch| {
            while let Some((_, moment)) = moments.next_if(|&(time, _)| time <= stretch.begin) {
                backlog.pass(moment, jobs);
            }
            backlog.work_at(stretch.begin) as f64 / f64::from(capacity.0.max(1))
        })
        .collect()
}

/// Moments in a job's life. Their order breaks ties of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    Submit(usize),
    Start(usize),
    Done(usize),
}

/// Remaining work as a function of time: constant for waiting jobs, falling for running ones.
#[derive(Default)]
struct Backlog {
    waiting: i128,
    /// Sum of capacity times expected end over running jobs, and sum of their capacities.
    ends: i128,
    held: i128,
}

impl Backlog {
    fn pass(&mut self, moment: Moment, jobs: &[Completed]) {
        let work = |job: &Completed| i128::from(job.capacity.0) * i128::from(job.estimate.0);
        let weighted_end =
            |job: &Completed| i128::from(job.capacity.0) * i128::from((job.start + job.estimate).0);
        match moment {
            Moment::Submit(at) => self.waiting += work(&jobs[at]),
            Moment::Start(at) => {
                self.waiting -= work(&jobs[at]);
                self.ends += weighted_end(&jobs[at]);
                self.held += i128::from(jobs[at].capacity.0);
            }
            Moment::Done(at) => {
                self.ends -= weighted_end(&jobs[at]);
                self.held -= i128::from(jobs[at].capacity.0);
            }
        }
    }

    fn work_at(&self, now: Time) -> i128 {
        self.waiting + self.ends - self.held * i128::from(now.0)
    }
}

fn stretches(window: Interval, step: Seconds) -> impl Iterator<Item = Interval> {
    let mut begin = window.begin;
    std::iter::from_fn(move || {
        if begin >= window.end || step <= Seconds::ZERO {
            return None;
        }
        let stretch = Interval::new(begin, (begin + step).min(window.end));
        begin = stretch.end;
        Some(stretch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(submit: i64, start: i64, end: i64, estimate: i64, capacity: u32) -> Completed {
        let (submit, start, end) = (Time(submit), Time(start), Time(end));
        Completed { submit, start, end, estimate: Seconds(estimate), capacity: Capacity(capacity) }
    }

    #[test]
    fn summary_of_three_jobs_by_hand() {
        let jobs = [job(0, 0, 100, 100, 4), job(0, 100, 102, 5, 10), job(50, 102, 202, 400, 5)];
        let summary = Summary::of(&jobs, Capacity(10));
        assert_eq!(summary.jobs, 3);
        assert!((summary.mean_wait - 152.0 / 3.0).abs() < 1e-9);
        assert_eq!((summary.median_wait, summary.max_wait), (Seconds(52), Seconds(100)));
        assert!((summary.mean_response - (100.0 + 102.0 + 152.0) / 3.0).abs() < 1e-9);
        // 1, 102/10 (bounded by ten seconds), 152/100.
        assert!((summary.mean_bounded_slowdown - (1.0 + 10.2 + 1.52) / 3.0).abs() < 1e-9);
        assert_eq!(summary.makespan, Seconds(202));
        assert!((summary.utilisation - (400.0 + 20.0 + 500.0) / 2020.0).abs() < 1e-9);
    }

    #[test]
    fn the_accuracy_of_predictions_by_hand() {
        let accuracy = |predicted, real| prediction_accuracy(Seconds(predicted), Seconds(real));
        assert!((accuracy(1_100, 1_000) - 0.9).abs() < 1e-12, "a tenth too long");
        assert!((accuracy(750, 1_000) - 0.75).abs() < 1e-12, "a quarter too short");
        assert!((accuracy(1_000, 1_000) - 1.0).abs() < 1e-12);
        assert_eq!(
            [accuracy(2_000, 1_000), accuracy(5_000, 1_000), accuracy(0, 1_000), accuracy(0, 0)],
            [0.0; 4]
        );
    }

    #[test]
    fn an_empty_schedule_has_figures_of_zero() {
        assert_eq!(Summary::of(&[], Capacity(10)), Summary::default());
        let window = Interval::new(Time(0), Time(0));
        assert!(utilisation_over_time([], Capacity(10), window, Seconds(5)).is_empty());
        assert!(
            utilisation_over_time([], Capacity(10), Interval::new(Time(0), Time(9)), Seconds(0)).is_empty()
        );
    }

    #[test]
    fn utilisation_is_averaged_over_each_stretch() {
        let spans = [
            Span::starting(Time(-5), Seconds(10), Capacity(4)),
            Span::starting(Time(8), Seconds(7), Capacity(10)),
        ];
        let shares =
            utilisation_over_time(spans, Capacity(10), Interval::new(Time(0), Time(18)), Seconds(10));
        assert_eq!(shares.len(), 2);
        assert!((shares[0] - (5.0 * 4.0 + 2.0 * 10.0) / 100.0).abs() < 1e-12);
        assert!((shares[1] - 50.0 / 80.0).abs() < 1e-12);
    }

    #[test]
    fn backlog_counts_remaining_estimates_as_the_paper_defines_it() {
        // At 10: one job runs with 90 s left on 4, another waits with 400 s on 5; of ten processors.
        let jobs = [job(0, 0, 60, 100, 4), job(10, 60, 160, 400, 5)];
        let backlog = backlog_over_time(&jobs, Capacity(10), Interval::new(Time(0), Time(200)), Seconds(10));
        assert!((backlog[0] - 40.0).abs() < 1e-12);
        assert!((backlog[1] - (90.0 * 4.0 + 400.0 * 5.0) / 10.0).abs() < 1e-12);
        // The first ended early at 60: its remaining estimate is gone.
        assert!((backlog[6] - 200.0).abs() < 1e-12);
        assert!((backlog[16] - 0.0).abs() < 1e-12);
    }
}
