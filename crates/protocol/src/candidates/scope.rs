//! What is open: for each part either a choice that was made, or all choices that are left. Narrowing moves the
//! earliest begins of all parts forward until each is one that some slot allows, jumping from slot to slot. The
//! result is the earliest that each part can begin at, whatever is chosen in the end.

use super::spatial;
use super::table::{Choice, Table};
use super::temporal::{Bounds, Difference};
use bookahead_plan::Time;

/// Counts steps, and stops the search when too many were taken.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Meter {
    pub(super) steps: u64,
    pub(super) stopped: bool,
    most: u64,
}

/// What is open for one part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Domain {
    /// The choice that was made.
    pub(super) pick: Option<usize>,
    /// Otherwise: it begins no earlier.
    pub(super) floor: Time,
}

/// What is open for all of them.
#[derive(Clone)]
pub(super) struct Scope<'a> {
    pub(super) table: &'a Table,
    pub(super) gone: &'a [Vec<bool>],
    pub(super) domains: Vec<Domain>,
}

impl Meter {
    pub(super) fn new(most: u64) -> Meter {
        Meter { steps: 0, stopped: false, most }
    }

    /// None where no more may be taken.
    fn step(&mut self) -> Option<()> {
        self.stopped |= self.steps >= self.most;
        self.steps += u64::from(!self.stopped);
        (!self.stopped).then_some(())
    }
}

impl Domain {
    /// Nothing is decided.
    pub(super) const OPEN: Domain = Domain { pick: None, floor: Time::MIN };
}

impl<'a> Scope<'a> {
    /// When each part can begin, if `orders` hold too; None where some part cannot.
    pub(super) fn narrow(&self, orders: &[Difference], meter: &mut Meter) -> Option<Bounds> {
        let mut bounds = self.hull()?;
        loop {
            meter.step()?;
            if !bounds.narrow(&self.table.differences, orders) {
                return None;
            }
            if !self.jump(&mut bounds)? {
                return Some(bounds);
            }
        }
    }

    /// The earliest and the latest that is in question at all.
    fn hull(&self) -> Option<Bounds> {
        let of = |part: usize| match self.choice(part) {
            Some(choice) => Some((choice.earliest, choice.latest)),
            None => {
                let row = &self.table.rows[part];
                Some((row.choices.first()?.earliest.max(self.domains[part].floor), row.latest))
            }
        };
        let (earliest, latest) = (0..self.domains.len()).map(of).collect::<Option<_>>()?;
        Some(Bounds { earliest, latest })
    }

    /// Moves open parts on to the next begin that a slot allows; false where all are at one already.
    fn jump(&self, bounds: &mut Bounds) -> Option<bool> {
        let mut moved = false;
        for part in 0..self.domains.len() {
            if self.domains[part].pick.is_none() {
                let earliest = bounds.earliest[part];
                let at = self.between(part, earliest, bounds.latest[part]).next()?;
                // In the order of begins, the first that is not over is the one with the earliest begin from here.
                let next = self.table.rows[part].choices[at].earliest.max(earliest);
                moved |= next > earliest;
                bounds.earliest[part] = next;
            }
        }
        Some(moved)
    }

    /// The choices for a part that can begin then, in the order of their begins.
    pub(super) fn between(
        &self,
        part: usize,
        earliest: Time,
        latest: Time,
    ) -> impl Iterator<Item = usize> + use<'_, 'a> {
        let row = &self.table.rows[part];
        let first = row.choices.partition_point(|choice| choice.earliest < earliest - row.widest);
        row.choices[first..]
            .iter()
            .zip(first..)
            .take_while(move |(choice, _)| choice.earliest <= latest)
            .filter(move |(choice, at)| choice.latest >= earliest && self.allows(part, *at))
            .map(|(_, at)| at)
    }

    fn allows(&self, part: usize, at: usize) -> bool {
        let row = &self.table.rows[part];
        let choice = &row.choices[at];
        let place = |other: usize| {
            if other == part { Some(choice.place) } else { self.choice(other).map(|choice| choice.place) }
        };
        !self.gone[part][at]
            && row.spatial.iter().all(|constraint| spatial::possible(constraint, place))
            && !self.clashes(part, choice)
    }

    /// What was chosen for a part.
    pub(super) fn choice(&self, part: usize) -> Option<&'a Choice> {
        self.domains[part].pick.map(|at| &self.table.rows[part].choices[at])
    }
}
