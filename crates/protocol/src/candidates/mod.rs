//! The search for co-reservation candidates: for each part of a request one of the slots that probes returned, and a
//! concrete begin in it, so that all constraints hold. Candidates come in the order of the request's objective, one
//! after the other, and no more is computed than is asked for. Nothing here knows peers other than by name, sends
//! anything, or reads a clock.
//!
//! The search is exact. It keeps a queue of partial decisions (`node.rs`), each with a bound that no candidate in
//! it can beat (`bound.rs`), and goes on with the best: a slot for one more part, and all other slots for that
//! part, are two new decisions. What is decided narrows what is open: begins are bounded by differences
//! (`temporal.rs`) and by the slots that are left (`scope.rs`), sites by what must be true of them (`spatial.rs`);
//! parts on one resource that do not fit together are put one after the other (`sharing.rs`).
//!
//! The order: first the objective, then the earlier end of all parts, then the earlier begins part by part, then
//! the order in which slots were found, part by part. Each combination of slots comes at most once, with its best
//! begins.
//!
//! What a site does not tell: a slot without a rating counts as one that suits it not at all, a slot without an
//! impact as one that delays nobody, a slot that does not tell what is free never keeps two parts from sharing a
//! resource.

mod bound;
mod node;
mod scope;
mod sharing;
mod spatial;
mod table;
mod temporal;

use crate::ids::Name;
use crate::message::Slot;
use crate::request::Request;
use bookahead_plan::{Interval, Seconds, Time};
use bound::Cheapest;
use node::{Key, Narrowed, Node};
use scope::{Domain, Meter, Scope};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use table::Table;
use temporal::Bounds;

/// So many choices for a part are put in order at a time.
const HANDFUL: usize = 128;

/// A slot that a probe returned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Found {
    /// Who offers it.
    pub peer: Name,
    /// What is offered.
    pub slot: Slot,
}

/// How much may be searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Budget {
    /// At most so many steps for up to four parts, and as many fewer as there are more: time and memory of a step grow
    /// with the parts. A step narrows all that is open once; it takes about a microsecond for a few parts with some
    /// thousand slots, and leaves some hundred bytes for each part.
    pub steps: u64,
}

/// How much was searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Searched {
    /// There may be more candidates: go on.
    SoFar,
    /// There are no more candidates.
    All,
    /// There may be more candidates, but the budget is used up.
    Stopped,
}

/// What is not to be used any more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Excluded {
    /// Every slot of a resource, for whatever part, that could begin then.
    Slot {
        /// Who offers it.
        peer: Name,
        /// Which resource.
        resource: Name,
        /// The begin that could not be had.
        start: Time,
    },
    /// A resource.
    Resource {
        /// Who offers it.
        peer: Name,
        /// Which.
        resource: Name,
    },
    /// All that somebody offers.
    Peer(Name),
}

/// A slot and a begin for one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pick {
    /// Which part.
    pub part: usize,
    /// Which of the slots found for it.
    pub found: usize,
    /// When it begins.
    pub start: Time,
}

/// A way to fulfil the request: all constraints hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// One for each part, in their order.
    pub picks: Vec<Pick>,
    /// When the last part ends.
    pub end: Time,
    slots: Vec<Found>,
}

impl Candidate {
    /// For each part who offers it and what exactly: the slot that was found, with the begin that was chosen.
    pub fn slots(&self) -> impl Iterator<Item = (usize, &Name, &Slot)> {
        self.slots.iter().enumerate().map(|(part, found)| (part, &found.peer, &found.slot))
    }
}

/// A search that goes on as long as it is asked for the next candidate. It is a value: a copy goes on in the same
/// way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Search {
    found: Arc<Vec<Vec<Found>>>,
    table: Arc<Table>,
    /// For each part, which choices of the table were excluded.
    gone: Vec<Vec<bool>>,
    queue: BTreeSet<Node>,
    meter: Meter,
}

impl Search {
    /// Begins with the slots `found` for each part of the `request`. A request that is malformed has no candidates.
    pub fn new(request: &Request, found: Vec<Vec<Found>>, budget: Budget) -> Search {
        let table = Table::new(request, &found);
        let gone = table.rows.iter().map(|row| vec![false; row.choices.len()]).collect();
        let fewer = (table.rows.len() as u64).div_ceil(4).max(1);
        let mut search = Search {
            found: Arc::new(found),
            table: Arc::new(table),
            gone,
            queue: BTreeSet::new(),
            meter: Meter::new(budget.steps / fewer),
        };
        if !search.table.rows.is_empty() {
            let nothing_decided = vec![Domain::OPEN; search.table.rows.len()];
            search.consider(nothing_decided);
        }
        search
    }

    /// Goes on without what could not be had.
    pub fn without(&mut self, what: &Excluded) {
        for (part, row) in self.table.rows.iter().enumerate() {
            for (choice, gone) in row.choices.iter().zip(&mut self.gone[part]) {
                *gone |= what.covers(&self.found[part][choice.found]);
            }
        }
    }

    /// Whether there may be more.
    pub fn searched(&self) -> Searched {
        match (self.meter.stopped, self.queue.is_empty()) {
            (true, _) => Searched::Stopped,
            (false, true) => Searched::All,
            (false, false) => Searched::SoFar,
        }
    }

    /// The slots it was given, for each part.
    pub fn found(&self) -> &[Vec<Found>] {
        &self.found
    }

    /// How many steps it took until now.
    pub fn steps(&self) -> u64 {
        self.meter.steps
    }

    /// Puts a decision into the queue, if there may be a candidate in it.
    fn consider(&mut self, domains: Vec<Domain>) {
        let scope = Scope { table: &self.table, gone: &self.gone, domains };
        if let Some((key, narrowed)) = scope.bound(&mut self.meter) {
            let picks = scope.domains.iter().map(|domain| domain.pick).collect();
            self.queue.insert(Node { key, picks, narrowed, choices: None });
        }
    }

    /// Decides on one more part: the first choice is one decision, all others stay together as another.
    fn branch(&mut self, mut node: Node, part: usize) {
        let mut choices = node.choices.take().unwrap_or_else(|| self.choices(&node, part, None));
        let Some(choice) = choices.pop() else { return };
        if choices.is_empty() {
            choices = self.choices(&node, part, Some(choice));
        }
        let mut domains = node.domains();
        domains[part].pick = Some(choice);
        if !self.gone[part][choice] {
            self.consider(domains);
        }
        if let Some(&following) = choices.last()
            && let Some(key) = self.bound_of_rest(&node, part, following)
        {
            let key = key.max(node.key);
            self.queue.insert(Node { key, choices: Some(choices), ..node });
        }
    }

    /// What can be chosen for a part next, after a choice that was taken before; the best last. Few of many thousand
    /// choices are ever looked at, so that no more than a handful is put in order and kept.
    fn choices(&self, node: &Node, part: usize, after: Option<usize>) -> Vec<usize> {
        let row = &self.table.rows[part];
        let Bounds { earliest, latest } = &node.narrowed.bounds;
        let order = |at: &usize| {
            let choice = &row.choices[*at];
            (choice.cost, choice.earliest.max(earliest[part]), choice.found)
        };
        let after = after.map(|after| order(&after));
        let scope = Scope { table: &self.table, gone: &self.gone, domains: node.domains() };
        let mut choices: Vec<usize> = Vec::new();
        for at in scope.between(part, earliest[part], latest[part]) {
            if after.is_some_and(|after| order(&at) <= after) {
                continue;
            }
            let later = choices.last().is_some_and(|last| order(last).1 < order(&at).1);
            if !self.table.costly && later && choices.len() >= HANDFUL {
                break; // They come in the order of their begins.
            }
            choices.push(at);
        }
        if choices.len() > HANDFUL {
            choices.select_nth_unstable_by_key(HANDFUL, order);
            choices.truncate(HANDFUL);
            choices.shrink_to_fit();
        }
        choices.sort_unstable_by_key(|at| Reverse(order(at)));
        choices
    }

    /// A bound for all choices from `following` on: none costs less, and of those that cost the same none begins
    /// earlier.
    fn bound_of_rest(&mut self, node: &Node, part: usize, following: usize) -> Option<Key> {
        let choice = &self.table.rows[part].choices[following];
        let Narrowed { bounds, cheapest } = &node.narrowed;
        let from = choice.earliest.max(bounds.earliest[part]);
        let mut cheapest = cheapest.clone();
        cheapest[part] = Cheapest { cost: choice.cost, from };
        let scope = Scope { table: &self.table, gone: &self.gone, domains: node.domains() };
        let mut key = match scope.bound_of_cheapest(&cheapest, &mut self.meter) {
            Some(key) => key,
            None if self.table.costly => scope.key(&cheapest, bounds.earliest.clone()),
            None => return None,
        };
        if key.begins[part] == from {
            key.found[part] = choice.found;
        }
        Some(key)
    }

    fn is_gone(&self, node: &Node) -> bool {
        node.picks.iter().zip(&self.gone).any(|(pick, gone)| pick.is_some_and(|pick| gone[pick]))
    }

    fn candidate(&self, key: &Key) -> Candidate {
        let picked = key.found.iter().zip(&key.begins).enumerate();
        let picks: Vec<Pick> = picked.map(|(part, (&found, &start))| Pick { part, found, start }).collect();
        let slots = picks.iter().map(|pick| self.concrete(pick)).collect();
        Candidate { picks, end: key.end, slots }
    }

    fn concrete(&self, pick: &Pick) -> Found {
        let Found { peer, slot } = self.found[pick.part][pick.found].clone();
        let interval = Interval::starting(pick.start, self.table.rows[pick.part].duration);
        Found { peer, slot: Slot { interval, slack: Seconds::ZERO, ..slot } }
    }
}

impl Iterator for Search {
    type Item = Candidate;

    /// The best candidate that was not given yet.
    fn next(&mut self) -> Option<Candidate> {
        while !self.meter.stopped {
            let node = self.queue.pop_first()?;
            if self.is_gone(&node) {
                continue;
            }
            match self.table.order.iter().find(|&&part| node.picks[part].is_none()) {
                Some(&part) => self.branch(node, part),
                None => return Some(self.candidate(&node.key)),
            }
        }
        None
    }
}

impl Excluded {
    fn covers(&self, found: &Found) -> bool {
        let slot = &found.slot;
        match self {
            Excluded::Peer(peer) => found.peer == *peer,
            Excluded::Resource { peer, resource } => found.peer == *peer && slot.resource == *resource,
            Excluded::Slot { peer, resource, start } => {
                let begin = slot.interval.begin;
                found.peer == *peer
                    && slot.resource == *resource
                    && (begin..=begin + slot.slack).contains(start)
            }
        }
    }
}
