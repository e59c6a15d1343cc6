//! The input of a search, prepared once: for each part the slots that can serve it, by start, with numbers
//! instead of names. It does not change during the search. Time constraints become bounds on differences of
//! starts, a simple temporal network. Place constraints are checked as far as sites are chosen.
//! Also the meter of work: it counts elementary operations, so the cost of a unit does not depend on the request.

use super::Found;
use crate::ids::Name;
use crate::message::Slot;
use crate::request::{Constraint, Objective, Part, Request};
use bookahead_plan::{Capacity, Seconds, Time};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::iter::Sum;
use std::task::Poll;

/// The quantity that the objective minimizes, and a second one for ties. Zero for the earliest end, which the
/// key compares next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Cost([i128; 2]);

/// Measured work to prepare a slot: looking up its names and sorting it.
const SLOT_WORK: usize = 24;

/// All choices.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Table {
    /// One for each part.
    pub(super) rows: Vec<Row>,
    pub(super) differences: Vec<Difference>,
    /// The order in which parts are decided: those that leave the fewest choices to themselves or to others
    /// first.
    pub(super) order: Vec<usize>,
    /// Whether slots may differ in cost.
    pub(super) costly: bool,
}

/// The choices for one part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Row {
    pub(super) duration: Seconds,
    pub(super) capacity: Capacity,
    /// By earliest start, then in the order found.
    pub(super) choices: Vec<Choice>,
    /// The largest slack of a choice.
    pub(super) widest: Seconds,
    /// The latest start of all choices.
    pub(super) latest: Time,
    pub(super) cheapest: Cost,
    /// Constraints on its place.
    pub(super) spatial: Vec<Constraint>,
    /// Parts that always overlap it in time.
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
    /// Numbers of its peer and of its name there.
    pub(super) resource: [usize; 2],
    pub(super) free: Option<Capacity>,
}

/// A table being made, slot by slot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Preparing {
    request: Request,
    numbers: Numbers,
    table: Table,
    /// The row being made, and the number of slots processed for it.
    row: Row,
    slots: usize,
}

impl Preparing {
    /// None if the request is malformed or the number of parts does not match.
    pub(super) fn new(request: &Request, found: &[Vec<Found>]) -> Option<Preparing> {
        if request.check().is_err() || found.len() != request.parts.len() {
            return None;
        }
        let request = Request { constraints: request.different_constraints(), ..request.clone() };
        let table = Table {
            differences: folded(&request.constraints, &request.parts),
            costly: request.objective != Objective::EarliestEnd,
            ..Table::default()
        };
        let row = Row::new(&request, 0);
        Some(Preparing { request, numbers: Numbers::default(), table, row, slots: 0 })
    }

    /// `found` must be the same in all calls.
    pub(super) fn advance(&mut self, found: &[Vec<Found>], meter: &mut Meter) -> Poll<Table> {
        while self.table.rows.len() < found.len() {
            let part = self.table.rows.len();
            while let Some(slot) = found[part].get(self.slots) {
                if meter.is_spent() {
                    return Poll::Pending;
                }
                meter.charge(SLOT_WORK + self.row.spatial.len());
                self.add(part, slot);
                self.slots += 1;
            }
            if meter.is_spent() {
                return Poll::Pending;
            }
            meter.charge(self.request.constraints.len());
            let next = Row::new(&self.request, part + 1);
            let mut row = std::mem::replace(&mut self.row, next);
            row.complete();
            row.overlaps = overlaps(part, &self.table.differences, &self.request.parts, meter);
            self.table.rows.push(row);
            self.slots = 0;
        }
        let mut table = std::mem::take(&mut self.table);
        table.order = (0..table.rows.len()).collect();
        table.order.sort_by_cached_key(|&at| {
            let Row { choices, spatial, .. } = &table.rows[at];
            // Parts with a single choice come first: deciding them narrows the others at no cost.
            (choices.len() > 1, rank(spatial, at), choices.len(), at)
        });
        Poll::Ready(table)
    }

    fn add(&mut self, at: usize, found: &Found) {
        let part = &self.request.parts[at];
        let (slot, wanted) = (&found.slot, part.wanted.capacity);
        if slot.capacity < wanted || slot.free.is_some_and(|free| free < wanted) {
            return;
        }
        let choice = self.numbers.choice(part, self.slots, found, self.request.objective);
        // Checks what is known without other parts, such as a link that joins no sites.
        let here = |part| (part == at).then_some(choice.place);
        if choice.earliest <= choice.latest
            && self.row.spatial.iter().all(|constraint| possible(constraint, here))
        {
            self.row.choices.push(choice);
        }
    }
}

impl Row {
    /// Without choices. Also called once past the last part; that row is never used.
    fn new(request: &Request, at: usize) -> Row {
        let about_place = |constraint: &&Constraint| concerns(constraint, at);
        let wanted = request.parts.get(at).map(|part| part.wanted);
        Row {
            duration: wanted.map_or(Seconds::ZERO, |wanted| wanted.duration),
            capacity: wanted.map_or(Capacity::ZERO, |wanted| wanted.capacity),
            choices: Vec::new(),
            widest: Seconds::ZERO,
            latest: Time::MIN,
            cheapest: Cost::default(),
            spatial: request.constraints.iter().filter(about_place).cloned().collect(),
            overlaps: Vec::new(),
        }
    }

    /// Sorts the choices and computes the summaries.
    fn complete(&mut self) {
        let choices = &mut self.choices;
        choices.sort_by_cached_key(|choice| (choice.earliest, choice.found));
        self.widest = choices.iter().map(|choice| choice.latest - choice.earliest).max().unwrap_or_default();
        self.latest = choices.iter().map(|choice| choice.latest).max().unwrap_or(Time::MIN);
        self.cheapest = choices.iter().map(|choice| choice.cost).min().unwrap_or_default();
    }
}

impl Row {
    /// Its choices from worst to best, if there is no other part.
    pub(super) fn best_last(&self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.choices.len()).collect();
        all.sort_by_cached_key(|&at| {
            let Choice { cost, earliest, found, .. } = self.choices[at];
            Reverse((cost, earliest, found))
        });
        all
    }
}

impl Table {
    /// End of the last part.
    pub(super) fn end(&self, begins: &[Time]) -> Time {
        let ends = self.rows.iter().zip(begins).map(|(row, &begin)| begin + row.duration);
        ends.max().unwrap_or(Time::MIN)
    }
}

/// Numbers for names, because they are compared far more often than there are names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Numbers {
    numbers: BTreeMap<Name, usize>,
    /// The last name in each role: slots of one answer come in a row, so most lookups hit it.
    last: [Option<(Name, usize)>; 5],
}

const PEER: usize = 0;
const RESOURCE: usize = 1;
const SITE: usize = 2;
const JOINS: [usize; 2] = [3, 4];

impl Numbers {
    fn choice(&mut self, part: &Part, at: usize, found: &Found, objective: Objective) -> Choice {
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

    fn number(&mut self, role: usize, name: &Name) -> usize {
        if let Some((last, number)) = &self.last[role]
            && last == name
        {
            return *number;
        }
        let next = self.numbers.len();
        let number = *self.numbers.entry(name.clone()).or_insert(next);
        self.last[role] = Some((name.clone(), number));
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

impl Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        costs.fold(Cost::default(), |sum, cost| Cost([sum.0[0] + cost.0[0], sum.0[1] + cost.0[1]]))
    }
}

/// Where a choice is. Two sites have the same number if they have the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) site: usize,
    /// For a link: the sites that it joins.
    pub(super) joins: Option<[usize; 2]>,
}

/// Whether a constraint can still be satisfied, with the places chosen so far.
pub(super) fn possible(constraint: &Constraint, place: impl Fn(usize) -> Option<Place>) -> bool {
    let site = |part| place(part).map(|place| place.site);
    let same = |one, other| Some(site(one)? == site(other)?);
    match *constraint {
        Constraint::SameSite(one, other) => same(one, other) != Some(false),
        Constraint::DifferentSites(one, other) => same(one, other) != Some(true),
        Constraint::Joins { link, ends } => match place(link) {
            None => true,
            Some(Place { joins: None, .. }) => false,
            Some(Place { joins: Some([one, other]), .. }) => {
                let at = |end: usize, wanted| site(ends[end]).is_none_or(|site| site == wanted);
                at(0, one) && at(1, other) || at(0, other) && at(1, one)
            }
        },
        Constraint::Offset { .. } | Constraint::After { .. } | Constraint::EndsBefore { .. } => true,
    }
}

/// Whether a constraint is about the place of a part.
fn concerns(constraint: &Constraint, part: usize) -> bool {
    match *constraint {
        Constraint::SameSite(one, other) | Constraint::DifferentSites(one, other) => {
            part == one || part == other
        }
        Constraint::Joins { link, ends } => part == link || ends.contains(&part),
        Constraint::Offset { .. } | Constraint::After { .. } | Constraint::EndsBefore { .. } => false,
    }
}

/// How much the choice of a part narrows the places of others: 0 for a link, which leaves two sites; 1 if it
/// leaves one site; 2 if it hardly narrows.
pub(super) fn rank(constraints: &[Constraint], part: usize) -> u8 {
    let rank = |constraint: &Constraint| match constraint {
        Constraint::Joins { link, .. } if *link == part => 0,
        Constraint::Joins { .. } | Constraint::SameSite(..) => 1,
        _ => 2,
    };
    constraints.iter().filter(|one| concerns(one, part)).map(rank).min().unwrap_or(2)
}

/// `to` starts at least `least` after the start of `from`. Negative: before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Difference {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) least: Seconds,
}

/// Possible starts of each part.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Bounds {
    pub(super) earliest: Vec<Time>,
    pub(super) latest: Vec<Time>,
}

/// The bounds on differences that follow from a constraint. None for constraints on places.
fn differences(constraint: &Constraint, parts: &[Part]) -> Vec<Difference> {
    let least = |from, to, least| Difference { from, to, least: Seconds(least) };
    let most = |from, to, most: i64| least(to, from, most.saturating_neg());
    let lasts = |part: usize| parts[part].wanted.duration.0;
    match *constraint {
        Constraint::Offset { first, second, by } => {
            vec![least(first, second, by.0), most(first, second, by.0)]
        }
        Constraint::After { first, second, least: shortest, most: longest } => {
            let after = |gap: Seconds| lasts(first).saturating_add(gap.0);
            let mut both = vec![least(first, second, after(shortest))];
            both.extend(longest.map(|gap| most(first, second, after(gap))));
            both
        }
        Constraint::EndsBefore { first, second } => {
            vec![least(first, second, lasts(first).saturating_sub(lasts(second)))]
        }
        Constraint::SameSite(..) | Constraint::DifferentSites(..) | Constraint::Joins { .. } => vec![],
    }
}

impl Bounds {
    /// One round over all differences. Returns whether a bound moved; None if a part has no start left.
    pub(super) fn round(&mut self, always: &[Difference], orders: &[Difference]) -> Option<bool> {
        let mut moved = false;
        for &Difference { from, to, least } in always.iter().chain(orders) {
            let earliest = self.earliest[from] + least;
            let latest = self.latest[to] - least;
            moved |= earliest > self.earliest[to] || latest < self.latest[from];
            self.earliest[to] = self.earliest[to].max(earliest);
            self.latest[from] = self.latest[from].min(latest);
        }
        let empty = self.earliest.iter().zip(&self.latest).any(|(earliest, latest)| earliest > latest);
        (!empty).then_some(moved)
    }
}

/// The strongest difference for each ordered pair of parts: at most one per pair, however many constraints
/// there are.
fn folded(constraints: &[Constraint], parts: &[Part]) -> Vec<Difference> {
    let mut strongest: BTreeMap<(usize, usize), Seconds> = BTreeMap::new();
    for Difference { from, to, least } in constraints.iter().flat_map(|one| differences(one, parts)) {
        let known = strongest.entry((from, to)).or_insert(least);
        *known = least.max(*known);
    }
    strongest.into_iter().map(|((from, to), least)| Difference { from, to, least }).collect()
}

/// The parts that overlap `part` in time in every solution.
pub(super) fn overlaps(
    part: usize,
    differences: &[Difference],
    parts: &[Part],
    meter: &mut Meter,
) -> Vec<usize> {
    let lasts: Vec<Seconds> = parts.iter().map(|part| part.wanted.duration).collect();
    let mut from_here =
        Bounds { earliest: vec![Time(-ANY); lasts.len()], latest: vec![Time(ANY); lasts.len()] };
    (from_here.earliest[part], from_here.latest[part]) = (Time(0), Time(0));
    let mut moved = Some(true);
    for _ in 0..=lasts.len() {
        if moved == Some(true) {
            meter.charge(differences.len() + lasts.len());
            moved = from_here.round(differences, &[]);
        }
    }
    let overlap = |other: &usize| {
        let (earliest, latest) = (from_here.earliest[*other], from_here.latest[*other]);
        *other != part && earliest + lasts[*other] > Time(0) && latest < Time(0) + lasts[part]
    };
    // A bound that still moves would move forever; then there is no candidate.
    if moved == Some(false) { (0..lasts.len()).filter(overlap).collect() } else { Vec::new() }
}

/// Larger than any difference of valid times, and far below the limit where sums saturate.
const ANY: i64 = 1 << 60;

/// Counter for the work of one slice.
#[derive(Debug)]
pub(super) struct Meter {
    work: u64,
    pause_at: u64,
}

impl Meter {
    pub(super) fn new(work: u64, pause_at: u64) -> Meter {
        Meter { work, pause_at }
    }

    pub(super) fn charge(&mut self, operations: usize) {
        self.work = self.work.saturating_add(operations as u64);
    }

    /// Whether no new operation may start. A started one is charged in full, even beyond the limit.
    pub(super) fn is_spent(&self) -> bool {
        self.work >= self.pause_at
    }

    pub(super) fn work(&self) -> u64 {
        self.work
    }
}
