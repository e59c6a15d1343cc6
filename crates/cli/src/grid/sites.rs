//! Sites from their descriptions: what they offer, how they place, hold and tell, and their local jobs.

use super::config;
use anyhow::{Context, Result, bail, ensure};
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::ledger::{Limits as SiteLimits, Rules};
use bookahead_service::config::{Limits, jobs_of_log};
use bookahead_sim::Job;
use bookahead_sim::grid::{Cluster, Site};
use bookahead_workload::models::{Poisson, RequestModel, Setting};
use bookahead_workload::streams::Stream;
use std::collections::BTreeMap;
use std::path::Path;

/// Waits are as they are written: all parties live in the time of the simulation.
pub(crate) const REAL_TIME: u32 = 1;
/// Long enough that nothing is forgotten before the end: the tables show all that ever was.
pub(crate) const REMEMBERED: Seconds = Seconds(1_000_000_000_000);
/// No more jobs are drawn for one resource.
const MOST_JOBS: f64 = 1e6;

/// What jobs are drawn by, and read from.
pub(crate) struct Surroundings<'a> {
    pub(crate) seed: u64,
    pub(crate) end: Time,
    /// Where paths begin.
    pub(crate) folder: &'a Path,
}

pub(crate) fn build(site: &config::Site, around: &Surroundings<'_>) -> Result<Site> {
    let mut offered = Vec::new();
    let mut clusters = BTreeMap::new();
    for described in &site.resources {
        let whose = || format!("site {}, resource {}", site.name, described.name);
        let one = described.offered(&site.name).with_context(whose)?;
        if let Some(jobs) = &described.jobs {
            let purpose = format!("jobs of {}/{}", site.name, described.name);
            let jobs = local_jobs(jobs, described.capacity, &purpose, around).with_context(whose)?;
            let cluster = Cluster::new(one.placement.policy, one.resource.capacity, jobs);
            clusters.insert(one.resource.name.clone(), cluster);
        }
        offered.push(one);
    }
    let whose = || format!("site {}", site.name);
    let mut rules = Rules::new(site.name.as_str(), offered);
    rules.holds = site.holds.rules(REAL_TIME).with_context(whose)?;
    rules.reveal = site.reveal;
    rules.limits = SiteLimits {
        default: site.limits.user_limits(),
        roles: BTreeMap::new(),
        users: Limits::by_name(&site.user_limits),
    };
    rules.retention = REMEMBERED;
    Site::new(rules, clusters).with_context(whose)
}

fn local_jobs(
    jobs: &config::Jobs,
    capacity: u32,
    purpose: &str,
    around: &Surroundings<'_>,
) -> Result<Vec<Job>> {
    match (&jobs.swf, jobs.per_hour) {
        (Some(path), None) => {
            let drawn =
                jobs.size.is_some() || jobs.run.is_some() || jobs.estimates.is_some() || jobs.seed.is_some();
            ensure!(!drawn, "jobs of a log are as they are; leave out size, run, estimates and seed");
            let jobs = jobs_of_log(&around.folder.join(path), jobs.from, jobs.first, Capacity(capacity))?;
            Ok(jobs.iter().map(Job::from).collect())
        }
        (None, Some(per_hour)) => {
            let of_log = jobs.from.is_some() || jobs.first.is_some();
            ensure!(!of_log, "from and first are for logs; leave them out, or give swf");
            let seed = jobs.seed.unwrap_or_else(|| own_seed(around.seed, purpose));
            drawn(jobs, per_hour, capacity, seed, around.end)
        }
        _ => bail!("jobs are either those of a log (swf = \"log.swf\") or drawn (per_hour = 20)"),
    }
}

fn own_seed(seed: u64, purpose: &str) -> u64 {
    Stream::new(seed, purpose).whole(0, i64::MAX).unsigned_abs()
}

/// Drawn jobs that are submitted before the end.
fn drawn(jobs: &config::Jobs, per_hour: f64, capacity: u32, seed: u64, end: Time) -> Result<Vec<Job>> {
    ensure!(per_hour > 0.0, "per_hour = {per_hour} draws no jobs; give more than 0, or leave out jobs");
    let expected = per_hour * end.0 as f64 / 3_600.0;
    ensure!(
        expected <= MOST_JOBS,
        "per_hour = {per_hour} would be about {expected:.0} jobs, more than {MOST_JOBS:.0}; give fewer, or a shorter duration"
    );
    let usual = Poisson::default();
    let model = Poisson {
        // Six deviations more than expected, so that there are enough.
        setting: Setting {
            jobs: (expected + 6.0 * expected.sqrt()).ceil() as usize + 10,
            processors: Capacity(capacity),
            load: None,
            seed,
        },
        mean_gap: 3_600.0 / per_hour,
        processors: jobs.size.map_or((1, usual.processors.1.min(capacity)), |[low, high]| (low, high)),
        run: jobs.run.map_or(usual.run, |[low, high]| (low.seconds().0, high.seconds().0)),
        requests: match &jobs.estimates {
            Some(name) => name.parse::<RequestModel>()?,
            None => usual.requests,
        },
    };
    let all = model.generate()?;
    Ok(all.iter().filter(|job| job.submit < end).map(Job::from).collect())
}
