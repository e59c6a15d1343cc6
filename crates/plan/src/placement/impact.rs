//! What a slot would do to the jobs that wait, and how much of that a site allows.

use crate::planner::Cluster;
use crate::units::{Seconds, Span, Time};

/// The plan with the slot taken beside the plan without it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Impact {
    /// The waiting jobs that would start later, by their place in the cluster's list.
    pub delayed: Vec<u32>,
    /// By how much, in all.
    pub total_delay: Seconds,
    /// By how much at most.
    pub longest_delay: Seconds,
    /// By how much the last planned end of a waiting job moves; earlier is negative.
    pub makespan_change: Seconds,
    /// Capacity-seconds that nothing holds between now and the last planned end of anything.
    pub idle: i128,
}

impl Impact {
    /// Compares the planned starts of the waiting jobs, without and with `slot`.
    pub(super) fn of(cluster: &Cluster<'_>, without: &[Time], with: &[Time], slot: Span) -> Impact {
        let mut impact = Impact { idle: idle(cluster, with, slot), ..Impact::default() };
        for (at, (&before, &after)) in (0u32..).zip(without.iter().zip(with)) {
            let delay = after - before;
            if delay > Seconds::ZERO {
                impact.delayed.push(at);
                impact.total_delay = impact.total_delay + delay;
                impact.longest_delay = impact.longest_delay.max(delay);
            }
        }
        impact.makespan_change = last_end(cluster, with) - last_end(cluster, without);
        impact
    }
}

/// The last planned end of a waiting job that ever starts; now where none waits.
pub(super) fn last_end(cluster: &Cluster<'_>, starts: &[Time]) -> Time {
    let ends = starts.iter().zip(cluster.waiting).map(|(&start, job)| start + job.estimate);
    ends.filter(|&end| end < Time::MAX).max().unwrap_or(cluster.now).max(cluster.now)
}

fn idle(cluster: &Cluster<'_>, starts: &[Time], slot: Span) -> i128 {
    let now = cluster.now;
    let running = cluster.running.iter().map(|job| Span {
        interval: crate::units::Interval::new(now, job.expected_end),
        capacity: job.capacity,
    });
    let waiting = starts.iter().zip(cluster.waiting).filter(|(start, _)| **start < Time::MAX);
    let waiting = waiting.map(|(&start, job)| Span::starting(start, job.estimate, job.capacity));
    let reserved = cluster.reservations.iter().map(|span| {
        let begin = span.interval.begin.max(now);
        Span { interval: crate::units::Interval::new(begin, span.interval.end), capacity: span.capacity }
    });
    let (mut end, mut held) = (now, 0i128);
    for span in running.chain(waiting).chain(reserved).chain([slot]).filter(|span| !span.interval.is_empty())
    {
        end = end.max(span.interval.end);
        held += span.area();
    }
    i128::from(cluster.capacity.0) * i128::from((end - now).0) - held
}

/// How much a reservation may do to waiting jobs. The default allows everything: reservations come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Admission {
    /// So many jobs may be delayed; None is any number.
    pub delayed_jobs: Option<u32>,
    /// So long in all.
    pub total_delay: Option<Seconds>,
    /// No job longer than that.
    pub longest_delay: Option<Seconds>,
}

impl Admission {
    /// No waiting job may be delayed: local jobs are preferred.
    pub const LOCAL_JOBS_PREFERRED: Admission =
        Admission { delayed_jobs: Some(0), total_delay: None, longest_delay: None };

    /// Whether there is no limit at all.
    pub fn is_unlimited(&self) -> bool {
        *self == Admission::default()
    }

    /// Whether the site allows it.
    pub fn allows(&self, impact: &Impact) -> bool {
        self.delayed_jobs.is_none_or(|most| impact.delayed.len() as u64 <= u64::from(most))
            && self.total_delay.is_none_or(|most| impact.total_delay <= most)
            && self.longest_delay.is_none_or(|most| impact.longest_delay <= most)
    }
}
