//! Large grids in which decisions take time: one broker falls behind when it gets more than it can handle, a level of
//! brokers below it or fewer probes keep up, nothing is overbooked, and a run with given costs can be repeated.

use bookahead_protocol::Millis;
use bookahead_protocol::broker::Rules;
use bookahead_sim::grid::scale::{Outcome, Scale};
use bookahead_sim::grid::{Cost, PerInput};

/// A broker needs half a millisecond for an input, so it handles 2,000 a second; a site is ten times as fast.
const COST: Cost = Cost { input: PerInput::Given { broker: 500_000, site: 50_000 }, event: 0 };

fn scale(sites: usize, requests_per_hour: f64) -> Scale {
    Scale {
        sites,
        brokers: Vec::new(),
        requests_per_hour,
        duration: Millis::seconds(20),
        ahead: Millis::seconds(4 * 3_600),
        parts: 1,
        rules: Rules::default(),
        latency: (Millis(5), Millis(15)),
        cost: Some(COST),
        seed: 1,
    }
}

fn run(scale: &Scale) -> Outcome {
    let outcome = scale.run().expect("a grid");
    assert_eq!(outcome.violations, [], "{scale:?}");
    assert!(outcome.requests > 10 && outcome.settled_at.is_some());
    assert_eq!(outcome.took.len(), outcome.requests, "every request is answered");
    outcome
}

fn p99(outcome: &Outcome) -> i64 {
    outcome.took_at(0.99).expect("answers").0
}

/// Share of the time in which the busiest party of a level is occupied.
fn busiest(outcome: &Outcome, level: usize) -> f64 {
    outcome.brokers[level].iter().map(|load| load.busy).max().unwrap_or(0) as f64 / 20e9
}

#[test]
fn without_a_cost_decisions_take_no_time() {
    let free = run(&Scale { cost: None, ..scale(20, 3_600.0) });
    assert!(p99(&free) < 150, "{:?}", free.took);
    assert!(free.brokers[0][0].kinds.is_empty());
}

#[test]
fn a_broker_with_more_sites_than_it_can_serve_falls_behind() {
    // Each request is an input for each site and four more; ten requests a second are 240 or 2,040 inputs.
    let (few, many) = (run(&scale(20, 36_000.0)), run(&scale(200, 36_000.0)));
    assert_eq!(few.booked, few.requests);
    assert!(busiest(&few, 0) < 0.3 && p99(&few) < 200, "{} {}", busiest(&few, 0), p99(&few));
    assert!(busiest(&many, 0) > 0.9 && p99(&many) > 1_000, "{} {}", busiest(&many, 0), p99(&many));
    assert!(many.brokers[0][0].longest_queue > 100);
}

#[test]
fn a_level_of_brokers_keeps_what_one_broker_cannot() {
    let tree = run(&Scale { brokers: vec![14], ..scale(200, 36_000.0) });
    assert_eq!(tree.booked, tree.requests);
    assert!(p99(&tree) < 400, "{}", p99(&tree));
    for level in 0..2 {
        assert!(busiest(&tree, level) < 0.5, "level {level}: {}", busiest(&tree, level));
    }
}

#[test]
fn probing_a_few_sites_first_makes_a_request_cost_the_same_for_any_number_of_sites() {
    let rules = Rules { probe_first: Some(4), ..Rules::default() };
    let few = run(&Scale { rules: rules.clone(), ..scale(20, 36_000.0) });
    let many = run(&Scale { rules, ..scale(200, 36_000.0) });
    assert_eq!(many.booked, many.requests);
    let per_request = |outcome: &Outcome| outcome.messages as f64 / outcome.requests as f64;
    assert!((per_request(&few) - per_request(&many)).abs() < 2.0, "{} {}", few.messages, many.messages);
    assert!(busiest(&many, 0) < 0.3 && p99(&many) < 200, "{} {}", busiest(&many, 0), p99(&many));
}

#[test]
fn a_start_at_once_is_not_missed_if_few_sites_are_probed() {
    let at_once = |probe_first| {
        let rules = Rules { probe_first, ..Rules::default() };
        run(&Scale { rules, ahead: Millis::ZERO, cost: None, ..scale(400, 3_600.0) })
    };
    let (all, few) = (at_once(None), at_once(Some(4)));
    // While all sites are probed, 64 at a time, the earliest start passes.
    assert!(all.attempts > all.requests as u64 * 11 / 10, "{} for {}", all.attempts, all.requests);
    assert!(few.attempts < few.requests as u64 * 11 / 10, "{} for {}", few.attempts, few.requests);
    assert_eq!(few.booked, few.requests);
}

#[test]
fn co_reservations_over_a_hierarchy_are_whole_and_nothing_is_overbooked() {
    let rules = Rules { probe_first: Some(2), ..Rules::default() };
    let tree = Scale { parts: 3, brokers: vec![2, 4], rules, ..scale(16, 18_000.0) };
    let outcome = run(&tree);
    assert_eq!(outcome.booked + outcome.refused, outcome.requests);
    assert!(outcome.booked * 10 > outcome.requests * 9, "{} of {}", outcome.booked, outcome.requests);
}

#[test]
fn a_run_with_given_costs_depends_only_on_its_seed() {
    let figures = |seed| {
        let outcome = run(&Scale { seed, brokers: vec![3], ..scale(12, 7_200.0) });
        (outcome.took, outcome.messages, outcome.brokers, outcome.sites)
    };
    assert_eq!(figures(1), figures(1));
    assert_ne!(figures(1).0, figures(2).0);
}
