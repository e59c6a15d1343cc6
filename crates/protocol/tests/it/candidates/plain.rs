//! An exhaustive search: all combinations of slots, all starts, every constraint checked one by one.

use bookahead_plan::{Seconds, Time};
use bookahead_protocol::candidates::Found;
use bookahead_protocol::{Constraint, Objective, Request, Slot};

/// A combination of slots with its best starts, ordered like candidates.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Plain {
    cost: [i128; 2],
    end: i64,
    pub(crate) begins: Vec<i64>,
    pub(crate) found: Vec<usize>,
}

/// All feasible combinations, best first.
pub(crate) fn all(request: &Request, found: &[Vec<Found>]) -> Vec<Plain> {
    let lengths: Vec<usize> = found.iter().map(Vec::len).collect();
    let mut all: Vec<Plain> =
        tuples(&lengths).into_iter().filter_map(|combination| best(request, found, combination)).collect();
    all.sort();
    all
}

/// All ways to choose a number below each of these.
fn tuples(lengths: &[usize]) -> Vec<Vec<usize>> {
    lengths.iter().fold(vec![vec![]], |shorter, &length| {
        let longer = |tuple: &Vec<usize>| {
            let tuple = tuple.clone();
            (0..length).map(move |last| [tuple.clone(), vec![last]].concat())
        };
        shorter.iter().flat_map(longer).collect()
    })
}

/// All starts with which a combination of slots is feasible.
pub(crate) fn begins(request: &Request, slots: &[&Found]) -> Vec<Vec<i64>> {
    let widths: Vec<usize> = slots.iter().map(|found| found.slot.slack.0 as usize + 1).collect();
    let begins = tuples(&widths).into_iter().map(|later| -> Vec<i64> {
        later.iter().zip(slots).map(|(&later, found)| found.slot.interval.begin.0 + later as i64).collect()
    });
    begins.filter(|begins| feasible(request, slots, begins)).collect()
}

fn best(request: &Request, found: &[Vec<Found>], combination: Vec<usize>) -> Option<Plain> {
    let slots: Vec<&Found> = combination.iter().zip(found).map(|(&at, found)| &found[at]).collect();
    let lasts = |part: usize| request.parts[part].wanted.duration.0;
    let end = |begins: &[i64]| (0..begins.len()).map(|part| begins[part] + lasts(part)).max().unwrap();
    let (end, begins) = begins(request, &slots).into_iter().map(|begins| (end(&begins), begins)).min()?;
    let cost = slots.iter().map(|found| cost(request.objective, &found.slot));
    let cost = cost.fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    Some(Plain { cost, end, begins, found: combination })
}

fn cost(objective: Objective, slot: &Slot) -> [i128; 2] {
    let impact = slot.impact.unwrap_or_default();
    match objective {
        Objective::EarliestEnd => [0, 0],
        Objective::BestAvailability => [-slot.rating.map_or(0, |rating| i128::from(rating.0)), 0],
        Objective::LeastImpact => [impact.total_delay.0.into(), impact.delayed.into()],
        Objective::LowestCost => [slot.cost.into(), 0],
    }
}

fn feasible(request: &Request, slots: &[&Found], begins: &[i64]) -> bool {
    let in_window = request.parts.iter().zip(begins).all(|(part, &begin)| {
        begin >= part.wanted.earliest_start.0 && begin + part.wanted.duration.0 <= part.wanted.latest_end.0
    });
    in_window
        && request.constraints.iter().all(|constraint| holds(request, slots, begins, constraint))
        && fits(request, slots, begins)
}

fn holds(request: &Request, slots: &[&Found], begins: &[i64], constraint: &Constraint) -> bool {
    let end = |part: usize| begins[part] + request.parts[part].wanted.duration.0;
    let site = |part: usize| &slots[part].slot.site;
    match *constraint {
        Constraint::Offset { first, second, by: Seconds(by) } => begins[second] - begins[first] == by,
        Constraint::After { first, second, least, most } => {
            let gap = Seconds(begins[second] - end(first));
            gap >= least && most.is_none_or(|most| gap <= most)
        }
        Constraint::EndsBefore { first, second } => end(first) <= end(second),
        Constraint::SameSite(one, other) => site(one) == site(other),
        Constraint::DifferentSites(one, other) => site(one) != site(other),
        Constraint::Joins { link, ends: [one, other] } => match &slots[link].slot.joins {
            None => false,
            Some([a, b]) => (a, b) == (site(one), site(other)) || (b, a) == (site(one), site(other)),
        },
    }
}

/// Whether at every instant of every part, all parts on its resource fit together.
fn fits(request: &Request, slots: &[&Found], begins: &[i64]) -> bool {
    let lasts = |part: usize| request.parts[part].wanted.duration.0;
    (0..begins.len()).all(|part| {
        (begins[part]..begins[part] + lasts(part)).all(|instant| {
            let active: Vec<usize> = (0..begins.len())
                .filter(|&other| {
                    slots[other].peer == slots[part].peer
                        && slots[other].slot.resource == slots[part].slot.resource
                        && begins[other] <= instant
                        && instant < begins[other] + lasts(other)
                })
                .collect();
            let taken: u32 = active.iter().map(|&other| request.parts[other].wanted.capacity.0).sum();
            active.iter().filter_map(|&other| slots[other].slot.free).all(|free| taken <= free.0)
        })
    })
}

/// Whether a slot could start then.
pub(crate) fn could_begin(slot: &Slot, start: Time) -> bool {
    slot.interval.begin <= start && start <= slot.interval.begin + slot.slack
}
