//! Requests decided by rated slots: probe, rank by what the requester prefers, take the first that can be had.

use crate::site::Placement;
use bookahead_plan::placement::{Preference, Prober, Request, Rules};
use bookahead_plan::{Cluster, Profile, Time};
use bookahead_workload::requests;

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
    fn place(
        &mut self,
        request: &requests::Request,
        cluster: &Cluster<'_>,
        profile: &Profile,
    ) -> Option<Time> {
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
pub fn as_plan_request(request: &requests::Request) -> Request {
    Request {
        earliest_start: request.earliest_start,
        latest_end: request.latest_end,
        duration: request.duration,
        capacity: request.processors,
    }
}
