//! Sites and brokers from their descriptions: what they offer, how they place, hold and tell, and local jobs. A broker must
//! know what its peers offer, so those below are made first; who would be his own peer, by whatever way round, is told so.

use super::config;
use super::trouble::{Kind, Names};
use anyhow::{Context, Result, bail, ensure};
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::ledger::{Limits as SiteLimits, Rules};
use bookahead_protocol::{Name, Resource};
use bookahead_service::config::{Limits, jobs_of_log};
use bookahead_sim::Job;
use bookahead_sim::grid::{Broker, Cluster, Site};
use bookahead_workload::models::{Poisson, RequestModel, Setting};
use bookahead_workload::streams::Stream;
use std::collections::BTreeMap;
use std::path::Path;

/// Waits are as they are written: all parties live in the time of the simulation.
const REAL_TIME: u32 = 1;
/// Long enough that nothing is forgotten before the end: the tables show all that ever was.
const REMEMBERED: Seconds = Seconds(1_000_000_000_000);
/// No more jobs are drawn for one resource.
const MOST_JOBS: f64 = 1e6;

/// What jobs are drawn by, and read from.
pub(crate) struct Surroundings<'a> {
    pub(crate) seed: u64,
    pub(crate) end: Time,
    /// Where paths begin.
    pub(crate) folder: &'a Path,
}

pub(crate) fn site(site: &config::Site, around: &Surroundings<'_>) -> Result<Site> {
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

/// What everybody offers, as far as it is known yet.
pub(crate) type Offers = BTreeMap<String, Vec<Resource>>;

/// All brokers, in the order of the file; `offers` has what sites offer.
pub(crate) fn brokers(
    described: &[config::Broker],
    names: &Names,
    mut offers: Offers,
) -> Result<Vec<Broker>> {
    for broker in described {
        let whose = format!("the peers of broker {}", broker.name);
        ensure!(!broker.peers.is_empty(), "{whose}: there are none; give at least one");
        broker.rules().check().with_context(|| format!("broker {}", broker.name))?;
        for peer in &broker.peers {
            names.find(peer, &[Kind::Site, Kind::Broker], &whose)?;
        }
    }
    let mut made: BTreeMap<&str, Broker> = BTreeMap::new();
    while made.len() < described.len() {
        let mut open =
            described.iter().enumerate().filter(|(_, broker)| !made.contains_key(broker.name.as_str()));
        let next = open.find(|(_, broker)| broker.peers.iter().all(|peer| offers.contains_key(peer)));
        let Some((at, broker)) = next else { bail!(circle(described, &offers)) };
        let peers = broker
            .peers
            .iter()
            .filter_map(|peer| Some((Name::from(peer.as_str()), offers.get(peer)?.clone())));
        // Clients have the numbers from 2^32 on.
        let rules = broker.rules().rules(at as u64 + 1, REMEMBERED, REAL_TIME);
        let built = Broker::new(&broker.name.as_str().into(), rules, peers.collect());
        offers.insert(broker.name.clone(), built.resources());
        made.insert(&broker.name, built);
    }
    Ok(described.iter().filter_map(|broker| made.remove(broker.name.as_str())).collect())
}

/// Follows peers that cannot be made until one comes again.
fn circle(described: &[config::Broker], offers: &Offers) -> String {
    let is_open = |name: &String| !offers.contains_key(name);
    let mut way: Vec<&String> = Vec::new();
    let mut next = described.iter().map(|broker| &broker.name).find(|name| is_open(name));
    while let Some(name) = next {
        if let Some(begin) = way.iter().position(|before| *before == name) {
            way.drain(..begin);
            way.push(name);
            break;
        }
        way.push(name);
        let broker = described.iter().find(|broker| broker.name == *name);
        next = broker.and_then(|broker| broker.peers.iter().find(|peer| is_open(peer)));
    }
    let way: Vec<&str> = way.into_iter().map(String::as_str).collect();
    format!("brokers ask each other in a circle: {}; take one of the peers away", way.join(" asks "))
}
