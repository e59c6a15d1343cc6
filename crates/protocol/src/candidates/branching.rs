//! Deciding one more part: the best choice for it becomes one decision, all other choices together another.
//! Both are queued with a bound. The computation can pause.

use super::bound::{Bounding, Keying};
use super::scope::{Cheapest, Domain, Key, Node, Queue, Scan, Scope};
use super::table::{Cost, Meter, Table};
use bookahead_plan::Time;
use std::cmp::Reverse;
use std::task::{Poll, ready};

/// Number of choices sorted at a time: of many thousands only a few are ever visited.
const HANDFUL: usize = 128;

/// A decision being divided.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Branching {
    node: Node,
    part: usize,
    domains: Vec<Domain>,
    /// Remaining choices, best last.
    choices: Vec<usize>,
    stage: Stage,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Stage {
    /// Sorting the first choices.
    Choose(Choosing),
    /// A choice was taken and none is left: sorting the next ones.
    Refill {
        taken: usize,
        choosing: Choosing,
    },
    /// The bound of the decision for one choice.
    One(Bounding),
    /// The bound of the decision for all others: first with the cheapest choices, if possible.
    Rest {
        keying: Keying,
        cheapest: Vec<Cheapest>,
        of_cheapest: bool,
    },
    Over,
}

/// Sorts the best choices for a part, of those after a choice taken before.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Choosing {
    part: usize,
    scan: Scan,
    /// Earliest start.
    from: Time,
    after: Option<Order>,
    choices: Vec<usize>,
    /// Start of the last choice added.
    last: Option<Time>,
}

/// Sort key of a choice: cost, start, index in the order found.
type Order = (Cost, Time, usize);

impl Branching {
    pub(super) fn new(mut node: Node, part: usize, scope: Scope<'_>) -> Branching {
        let (domains, choices) = (node.domains(), node.choices.take());
        let choosing = choices.is_none().then(|| Choosing::new(&node, part, None, scope.table));
        let stage = choosing.map_or(Stage::Over, Stage::Choose);
        let mut branching = Branching { node, part, domains, choices: choices.unwrap_or_default(), stage };
        branching.take(scope);
        branching
    }

    /// Continues until both decisions are queued, unless they cannot contain a candidate. The domains of
    /// `scope` are ignored.
    pub(super) fn advance(&mut self, scope: Scope<'_>, queue: &mut Queue, meter: &mut Meter) -> Poll<()> {
        loop {
            let here = scope.with(&self.domains);
            match &mut self.stage {
                Stage::Choose(choosing) => {
                    self.choices = ready!(choosing.advance(here, meter));
                    self.stage = Stage::Over;
                    self.take(scope);
                }
                Stage::Refill { taken, choosing } => {
                    self.choices = ready!(choosing.advance(here, meter));
                    let taken = *taken;
                    self.decide(taken, scope);
                }
                Stage::One(bounding) => {
                    if let Some((key, narrowed)) = ready!(bounding.advance(scope, meter)) {
                        let node = Node { key, picks: bounding.picks(), narrowed, choices: None };
                        queue.insert(node, meter);
                    }
                    self.turn_to_rest(scope);
                }
                Stage::Rest { keying, cheapest, of_cheapest } => match ready!(keying.advance(scope, meter)) {
                    Some(key) => {
                        let from = cheapest[self.part].from;
                        queue.insert(self.rest(key, from, scope.table), meter);
                        self.stage = Stage::Over;
                    }
                    None if *of_cheapest && scope.table.costly => {
                        let begins = self.node.narrowed.bounds.earliest.clone();
                        (*keying, *of_cheapest) = (Keying::of_begins(here, cheapest, begins), false);
                    }
                    None => self.stage = Stage::Over,
                },
                Stage::Over => return Poll::Ready(()),
            }
        }
    }

    fn take(&mut self, scope: Scope<'_>) {
        let Some(taken) = self.choices.pop() else { return };
        if self.choices.is_empty() {
            let choosing = Choosing::new(&self.node, self.part, Some(taken), scope.table);
            self.stage = Stage::Refill { taken, choosing };
        } else {
            self.decide(taken, scope);
        }
    }

    fn decide(&mut self, choice: usize, scope: Scope<'_>) {
        let found = scope.table.rows[self.part].choices[choice].found;
        let mut domains = self.domains.clone();
        domains[self.part].pick = Some(choice);
        match Bounding::new(scope.with(&domains)) {
            Some(bounding) if !scope.gone[self.part][found] => self.stage = Stage::One(bounding),
            _ => self.turn_to_rest(scope),
        }
    }

    /// Computes the bound for the remaining choices: none costs less than the next, and of equal cost none
    /// starts earlier.
    fn turn_to_rest(&mut self, scope: Scope<'_>) {
        self.stage = Stage::Over;
        let Some(&following) = self.choices.last() else { return };
        let choice = &scope.table.rows[self.part].choices[following];
        let from = choice.earliest.max(self.node.narrowed.bounds.earliest[self.part]);
        let mut cheapest = self.node.narrowed.cheapest.clone();
        cheapest[self.part] = Cheapest { cost: choice.cost, from };
        if let Some(keying) = Keying::of_cheapest(scope.with(&self.domains), &cheapest) {
            self.stage = Stage::Rest { keying, cheapest, of_cheapest: true };
        }
    }

    /// The decision for all remaining choices. `from` is the start of the next one.
    fn rest(&mut self, mut key: Key, from: Time, table: &Table) -> Node {
        if let Some(&following) = self.choices.last()
            && key.begins[self.part] == from
        {
            key.found[self.part] = table.rows[self.part].choices[following].found;
        }
        Node {
            key: key.max(std::mem::take(&mut self.node.key)),
            picks: std::mem::take(&mut self.node.picks),
            narrowed: std::mem::take(&mut self.node.narrowed),
            choices: Some(std::mem::take(&mut self.choices)),
        }
    }
}

impl Choosing {
    fn new(node: &Node, part: usize, after: Option<usize>, table: &Table) -> Choosing {
        let bounds = &node.narrowed.bounds;
        let (from, latest) = (bounds.earliest[part], bounds.latest[part]);
        let scan = Scan::new(table, part, from, latest);
        let after = after.map(|after| order(table, part, from, after));
        Choosing { part, scan, from, after, choices: Vec::new(), last: None }
    }

    /// The best [`HANDFUL`] choices, best last.
    fn advance(&mut self, scope: Scope<'_>, meter: &mut Meter) -> Poll<Vec<usize>> {
        let (part, from) = (self.part, self.from);
        let order = |at: &usize| order(scope.table, part, from, *at);
        while let Some(at) = ready!(self.scan.next(scope, meter)) {
            let this = order(&at);
            if self.after.is_some_and(|after| this <= after) {
                continue;
            }
            let later = self.last.is_some_and(|last| last < this.1);
            if !scope.table.costly && later && self.choices.len() >= HANDFUL {
                break; // They come in the order of their begins.
            }
            self.last = Some(this.1);
            self.choices.push(at);
            if self.choices.len() == 2 * HANDFUL {
                meter.charge(self.choices.len());
                self.choices.select_nth_unstable_by_key(HANDFUL, order);
                self.choices.truncate(HANDFUL);
            }
        }
        let mut choices = std::mem::take(&mut self.choices);
        meter.charge(choices.len());
        choices.sort_unstable_by_key(|at| Reverse(order(at)));
        // The best are at the end.
        choices.drain(..choices.len().saturating_sub(HANDFUL));
        choices.shrink_to_fit();
        Poll::Ready(choices)
    }
}

fn order(table: &Table, part: usize, from: Time, at: usize) -> Order {
    let choice = &table.rows[part].choices[at];
    (choice.cost, choice.earliest.max(from), choice.found)
}
