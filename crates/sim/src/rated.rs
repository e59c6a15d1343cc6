//! Requests decided by rated slots: probe, rank by what the requester prefers, take the first that can be had. A shortest notice
//! before any placement: no request starts sooner than the same work would from the queue, as far as history tells. And a
//! cluster stopped at a moment: who runs and who waits, as its scheduler would know it.

use crate::site::{EarliestFit, Fate, Job, Placement, Site, simulate};
use bookahead_plan::notice::{Notice, NoticeRule};
use bookahead_plan::placement::{self, Preference, Prober, Rules};
use bookahead_plan::{Capacity, Cluster, Profile, Running, Time, Waiting};
use bookahead_workload::requests::Request;

/// A placement by one of the methods of [`bookahead_plan::placement`].
pub struct Rated {
    /// How the site answers probes.
    pub rules: Rules,
    /// How the requester chooses among the slots.
    pub preference: Preference,
    prober: Prober,
}

impl Rated {
    /// Ready to decide.
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

/// A request of a workload as the planning core knows it.
pub fn as_plan_request(request: &Request) -> placement::Request {
    placement::Request {
        earliest_start: request.earliest_start,
        latest_end: request.latest_end,
        duration: request.duration,
        capacity: request.processors,
    }
}

/// Places what is left of a request's window once the notice is kept.
pub struct WithNotice<P> {
    notice: Notice,
    placement: P,
}

impl<P> WithNotice<P> {
    /// With no history yet: nothing is asked for until jobs have started.
    pub fn new(rule: NoticeRule, placement: P) -> WithNotice<P> {
        WithNotice { notice: Notice::new(rule), placement }
    }
}

impl<P: Placement> Placement for WithNotice<P> {
    fn place(&mut self, request: &Request, cluster: &Cluster<'_>, profile: &Profile) -> Option<Time> {
        let needed = self.notice.shortest_notice(request.processors, request.duration);
        let earliest_start = request.earliest_start.max(cluster.now + needed);
        if earliest_start + request.duration > request.latest_end {
            return None;
        }
        self.placement.place(&Request { earliest_start, ..*request }, cluster, profile)
    }

    fn job_started(&mut self, job: &Waiting, now: Time) {
        self.notice.job_started(job, now);
        self.placement.job_started(job, now);
    }
}

/// The moment, after the pass of its instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frozen {
    /// When.
    pub now: Time,
    /// What there is in all.
    pub capacity: Capacity,
    /// Running jobs: their index, when they started, and what is known of them.
    pub running: Vec<(usize, Time, Running)>,
    /// Waiting jobs: their index.
    pub waiting: Vec<usize>,
    running_now: Vec<Running>,
    waiting_now: Vec<Waiting>,
}

/// Runs `jobs`, which are in order of submission, until `now`.
pub fn freeze(site: Site, jobs: &[Job], now: Time) -> Frozen {
    let submitted = &jobs[..jobs.partition_point(|job| job.asked.submit <= now)];
    let outcome = simulate(site, submitted, &[], &mut EarliestFit, |_| {});
    let (mut running, mut waiting) = (Vec::new(), Vec::new());
    for (at, (job, fate)) in submitted.iter().zip(&outcome.jobs).enumerate() {
        match fate {
            Fate::Ran(ran) if ran.start > now => waiting.push(at),
            Fate::Ran(ran) if ran.end > now => {
                let expected_end = ran.start + job.asked.estimate;
                running.push((at, ran.start, Running { expected_end, capacity: job.asked.capacity }));
            }
            Fate::Ran(_) | Fate::TooWide => {}
        }
    }
    Frozen {
        now,
        capacity: site.capacity,
        running_now: running.iter().map(|(_, _, running)| *running).collect(),
        waiting_now: waiting.iter().map(|&at| submitted[at].asked).collect(),
        running,
        waiting,
    }
}

impl Frozen {
    /// As planners know it.
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
    use crate::site::Overrun;
    use bookahead_plan::{Policy, Seconds};

    #[test]
    fn at_a_moment_some_run_some_wait_and_the_rest_is_unknown() {
        let job = |submit, capacity, run| Job {
            asked: Waiting {
                submit: Time(submit),
                estimate: Seconds(run + 10),
                capacity: Capacity(capacity),
                priority: 0,
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
