//! A hierarchy of brokers finds the same as one broker over all sites: the same offers and the same answer to
//! a request, with the same starts and cost, even if sites reveal no slack, have queues or are silent.
//! Preconditions: each site is reached by one path; no broker has more slots than it may return; for holds,
//! sites reveal free capacity. Every start in the range of an offer is granted.

use super::town::{Town, name, offered, part, reservation};
use bookahead_plan::placement::{Method, SlotRules, Weights};
use bookahead_plan::{Capacity, Owner, Running, Seconds, Time, Waiting};
use bookahead_protocol::ledger::{Rules, View, Views};
use bookahead_protocol::{
    Answer, Call, Constraint, Millis, Name, Objective, Offer, Part, Request, Requirement, ReservationId,
    Resource, Slot, State, Test, Value,
};
use bookahead_tests::cases::cases;
use proptest::prelude::*;

/// The sites of a grid, and the broker of each in the hierarchy.
#[derive(Debug, Clone)]
struct Grid {
    sites: Vec<SiteCase>,
    /// The site with a link between the first two.
    link_at: usize,
    /// The site that does not answer.
    silent: Option<usize>,
}

#[derive(Debug, Clone)]
struct SiteCase {
    broker: &'static str,
    /// Processors and price of each cluster.
    clusters: Vec<(u32, u32)>,
    /// Reservations of others: cluster, start, duration, processors.
    taken: Vec<(usize, i64, i64, u32)>,
    tells_slack: bool,
    tells_free: bool,
    /// Processors and duration of jobs on the first cluster: one runs, the others wait.
    jobs: Vec<(u32, i64)>,
}

/// The brokers of the hierarchy from below, each with its parent. The town ticks brokers in the order of
/// their names, so the one at the top times out first.
const BROKERS: [(&str, &str); 3] = [("deep", "low"), ("low", "apex"), ("other", "apex")];

/// Windows start after this, so that message delays have no effect.
const START: i64 = 1_000;

fn site_name(at: usize) -> String {
    format!("site{at}")
}

impl Grid {
    fn resources(&self, at: usize) -> Vec<Resource> {
        let site = site_name(at);
        let cluster = |(number, &(processors, price)): (usize, &(u32, u32))| Resource {
            price,
            ..Resource::new(&site, &format!("cluster{number}"), "processors", processors)
        };
        let link = Resource {
            joins: Some([name("site0"), name("site1")]),
            ..Resource::new(&site, "link", "bandwidth", 8)
        };
        let clusters = self.sites[at].clusters.iter().enumerate().map(cluster);
        clusters.chain((at == self.link_at).then_some(link)).collect()
    }

    /// Sites with reservations of others, without brokers.
    fn sites(&self) -> Town {
        let mut town = Town::new();
        for (at, site) in self.sites.iter().enumerate() {
            self.open(at, &mut town);
            for (taken, &(cluster, begin, length, processors)) in site.taken.iter().enumerate() {
                let cluster = format!("cluster{}", cluster % site.clusters.len());
                let wanted = part("processors", processors, begin, begin + length, length);
                let request = Request::single(Part { resource: Some(cluster.as_str().into()), ..wanted });
                // Reservations that do not fit are refused in both grids alike.
                town.reserve(&site_name(at), 1_000 + taken as u128, request, true);
            }
        }
        town
    }

    /// The same, with all sites revealing free capacity: otherwise a broker tries to hold two parts where
    /// only one fits.
    fn telling_free(mut self) -> Grid {
        self.sites.iter_mut().for_each(|site| site.tells_free = true);
        self
    }

    fn open(&self, at: usize, town: &mut Town) {
        let site = &self.sites[at];
        let resources = self.resources(at).into_iter().map(|resource| {
            let mut offered = offered(resource);
            if !site.jobs.is_empty() {
                offered.placement.method = Method::WhatIf(Weights::EVEN);
                offered.placement.slots = SlotRules { most: 6, gap: Seconds(30), natural: true };
            }
            offered
        });
        let mut rules = Rules::new(site_name(at).as_str(), resources.collect());
        (rules.reveal.slack, rules.reveal.free) = (site.tells_slack, site.tells_free);
        town.site_by(rules);
        let mut jobs = site.jobs.iter().map(|&(processors, length)| (Capacity(processors), Seconds(length)));
        let running = jobs.by_ref().take(1).map(|(capacity, length)| {
            let expected_end = Time(START) + length;
            Running { expected_end, capacity, owner: 0 }
        });
        let running = running.collect();
        let waiting = jobs.map(|(capacity, estimate)| Waiting {
            submit: Time(0),
            estimate,
            capacity,
            priority: 0,
            owner: Owner::NONE,
        });
        let view = View { running, waiting: waiting.collect(), ..View::default() };
        town.views.insert(name(&site_name(at)), Views::of("cluster0".into(), view));
    }

    fn flat(&self) -> Town {
        let mut town = self.sites();
        let names: Vec<String> = (0..self.sites.len()).map(site_name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        town.broker("apex", &names);
        self.leave(town)
    }

    /// The silent site leaves after all have registered.
    fn leave(&self, mut town: Town) -> Town {
        town.away.extend(self.silent.map(|at| name(&site_name(at))));
        town
    }

    fn hierarchy(&self) -> Town {
        let mut town = self.sites();
        for broker in BROKERS.iter().map(|(broker, _)| *broker).chain(["apex"]) {
            let sites = self.sites.iter().enumerate().filter(|(_, site)| site.broker == broker);
            let mut peers: Vec<String> = sites.map(|(at, _)| site_name(at)).collect();
            let below = BROKERS.iter().filter(|(_, above)| *above == broker);
            peers.extend(below.map(|(broker, _)| (*broker).to_owned()));
            let peers: Vec<&str> = peers.iter().map(String::as_str).collect();
            town.broker(broker, &peers);
        }
        self.leave(town)
    }
}

fn a_site(queued: bool) -> impl Strategy<Value = SiteCase> {
    let broker = prop::sample::select(vec!["apex", "low", "deep", "other"]);
    let clusters = prop::collection::vec((4..=8u32, 0..=3u32), 1..=2);
    let taken = (0..2usize, 0..30i64, 1..=10i64, 1..=8u32);
    let taken = taken.prop_map(|(at, begin, length, many)| (at, START + begin * 10, length * 10, many));
    let tells = (prop::bool::weighted(0.8), prop::bool::weighted(0.8));
    let jobs = prop::collection::vec((1..=6u32, 1..=100i64), 0..=if queued { 4 } else { 0 });
    (broker, clusters, prop::collection::vec(taken, 0..=4), tells, jobs).prop_map(
        |(broker, clusters, taken, (tells_slack, tells_free), jobs)| SiteCase {
            broker,
            clusters,
            taken,
            tells_slack,
            tells_free,
            jobs,
        },
    )
}

/// Without a silent site time stands still, because queue plans depend on it.
fn a_grid() -> impl Strategy<Value = Grid> {
    let queued = prop::sample::select(vec![false, false, true]);
    queued.prop_flat_map(|queued| {
        let sites = prop::collection::vec(a_site(queued), 2..=5);
        let silent = prop::option::weighted(0.3, any::<prop::sample::Index>());
        (sites, any::<prop::sample::Index>(), silent).prop_map(move |(sites, link, silent)| {
            let (link_at, many) = (link.index(sites.len()), sites.len());
            let silent = silent.filter(|_| !queued).map(|silent| silent.index(many));
            Grid { sites, link_at, silent }
        })
    })
}

fn a_part() -> impl Strategy<Value = Part> {
    let window = (0..10i64, 0..30i64, 1..=8i64);
    let place = (prop::bool::weighted(0.15), prop::bool::weighted(0.15));
    (window, 1..=8u32, place).prop_map(|((earliest, longer, duration), capacity, (link, named))| {
        let (earliest, duration) = (START + earliest * 10, duration * 10);
        let kind = if link { "bandwidth" } else { "processors" };
        let mut part = part(kind, capacity, earliest, earliest + duration + longer * 10, duration);
        if named && !link {
            let test = Test::Is(Value::Text("cluster0".into()));
            part.requirements.push(Requirement { attribute: "name".into(), test });
        }
        part
    })
}

fn a_constraint(parts: usize) -> impl Strategy<Value = Option<Constraint>> {
    let numbers = (0..7u8, 0..parts, 0..parts, 0..parts, -3..=6i64, prop::option::of(0..9i64));
    numbers.prop_map(|(kind, first, second, third, by, longer)| {
        let by = Seconds(by * 10);
        let constraint = match kind {
            0 => Constraint::Offset { first, second, by: Seconds(0) },
            1 => Constraint::Offset { first, second, by },
            2 => {
                let most = longer.map(|longer| by + Seconds(longer * 10));
                Constraint::After { first, second, least: by, most }
            }
            3 => Constraint::EndsBefore { first, second },
            4 => Constraint::SameSite(first, second),
            5 => Constraint::DifferentSites(first, second),
            _ => Constraint::Joins { link: first, ends: [second, third] },
        };
        let named = constraint.parts();
        let apart = named.iter().enumerate().all(|(at, part)| !named[..at].contains(part));
        apart.then_some(constraint)
    })
}

fn a_request() -> impl Strategy<Value = Request> {
    let objective = prop::sample::select(vec![
        Objective::EarliestEnd,
        Objective::BestAvailability,
        Objective::LeastImpact,
        Objective::LowestCost,
    ]);
    (1..=3usize, objective).prop_flat_map(|(parts, objective)| {
        let constraints = prop::collection::vec(a_constraint(parts), 0..=3);
        (prop::collection::vec(a_part(), parts), constraints).prop_map(move |(parts, constraints)| Request {
            objective,
            ..Request::new(parts, constraints.into_iter().flatten().collect())
        })
    })
}

/// The answer to a call, once all have answered or the time is up. A lower broker retries for a while before
/// it refuses.
fn answered(town: &mut Town, call: Call) -> Option<Answer> {
    let envelope = town.envelope(call);
    let at_once = town.send("apex", &envelope);
    at_once.or_else(|| {
        town.wait(120_000);
        town.answer(&envelope)
    })
}

/// The first `most` offers; none if the answer is a problem.
fn offers(town: &mut Town, request: &Request, most: u32) -> Vec<Offer> {
    let probe = Call::Probe { request: request.clone(), most, starts: Vec::new() };
    match answered(town, probe) {
        Some(Answer::Offers(offers)) => offers,
        Some(Answer::Problem(_)) => Vec::new(),
        other => panic!("no offers but {other:?}"),
    }
}

/// Offers with the sites' own names of resources: prefixes of brokers differ.
fn at_sites(offers: &[Offer]) -> Vec<Vec<Slot>> {
    let own = |slot: &Slot| {
        let resource = slot.resource.as_str().rsplit('/').next().unwrap().into();
        Slot { resource, ..slot.clone() }
    };
    let mut all: Vec<Vec<Slot>> = offers.iter().map(|offer| offer.slots.iter().map(own).collect()).collect();
    all.sort_by_cached_key(|slots| format!("{slots:?}"));
    all
}

/// Starts and cost of all parts for a request; none if it is refused.
fn granted(town: &mut Town, id: u128, request: &Request) -> Option<(Vec<Time>, u64)> {
    let (id, request, hold_for) = (ReservationId(id), request.clone(), Millis::seconds(300));
    match answered(town, Call::Reserve { id, request, hold_for, book: false }) {
        Some(Answer::Reservation(held)) => {
            assert_eq!(held.state, State::Held);
            let begins = held.slots.iter().map(|slot| slot.interval.begin).collect();
            Some((begins, held.slots.iter().map(|slot| slot.cost).sum()))
        }
        Some(Answer::Problem(_)) => None,
        other => panic!("neither granted nor refused: {other:?}"),
    }
}

/// More than any of these grids has for a request; the most that a broker returns.
const ALL: u32 = 100;

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn a_hierarchy_of_brokers_grants_what_one_broker_grants(grid in a_grid(), request in a_request()) {
        let grid = grid.telling_free();
        let (mut flat, mut hierarchy) = (grid.flat(), grid.hierarchy());
        let one = granted(&mut flat, 1, &request);
        let other = granted(&mut hierarchy, 1, &request);
        let costs = request.objective == Objective::LowestCost;
        let told = |granted: Option<(Vec<Time>, u64)>| {
            granted.map(|(begins, cost)| (begins, costs.then_some(cost)))
        };
        prop_assert_eq!(told(one), told(other));
    }

    #[test]
    fn a_hierarchy_of_brokers_offers_what_one_broker_offers(grid in a_grid(), request in a_request()) {
        let (mut flat, mut hierarchy) = (grid.flat(), grid.hierarchy());
        let [one, other] = [&mut flat, &mut hierarchy].map(|town| offers(town, &request, ALL));
        prop_assert_eq!(one.len(), other.len());
        if one.len() < ALL as usize {
            prop_assert_eq!(at_sites(&one), at_sites(&other));
        }
    }

    #[test]
    fn every_begin_in_the_range_of_an_offer_is_granted(
        grid in a_grid(),
        request in a_request(),
        (which, moved, later) in any::<(prop::sample::Index, prop::sample::Index, prop::sample::Index)>(),
    ) {
        let mut town = grid.telling_free().hierarchy();
        let offers = offers(&mut town, &request, 20);
        prop_assume!(!offers.is_empty());
        let offer = which.get(&offers);
        let moved = moved.index(offer.slots.len());
        let mut wanted = request.clone();
        for (part, slot) in wanted.parts.iter_mut().zip(&offer.slots) {
            part.resource = Some(slot.resource.clone());
            part.wanted.earliest_start = slot.interval.begin;
            part.wanted.latest_end = slot.interval.end + slot.slack;
        }
        let slot = &offer.slots[moved];
        let begin = slot.interval.begin + Seconds(later.index(slot.slack.0 as usize + 1) as i64);
        wanted.parts[moved] = wanted.parts[moved].fixed(begin, slot.resource.clone());
        let got = granted(&mut town, 1, &wanted);
        prop_assert_eq!(got.map(|(begins, _)| begins[moved]), Some(begin));
    }
}

/// North is free from 1100 on, south until 1200: only 1100 is possible for both.
fn two_sites() -> Town {
    let mut town = Town::new();
    for (site, from, until) in [("north", 1_000, 1_100), ("south", 1_200, 1_900)] {
        town.cluster(site, 8);
        town.reserve(site, 1, Request::single(part("processors", 8, from, until, until - from)), true);
    }
    town.broker("low", &["north", "south"]);
    town.broker("apex", &["low"]);
    town
}

#[test]
fn sites_whose_earliest_begins_differ_are_booked_together_through_two_brokers() {
    let mut town = two_sites();
    let request = super::town::together(vec![part("processors", 4, 1_000, 2_000, 100); 2]);
    let held = reservation(town.reserve("apex", 7, request, false));
    assert!(held.slots.iter().all(|slot| slot.interval.begin == Time(1_100)), "{held:?}");
}

#[test]
fn a_broker_tells_the_range_of_begins_of_a_slot_and_of_a_combination() {
    let mut town = two_sites();
    let range = |slot: &Slot| (slot.site.clone(), slot.interval.begin.0, slot.slack.0);
    let single = Request::single(part("processors", 4, 1_000, 2_000, 50));
    let told: Vec<(Name, i64, i64)> =
        offers(&mut town, &single, 10).iter().map(|offer| range(&offer.slots[0])).collect();
    assert_eq!(told, [(name("south"), 1_000, 150), (name("north"), 1_100, 850), (name("south"), 1_900, 50)]);

    let both = super::town::together(vec![part("processors", 4, 1_000, 2_000, 50); 2]);
    let first = offers(&mut town, &both, 10).remove(0);
    let told: Vec<(i64, i64)> =
        first.slots.iter().map(|slot| (slot.interval.begin.0, slot.slack.0)).collect();
    assert_eq!(told, [(1_100, 50), (1_100, 50)]);
}

#[test]
fn parts_that_take_turns_keep_their_order_in_the_range() {
    let mut town = Town::new();
    town.cluster("north", 8);
    town.broker("apex", &["north"]);
    let apart = part("processors", 8, 1_000, 1_400, 100);
    let request = Request { parts: vec![apart; 2], ..Request::single(part("processors", 8, 0, 1, 1)) };
    let offer = offers(&mut town, &request, 1).remove(0);
    let told: Vec<(i64, i64)> =
        offer.slots.iter().map(|slot| (slot.interval.begin.0, slot.slack.0)).collect();
    assert_eq!(told, [(1_000, 200), (1_100, 200)], "the first ends before the second begins");
}

#[test]
fn a_broker_asks_a_broker_for_the_slots_of_all_its_sites() {
    let mut town = Town::new();
    let sites: Vec<String> = (0..12).map(|at| format!("site{at:02}")).collect();
    for site in &sites {
        town.cluster(site, 8);
        for hour in 0..15 {
            let busy = part("processors", 8, 1_000 + hour * 200, 1_100 + hour * 200, 100);
            town.reserve(site, hour as u128, Request::single(busy), true);
        }
    }
    let sites: Vec<&str> = sites.iter().map(String::as_str).collect();
    town.broker("low", &sites);
    town.site("late", vec![Resource::new("late", "cluster", "processors", 16)]);
    town.broker("apex", &["late", "low"]);
    // Each of the twelve has sixteen slots; only the last of them matches the sixteen processors of "late".
    let mut wanted = part("processors", 16, 1_000, 5_000, 100);
    wanted.wanted.earliest_start = Time(3_900);
    let request = super::town::together(vec![wanted, part("processors", 8, 1_000, 5_000, 100)]);
    let held = reservation(town.reserve("apex", 777, request, false));
    assert_eq!(held.slots[1].interval.begin, Time(3_900));
    assert_eq!(held.slots[0].capacity, Capacity(16));
}
