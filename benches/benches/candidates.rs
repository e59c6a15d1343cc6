//! The search for co-reservation candidates: four parts with 2,000 slots each. Measures copying the slots, preparing
//! them and finding the best combination, and nine more; compared with a search of all combinations of few slots.

use bookahead_benches::{Chance, Guard, Outcome, Report, guard, in_turn, people, timed};
use bookahead_plan::placement::Request as Wanted;
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use bookahead_protocol::candidates::{Budget, Found, Progress, Search};
use bookahead_protocol::{Constraint, Impact, Objective, Part, Rating, Request, Slot};
use std::time::Duration;

const PARTS: usize = 4;
const DAY: i64 = 86_400;
const OBJECTIVES: [Objective; 4] =
    [Objective::EarliestEnd, Objective::BestAvailability, Objective::LeastImpact, Objective::LowestCost];
const BUDGET: Duration = Duration::from_millis(200);
const PLENTY: Budget = Budget { work: 1_000_000_000 };

pub(crate) fn main() -> Report {
    guard("candidates", run)
}

fn run(guard: &mut Guard) -> Outcome<()> {
    let few = instance(6, 2, &kinds()[0].1, Objective::LowestCost, 1_800);
    for (name, slack) in [("slots of one begin", 0), ("slots that may begin up to half an hour later", 1_800)]
    {
        println!("four parts, 100 sites with 20 slots for each, {name}");
        println!(
            "{:>32} {:>17} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "", "", "copy", "first", "work", "nine more", "work"
        );
        for (kind, constraints) in kinds() {
            for objective in OBJECTIVES {
                if guard.wants(&format!("{kind}, {objective:?}, slack {slack}")) {
                    large(guard, &few.1, kind, &constraints, objective, slack);
                }
            }
        }
        println!();
    }
    small(guard, &few);
    Ok(())
}

/// Sets of constraints between four parts.
fn kinds() -> [(&'static str, Vec<Constraint>); 4] {
    let together = |second| Constraint::Offset { first: 0, second, by: Seconds(0) };
    let together: Vec<Constraint> = (1..PARTS).map(together).collect();
    let chain = (1..PARTS).map(|second| Constraint::After {
        first: second - 1,
        second,
        least: Seconds(0),
        most: Some(Seconds(1_800)),
    });
    let same_site = [together.clone(), vec![Constraint::SameSite(0, 1), Constraint::DifferentSites(1, 2)]];
    let linked = [together.clone(), vec![Constraint::Joins { link: 3, ends: [0, 1] }]];
    [
        ("start together", together),
        ("one after the other", chain.collect()),
        ("together, two at one site", same_site.concat()),
        ("together, over a link", linked.concat()),
    ]
}

fn large(
    guard: &mut Guard,
    few: &[Vec<Found>],
    kind: &str,
    constraints: &[Constraint],
    objective: Objective,
    slack: i64,
) {
    let (request, found) = instance(100, 20, constraints, objective, slack);
    let unsearched = Search::new(&request, found.clone(), PLENTY);
    let after = |search: &Search, most: usize| {
        let mut search = search.clone();
        let got = search.by_ref().take(most).count();
        (got, search)
    };
    let (first, first_search) = after(&unsearched, 1);
    let (more, mut last_search) = after(&first_search, 9);
    let [copy, time_of_first, time_of_more, plain] = in_turn(
        BUDGET,
        [
            timed(|| found.clone()),
            timed(|| after(&unsearched, 1)),
            timed(|| after(&first_search, 9)),
            timed(|| all_combinations(few)),
        ],
    );
    let row = format!("{kind}, {objective:?}, slack {slack}");
    guard.times(format!("{row}, first"), time_of_first, plain);
    guard.times(format!("{row}, nine more"), time_of_more, plain);
    let [copy, time_of_first, time_of_more] = [copy, time_of_first, time_of_more].map(people);
    let (got, work) = (first + more, [first_search.work(), last_search.work() - first_search.work()]);
    let remark = match last_search.advance(0) {
        Progress::More | Progress::Found(_) => String::new(),
        Progress::Exhausted => format!("   there are {got}"),
        Progress::OutOfBudget => format!("   stopped after {got}"),
    };
    println!(
        "{kind:>32} {:>17} {copy:>10} {time_of_first:>10} {:>10} {time_of_more:>10} {:>10}{remark}",
        format!("{objective:?}"),
        work[0],
        work[1],
    );
}

fn small(guard: &mut Guard, (request, found): &(Request, Vec<Vec<Found>>)) {
    println!("four parts, 12 slots for each, start together");
    let ours = timed(|| Search::new(request, found.clone(), PLENTY).next().map(|best| best.end));
    let [ours, plain] = in_turn(BUDGET, [ours, timed(|| all_combinations(found))]);
    guard.times("few slots, first", ours, plain);
    let best = Search::new(request, found.clone(), PLENTY).next();
    let cost = best.map(|best| best.slots().map(|(_, _, slot)| slot.cost).sum());
    let same = if cost == all_combinations(found) { "the same cost" } else { "ANOTHER COST" };
    println!("{:>32} {:>10}", "first candidate", people(ours));
    println!(
        "{:>32} {:>10}   {:.0} times as long, {same}",
        "all 20,736 combinations",
        people(plain),
        plain / ours
    );
}

/// Lowest cost of four slots with a common begin.
fn all_combinations(found: &[Vec<Found>]) -> Option<u64> {
    let mut least = None;
    for a in &found[0] {
        for b in &found[1] {
            for c in &found[2] {
                for d in &found[3] {
                    let slots = [a, b, c, d].map(|found| &found.slot);
                    let earliest = slots.iter().map(|slot| slot.interval.begin).max();
                    let latest = slots.iter().map(|slot| slot.interval.begin + slot.slack).min();
                    let cost: u64 = slots.iter().map(|slot| slot.cost).sum();
                    if earliest <= latest && least.is_none_or(|least| cost < least) {
                        least = Some(cost);
                    }
                }
            }
        }
    }
    least
}

/// Slots that begin at a random quarter of an hour of a day, with random ratings. Those of the last part are links to
/// one of the next three sites.
fn instance(
    sites: u64,
    each: u64,
    constraints: &[Constraint],
    objective: Objective,
    slack: i64,
) -> (Request, Vec<Vec<Found>>) {
    let chance = &mut Chance::new(7);
    let wanted = Wanted {
        earliest_start: Time(0),
        latest_end: Time(3 * DAY),
        duration: Seconds(3_600),
        capacity: Capacity(16),
    };
    let parts = vec![Part::new(wanted, "processors"); PARTS];
    let found = (0..PARTS)
        .map(|part| {
            (0..sites)
                .flat_map(|site| (0..each).map(move |_| site))
                .map(|site| slot(chance, part, [site, sites], slack))
                .collect()
        })
        .collect();
    (Request { objective, ..Request::new(parts, constraints.to_vec()) }, found)
}

fn slot(chance: &mut Chance, part: usize, [site, sites]: [u64; 2], slack: i64) -> Found {
    let name = |site: u64| format!("site-{site}").into();
    let delay = Seconds(chance.between(0, 10_000));
    let slot = Slot {
        resource: "cluster".into(),
        site: name(site),
        joins: (part == PARTS - 1).then(|| [name(site), name((site + 1 + chance.below(3)) % sites)]),
        interval: Interval::starting(Time(chance.between(0, 95) * 900), Seconds(3_600)),
        capacity: Capacity(16),
        slack: Seconds(chance.between(0, slack)),
        free: Some(Capacity(chance.between(16, 64) as u32)),
        tres: Default::default(),
        free_tres: Default::default(),
        rating: Some(Rating(chance.below(1_000_001) as u32)),
        impact: Some(Impact { delayed: 1, total_delay: delay, longest_delay: delay }),
        cost: chance.below(10_000),
    };
    Found { peer: name(site), slot }
}
