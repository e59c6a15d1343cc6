//! The parties of a random grid: sites with little room, batch systems of both kinds, brokers of brokers, and clients.

use super::draw::{Draw, Kinds};
use super::wishes;
use crate::grid::broker::job_rules;
use crate::grid::external::Temper;
use crate::grid::{Broker, Client, Cluster, Disk, Party, Role, Site};
use crate::site::Job;
use bookahead_party::Queries;
use bookahead_party::site::{OnLostJournal, SiteOptions};
use bookahead_plan::placement::{Admission, Method, Rules as Placement, SlotRules, Weights};
use bookahead_plan::{Capacity, Policy, Seconds, Time, Waiting};
use bookahead_protocol::broker::Rules as BrokerRules;
use bookahead_protocol::ledger::{Offered, Rules as SiteRules};
use bookahead_protocol::{Millis, Name, Resource};
use bookahead_workload::streams::Stream;
use std::collections::BTreeMap;

/// All of them: sites, brokers from below, clients.
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
        // A broker above another knows the one below, and perhaps a site that the other knows too.
        let broker = broker(draw, kinds, (&name, level), below.clone());
        parties.push(Party::new(name.clone(), Role::Broker(Box::new(broker))));
        let known = (name, offers(&parties[parties.len() - 1]));
        let site = (parties.len() > 2 && draw.percent(50)).then(|| below[0].clone());
        below = std::iter::once(known)
            .chain(site.filter(|(name, _)| name.as_str().starts_with("site")))
            .collect();
    }
    let top = parties[parties.len() - 1].name.clone();
    for at in 0..draw.whole(1, 3) {
        let wishes = (0..draw.whole(1, 4)).map(|_| wishes::of_a_broker(draw, kinds, sites)).collect();
        parties.push(client(at, &top, wishes));
    }
    if kinds.jobs {
        for at in 20..20 + draw.whole(1, 2) {
            let mut party = client(at, &top, Vec::new());
            if let Role::Client(client) = &mut party.role {
                client.want_jobs((0..draw.whole(1, 4)).map(|_| wishes::placed(draw)).collect());
            }
            parties.push(party);
        }
    }
    if kinds.local_users {
        // A site that loses its disk is asked often, so that somebody asks before it has looked.
        let (users, most) = if kinds.lost_disk { (3, 6) } else { (draw.whole(1, 2), 3) };
        for at in 10..10 + users {
            let asks = Name::from(format!("site{}", draw.whole(0, sites - 1)));
            let wishes = (0..draw.whole(1, most)).map(|_| wishes::of_a_site(draw, kinds)).collect();
            let mut party = client(at, &asks, wishes);
            if let (Role::Client(client), true) = (&mut party.role, kinds.jobs) {
                let jobs = (0..draw.whole(0, 4)).map(|_| wishes::in_a_queue(draw)).collect();
                client.want_jobs(jobs);
            }
            parties.push(party);
        }
    }
    parties
}

fn client(at: i64, asks: &Name, wishes: Vec<crate::grid::Wish>) -> Party {
    let user = format!("user{at}");
    let client = Client::new(asks.clone(), &user, 2_000 + at.unsigned_abs(), wishes);
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
    let mut resources = vec![offered(draw, Resource::new(&name, "cluster", "processors", capacity))];
    if draw.percent(40) {
        let mut link = Resource::new(&name, "link", "bandwidth", draw.whole(1, 4) as u32);
        link.joins = Some([name.as_str().into(), Name::from(format!("site{}", (at + 1) % 2))]);
        resources.push(offered(draw, link));
    }
    let mut rules = SiteRules::new(name.as_str(), resources);
    rules.holds.longest = Millis::seconds(draw.whole(3, 60));
    rules.holds.late_commits = kinds.late_commits;
    rules.retention = Seconds(1_000_000);
    rules.reveal.slots = draw.whole(1, 8) as usize;
    let mut clusters = BTreeMap::new();
    if draw.percent(40) {
        let jobs = jobs(draw, capacity);
        clusters.insert("cluster".into(), Cluster::new(Policy::EASY, Capacity(capacity), jobs));
    }
    let mut options = SiteOptions::default();
    let mut external = None;
    if draw.percent(kinds.external) {
        rules.consent = Some(Millis::seconds(draw.whole(2, 20)));
        let adopts = if kinds.lost_disk { OnLostJournal::Adopt } else { OnLostJournal::Ask };
        options.on_lost_journal = Some(adopts);
        options.look_every = Millis::seconds(draw.whole(3, 10));
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
    };
    Job { asked, run: Seconds(draw.whole(1, estimate)) }
}

fn broker(
    draw: &mut Draw,
    kinds: &Kinds,
    (name, level): (&Name, i64),
    peers: Vec<(Name, Vec<Resource>)>,
) -> Broker {
    // Whoever stands above must wait until those below have waited.
    let patience = level + 1;
    let rules = BrokerRules {
        maker: 1_000 + level.unsigned_abs(),
        probes_at_once: draw.whole(1, 8) as usize,
        survey_time: Millis(1_500 * patience),
        hold_time: Millis(2_500 * patience),
        attempts: draw.whole(1, 6) as u32,
        retention: Seconds(1_000_000),
        ..BrokerRules::default()
    };
    Broker::with(name, rules, job_rules(), disk(draw, kinds), peers)
}
