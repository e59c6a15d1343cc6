//! Requests decided by rated slots: probe, rank by what the requester prefers, take the first that can be had. And a shortest
//! notice before any placement: no request starts sooner than the same work would from the queue, as far as history tells.

use crate::site::Placement;
use bookahead_plan::notice::{Notice, NoticeRule};
use bookahead_plan::placement::{self, Preference, Prober, Rules};
use bookahead_plan::{Cluster, Profile, Time, Waiting};
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
