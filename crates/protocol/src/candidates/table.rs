//! What is searched, made ready once: for each part the slots that can serve it at all, in the order of their
//! begins, with numbers instead of names. It never changes while the search goes on.

use super::Found;
use super::spatial::{self, Place};
use super::temporal::{Difference, differences, overlaps};
use crate::ids::Name;
use crate::message::Slot;
use crate::request::{Constraint, Objective, Part, Request};
use bookahead_plan::{Capacity, Seconds, Time};
use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::Add;

/// What the objective makes smallest: two figures, of which the second decides between equals. None of them where
/// the objective is the earliest end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Cost([i128; 2]);

/// All that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Table {
    /// One for each part; none if the request is malformed.
    pub(super) rows: Vec<Row>,
    pub(super) differences: Vec<Difference>,
    /// In which order parts are decided on: those that leave the fewest choices, to themselves or to others, first.
    pub(super) order: Vec<usize>,
    /// Whether slots differ in what they cost.
    pub(super) costly: bool,
}

/// What can be chosen for one part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Row {
    pub(super) duration: Seconds,
    pub(super) capacity: Capacity,
    /// By their earliest begin, then as found.
    pub(super) choices: Vec<Choice>,
    /// By how much a choice can begin later at most.
    pub(super) widest: Seconds,
    /// The latest begin of all.
    pub(super) latest: Time,
    pub(super) cheapest: Cost,
    /// What must be true of its place.
    pub(super) spatial: Vec<Constraint>,
    /// The parts that overlap it in time, whenever they begin.
    pub(super) overlaps: Vec<usize>,
}

/// A slot for a part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Choice {
    pub(super) earliest: Time,
    pub(super) latest: Time,
    pub(super) found: usize,
    pub(super) cost: Cost,
    pub(super) place: Place,
    /// Its peer, and its name there.
    pub(super) resource: [usize; 2],
    pub(super) free: Option<Capacity>,
}

impl Table {
    pub(super) fn new(request: &Request, found: &[Vec<Found>]) -> Table {
        if request.check().is_err() || found.len() != request.parts.len() {
            return Table { rows: vec![], differences: vec![], order: vec![], costly: false };
        }
        let mut numbers = Numbers::default();
        let differences: Vec<Difference> =
            request.constraints.iter().flat_map(|one| differences(one, &request.parts)).collect();
        let mut rows: Vec<Row> =
            found.iter().enumerate().map(|(at, found)| row(request, at, found, &mut numbers)).collect();
        let lasts: Vec<Seconds> = rows.iter().map(|row| row.duration).collect();
        for (row, overlaps) in rows.iter_mut().zip(overlaps(&differences, &lasts)) {
            row.overlaps = overlaps;
        }
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|&at| {
            let choices = rows[at].choices.len();
            (choices > 1, spatial::rank(&request.constraints, at), choices, at)
        });
        Table { rows, differences, order, costly: request.objective != Objective::EarliestEnd }
    }

    /// When the last part ends.
    pub(super) fn end(&self, begins: &[Time]) -> Time {
        let ends = self.rows.iter().zip(begins).map(|(row, &begin)| begin + row.duration);
        ends.max().unwrap_or(Time::MIN)
    }
}

fn row<'a>(request: &Request, at: usize, found: &'a [Found], numbers: &mut Numbers<'a>) -> Row {
    let part = &request.parts[at];
    let about_place = |constraint: &&Constraint| spatial::concerns(constraint, at);
    let spatial: Vec<Constraint> = request.constraints.iter().filter(about_place).cloned().collect();
    let mut choices: Vec<Choice> = found
        .iter()
        .enumerate()
        .filter(|(_, found)| serves(part, &found.slot))
        .map(|(at, found)| numbers.choice(part, at, found, request.objective))
        .filter(|choice| choice.earliest <= choice.latest)
        .filter(|choice| {
            spatial.iter().all(|one| spatial::possible(one, |part| (part == at).then_some(choice.place)))
        })
        .collect();
    choices.sort_by_cached_key(|choice| (choice.earliest, choice.found));
    Row {
        duration: part.wanted.duration,
        capacity: part.wanted.capacity,
        widest: choices.iter().map(|choice| choice.latest - choice.earliest).max().unwrap_or_default(),
        latest: choices.iter().map(|choice| choice.latest).max().unwrap_or(Time::MIN),
        cheapest: choices.iter().map(|choice| choice.cost).min().unwrap_or_default(),
        choices,
        spatial,
        overlaps: vec![],
    }
}

/// Whether a slot has what the part wants, whatever the site was asked for.
fn serves(part: &Part, slot: &Slot) -> bool {
    slot.capacity >= part.wanted.capacity && slot.free.is_none_or(|free| free >= part.wanted.capacity)
}

/// Numbers for names: these are compared far more often than there are names.
#[derive(Default)]
struct Numbers<'a> {
    numbers: BTreeMap<&'a Name, usize>,
    /// The last name in each of these roles: slots of one answer come one after the other.
    last: [Option<(&'a Name, usize)>; 5],
}

const PEER: usize = 0;
const RESOURCE: usize = 1;
const SITE: usize = 2;
const JOINS: [usize; 2] = [3, 4];

impl<'a> Numbers<'a> {
    fn choice(&mut self, part: &Part, at: usize, found: &'a Found, objective: Objective) -> Choice {
        let Found { peer, slot } = found;
        let begin = slot.interval.begin;
        let joins = slot.joins.as_ref();
        Choice {
            earliest: begin.max(part.wanted.earliest_start),
            latest: (begin + slot.slack).min(part.wanted.latest_start()),
            found: at,
            cost: Cost::of(slot, objective),
            place: Place {
                site: self.number(SITE, &slot.site),
                joins: joins.map(|sites| [0, 1].map(|end| self.number(JOINS[end], &sites[end]))),
            },
            resource: [self.number(PEER, peer), self.number(RESOURCE, &slot.resource)],
            free: slot.free,
        }
    }

    fn number(&mut self, role: usize, name: &'a Name) -> usize {
        if let Some((last, number)) = self.last[role]
            && last == name
        {
            return number;
        }
        let next = self.numbers.len();
        let number = *self.numbers.entry(name).or_insert(next);
        self.last[role] = Some((name, number));
        number
    }
}

impl Cost {
    fn of(slot: &Slot, objective: Objective) -> Cost {
        let impact = slot.impact.unwrap_or_default();
        Cost(match objective {
            Objective::EarliestEnd => [0, 0],
            Objective::BestAvailability => [-slot.rating.map_or(0, |rating| i128::from(rating.0)), 0],
            Objective::LeastImpact => [impact.total_delay.0.into(), impact.delayed.into()],
            Objective::LowestCost => [slot.cost.into(), 0],
        })
    }
}

impl Add for Cost {
    type Output = Cost;
    fn add(self, other: Cost) -> Cost {
        Cost([self.0[0] + other.0[0], self.0[1] + other.0[1]])
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        costs.fold(Cost::default(), Add::add)
    }
}
