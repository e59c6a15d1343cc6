//! Bounds on begins, and bounds on differences between them: a simple temporal network. Narrowing leaves for each
//! part the earliest begin that differences allow, and these together are a solution.

use crate::request::{Constraint, Part};
use bookahead_plan::{Seconds, Time};

/// One part begins at least so long after the beginning of another; less than zero is before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Difference {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) least: Seconds,
}

/// When parts can begin.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Bounds {
    pub(super) earliest: Vec<Time>,
    pub(super) latest: Vec<Time>,
}

/// What a constraint means for differences; those about places mean nothing.
pub(super) fn differences(constraint: &Constraint, parts: &[Part]) -> Vec<Difference> {
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
    /// Narrows as far as differences demand; false where nothing is left. Where no difference goes round in a
    /// circle, a bound travels over each part once at most; whatever still moves then moves forever.
    pub(super) fn narrow(&mut self, always: &[Difference], orders: &[Difference]) -> bool {
        for _ in 0..=self.earliest.len() {
            let mut moved = false;
            for &Difference { from, to, least } in always.iter().chain(orders) {
                let earliest = self.earliest[from] + least;
                let latest = self.latest[to] - least;
                moved |= earliest > self.earliest[to] || latest < self.latest[from];
                self.earliest[to] = self.earliest[to].max(earliest);
                self.latest[from] = self.latest[from].min(latest);
            }
            if self.earliest.iter().zip(&self.latest).any(|(earliest, latest)| earliest > latest) {
                return false;
            }
            if !moved {
                return true;
            }
        }
        false
    }
}

/// For each part the others that overlap it in time whenever they begin. `lasts` are the durations.
pub(super) fn overlaps(differences: &[Difference], lasts: &[Seconds]) -> Vec<Vec<usize>> {
    let of = |part: usize| {
        let mut from_here =
            Bounds { earliest: vec![Time(-ANY); lasts.len()], latest: vec![Time(ANY); lasts.len()] };
        (from_here.earliest[part], from_here.latest[part]) = (Time(0), Time(0));
        let possible = from_here.narrow(differences, &[]);
        let overlap = |other: &usize| {
            let (earliest, latest) = (from_here.earliest[*other], from_here.latest[*other]);
            possible && *other != part && earliest + lasts[*other] > Time(0) && latest < Time(0) + lasts[part]
        };
        (0..lasts.len()).filter(overlap).collect()
    };
    (0..lasts.len()).map(of).collect()
}

/// More than any difference between times that can be asked for, and far from where sums saturate.
const ANY: i64 = 1 << 60;
