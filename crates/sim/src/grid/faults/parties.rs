//! The parties of a random grid: sites with little room and batch systems of both kinds, brokers of brokers, and
//! clients with their requests and further steps.

use super::{Draw, Kinds};
use crate::grid::external::Temper;
use crate::grid::site::job_rules;
use crate::grid::{Broker, Client, Cluster, Disk, Party, Role, Site, Step, Wish};
use crate::site::Job;
use bookahead_party::site::{OnLostJournal, SiteOptions};
use bookahead_party::{Queries, Work};
use bookahead_plan::placement::{
    Admission, Method, Request as Wanted, Rules as Placement, SlotRules, Weights,
};
use bookahead_plan::{Capacity, Owner, Policy, Seconds, Time, Waiting};
use bookahead_protocol::broker::Rules as BrokerRules;
use bookahead_protocol::deadline::Scheme;
use bookahead_protocol::jobs::{JobRequest, Mode, Rerun};
use bookahead_protocol::ledger::{Offered, Rules as SiteRules};
use bookahead_protocol::{Constraint, Millis, Moment, Name, OnLoss, Part, Request, Resource, Tres};
use bookahead_workload::streams::Stream;
use std::collections::{BTreeMap, VecDeque};

/// All parties: sites, then brokers from the lowest level up, then clients.
pub(super) fn draw(draw: &mut Draw, kinds: &Kinds, seed: u64) -> Vec<Party> {
    let sites = draw.whole(2, 4);
    let mut parties: Vec<Party> = (0..sites).map(|at| site(draw, kinds, at, seed)).collect();
    let offers = |party: &Party| match &party.role {
        Role::Site(site) => site.party().resources(),
        Role::Broker(broker) => broker.resources(),
        Role::Client(_) => Vec::new(),
    };
    let mut below: Vec<(Name, Vec<Resource>)> =
        parties.iter().map(|party| (party.name.clone(), offers(party))).collect();
    let levels = if draw.percent(70) { 1 } else { draw.whole(2, 3) };
    for level in 0..levels {
        let name = Name::from(format!("broker{level}"));
        // A broker knows the one below it, and sometimes also a site that the other one knows: two paths to one site.
        let broker = broker(draw, kinds, (&name, level), below.clone(), seed);
        parties.push(Party::new(name.clone(), Role::Broker(Box::new(broker))));
        let known = (name, offers(&parties[parties.len() - 1]));
        let site = (parties.len() > 2 && draw.percent(50)).then(|| below[0].clone());
        below = std::iter::once(known)
            .chain(site.filter(|(name, _)| name.as_str().starts_with("site")))
            .collect();
    }
    let top = parties[parties.len() - 1].name.clone();
    for at in 0..draw.whole(1, 3) {
        let wishes = (0..draw.whole(1, 4)).map(|_| of_a_broker(draw, kinds, sites)).collect();
        parties.push(client(at, &top, wishes, seed));
    }
    if kinds.jobs {
        for at in 20..20 + draw.whole(1, 2) {
            let mut party = client(at, &top, Vec::new(), seed);
            if let Role::Client(client) = &mut party.role {
                client.want_jobs((0..draw.whole(1, 4)).map(|_| placed(draw)).collect());
            }
            parties.push(party);
        }
    }
    if kinds.local_users {
        // Many calls for a site without its disk, so that some arrive before its first poll.
        let (users, most) = if kinds.lost_disk { (3, 6) } else { (draw.whole(1, 2), 3) };
        for at in 10..10 + users {
            let asks = Name::from(format!("site{}", draw.whole(0, sites - 1)));
            let wishes = (0..draw.whole(1, most)).map(|_| of_a_site(draw, kinds)).collect();
            let mut party = client(at, &asks, wishes, seed);
            if let (Role::Client(client), true) = (&mut party.role, kinds.jobs) {
                let jobs = (0..draw.whole(0, 4)).map(|_| in_a_queue(draw)).collect();
                client.want_jobs(jobs);
            }
            parties.push(party);
        }
    }
    parties
}

/// GPUs and licences, with these probabilities in per cent.
fn things(chance: &mut Stream, percent: &[i64; 2], most: i64) -> Tres {
    let names = ["gres/gpu", "license/qpu"].into_iter().zip(percent);
    let drawn = names.filter_map(|(name, percent)| {
        let (is_there, amount) = (chance.whole(1, 100) <= *percent, chance.whole(1, most));
        is_there.then_some((name, amount as u32))
    });
    drawn.collect()
}

/// What requests want beside their capacity. From an own stream, like [`holding`].
fn with_things(mut wishes: Vec<Wish>, user: &str, seed: u64) -> Vec<Wish> {
    let mut chance = Stream::new(seed, &format!("things/{user}"));
    let mut add = |request: &mut Request| {
        for part in request.parts.iter_mut().filter(|part| part.kind.as_str() == "processors") {
            part.tres = things(&mut chance, &[25, 15], 2);
        }
    };
    for wish in &mut wishes {
        add(&mut wish.request);
        for (_, step) in &mut wish.steps {
            if let Step::Change(request) = step {
                add(request);
            }
        }
    }
    wishes
}

fn client(at: i64, asks: &Name, wishes: Vec<Wish>, seed: u64) -> Party {
    let user = format!("user{at}");
    let wishes = with_things(wishes, &user, seed);
    let client = Client::new(asks.clone(), &user, 2_000 + u128::from(at.unsigned_abs()), wishes);
    Party::new(user.into(), Role::Client(Box::new(client)))
}

fn disk(draw: &mut Draw, kinds: &Kinds) -> Disk {
    Disk {
        takes: Millis(if kinds.group_commit { draw.whole(1, 40) } else { 0 }),
        snapshot_every: if kinds.snapshots { draw.whole(2, 40) as usize } else { 0 },
    }
}

fn site(draw: &mut Draw, kinds: &Kinds, at: i64, seed: u64) -> Party {
    let name = format!("site{at}");
    let capacity = draw.whole(2, 6) as u32;
    let mut cluster = Resource::new(&name, "cluster", "processors", capacity);
    cluster.tres = things(&mut Stream::new(seed, &format!("things/{name}")), &[60, 40], 4);
    let mut resources = vec![offered(draw, cluster)];
    if draw.percent(40) {
        let mut link = Resource::new(&name, "link", "bandwidth", draw.whole(1, 4) as u32);
        link.joins = Some([name.as_str().into(), Name::from(format!("site{}", (at + 1) % 2))]);
        resources.push(offered(draw, link));
    }
    let mut rules = SiteRules::new(name.as_str(), resources);
    rules.holds.longest = Millis::seconds(draw.whole(3, 60));
    rules.holds.late_commits = kinds.late_commits;
    // Nothing is forgotten during a schedule, so that the verdict sees all reservations.
    rules.retention = Seconds(1_000_000);
    rules.reveal.slots = draw.whole(1, 8) as usize;
    let mut clusters = BTreeMap::new();
    if draw.percent(40) {
        let jobs = jobs(draw, capacity);
        clusters.insert("cluster".into(), Cluster::new(Policy::EASY, Capacity(capacity), jobs));
    }
    // Shorter than the default of a minute, because schedules last only 40 s.
    let mut options = SiteOptions { move_after: Millis(5_000), ..SiteOptions::default() };
    let mut external = None;
    if draw.percent(kinds.external) {
        rules.consent = Some(Millis::seconds(draw.whole(2, 20)));
        let adopts = if kinds.lost_disk { OnLostJournal::Adopt } else { OnLostJournal::Ask };
        options.on_lost_journal = Some(adopts);
        options.look_every = Millis::seconds(draw.whole(3, 10));
        // As with a journal in a database that several machines use.
        options.holds_jobs = Stream::new(seed, &format!("holds/{name}")).whole(0, 1) == 0;
        external = Some((temper(draw, kinds), Stream::new(seed, &name)));
    }
    let site = Site::with(rules, options, disk(draw, kinds), clusters, external);
    let mut site = site.unwrap_or_else(|error| unreachable!("drawn rules make sense: {error}"));
    site.lies = if kinds.lies && draw.percent(50) { draw.whole(50, 500) as u32 } else { 0 };
    Party::new(name.into(), Role::Site(Box::new(site)))
}

fn temper(draw: &mut Draw, kinds: &Kinds) -> Temper {
    let fastest = if kinds.lost_disk { draw.whole(200, 1_500) } else { draw.whole(1, 200) };
    Temper {
        fastest: Millis(fastest),
        slowest: Millis(fastest + draw.whole(0, 800)),
        slow: draw.share(40, 300),
        refuses: draw.share(40, 300),
        less: draw.share(30, 300),
        unknown: draw.share(40, 300),
        timeout: Millis(draw.whole(2_000, 12_000)),
    }
}

fn offered(draw: &mut Draw, resource: Resource) -> Offered {
    let method = match draw.whole(0, 3) {
        0 => Method::Load,
        1 => Method::WhatIf(Weights::EVEN),
        2 => Method::EarliestStart { local_jobs_preferred: true },
        _ => Method::EarliestStart { local_jobs_preferred: false },
    };
    let slots = SlotRules { most: 6, gap: Seconds(10), natural: true };
    let placement = Placement { policy: Policy::EASY, method, slots, admission: Admission::default() };
    Offered { resource, placement }
}

fn jobs(draw: &mut Draw, capacity: u32) -> Vec<Job> {
    let mut submit = 0;
    (0..draw.whole(3, 12))
        .map(|_| {
            submit += draw.whole(0, 30);
            job(draw, Time(submit), capacity)
        })
        .collect()
}

/// A local job.
pub(super) fn job(draw: &mut Draw, submit: Time, capacity: u32) -> Job {
    let estimate = draw.whole(5, 120);
    let asked = Waiting {
        submit,
        estimate: Seconds(estimate),
        capacity: Capacity(draw.whole(1, i64::from(capacity)) as u32),
        priority: 0,
        owner: Owner::NONE,
    };
    Job { asked, run: Seconds(draw.whole(1, estimate)) }
}

fn broker(
    draw: &mut Draw,
    kinds: &Kinds,
    (name, level): (&Name, i64),
    peers: Vec<(Name, Vec<Resource>)>,
    seed: u64,
) -> Broker {
    // A broker must wait longer than the brokers below it, or it gives up before they can answer.
    let patience = level + 1;
    let rules = BrokerRules {
        maker: 1_000 + u128::from(level.unsigned_abs()),
        probes_at_once: draw.whole(1, 8) as usize,
        survey_time: Millis(1_500 * patience),
        hold_time: Millis(2_500 * patience),
        holding: holding(name, seed),
        attempts: draw.whole(1, 6) as u32,
        heal_after: Millis::seconds(draw.whole(1, 8)),
        retention: Seconds(1_000_000),
        ..BrokerRules::default()
    };
    Broker::with(name, rules, job_rules(), disk(draw, kinds), peers)
}

/// How a broker holds the parts of a candidate. From an own stream: everything else in the schedule of a seed is the
/// same with either strategy.
fn holding(broker: &Name, seed: u64) -> Scheme {
    let sequential = Stream::new(seed, &format!("holding/{broker}")).whole(1, 100) <= 30;
    if sequential { Scheme::Sequential } else { Scheme::Parallel }
}

/// A request for parts at several sites, which begin after all faults have ended.
fn of_a_broker(draw: &mut Draw, kinds: &Kinds, sites: i64) -> Wish {
    let at = Moment(draw.whole(0, 30_000));
    let request = request(draw, kinds, sites);
    wish(draw, kinds, at, request)
}

/// A request for one part, which may begin during the faults.
fn of_a_site(draw: &mut Draw, kinds: &Kinds) -> Wish {
    let at = draw.whole(0, 30_000);
    let earliest = at / 1_000 + draw.whole(1, 30);
    let request = Request::single(part(draw, earliest));
    wish(draw, kinds, Moment(at), request)
}

fn wish(draw: &mut Draw, kinds: &Kinds, at: Moment, request: Request) -> Wish {
    let wait = Millis(draw.whole(0, 6_000));
    let (book, steps) = match draw.whole(0, 9) {
        0..=2 => (true, Vec::new()),
        3..=5 => (false, vec![(wait, Step::Commit)]),
        6 => (false, vec![(wait, Step::Hold), (wait, Step::Commit)]),
        7 => (false, vec![(wait, Step::Cancel)]),
        8 => (false, vec![(wait, Step::Commit), (Millis(draw.whole(0, 20_000)), Step::Cancel)]),
        _ => (false, Vec::new()),
    };
    let mut steps: VecDeque<(Millis, Step)> = steps.into();
    if book || steps.back().is_some_and(|(_, step)| *step == Step::Commit) {
        steps.extend(afterwards(draw, kinds, &request));
    }
    Wish { at, request, hold_for: Millis(draw.whole(500, 20_000)), book, steps }
}

/// Steps after a commit. Jobs are submitted only into reservations with a single part.
fn afterwards(draw: &mut Draw, kinds: &Kinds, request: &Request) -> Vec<(Millis, Step)> {
    let mut steps = Vec::new();
    let single = (request.parts.len() == 1).then_some(request);
    for _ in 0..draw.times(60, 3) {
        let wait = Millis(draw.whole(0, 8_000));
        let step = match (draw.whole(0, 5), single) {
            (0, _) if kinds.changes => Step::Change(Box::new(changed(draw, request))),
            (1, _) if kinds.changes => Step::Extend(Seconds(draw.whole(1, 40))),
            (2, _) if kinds.changes => {
                let keep = Capacity(draw.whole(0, 2) as u32);
                Step::Release(Seconds(draw.whole(-5, 30)), keep)
            }
            (3 | 4, Some(request)) if kinds.jobs => Step::Submit(Box::new(inside(draw, request))),
            (5, Some(_)) if kinds.jobs => Step::CancelJob,
            _ => continue,
        };
        steps.push((wait, step));
    }
    steps
}

/// New terms: shifted, longer or wider. All parts move together, so that their constraints often still hold.
fn changed(draw: &mut Draw, request: &Request) -> Request {
    let mut request = request.clone();
    let (later, longer) = (Seconds(draw.whole(-10, 20)), draw.whole(-10, 20));
    for part in &mut request.parts {
        let wanted = &mut part.wanted;
        wanted.earliest_start = wanted.earliest_start + later;
        wanted.duration = Seconds((wanted.duration.0 + longer).max(1));
        wanted.capacity = Capacity(draw.whole(1, 3) as u32);
        wanted.latest_end = wanted.earliest_start + wanted.duration + Seconds(draw.whole(0, 60));
    }
    request
}

/// A job that fits into a reservation.
fn inside(draw: &mut Draw, request: &Request) -> JobRequest {
    let wanted = request.parts[0].wanted;
    let capacity = Capacity(draw.whole(1, i64::from(wanted.capacity.0)) as u32);
    let limit = Seconds(draw.whole(1, wanted.duration.0));
    let job = JobRequest { kind: request.parts[0].kind.clone(), ..job_request(draw, capacity, limit) };
    let warn_seconds = draw.percent(30).then(|| Seconds(draw.whole(1, 10)));
    JobRequest { rerun: Rerun { restartable: draw.percent(50), warn_seconds, retry: None }, ..job }
}

/// A job for the queue, with its submission time.
fn in_a_queue(draw: &mut Draw) -> (Moment, JobRequest) {
    let at = Moment(draw.whole(0, 35_000));
    let (capacity, limit) = (Capacity(draw.whole(1, 3) as u32), Seconds(draw.whole(1, 40)));
    (at, job_request(draw, capacity, limit))
}

/// A job that a broker places, with its submission time.
pub(super) fn placed(draw: &mut Draw) -> (Moment, JobRequest) {
    let (at, job) = in_a_queue(draw);
    let floods = draw.percent(70);
    let mode = Some(if floods { Mode::Flood } else { Mode::Reserve });
    let copies = (floods && draw.percent(70)).then(|| draw.whole(1, 3) as u32);
    let retry = draw.percent(60).then(|| draw.whole(1, 2) as u32);
    let rerun = Rerun { restartable: !floods && draw.percent(40), warn_seconds: None, retry };
    (at, JobRequest { mode, copies, rerun, ..job })
}

fn job_request(draw: &mut Draw, capacity: Capacity, limit: Seconds) -> JobRequest {
    JobRequest {
        rerun: Default::default(),
        reservation: None,
        resource: None,
        kind: "processors".into(),
        capacity,
        limit,
        latest_end: None,
        requirements: Vec::new(),
        reference_mhz: None,
        input_bytes: None,
        work: Work::Pretended { run: Seconds(draw.whole(0, limit.0 + 5)) },
        mode: None,
        copies: None,
        claims: false,
        description: Default::default(),
    }
}

fn request(draw: &mut Draw, kinds: &Kinds, sites: i64) -> Request {
    // Leaves time for several attempts to replace a lost part before it begins.
    let later = if kinds.losses { 400 } else { 0 };
    let parts: Vec<Part> = (0..draw.whole(1, 3))
        .map(|_| {
            let earliest = later + draw.whole(45, 120);
            part(draw, earliest)
        })
        .collect();
    let mut constraints = Vec::new();
    for second in 1..parts.len() {
        let first = draw.place(second);
        constraints.push(match draw.whole(0, 4) {
            0 | 1 => Constraint::Offset { first, second, by: Seconds(0) },
            2 => Constraint::After { first, second, least: Seconds(0), most: None },
            3 if sites > 2 => Constraint::DifferentSites(first, second),
            _ => Constraint::EndsBefore { first, second },
        });
    }
    let on_loss = match draw.whole(0, 9) {
        0 => OnLoss::Keep,
        1 => OnLoss::Cancel,
        2 | 3 => OnLoss::HealAnyTime,
        _ => OnLoss::Heal,
    };
    Request { on_loss, ..Request::new(parts, constraints) }
}

fn part(draw: &mut Draw, earliest: i64) -> Part {
    let duration = draw.whole(5, 60);
    let wanted = Wanted {
        earliest_start: Time(earliest),
        latest_end: Time(earliest + duration + draw.whole(0, 120)),
        duration: Seconds(duration),
        capacity: Capacity(draw.whole(1, 3) as u32),
    };
    let kind = if draw.percent(85) { "processors" } else { "bandwidth" };
    Part::new(wanted, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_of_both_strategies_are_drawn_at_every_level() {
        for level in 0..3 {
            let name = Name::from(format!("broker{level}"));
            let sequential = (1..=1_000).filter(|&seed| holding(&name, seed) == Scheme::Sequential).count();
            assert!((250..350).contains(&sequential), "{sequential} of 1000");
        }
    }
}
