//! Placement by rated slots: probe, rank by the preference of the requester, take the first slot that fits. A shortest
//! notice in front of any placement: no request starts sooner than the same work would from the queue, as far as the
//! history tells. And a cluster stopped at a moment, with its running and waiting jobs as its scheduler knows them.

use crate::site::{EarliestFit, Fate, Job, Placement, Site, simulate};
use bookahead_plan::notice::{Notice, NoticeRule};
use bookahead_plan::placement::{self, Preference, Prober, Rules};
use bookahead_plan::usage::Usage;
use bookahead_plan::{Capacity, Cluster, Profile, Running, Seconds, Time, Waiting};
use bookahead_workload::requests::Request;

/// A placement by one of the methods of [`bookahead_plan::placement`].
pub struct Rated {
    /// Rules by which the site rates slots.
    pub rules: Rules,
    /// The requester's choice among the slots.
    pub preference: Preference,
    prober: Prober,
}

impl Rated {
    /// A placement without any cached state.
    pub fn new(rules: Rules, preference: Preference) -> Rated {
        Rated { rules, preference, prober: Prober::default() }
    }
}

impl Placement for Rated {
    fn place(&mut self, request: &Request, cluster: &Cluster<'_>, profile: &Profile) -> Option<Time> {
        let request = as_plan_request(request);
        let mut slots = self.prober.probe(&self.rules, cluster, &request);
        if self.preference == Preference::LeastImpact {
            self.prober.add_impacts(self.rules.policy, cluster, &request, &mut slots);
        }
        self.preference.rank(&mut slots);
        slots.iter().map(|slot| slot.start).find(|&start| profile.fits(start, request.need()))
    }
}

/// Converts a request of a workload to one of the planning core.
fn as_plan_request(request: &Request) -> placement::Request {
    placement::Request {
        earliest_start: request.earliest_start,
        latest_end: request.latest_end,
        duration: request.duration,
        capacity: request.processors,
    }
}

/// Restricts the window of each request to starts that keep the shortest notice, and leaves the rest to `placement`.
pub struct WithNotice<P> {
    /// None if the rule requires none: then no history is kept.
    notice: Option<Notice>,
    placement: P,
}

impl<P> WithNotice<P> {
    /// Starts without history: until jobs have started, no notice is required.
    pub fn new(rule: NoticeRule, placement: P) -> WithNotice<P> {
        WithNotice { notice: (rule.percent > 0).then(|| Notice::new(rule)), placement }
    }
}

impl<P: Placement> Placement for WithNotice<P> {
    fn place(&mut self, request: &Request, cluster: &Cluster<'_>, profile: &Profile) -> Option<Time> {
        let shortest = |notice: &Notice| notice.shortest_notice(request.processors, request.duration);
        let needed = self.notice.as_ref().map_or(Seconds::ZERO, shortest);
        let earliest_start = request.earliest_start.max(cluster.now + needed);
        if earliest_start + request.duration > request.latest_end {
            return None;
        }
        self.placement.place(&Request { earliest_start, ..*request }, cluster, profile)
    }

    fn job_started(&mut self, job: &Waiting, now: Time) {
        if let Some(notice) = &mut self.notice {
            notice.job_started(job, now);
        }
        self.placement.job_started(job, now);
    }
}

/// A cluster at a moment, after the pass of that instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frozen {
    /// The moment.
    pub now: Time,
    /// Total number of processors.
    pub capacity: Capacity,
    /// Running jobs: index, start, and the scheduler's view.
    pub running: Vec<(usize, Time, Running)>,
    /// Indices of waiting jobs.
    pub waiting: Vec<usize>,
    running_now: Vec<Running>,
    waiting_now: Vec<Waiting>,
}

/// Runs `jobs`, which must be in order of submission, until `now`.
pub fn freeze(site: Site, jobs: &[Job], now: Time) -> Frozen {
    // Later jobs cannot change the state at `now`.
    let submitted = &jobs[..jobs.partition_point(|job| job.asked.submit <= now)];
    let outcome = simulate(site, submitted, &[], &mut EarliestFit, |_| {});
    let (mut running, mut waiting) = (Vec::new(), Vec::new());
    for (at, (job, fate)) in submitted.iter().zip(&outcome.jobs).enumerate() {
        match fate {
            Fate::Ran(ran) if ran.start > now => waiting.push(at),
            Fate::Ran(ran) if ran.end > now => {
                let expected_end = ran.start + job.asked.estimate;
                running.push((
                    at,
                    ran.start,
                    Running { expected_end, capacity: job.asked.capacity, owner: job.asked.owner.id },
                ));
            }
            Fate::Ran(_) | Fate::TooWide => {}
        }
    }
    // Most orders do not look at it.
    let usage = site.policy.order().needs_usage().then(|| usage_at(now, submitted, &outcome.jobs));
    let told = |job: Waiting| usage.as_ref().map_or(job, |usage| usage.told(job));
    Frozen {
        now,
        capacity: site.capacity,
        running_now: running.iter().map(|(_, _, running)| *running).collect(),
        waiting_now: waiting.iter().map(|&at| told(submitted[at].asked)).collect(),
        running,
        waiting,
    }
}

/// What owners have used by `now`.
fn usage_at(now: Time, jobs: &[Job], fates: &[Fate]) -> Usage {
    let mut changes = Vec::new();
    for (job, fate) in jobs.iter().zip(fates) {
        if let Fate::Ran(ran) = fate {
            changes.extend([(ran.start, false, job.asked), (ran.end, true, job.asked)]);
        }
    }
    changes.retain(|(time, ..)| *time <= now);
    changes.sort_by_key(|(time, ..)| *time);
    let mut usage = Usage::new(changes.first().map_or(now, |(time, ..)| *time));
    for (time, ends, job) in changes {
        usage.advance(time);
        if ends { usage.end(job.owner.id, job.capacity) } else { usage.start(job.owner.id, job.capacity) }
    }
    usage.advance(now);
    usage
}

impl Frozen {
    /// The view of planners and probers.
    pub fn cluster(&self) -> Cluster<'_> {
        Cluster {
            capacity: self.capacity,
            now: self.now,
            running: &self.running_now,
            waiting: &self.waiting_now,
            reservations: &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_plan::{Owner, Policy};
    use bookahead_workload::Overrun;

    #[test]
    fn at_a_moment_some_run_some_wait_and_the_rest_is_unknown() {
        let job = |submit, capacity, run| Job {
            asked: Waiting {
                submit: Time(submit),
                estimate: Seconds(run + 10),
                capacity: Capacity(capacity),
                priority: 0,
                owner: Owner::NONE,
            },
            run: Seconds(run),
        };
        let jobs = [job(0, 4, 10), job(0, 6, 100), job(20, 10, 5), job(30, 4, 50), job(60, 1, 5)];
        let site = Site { policy: Policy::FCFS, capacity: Capacity(10), overrun: Overrun::Kill };
        let frozen = freeze(site, &jobs, Time(30));
        assert_eq!(frozen.running.iter().map(|(at, start, _)| (*at, start.0)).collect::<Vec<_>>(), [(1, 0)]);
        assert_eq!(frozen.waiting, [2, 3]);
        let cluster = frozen.cluster();
        assert_eq!(cluster.running[0].expected_end, Time(110), "by its estimate");
        assert_eq!(cluster.waiting.len(), 2);
    }
}
