//! Narrowing moves the earliest starts of all parts forward until each is possible in some slot. Settling
//! then orders parts that do not fit together on one resource: every order of every pair is tried. This is
//! enough, because intervals that overlap pairwise all overlap at one instant. There can be very many orders.
//! Both can pause.

use super::scope::{Scan, Scope};
use super::table::{Bounds, Choice, Difference, Meter};
use bookahead_plan::{Capacity, Interval, Time};
use std::task::{Poll, ready};

/// Measured work to start a narrowing, for the memory of the bounds.
const NARROWING_WORK: usize = 16;

/// A narrowing in progress.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Narrowing {
    bounds: Bounds,
    stage: Stage,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Stage {
    /// Number of rounds over the differences.
    Rounds(usize),
    /// Parts before this one are at a start that a slot allows.
    Jump { part: usize, scan: Option<Scan>, moved: bool },
}

impl Narrowing {
    /// Starts with the widest possible bounds. None if a part has no choices.
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

    /// The possible starts of each part, with `orders` kept too. None if a part has none. `scope` and
    /// `orders` must be the same in all calls.
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
                        // A bound passes each part at most once. A bound that still moves then would move
                        // forever.
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
                    // Choices come by start, so the first one that is not over has the earliest possible
                    // start.
                    let next = scope.table.rows[*part].choices[at].earliest.max(earliest);
                    *moved |= next > earliest;
                    self.bounds.earliest[*part] = next;
                    (*part, *scan) = (*part + 1, None);
                }
            }
        }
    }
}

/// Measured work to list the parts that share a resource with one, without visiting them.
const SHARING_WORK: usize = 8;

/// Searches the best starts with which all decided parts fit together, depth first over the orders.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Settling {
    /// The conflicts on the current path, the first at the bottom.
    conflicts: Vec<Conflict>,
    /// The order tried for each of these conflicts.
    orders: Vec<Difference>,
    stage: SettleStage,
    /// End of the last part, and all starts.
    best: Option<(Time, Vec<Time>)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SettleStage {
    /// The earliest starts with the orders so far.
    Begins(Vec<Time>),
    /// The earliest starts with the last order are being computed.
    Narrow(Narrowing),
    /// The next order of the last conflict is due.
    NextOrder,
}

/// Parts that do not fit together, and the number of pairs tried.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Conflict {
    parts: Vec<usize>,
    tried: usize,
}

impl Conflict {
    /// The next pair: the second part starts after the end of the first.
    fn next(&mut self) -> Option<(usize, usize)> {
        let many = self.parts.len();
        loop {
            let (from, to) = (self.tried / many, self.tried % many);
            let from = *self.parts.get(from)?;
            self.tried += 1;
            if from != self.parts[to] {
                return Some((from, self.parts[to]));
            }
        }
    }
}

impl Settling {
    /// `bounds` is the result of narrowing.
    pub(super) fn new(bounds: Bounds) -> Settling {
        let stage = SettleStage::Begins(bounds.earliest);
        Settling { conflicts: Vec::new(), orders: Vec::new(), stage, best: None }
    }

    /// The starts with the earliest end, then the earliest starts part by part. None if nothing fits.
    pub(super) fn advance(&mut self, scope: Scope<'_>, meter: &mut Meter) -> Poll<Option<Vec<Time>>> {
        loop {
            match &mut self.stage {
                SettleStage::Begins(begins) => {
                    if meter.is_spent() {
                        return Poll::Pending;
                    }
                    let begins = std::mem::take(begins);
                    self.settle(begins, scope, meter);
                    self.stage = SettleStage::NextOrder;
                }
                SettleStage::Narrow(narrowing) => {
                    let narrowed = ready!(narrowing.advance(scope, &self.orders, meter));
                    self.leave_or_enter(narrowed);
                }
                SettleStage::NextOrder => {
                    let Some(conflict) = self.conflicts.last_mut() else {
                        return Poll::Ready(self.best.take().map(|(_, begins)| begins));
                    };
                    let Some((from, to)) = conflict.next() else {
                        self.conflicts.pop();
                        self.orders.pop();
                        continue;
                    };
                    self.orders.push(Difference { from, to, least: scope.table.rows[from].duration });
                    match Narrowing::new(scope) {
                        Some(narrowing) => self.stage = SettleStage::Narrow(narrowing),
                        None => self.leave_or_enter(None),
                    }
                }
            }
        }
    }

    /// Undoes the last order if it is not possible; otherwise continues with it.
    fn leave_or_enter(&mut self, narrowed: Option<Bounds>) {
        self.stage = match narrowed {
            Some(bounds) => SettleStage::Begins(bounds.earliest),
            None => {
                self.orders.pop();
                SettleStage::NextOrder
            }
        };
    }

    fn settle(&mut self, begins: Vec<Time>, scope: Scope<'_>, meter: &mut Meter) {
        meter.charge(begins.len());
        let settled = (scope.table.end(&begins), begins);
        // More orders only make starts later, so a path that is not better can be cut.
        if self.best.as_ref().is_none_or(|best| *best > settled) {
            let parts = scope.conflict(&settled.1, meter);
            if !parts.is_empty() {
                self.conflicts.push(Conflict { parts, tried: 0 });
                return;
            }
            self.best = Some(settled);
        }
        self.orders.pop();
    }
}

impl Scope<'_> {
    /// A minimal set of parts that do not fit together; empty if all fit.
    fn conflict(&self, begins: &[Time], meter: &mut Meter) -> Vec<usize> {
        let decided = || (0..begins.len()).filter_map(|part| Some((part, self.choice(part)?)));
        for (part, choice) in decided() {
            meter.charge(SHARING_WORK + begins.len());
            let active = |&(other, _): &(usize, _)| {
                Interval::starting(begins[other], self.table.rows[other].duration).contains(begins[part])
            };
            let sharing = decided().filter(|(_, other)| other.resource == choice.resource).filter(active);
            let mut together: Vec<usize> = sharing.map(|(other, _)| other).collect();
            if self.fit(&together) {
                continue;
            }
            meter.charge(together.len() * together.len());
            // Minimal, because every pair in the conflict is one more branch to try.
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

    /// Whether a choice conflicts with one already made: same resource, always overlapping, too little
    /// capacity.
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

    /// Whether parts that share a resource fit into the smallest free capacity of their slots.
    fn fit(&self, parts: &[usize]) -> bool {
        let taken: u64 = parts.iter().map(|&part| u64::from(self.table.rows[part].capacity.0)).sum();
        let free = parts.iter().filter_map(|&part| self.choice(part)?.free).min();
        free.is_none_or(|Capacity(free)| taken <= free.into())
    }
}
