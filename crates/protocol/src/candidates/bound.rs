//! What no candidate in a scope can beat. Candidates compare by cost first, so the begins of a bound need to hold
//! only for candidates that cost as little as the bound says: no part begins before the first of its cheapest
//! slots. Where no candidate is that cheap, the earliest begins of all slots do.

use super::node::{Key, Narrowed};
use super::scope::{Meter, Scope};
use super::table::Cost;
use super::temporal::Bounds;
use bookahead_plan::Time;

/// The least that a part costs, and from when on it can be had for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Cheapest {
    pub(super) cost: Cost,
    pub(super) from: Time,
}

impl Scope<'_> {
    /// The bound, and what it was made from; None where there is no candidate. It is the candidate's own key where
    /// all parts are decided.
    pub(super) fn bound(&self, meter: &mut Meter) -> Option<(Key, Narrowed)> {
        let bounds = self.narrow(&[], meter)?;
        let cheapest: Vec<Cheapest> =
            (0..self.domains.len()).map(|part| self.cheapest(part, &bounds)).collect::<Option<_>>()?;
        let later =
            cheapest.iter().zip(&bounds.earliest).any(|(cheapest, earliest)| cheapest.from > *earliest);
        let key = match later.then(|| self.bound_of_cheapest(&cheapest, meter)).flatten() {
            Some(key) => key,
            None => self.key(&cheapest, self.settle(bounds.clone(), meter)?),
        };
        Some((key, Narrowed { bounds, cheapest }))
    }

    /// The bound for candidates that cost no more than this for each part.
    pub(super) fn bound_of_cheapest(&self, cheapest: &[Cheapest], meter: &mut Meter) -> Option<Key> {
        let mut scope = self.clone();
        for (domain, cheapest) in scope.domains.iter_mut().zip(cheapest) {
            domain.floor = domain.floor.max(cheapest.from);
        }
        let bounds = scope.narrow(&[], meter)?;
        Some(scope.key(cheapest, scope.settle(bounds, meter)?))
    }

    /// The key that a candidate would have that costs so much and begins then.
    pub(super) fn key(&self, cheapest: &[Cheapest], begins: Vec<Time>) -> Key {
        let found = begins.iter().enumerate().map(|(part, &begin)| self.first_found(part, begin)).collect();
        Key {
            cost: cheapest.iter().map(|cheapest| cheapest.cost).sum(),
            end: self.table.end(&begins),
            begins,
            found,
        }
    }

    fn cheapest(&self, part: usize, bounds: &Bounds) -> Option<Cheapest> {
        let row = &self.table.rows[part];
        let earliest = bounds.earliest[part];
        if let Some(choice) = self.choice(part) {
            return Some(Cheapest { cost: choice.cost, from: earliest });
        }
        let mut cheapest: Option<Cheapest> = None;
        for at in self.between(part, earliest, bounds.latest[part]) {
            let choice = &row.choices[at];
            if cheapest.is_none_or(|cheapest| choice.cost < cheapest.cost) {
                cheapest = Some(Cheapest { cost: choice.cost, from: choice.earliest.max(earliest) });
            }
            if choice.cost == row.cheapest {
                break;
            }
        }
        cheapest
    }

    /// The first in the order found of all slots in which a part can begin then.
    fn first_found(&self, part: usize, begin: Time) -> usize {
        let row = &self.table.rows[part];
        match self.choice(part) {
            Some(choice) => choice.found,
            None => self.between(part, begin, begin).map(|at| row.choices[at].found).min().unwrap_or(0),
        }
    }
}
