//! A bound that no candidate of a scope can beat. Candidates compare by cost first, so the starts of a bound
//! need to hold only for candidates with that cost: no part starts before the first of its cheapest slots. If
//! no candidate is that cheap, the earliest starts of all slots are used. The computation can pause.

use super::narrowing::{Narrowing, Settling};
use super::scope::{Cheapest, Domain, Key, Narrowed, Scan, Scope};
use super::table::{Cost, Meter};
use bookahead_plan::Time;
use std::task::{Poll, ready};

/// Computes the bound of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Bounding {
    domains: Vec<Domain>,
    stage: Stage,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Stage {
    Narrow(Narrowing),
    /// Finding the cheapest slot of each part; `least` is the cheapest so far for the next part.
    Cheapest {
        narrowed: Narrowed,
        scan: Option<Scan>,
        least: Option<Cheapest>,
    },
    /// Computing the key: with the least cost of every part first; if that is impossible, with the earliest
    /// starts.
    Key {
        narrowed: Narrowed,
        keying: Keying,
        of_cheapest: bool,
    },
}

/// Computes the key of candidates with a given cost.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Keying {
    domains: Vec<Domain>,
    cost: Cost,
    stage: KeyStage,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum KeyStage {
    Narrow(Narrowing),
    Settle(Settling),
    /// Finding the first slot of each part; `least` is the first so far for the next part.
    Slots {
        begins: Vec<Time>,
        found: Vec<usize>,
        scan: Option<Scan>,
        least: Option<usize>,
    },
}

impl Bounding {
    /// None if a part has no choices.
    pub(super) fn new(scope: Scope<'_>) -> Option<Bounding> {
        let stage = Stage::Narrow(Narrowing::new(scope)?);
        Some(Bounding { domains: scope.domains.to_vec(), stage })
    }

    pub(super) fn picks(&self) -> Vec<Option<usize>> {
        self.domains.iter().map(|domain| domain.pick).collect()
    }

    /// The bound and the narrowed scope. None if there is no candidate. If all parts are decided, the bound
    /// is the candidate's own key. The domains of `scope` are ignored.
    pub(super) fn advance(&mut self, scope: Scope<'_>, meter: &mut Meter) -> Poll<Option<(Key, Narrowed)>> {
        let scope = scope.with(&self.domains);
        loop {
            match &mut self.stage {
                Stage::Narrow(narrowing) => {
                    let Some(bounds) = ready!(narrowing.advance(scope, &[], meter)) else {
                        return Poll::Ready(None);
                    };
                    let narrowed = Narrowed { cheapest: Vec::with_capacity(self.domains.len()), bounds };
                    self.stage = Stage::Cheapest { narrowed, scan: None, least: None };
                }
                Stage::Cheapest { narrowed, scan, least } => {
                    while narrowed.cheapest.len() < self.domains.len() {
                        let Some(cheapest) = ready!(cheapest(narrowed, (&mut *scan, least), scope, meter))
                        else {
                            return Poll::Ready(None);
                        };
                        narrowed.cheapest.push(cheapest);
                        (*scan, *least) = (None, None);
                    }
                    let narrowed = std::mem::take(narrowed);
                    let later = |(cheapest, earliest): (&Cheapest, &Time)| cheapest.from > *earliest;
                    let later = narrowed.cheapest.iter().zip(&narrowed.bounds.earliest).any(later);
                    let keying = later.then(|| Keying::of_cheapest(scope, &narrowed.cheapest)).flatten();
                    let of_cheapest = keying.is_some();
                    let keying = keying.unwrap_or_else(|| Keying::within(scope, &narrowed));
                    self.stage = Stage::Key { narrowed, keying, of_cheapest };
                }
                Stage::Key { narrowed, keying, of_cheapest } => match ready!(keying.advance(scope, meter)) {
                    Some(key) => return Poll::Ready(Some((key, std::mem::take(narrowed)))),
                    // No candidate has the least cost in every part. The bound with the earliest starts still
                    // holds.
                    None if *of_cheapest => {
                        (*keying, *of_cheapest) = (Keying::within(scope, narrowed), false);
                    }
                    None => return Poll::Ready(None),
                },
            }
        }
    }
}

/// The cheapest slot of the next part.
fn cheapest(
    narrowed: &Narrowed,
    (scan, least): (&mut Option<Scan>, &mut Option<Cheapest>),
    scope: Scope<'_>,
    meter: &mut Meter,
) -> Poll<Option<Cheapest>> {
    let part = narrowed.cheapest.len();
    let (earliest, latest) = (narrowed.bounds.earliest[part], narrowed.bounds.latest[part]);
    if let Some(choice) = scope.choice(part) {
        return Poll::Ready(Some(Cheapest { cost: choice.cost, from: earliest }));
    }
    let row = &scope.table.rows[part];
    let scan = scan.get_or_insert_with(|| Scan::new(scope.table, part, earliest, latest));
    while let Some(at) = ready!(scan.next(scope, meter)) {
        let choice = &row.choices[at];
        if least.is_none_or(|least| choice.cost < least.cost) {
            *least = Some(Cheapest { cost: choice.cost, from: choice.earliest.max(earliest) });
        }
        // No slot of the part is cheaper, so the scan can stop.
        if choice.cost == row.cheapest {
            break;
        }
    }
    Poll::Ready(*least)
}

impl Keying {
    /// For candidates with at most this cost for each part. None if a part has no choices.
    pub(super) fn of_cheapest(scope: Scope<'_>, cheapest: &[Cheapest]) -> Option<Keying> {
        let floored = |(domain, cheapest): (&Domain, &Cheapest)| Domain {
            floor: domain.floor.max(cheapest.from),
            ..*domain
        };
        let domains: Vec<Domain> = scope.domains.iter().zip(cheapest).map(floored).collect();
        let stage = KeyStage::Narrow(Narrowing::new(scope.with(&domains))?);
        Some(Keying { domains, cost: cost(cheapest), stage })
    }

    /// For candidates within the bounds.
    fn within(scope: Scope<'_>, narrowed: &Narrowed) -> Keying {
        let stage = KeyStage::Settle(Settling::new(narrowed.bounds.clone()));
        Keying { domains: scope.domains.to_vec(), cost: cost(&narrowed.cheapest), stage }
    }

    /// For candidates with these starts.
    pub(super) fn of_begins(scope: Scope<'_>, cheapest: &[Cheapest], begins: Vec<Time>) -> Keying {
        Keying { domains: scope.domains.to_vec(), cost: cost(cheapest), stage: KeyStage::slots(begins) }
    }

    /// The key. None if there is no such candidate.
    pub(super) fn advance(&mut self, scope: Scope<'_>, meter: &mut Meter) -> Poll<Option<Key>> {
        let scope = scope.with(&self.domains);
        loop {
            match &mut self.stage {
                KeyStage::Narrow(narrowing) => match ready!(narrowing.advance(scope, &[], meter)) {
                    Some(bounds) => self.stage = KeyStage::Settle(Settling::new(bounds)),
                    None => return Poll::Ready(None),
                },
                KeyStage::Settle(settling) => match ready!(settling.advance(scope, meter)) {
                    Some(begins) => self.stage = KeyStage::slots(begins),
                    None => return Poll::Ready(None),
                },
                KeyStage::Slots { begins, found, scan, least } => {
                    while let Some(&begin) = begins.get(found.len()) {
                        found.push(ready!(first_found(
                            found.len(),
                            begin,
                            (&mut *scan, least),
                            scope,
                            meter
                        )));
                        (*scan, *least) = (None, None);
                    }
                    let (begins, found) = (std::mem::take(begins), std::mem::take(found));
                    let end = scope.table.end(&begins);
                    return Poll::Ready(Some(Key { cost: self.cost, end, begins, found }));
                }
            }
        }
    }
}

impl KeyStage {
    fn slots(begins: Vec<Time>) -> KeyStage {
        let found = Vec::with_capacity(begins.len());
        KeyStage::Slots { begins, found, scan: None, least: None }
    }
}

/// The lowest index of a slot in which a part can start at `begin`.
fn first_found(
    part: usize,
    begin: Time,
    (scan, least): (&mut Option<Scan>, &mut Option<usize>),
    scope: Scope<'_>,
    meter: &mut Meter,
) -> Poll<usize> {
    if let Some(choice) = scope.choice(part) {
        return Poll::Ready(choice.found);
    }
    let scan = scan.get_or_insert_with(|| Scan::new(scope.table, part, begin, begin));
    while let Some(at) = ready!(scan.next(scope, meter)) {
        let found = scope.table.rows[part].choices[at].found;
        *least = Some(least.map_or(found, |least| least.min(found)));
    }
    // Without such a slot, the lowest possible index is a valid bound.
    Poll::Ready(least.unwrap_or(0))
}

fn cost(cheapest: &[Cheapest]) -> Cost {
    cheapest.iter().map(|cheapest| cheapest.cost).sum()
}
