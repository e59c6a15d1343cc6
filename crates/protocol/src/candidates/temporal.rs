//! Bounds on begins, and bounds on differences between them: a simple temporal network. Narrowing leaves for each
//! part the earliest begin that differences allow, and these together are a solution.

use super::meter::Meter;
use crate::request::{Constraint, Part};
use bookahead_plan::{Seconds, Time};
use std::collections::BTreeMap;

/// One part begins at least so long after the beginning of another; less than zero is before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Difference {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) least: Seconds,
}

/// When parts can begin.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Bounds {
    pub(super) earliest: Vec<Time>,
    pub(super) latest: Vec<Time>,
}

/// What a constraint means for differences; those about places mean nothing.
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
    /// One round over all differences: whether a bound moved; None where nothing is left.
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

/// The strongest difference for each two parts, in the order of the parts: there are no more than pairs of parts, however
/// many constraints say the same or less.
pub(super) fn folded(constraints: &[Constraint], parts: &[Part]) -> Vec<Difference> {
    let mut strongest: BTreeMap<(usize, usize), Seconds> = BTreeMap::new();
    for Difference { from, to, least } in constraints.iter().flat_map(|one| differences(one, parts)) {
        let known = strongest.entry((from, to)).or_insert(least);
        *known = least.max(*known);
    }
    strongest.into_iter().map(|((from, to), least)| Difference { from, to, least }).collect()
}

/// The parts that overlap `part` in time, whenever it begins.
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
    // Whatever still moves moves forever: then there is no candidate.
    if moved == Some(false) { (0..lasts.len()).filter(overlap).collect() } else { Vec::new() }
}

/// More than any difference between times that can be asked for, and far from where sums saturate.
const ANY: i64 = 1 << 60;
