//! Narrowing moves the earliest begins of all parts forward until each is one that some slot allows, jumping from slot to
//! slot. The result is the earliest that each part can begin at, whatever is chosen in the end. It can pause after every
//! round over the differences and after every slot.

use super::meter::Meter;
use super::scope::{Scan, Scope};
use super::temporal::{Bounds, Difference};
use std::task::{Poll, ready};

/// What it takes to begin, in units of work: memory for the bounds. Measured.
const NARROWING_WORK: usize = 16;

/// A narrowing under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Narrowing {
    bounds: Bounds,
    stage: Stage,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Stage {
    /// So many rounds over the differences were made.
    Rounds(usize),
    /// Parts before this one are at a begin that a slot allows.
    Jump { part: usize, scan: Option<Scan>, moved: bool },
}

impl Narrowing {
    /// Begins with the earliest and the latest that is in question at all; None where a part has no choices.
    pub(super) fn new(scope: Scope<'_>) -> Option<Narrowing> {
        let of = |part: usize| match scope.choice(part) {
            Some(choice) => Some((choice.earliest, choice.latest)),
            None => {
                let row = &scope.table.rows[part];
                Some((row.choices.first()?.earliest.max(scope.domains[part].floor), row.latest))
            }
        };
        let (earliest, latest) = (0..scope.domains.len()).map(of).collect::<Option<_>>()?;
        Some(Narrowing { bounds: Bounds { earliest, latest }, stage: Stage::Rounds(0) })
    }

    /// When each part can begin, if `orders` hold too; None where some part cannot. `scope` and `orders` are the same
    /// from the beginning to the end.
    pub(super) fn advance(
        &mut self,
        scope: Scope<'_>,
        orders: &[Difference],
        meter: &mut Meter,
    ) -> Poll<Option<Bounds>> {
        let parts = scope.domains.len();
        loop {
            match &mut self.stage {
                Stage::Rounds(rounds) => {
                    if meter.is_spent() {
                        return Poll::Pending;
                    }
                    let bounds = if *rounds == 0 { NARROWING_WORK } else { 0 };
                    meter.charge(bounds + scope.table.differences.len() + orders.len() + parts);
                    let moved = self.bounds.round(&scope.table.differences, orders);
                    *rounds += 1;
                    match moved {
                        Some(false) => self.stage = Stage::Jump { part: 0, scan: None, moved: false },
                        // A bound travels over each part once at most; whatever still moves then moves forever.
                        Some(true) if *rounds <= parts => {}
                        _ => return Poll::Ready(None),
                    }
                }
                Stage::Jump { part, moved, .. } if *part == parts => {
                    if !*moved {
                        return Poll::Ready(Some(std::mem::take(&mut self.bounds)));
                    }
                    self.stage = Stage::Rounds(0);
                }
                Stage::Jump { part, .. } if scope.domains[*part].pick.is_some() => *part += 1,
                Stage::Jump { part, scan, moved } => {
                    let earliest = self.bounds.earliest[*part];
                    let latest = self.bounds.latest[*part];
                    let walk = scan.get_or_insert_with(|| Scan::new(scope.table, *part, earliest, latest));
                    let Some(at) = ready!(walk.next(scope, meter)) else { return Poll::Ready(None) };
                    // In the order of begins, the first that is not over has the earliest begin from here.
                    let next = scope.table.rows[*part].choices[at].earliest.max(earliest);
                    *moved |= next > earliest;
                    self.bounds.earliest[*part] = next;
                    (*part, *scan) = (*part + 1, None);
                }
            }
        }
    }
}
