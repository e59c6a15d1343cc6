//! A placement with a shortest notice before it: no request starts sooner than the same work would from the queue, as far as
//! history tells.

use crate::site::Placement;
use bookahead_plan::notice::{Notice, NoticeRule};
use bookahead_plan::{Cluster, Profile, Time, Waiting};
use bookahead_workload::requests::Request;

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
