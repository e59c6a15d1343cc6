//! What is open: for each part either a choice that was made, or all choices that are left; and the walk over those of
//! one part, slot by slot. A walk can pause after every slot. Nothing here decides.

use super::meter::Meter;
use super::spatial;
use super::table::{Choice, Table};
use bookahead_plan::Time;
use std::task::Poll;

/// What is open for one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Domain {
    /// The choice that was made.
    pub(super) pick: Option<usize>,
    /// Otherwise: it begins no earlier.
    pub(super) floor: Time,
}

/// What is open for all of them.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) table: &'a Table,
    /// For each part, which of the slots found were excluded.
    pub(super) gone: &'a [Vec<bool>],
    pub(super) domains: &'a [Domain],
}

/// A walk over the choices for a part that can begin between two times, in the order of their begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Scan {
    part: usize,
    earliest: Time,
    latest: Time,
    next: usize,
}

impl Domain {
    /// Nothing is decided.
    pub(super) const OPEN: Domain = Domain { pick: None, floor: Time::MIN };
}

impl<'a> Scope<'a> {
    /// The same with other domains.
    pub(super) fn with<'b>(self, domains: &'b [Domain]) -> Scope<'b>
    where
        'a: 'b,
    {
        Scope { domains, ..self }
    }

    /// What was chosen for a part.
    pub(super) fn choice(self, part: usize) -> Option<&'a Choice> {
        self.domains[part].pick.map(|at| &self.table.rows[part].choices[at])
    }

    fn allows(self, part: usize, choice: &Choice, meter: &mut Meter) -> bool {
        let row = &self.table.rows[part];
        let place = |other: usize| {
            if other == part { Some(choice.place) } else { self.choice(other).map(|choice| choice.place) }
        };
        if self.gone[part][choice.found] {
            return false;
        }
        let broken = row.spatial.iter().position(|constraint| !spatial::possible(constraint, place));
        meter.charge(broken.map_or(row.spatial.len() + row.overlaps.len(), |at| at + 1));
        broken.is_none() && !self.clashes(part, choice)
    }
}

impl Scan {
    pub(super) fn new(table: &Table, part: usize, earliest: Time, latest: Time) -> Scan {
        let row = &table.rows[part];
        let next = row.choices.partition_point(|choice| choice.earliest < earliest - row.widest);
        Scan { part, earliest, latest, next }
    }

    /// The next choice that can be had in the scope; none at the end of the walk.
    pub(super) fn next(&mut self, scope: Scope<'_>, meter: &mut Meter) -> Poll<Option<usize>> {
        let choices = &scope.table.rows[self.part].choices;
        while let Some(choice) = choices.get(self.next).filter(|choice| choice.earliest <= self.latest) {
            if meter.is_spent() {
                return Poll::Pending;
            }
            meter.charge(1);
            let at = self.next;
            self.next += 1;
            if choice.latest >= self.earliest && scope.allows(self.part, choice, meter) {
                return Poll::Ready(Some(at));
            }
        }
        Poll::Ready(None)
    }
}
