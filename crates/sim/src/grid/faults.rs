//! Random grids in which random things go wrong: sites with little room and brokers of brokers, clients that commit,
//! cancel and forget, a network that loses and doubles, parties that crash in the middle of what they do. Then all is put
//! right, everybody comes to an end, and the witness speaks. One seed gives one schedule, to the bit.
//!
//! Which kinds of faults a schedule has is drawn too, so that some schedules have few kinds of which much happens.

use super::witness::{Reached, Violation};
use super::{
    Broker, Client, Cluster, CrashPoint, Flaw, Grid, Intent, Party, Role, Site, Trouble, Troubles, Wish,
    network,
};
use crate::site::Job;
use bookahead_plan::placement::{
    Admission, Method, Request as Wanted, Rules as Placement, SlotRules, Weights,
};
use bookahead_plan::{Capacity, Policy, Seconds, Time, Waiting};
use bookahead_protocol::broker::{Broker as Head, Rules as BrokerRules};
use bookahead_protocol::ledger::{Offered, Rules as SiteRules};
use bookahead_protocol::{Constraint, Millis, Moment, Name, Objective, Part, Request, Resource};
use bookahead_workload::streams::Stream;
use std::collections::BTreeMap;

/// Things go wrong until then; after it everything is put right.
const HEALED: Moment = Moment(40_000);
/// Everybody must have come to an end by then.
const SETTLED: Moment = Moment(3_600_000);

/// What came of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The schedule.
    pub seed: u64,
    /// What the network did.
    pub network: network::Counts,
    /// What went wrong.
    pub troubles: Troubles,
    /// What was reached in spite of it.
    pub reached: Reached,
    /// What must not be.
    pub violations: Vec<Violation>,
}

/// Runs the schedule of a seed.
pub fn run(seed: u64, flaw: Option<Flaw>) -> Outcome {
    finish(seed, &mut grid(seed, flaw))
}

/// Runs it again and keeps all that happens.
pub fn replay(seed: u64, flaw: Option<Flaw>) -> (Outcome, Grid) {
    let mut grid = grid(seed, flaw);
    grid.log.keep();
    (finish(seed, &mut grid), grid)
}

fn finish(seed: u64, grid: &mut Grid) -> Outcome {
    grid.run(HEALED);
    let settled = grid.settle(SETTLED);
    let violations = grid.verdict(settled);
    Outcome {
        seed,
        network: grid.network_counts(),
        troubles: grid.troubles(),
        reached: grid.witness.reached,
        violations,
    }
}

/// The grid of a seed, with all that will go wrong.
fn grid(seed: u64, flaw: Option<Flaw>) -> Grid {
    let mut draw = Draw { chance: Stream::new(seed, "fault schedule"), late_commits: false };
    let parties = draw.parties();
    let rules = draw.network();
    let mut grid = Grid::new(parties, rules, seed);
    if let Some(flaw) = flaw {
        grid.break_by(flaw);
    }
    draw.troubles(&mut grid);
    grid
}

struct Draw {
    chance: Stream,
    late_commits: bool,
}

impl Draw {
    fn whole(&mut self, low: i64, high: i64) -> i64 {
        self.chance.whole(low, high)
    }

    /// Happens so often in a hundred.
    fn percent(&mut self, percent: i64) -> bool {
        self.whole(1, 100) <= percent
    }

    fn parties(&mut self) -> Vec<Party> {
        self.late_commits = self.percent(30);
        let sites = self.whole(2, 4);
        let mut parties: Vec<Party> = (0..sites).map(|at| self.site(at)).collect();
        let offers = |party: &Party| match &party.role {
            Role::Site(site) => site.rules().resources.iter().map(|one| one.resource.clone()).collect(),
            Role::Broker(broker) => broker.head().resources(),
            Role::Client(_) => Vec::new(),
        };
        let all: Vec<(Name, Vec<Resource>)> =
            parties.iter().map(|party| (party.name.clone(), offers(party))).collect();
        let levels = if self.percent(70) { 1 } else { self.whole(2, 3) };
        let mut below = all;
        for level in 0..levels {
            let name = Name::from(format!("broker{level}"));
            // A broker above another knows the one below, and perhaps a site that the other knows too.
            let broker = self.broker(level, below.clone());
            let known = (name.clone(), broker.resources_offered());
            parties.push(Party::new(name, Role::Broker(Box::new(broker))));
            let site = (parties.len() > 2 && self.percent(50)).then(|| below[0].clone());
            below = std::iter::once(known)
                .chain(site.filter(|(name, _)| name.as_str().starts_with("site")))
                .collect();
        }
        let top = parties[parties.len() - 1].name.clone();
        for at in 0..self.whole(1, 3) {
            parties.push(self.client(at, &top, sites));
        }
        parties
    }

    fn site(&mut self, at: i64) -> Party {
        let name = format!("site{at}");
        let capacity = self.whole(2, 6) as u32;
        let mut resources = vec![self.offered(Resource::new(&name, "cluster", "processors", capacity))];
        if self.percent(40) {
            let mut link = Resource::new(&name, "link", "bandwidth", self.whole(1, 4) as u32);
            link.joins = Some([name.as_str().into(), Name::from(format!("site{}", (at + 1) % 2))]);
            resources.push(self.offered(link));
        }
        let mut rules = SiteRules::new(name.as_str(), resources);
        rules.holds.longest = Millis::seconds(self.whole(3, 60));
        rules.holds.late_commits = self.late_commits;
        rules.retention = Seconds(1_000_000);
        rules.reveal.slots = self.whole(1, 8) as usize;
        let mut clusters = BTreeMap::new();
        if self.percent(40) {
            let jobs = self.jobs(capacity);
            clusters.insert("cluster".into(), Cluster::new(Policy::EASY, Capacity(capacity), jobs));
        }
        match Site::new(rules, clusters) {
            Ok(site) => Party::new(name.into(), Role::Site(Box::new(site))),
            Err(error) => unreachable!("drawn rules make sense: {error}"),
        }
    }

    fn offered(&mut self, resource: Resource) -> Offered {
        let method = match self.whole(0, 3) {
            0 => Method::Load,
            1 => Method::WhatIf(Weights::EVEN),
            2 => Method::EarliestStart { local_jobs_preferred: true },
            _ => Method::EarliestStart { local_jobs_preferred: false },
        };
        let slots = SlotRules { most: 6, gap: Seconds(10), natural: true };
        let placement = Placement { policy: Policy::EASY, method, slots, admission: Admission::default() };
        Offered { resource, placement }
    }

    fn jobs(&mut self, capacity: u32) -> Vec<Job> {
        let mut submit = 0;
        (0..self.whole(3, 12))
            .map(|_| {
                submit += self.whole(0, 30);
                let estimate = self.whole(5, 120);
                let asked = Waiting {
                    submit: Time(submit),
                    estimate: Seconds(estimate),
                    capacity: Capacity(self.whole(1, i64::from(capacity)) as u32),
                    priority: 0,
                };
                Job { asked, run: Seconds(self.whole(1, estimate)) }
            })
            .collect()
    }

    fn broker(&mut self, level: i64, peers: Vec<(Name, Vec<Resource>)>) -> Broker {
        // Whoever stands above must wait until those below have waited.
        let patience = level + 1;
        let rules = BrokerRules {
            maker: 1_000 + level.unsigned_abs(),
            probes_at_once: self.whole(1, 8) as usize,
            survey_time: Millis(1_500 * patience),
            hold_time: Millis(2_500 * patience),
            attempts: self.whole(1, 6) as u32,
            retention: Seconds(1_000_000),
            ..BrokerRules::default()
        };
        Broker::new(rules, peers)
    }

    fn client(&mut self, at: i64, asks: &Name, sites: i64) -> Party {
        let wishes = (0..self.whole(1, 4)).map(|_| self.wish(sites)).collect();
        let user = format!("user{at}");
        let client = Client::new(asks.clone(), &user, 2_000 + at.unsigned_abs(), wishes);
        Party::new(user.into(), Role::Client(Box::new(client)))
    }

    fn wish(&mut self, sites: i64) -> Wish {
        let wait = Millis(self.whole(0, 6_000));
        let intent = match self.whole(0, 9) {
            0..=2 => Intent::Book,
            3..=5 => Intent::Commit(wait),
            6 => Intent::ExtendAndCommit(wait),
            7 => Intent::Cancel(wait),
            8 => Intent::CommitAndCancel(wait, Millis(self.whole(0, 20_000))),
            _ => Intent::Forget,
        };
        Wish {
            at: Moment(self.whole(0, 30_000)),
            request: self.request(sites),
            hold_for: Millis(self.whole(500, 20_000)),
            intent,
        }
    }

    fn request(&mut self, sites: i64) -> Request {
        let parts: Vec<Part> = (0..self.whole(1, 3)).map(|_| self.part()).collect();
        let mut constraints = Vec::new();
        for second in 1..parts.len() {
            let first = self.whole(0, second as i64 - 1) as usize;
            constraints.push(match self.whole(0, 4) {
                0 | 1 => Constraint::Offset { first, second, by: Seconds(0) },
                2 => Constraint::After { first, second, least: Seconds(0), most: None },
                3 if sites > 2 => Constraint::DifferentSites(first, second),
                _ => Constraint::EndsBefore { first, second },
            });
        }
        Request { parts, constraints, objective: Objective::EarliestEnd }
    }

    fn part(&mut self) -> Part {
        let earliest = self.whole(45, 120);
        let duration = self.whole(5, 60);
        let wanted = Wanted {
            earliest_start: Time(earliest),
            latest_end: Time(earliest + duration + self.whole(0, 120)),
            duration: Seconds(duration),
            capacity: Capacity(self.whole(1, 3) as u32),
        };
        let kind = if self.percent(85) { "processors" } else { "bandwidth" };
        Part { wanted, kind: kind.into(), requirements: Vec::new(), resource: None }
    }

    fn network(&mut self) -> network::Rules {
        let mut share = |percent, most| if self.percent(percent) { self.whole(1, most) as u32 } else { 0 };
        let (lost, twice, delayed) = (share(60, 250), share(50, 200), share(50, 150));
        let fastest = self.whole(1, 20);
        let slowest = fastest + self.whole(0, 100);
        network::Rules { fastest: Millis(fastest), slowest: Millis(slowest), lost, twice, delayed }
    }

    fn troubles(&mut self, grid: &mut Grid) {
        let all = grid.parties().len();
        let fallible: Vec<usize> =
            (0..all).filter(|at| !matches!(grid.parties()[*at].role, Role::Client(_))).collect();
        if self.percent(70) {
            for _ in 0..self.whole(1, 6) {
                self.crash(grid, &fallible);
            }
        }
        if self.percent(50) {
            for _ in 0..self.whole(1, 3) {
                self.partition(grid, all);
            }
        }
        if self.percent(25) {
            self.failure(grid);
        }
        let calm = network::Rules { fastest: Millis(5), slowest: Millis(20), lost: 0, twice: 0, delayed: 0 };
        grid.arrange(HEALED, Trouble::Network(calm));
        grid.arrange(HEALED, Trouble::Reunite);
        fallible.iter().for_each(|&at| grid.arrange(HEALED, Trouble::Restart(at)));
    }

    fn crash(&mut self, grid: &mut Grid, fallible: &[usize]) {
        let party = fallible[self.whole(0, fallible.len() as i64 - 1) as usize];
        let point = CrashPoint::ALL[self.whole(0, 3) as usize];
        let at = Moment(self.whole(0, HEALED.0 - 1_000));
        let back = at + Millis(self.whole(10, 15_000));
        grid.arrange(at, Trouble::Crash(party, point));
        grid.arrange(back.min(HEALED), Trouble::Restart(party));
    }

    fn partition(&mut self, grid: &mut Grid, all: usize) {
        let side: Vec<usize> = (0..all).filter(|_| self.percent(40)).collect();
        let at = Moment(self.whole(0, HEALED.0 - 1_000));
        grid.arrange(at, Trouble::CutOff(side));
        grid.arrange((at + Millis(self.whole(200, 12_000))).min(HEALED), Trouble::Reunite);
    }

    fn failure(&mut self, grid: &mut Grid) {
        let lost = Capacity(self.whole(1, 3) as u32);
        let at = Moment(self.whole(0, HEALED.0 - 1_000));
        let name = Name::from("cluster");
        grid.arrange(at, Trouble::Lose(0, name.clone(), lost));
        let back = at + Millis(self.whole(1_000, 60_000));
        grid.arrange(back, Trouble::Restore(0, name, lost));
    }
}

impl Broker {
    /// What it offers to whoever asks it.
    fn resources_offered(&self) -> Vec<Resource> {
        Head::resources(self.head())
    }
}
