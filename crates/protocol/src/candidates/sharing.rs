//! Parts on one resource: those that are active at the same instant must fit into it together. Where the earliest
//! begins do not, some two of them must not overlap, and every order of every two is tried: intervals that overlap
//! two by two all overlap at one instant, so nothing is missed.

use super::scope::{Meter, Scope};
use super::table::Choice;
use super::temporal::{Bounds, Difference};
use bookahead_plan::{Capacity, Interval, Time};

impl Scope<'_> {
    /// The best begins with which all parts that are decided fit together: the earliest end, then the earliest
    /// begins part by part. `bounds` are what narrowing left.
    pub(super) fn settle(&self, bounds: Bounds, meter: &mut Meter) -> Option<Vec<Time>> {
        let mut best = None;
        self.settle_under(&mut Vec::new(), bounds, &mut best, meter);
        best.map(|(_, begins)| begins)
    }

    fn settle_under(
        &self,
        orders: &mut Vec<Difference>,
        bounds: Bounds,
        best: &mut Option<(Time, Vec<Time>)>,
        meter: &mut Meter,
    ) {
        let begins = bounds.earliest;
        let conflict = self.conflict(&begins);
        let settled = (self.table.end(&begins), begins);
        if best.as_ref().is_some_and(|best| *best <= settled) {
            return; // More orders never make it better.
        }
        if conflict.is_empty() {
            *best = Some(settled);
            return;
        }
        for &from in &conflict {
            for &to in conflict.iter().filter(|&&to| to != from) {
                orders.push(Difference { from, to, least: self.table.rows[from].duration });
                if let Some(bounds) = self.narrow(orders, meter) {
                    self.settle_under(orders, bounds, best, meter);
                }
                orders.pop();
            }
        }
    }

    /// Parts that do not fit together, of which none could be left out; empty where all fit.
    fn conflict(&self, begins: &[Time]) -> Vec<usize> {
        let decided = || (0..begins.len()).filter_map(|part| Some((part, self.choice(part)?)));
        for (part, choice) in decided() {
            let active = |&(other, _): &(usize, _)| {
                Interval::starting(begins[other], self.table.rows[other].duration).contains(begins[part])
            };
            let sharing = decided().filter(|(_, other)| other.resource == choice.resource).filter(active);
            let mut together: Vec<usize> = sharing.map(|(other, _)| other).collect();
            if self.fit(&together) {
                continue;
            }
            for other in together.clone() {
                let fewer: Vec<usize> = together.iter().copied().filter(|&part| part != other).collect();
                if !self.fit(&fewer) {
                    together = fewer;
                }
            }
            return together;
        }
        Vec::new()
    }

    /// Whether a choice cannot be had together with one that is made already: on one resource, at the same time.
    pub(super) fn clashes(&self, part: usize, choice: &Choice) -> bool {
        self.table.rows[part].overlaps.iter().any(|&other| match self.choice(other) {
            Some(decided) if decided.resource == choice.resource => {
                let taken =
                    [part, other].map(|part| u64::from(self.table.rows[part].capacity.0)).iter().sum();
                [choice.free, decided.free]
                    .into_iter()
                    .flatten()
                    .any(|Capacity(free)| u64::from(free) < taken)
            }
            _ => false,
        })
    }

    /// Whether parts that share a resource fit into the least that any of their slots says is free.
    fn fit(&self, parts: &[usize]) -> bool {
        let taken: u64 = parts.iter().map(|&part| u64::from(self.table.rows[part].capacity.0)).sum();
        let free = parts.iter().filter_map(|&part| self.choice(part)?.free).min();
        free.is_none_or(|Capacity(free)| taken <= free.into())
    }
}
