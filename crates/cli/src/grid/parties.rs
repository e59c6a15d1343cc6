//! Builds sites, brokers and clients from their descriptions: resources, rules and local jobs of sites, and requests of
//! clients with the steps that follow. A broker needs the resources of its peers, so its peers are built first; a cycle
//! of brokers is an error.

use super::config::{self, Intent as IntentName};
use super::trouble::{Kind, Names};
use crate::client::request::described::{Names as PartNames, between};
use anyhow::{Context, Result, anyhow, bail, ensure};
use bookahead_api::Length;
use bookahead_plan::{Capacity, Seconds, Time, placement};
use bookahead_protocol::ledger::{Limits as SiteLimits, Rules};
use bookahead_protocol::{Millis, Name, Part, Request, Resource};
use bookahead_service::config::{Limits, jobs_of_log};
use bookahead_sim::Job;
use bookahead_sim::grid::{Broker, Client, Cluster, Site, Step, Wish};
use bookahead_workload::models::{Poisson, RequestModel, Setting};
use bookahead_workload::streams::Stream;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

/// Clock speed. Times are not scaled: all parties use the virtual clock of the simulation.
const REAL_TIME: u32 = 1;
/// Retention of finished reservations, longer than any simulation: the result tables list all of them.
const REMEMBERED: Seconds = Seconds(1_000_000_000_000);
/// Jobs generated for one resource at most. Bounds memory and time if `per_hour` is too large by mistake.
const MOST_JOBS: f64 = 1e6;

/// Settings of the whole grid that local jobs depend on.
pub(crate) struct Surroundings<'a> {
    pub(crate) seed: u64,
    pub(crate) end: Time,
    /// Paths of traces are relative to it.
    pub(crate) folder: &'a Path,
}

pub(crate) fn site(site: &config::Site, around: &Surroundings<'_>) -> Result<Site> {
    let mut offered = Vec::new();
    let (mut clusters, mut notices) = (BTreeMap::new(), BTreeMap::new());
    for described in &site.resources {
        let whose = || format!("site {}, resource {}", site.name, described.name);
        let one = described.offered(&site.name).with_context(whose)?;
        if let Some(jobs) = &described.jobs {
            let purpose = format!("jobs of {}/{}", site.name, described.name);
            let jobs = local_jobs(jobs, described.capacity, &purpose, around).with_context(whose)?;
            let cluster = Cluster::new(one.placement.policy, one.resource.capacity, jobs);
            clusters.insert(one.resource.name.clone(), cluster);
        }
        notices.extend(described.shortest_notice().with_context(whose)?);
        offered.push(one);
    }
    let whose = || format!("site {}", site.name);
    let mut rules = Rules::new(site.name.as_str(), offered);
    rules.holds = site.holds.rules(REAL_TIME).with_context(whose)?;
    rules.notices = notices;
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
            ensure!(
                !drawn,
                "size, run, estimates and seed do not apply to jobs of a trace (swf); remove them"
            );
            let jobs = jobs_of_log(&around.folder.join(path), jobs.from, jobs.first, Capacity(capacity))?;
            Ok(jobs.iter().map(Job::from).collect())
        }
        (None, Some(per_hour)) => {
            let of_log = jobs.from.is_some() || jobs.first.is_some();
            ensure!(!of_log, "from and first apply only to jobs of a trace; remove them, or add swf");
            let seed = jobs.seed.unwrap_or_else(|| own_seed(around.seed, purpose));
            drawn(jobs, per_hour, capacity, seed, around.end)
        }
        _ => bail!("jobs need either a trace (swf = \"log.swf\") or a rate (per_hour = 20)"),
    }
}

/// A seed per resource, so that adding a site does not change the jobs of the others.
fn own_seed(seed: u64, purpose: &str) -> u64 {
    Stream::new(seed, purpose).whole(0, i64::MAX).unsigned_abs()
}

/// Generates jobs that are submitted before the end.
fn drawn(jobs: &config::Jobs, per_hour: f64, capacity: u32, seed: u64, end: Time) -> Result<Vec<Job>> {
    ensure!(per_hour > 0.0, "per_hour = {per_hour} generates no jobs; use more than 0, or remove jobs");
    let expected = per_hour * end.0 as f64 / 3_600.0;
    ensure!(
        expected <= MOST_JOBS,
        "per_hour = {per_hour} gives about {expected:.0} jobs, more than {MOST_JOBS:.0}; use fewer, or a shorter duration"
    );
    let usual = Poisson::default();
    let model = Poisson {
        // The model takes a number of jobs, not an end. Six standard deviations above the mean are enough to reach it.
        // Ten more for small means, where the deviation alone is not enough.
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

/// Resources by the name of the party that offers them, for the parties built so far.
pub(crate) type Offers = BTreeMap<String, Vec<Resource>>;

/// Builds all brokers, in the order of the file; `offers` has the resources of the sites.
pub(crate) fn brokers(
    described: &[config::Broker],
    names: &Names,
    mut offers: Offers,
) -> Result<Vec<Broker>> {
    for broker in described {
        let whose = format!("the peers of broker {}", broker.name);
        ensure!(!broker.peers.is_empty(), "{whose}: the list is empty; add at least one");
        broker.rules.check().with_context(|| format!("broker {}", broker.name))?;
        for peer in &broker.peers {
            names.find(peer, &[Kind::Site, Kind::Broker], &whose)?;
        }
    }
    // Each pass builds a broker whose peers are all built. If there is none, the rest contains a cycle.
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
        // Makers of ids must be unique in the grid; clients have the numbers from FIRST_MAKER on.
        let rules = broker.rules.rules(at as u128 + 1, REMEMBERED, REAL_TIME);
        let built = Broker::new(&broker.name.as_str().into(), rules, peers.collect());
        offers.insert(broker.name.clone(), built.resources());
        made.insert(&broker.name, built);
    }
    Ok(described.iter().filter_map(|broker| made.remove(broker.name.as_str())).collect())
}

/// Describes a cycle: follows peers that are not built yet until one repeats.
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
    format!("brokers must not form a cycle: {}; remove one of these peers", way.join(" asks "))
}

/// Default of `hold_for`.
const USUAL_HOLD: Millis = Millis::seconds(120);
/// First maker number of clients; brokers have the numbers below.
const FIRST_MAKER: u128 = 1 << 32;

/// Builds the client with index `at` in the file.
pub(crate) fn client(described: &config::Client, at: usize, names: &Names, end: Length) -> Result<Client> {
    let whose = format!("client {}", described.name);
    names.find(&described.asks, &[Kind::Site, Kind::Broker], &whose)?;
    let mut wishes = Vec::new();
    for (number, request) in described.requests.iter().enumerate() {
        let wish = wish(request, end).with_context(|| format!("{whose}, request {}", number + 1))?;
        wishes.push(wish);
    }
    Ok(Client::new(described.asks.as_str().into(), &described.name, FIRST_MAKER + at as u128, wishes))
}

fn wish(described: &config::Request, end: Length) -> Result<Wish> {
    ensure!(
        described.at <= end,
        "the request is after the end of the simulation; use an earlier at, or a longer duration"
    );
    let request = request(described)?;
    request.check()?;
    Ok(Wish {
        at: described.at.moment(),
        request,
        hold_for: described.hold_for.map_or(USUAL_HOLD, |length| length.0),
        book: described.intent == IntentName::Book,
        steps: steps(described)?,
    })
}

/// The steps after the hold, each with its delay from the answer to the step before.
fn steps(described: &config::Request) -> Result<VecDeque<(Millis, Step)>> {
    let waits = !matches!(described.intent, IntentName::Book | IntentName::Forget);
    ensure!(
        waits || described.after.is_none(),
        "after does not apply to this intent, which has no later step; remove it, or use commit or cancel"
    );
    ensure!(
        described.intent == IntentName::CommitAndCancel || described.cancel_after.is_none(),
        "cancel_after applies only to the intent commit-and-cancel; remove it"
    );
    let after = described.after.unwrap_or_default().0;
    let cancel_after = described.cancel_after.unwrap_or_default().0;
    Ok(VecDeque::from(match described.intent {
        IntentName::Book | IntentName::Forget => Vec::new(),
        IntentName::Commit => vec![(after, Step::Commit)],
        IntentName::ExtendAndCommit => vec![(after, Step::Hold), (after, Step::Commit)],
        IntentName::Cancel => vec![(after, Step::Cancel)],
        IntentName::CommitAndCancel => vec![(after, Step::Commit), (cancel_after, Step::Cancel)],
    }))
}

fn request(described: &config::Request) -> Result<Request> {
    let names = described.parts.iter().map(|part| part.name.as_deref());
    let names = PartNames::of(names).map_err(|(_, what)| anyhow!(what))?;
    let mut parts = Vec::new();
    for (at, part) in described.parts.iter().enumerate() {
        parts.push(self::part(part, described.at).map_err(|what| anyhow!(names.about(at, what)))?);
    }
    let mut constraints = Vec::new();
    for (at, constraint) in described.constraints.iter().enumerate() {
        let between = between(constraint, &names).map_err(|what| anyhow!("constraint {}: {what}", at + 1))?;
        constraints.extend(between.into_iter().map(Into::into));
    }
    let (objective, on_loss) = (described.objective.into(), described.on_loss.into());
    Ok(Request { objective, on_loss, ..Request::new(parts, constraints) })
}

fn part(described: &config::Part, asked: Length) -> Result<Part, String> {
    let duration = described.duration.seconds();
    let earliest_start = described.earliest.unwrap_or(asked).time();
    let latest_end = described.latest.map_or(earliest_start + duration, Length::time);
    if earliest_start + duration > latest_end {
        return Err(format!(
            "it cannot end by {latest_end} s if it begins at {earliest_start} s and takes {duration} s; use a later latest"
        ));
    }
    let wanted =
        placement::Request { earliest_start, latest_end, duration, capacity: Capacity(described.capacity) };
    let requirements = described.require.iter().map(|required| required.0.clone().into()).collect();
    Ok(Part { requirements, ..Part::new(wanted, described.kind.as_str()) })
}
