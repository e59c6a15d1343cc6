//! Sites from their descriptions: what they offer, how they place, hold and tell, and their local jobs.

use super::config::{self, Limits, Value};
use super::lengths::Length;
use super::names;
use anyhow::{Context, Result, bail, ensure};
use bookahead_plan::placement::{self, Admission, SlotRules, Weights};
use bookahead_plan::{Capacity, Policy, Seconds, Time};
use bookahead_protocol::deadline::Adaptive;
use bookahead_protocol::ledger::{HoldRules, Limits as SiteLimits, Offered, Reveal, Rules, UserLimits};
use bookahead_protocol::{Resource, resource};
use bookahead_sim::Job;
use bookahead_sim::grid::{Cluster, Site};
use bookahead_workload::models::{Poisson, RequestModel, Setting};
use bookahead_workload::streams::Stream;
use bookahead_workload::{LoadOptions, Trace};
use std::collections::BTreeMap;
use std::path::Path;

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
        names::check("a resource", &described.name)?;
        let placement = placement(described).with_context(whose)?;
        let policy = placement.policy;
        offered.push(Offered { resource: resource(&site.name, described), placement });
        if let Some(jobs) = &described.jobs {
            let purpose = format!("jobs of {}/{}", site.name, described.name);
            let jobs = local_jobs(jobs, described.capacity, &purpose, around).with_context(whose)?;
            let cluster = Cluster::new(policy, Capacity(described.capacity), jobs);
            clusters.insert(described.name.as_str().into(), cluster);
        }
    }
    let whose = || format!("site {}", site.name);
    let mut rules = Rules::new(site.name.as_str(), offered);
    rules.holds = holds(&site.holds).with_context(whose)?;
    rules.reveal = reveal(&site.reveal);
    rules.limits = SiteLimits {
        default: user_limits(&site.limits),
        roles: BTreeMap::new(),
        users: site
            .user_limits
            .iter()
            .map(|(user, limits)| (user.as_str().into(), user_limits(limits)))
            .collect(),
    };
    rules.retention = REMEMBERED;
    Site::new(rules, clusters).with_context(whose)
}

fn resource(site: &str, described: &config::Resource) -> Resource {
    let mut resource = Resource::new(site, &described.name, &described.kind, described.capacity);
    resource.joins = described.joins.as_ref().map(|ends| ends.each_ref().map(|end| end.as_str().into()));
    let attributes = described.attributes.iter();
    resource.attributes = attributes.map(|(name, own)| (name.as_str().into(), value(own))).collect();
    resource.price = described.price;
    resource
}

/// An attribute as the protocol has it.
pub(crate) fn value(value: &Value) -> resource::Value {
    match value {
        Value::Number(number) => resource::Value::Number(*number),
        Value::Text(text) => resource::Value::Text(text.as_str().into()),
    }
}

fn placement(described: &config::Resource) -> Result<placement::Rules> {
    let policy: Policy = match &described.policy {
        Some(name) => name.parse()?,
        None => Policy::EASY,
    };
    let method = described.method.method(Weights::EVEN);
    let usual = SlotRules::default();
    let slots = SlotRules {
        most: described.slots.unwrap_or(usual.most),
        gap: described.gap.map_or(usual.gap, Length::seconds),
        natural: true,
    };
    let admission = Admission {
        delayed_jobs: described.max_delayed,
        total_delay: None,
        longest_delay: described.max_delay.map(Length::seconds),
    };
    Ok(placement::Rules { policy, method, slots, admission })
}

fn holds(described: &config::Holds) -> Result<HoldRules> {
    let usual = HoldRules::default();
    let longest = described.longest.map_or(usual.longest, |length| length.0);
    let adaptive = match &described.adaptive {
        Some(adaptive) => {
            let target = percentage("holds.adaptive.target", adaptive.target)?;
            let target = (target * 10_000.0).round() as u32;
            Some(Adaptive { target, shortest: adaptive.shortest.0, longest })
        }
        None => None,
    };
    Ok(HoldRules { longest, adaptive, late_commits: described.late_commits.unwrap_or(usual.late_commits) })
}

/// A number between 0 and 100.
pub(crate) fn percentage(field: &str, number: f64) -> Result<f64> {
    ensure!((0.0..=100.0).contains(&number), "{field} = {number} is no percentage; give 0 to 100");
    Ok(number)
}

fn reveal(described: &config::Reveal) -> Reveal {
    let usual = Reveal::default();
    Reveal {
        slots: described.slots.unwrap_or(usual.slots),
        ratings: described.ratings.unwrap_or(usual.ratings),
        impacts: described.impacts.unwrap_or(usual.impacts),
        blockers: described.blockers.unwrap_or(usual.blockers),
        free: described.free.unwrap_or(usual.free),
        slack: described.slack.unwrap_or(usual.slack),
    }
}

fn user_limits(described: &Limits) -> UserLimits {
    UserLimits {
        count: described.count,
        area: described.unit_hours.map(|hours| i64::from(hours) * 3_600),
        horizon: described.horizon.map(Length::seconds),
        notice: described.notice.map(Length::seconds),
        share: described.share,
    }
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
            of_log(&around.folder.join(path), jobs, capacity)
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

/// The jobs of a log, from a moment on, with which the simulation begins.
fn of_log(path: &Path, jobs: &config::Jobs, capacity: u32) -> Result<Vec<Job>> {
    let options = LoadOptions { processors: Some(Capacity(capacity)), ..LoadOptions::default() };
    let trace = Trace::load(path, &options)?;
    let first = trace.jobs.iter().map(|job| job.submit).min().unwrap_or_default();
    let begin = first + jobs.from.unwrap_or_default().seconds();
    let wanted = trace.jobs.iter().filter(|job| job.submit >= begin);
    let mut taken: Vec<Job> = wanted.take(jobs.first.unwrap_or(usize::MAX)).map(Job::from).collect();
    taken.iter_mut().for_each(|job| job.asked.submit = Time((job.asked.submit - begin).0));
    Ok(taken)
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
