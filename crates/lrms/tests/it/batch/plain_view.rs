//! The view of any picture equals a naive computation for each instant, and never exceeds the capacity.

use super::pretend::Pretend;
use super::{seen, settings};
use bookahead_lrms::Batch;
use bookahead_lrms::batch::{FactState, Handle, JobFact, Node, Reserved, Tag, Unit};
use bookahead_party::Seen;
use bookahead_plan::{Interval, Seconds, Span, Time};
use bookahead_protocol::{Name, ReservationId};
use bookahead_tests::cases::cases;
use proptest::prelude::*;
use std::collections::BTreeMap;

const END: i64 = 40;

fn cores() -> impl Strategy<Value = BTreeMap<String, u32>> {
    prop::collection::btree_map((0..5_u32).prop_map(|node| format!("n{node}")), 0..10_u32, 0..4)
}

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let node = (1..9_u32, prop::bool::weighted(0.8), prop::bool::weighted(0.8));
    prop::collection::vec(node, 0..5).prop_map(|nodes| {
        let node = |(at, (cores, usable, here)): (usize, (u32, bool, bool))| {
            let resources = if here { vec![crate::cpu()] } else { Vec::new() };
            Node { name: format!("n{at}"), cores, usable, resources }
        };
        nodes.into_iter().enumerate().map(node).collect()
    })
}

fn reservations() -> impl Strategy<Value = Vec<Reserved>> {
    let one = (prop::bool::ANY, -9..END, 0..20_i64, cores());
    prop::collection::vec(one, 0..8).prop_map(|reservations| {
        let reserved =
            |(at, (ours, begin, length, cores)): (u32, (bool, i64, i64, BTreeMap<String, u32>))| {
                let tag = Tag { id: ReservationId(1 + u128::from(at)), piece: 0, owner: None };
                let name = if ours {
                    tag.name(&Name::from("uni-a"), 200).unwrap()
                } else {
                    format!("maintenance {at}")
                };
                let interval = Interval::new(Time(begin), Time(begin + length));
                Reserved {
                    handle: Handle(at.to_string()),
                    name,
                    interval,
                    cores,
                    spread: true,
                    accounts: Vec::new(),
                    maintenance: false,
                }
            };
        (0..).zip(reservations).map(reserved).collect()
    })
}

/// State, nodes, limit, reservation, and size of a job.
type Drawn = (usize, BTreeMap<String, u32>, Option<i64>, Option<u32>, u32);

fn jobs() -> impl Strategy<Value = Vec<JobFact>> {
    let one = (0..3_usize, cores(), prop::option::of(-5..50_i64), prop::option::of(0..8_u32), 0..99_u32);
    prop::collection::vec(one, 0..8).prop_map(|jobs| {
        let job = |(at, (state, placed, limit, within, cores)): (usize, Drawn)| JobFact {
            restarts: 0,
            native: at.to_string(),
            name: String::new(),
            account: String::new(),
            resources: vec![crate::cpu()],
            state: [FactState::Running, FactState::Waiting, FactState::Cancelled][state].clone(),
            cores,
            nodes: cores / 4,
            placed,
            submitted: Time(0),
            eligible: None,
            started: (state == 0).then_some(Time(0)),
            ended: None,
            limit: limit.map(Seconds),
            reservations: within.into_iter().map(|at| Handle(at.to_string())).collect(),
            expected_start: None,
            awaits_go: false,
        };
        jobs.into_iter().enumerate().map(job).collect()
    })
}

fn at(spans: &[Span], instant: i64) -> u32 {
    spans.iter().filter(|span| span.interval.contains(Time(instant))).map(|span| span.capacity.0).sum()
}

fn share(unit: Unit, node: &Node, cores: u32) -> u32 {
    if unit == Unit::Nodes { u32::from(cores > 0) } else { cores.min(node.cores) }
}

fn is_ours(reserved: &Reserved) -> bool {
    reserved.name.starts_with("ba.")
}

/// Cores of a node that some reservations have at an instant.
fn reserved(all: &[Reserved], node: &Node, instant: i64, whose: impl Fn(&Reserved) -> bool) -> u32 {
    let then = all.iter().filter(|reserved| reserved.interval.contains(Time(instant)) && whose(reserved));
    then.filter_map(|reserved| reserved.cores.get(&node.name)).sum()
}

fn assert_foreign(seen: &Seen, nodes: &[&Node], all: &[Reserved], unit: Unit, capacity: u32) {
    for instant in 0..END + 20 {
        let taken = |node: &&&Node| share(unit, node, reserved(all, node, instant, |other| !is_ours(other)));
        let plain: u32 = nodes.iter().map(|node| taken(&node)).sum();
        assert_eq!(at(&seen.view.foreign, instant), plain.min(capacity), "at {instant}");
    }
}

fn assert_backings(seen: &Seen, nodes: &[&Node], all: &[Reserved], unit: Unit, capacity: u32) {
    let live = |reserved: &&Reserved| is_ours(reserved) && reserved.interval.end > Time(0);
    assert_eq!(seen.backings.len(), all.iter().filter(live).count());
    for ours in all.iter().filter(live) {
        let id = Tag::read(&ours.name, &Name::from("uni-a")).unwrap().id;
        let of = |cores: &u32| if unit == Unit::Nodes { u32::from(*cores > 0) } else { *cores };
        let all_of_it: u32 = ours.cores.values().map(of).sum();
        let on = |node: &&&Node| ours.cores.get(&node.name).map_or(0, |cores| share(unit, node, *cores));
        let up: u32 = nodes.iter().map(|node| on(&node)).sum();
        let away = seen.away.get(&id).map_or(0, |away| away.0);
        let never = ours.interval.is_empty();
        assert_eq!(away, if never { 0 } else { all_of_it.saturating_sub(up) }, "{id}");
        for instant in (0..END + 20).filter(|instant| ours.interval.contains(Time(*instant))) {
            let is_lost = |node: &&&Node| {
                let foreign = all.iter().any(|other| {
                    let then = other.interval.contains(Time(instant)) && other.cores.contains_key(&node.name);
                    then && !is_ours(other)
                });
                foreign && reserved(all, node, instant, |_| true) > node.cores
            };
            let lost: u32 = nodes.iter().filter(is_lost).map(|node| on(&node)).sum();
            let plain = all_of_it.saturating_sub(lost);
            assert_eq!(at(&seen.backings[&id], instant), plain.min(capacity), "{id} at {instant}");
        }
    }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn any_picture_is_shown_as_a_plain_look_at_each_instant_shows_it(
        nodes in nodes(), reservations in reservations(), jobs in jobs(), capacity in 0..40_u32, whole in any::<bool>(),
    ) {
        let pretend = Pretend::new(0, 0);
        let unit = if whole { Unit::Nodes } else { Unit::Cores };
        {
            let mut world = pretend.world();
            (world.nodes, world.reservations, world.jobs) = (nodes.clone(), reservations.clone(), jobs);
        }
        let seen = seen(&Batch::new(Box::new(pretend), settings(unit, capacity)).unwrap(), 0);
        let here = |node: &&Node| node.usable && !node.resources.is_empty();
        let usable: Vec<&Node> = nodes.iter().filter(here).collect();
        let there: u32 = usable.iter().map(|node| share(unit, node, node.cores)).sum();
        prop_assert_eq!(seen.lost.0, capacity.saturating_sub(there));
        prop_assert!(seen.view.running.iter().map(|job| job.capacity.0).sum::<u32>() <= capacity);
        prop_assert!(seen.view.running.iter().all(|job| job.expected_end > Time(0) && job.capacity.0 > 0));
        prop_assert!(seen.view.waiting.iter().all(|job| job.capacity.0 <= capacity.max(1)));
        assert_foreign(&seen, &usable, &reservations, unit, capacity);
        assert_backings(&seen, &usable, &reservations, unit, capacity);
    }
}
