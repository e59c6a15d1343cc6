//! The search for co-reservation candidates: for each part of a request one of the slots that probes returned, and a
//! concrete begin in it, so that all constraints hold. Candidates come in the order of the request's objective, one
//! after the other, and no more is computed than is asked for. Nothing here knows peers other than by name, sends
//! anything, or reads a clock.
//!
//! The search is exact. It keeps a queue of partial decisions (`scope.rs`), each with a bound that no candidate in
//! it can beat (`bound.rs`), and goes on with the best: a slot for one more part, and all other slots for that
//! part, are two new decisions (`branching.rs`). What is decided narrows what is open: begins are bounded by
//! differences (`table.rs`) and by the slots that are left (`narrowing.rs`), sites by what must be true of them
//! (`table.rs`); parts on one resource that do not fit together are put one after the other (`narrowing.rs`).
//!
//! Of a candidate it can tell by how much its parts may begin later (`ranges.rs`). Where there is one part, nothing is to be
//! decided, and its slots come one after the other.
//!
//! It can be advanced in slices ([`Search::advance`]): work is counted in elementary operations (`scope.rs`), and every
//! loop whose length depends on the request or on the slots can pause and go on later where it was. How it is sliced
//! changes neither the candidates nor the work.
//!
//! The order: first the objective, then the earlier end of all parts, then the earlier begins part by part, then
//! the order in which slots were found, part by part. Each combination of slots comes at most once, with its best
//! begins.
//!
//! What a site does not tell: a slot without a rating counts as one that suits it not at all, a slot without an
//! impact as one that delays nobody, a slot that does not tell what is free never keeps two parts from sharing a
//! resource.

mod bound;
mod branching;
mod narrowing;
mod ranges;
mod scope;
mod table;

use crate::ids::Name;
use crate::message::Slot;
use crate::request::Request;
use bookahead_plan::{Interval, Seconds, Time};
use bound::Bounding;
use branching::Branching;
use scope::{Domain, Key, Meter, Node, Queue, Scope};
use std::sync::Arc;
use std::task::{Poll, ready};
use table::{Preparing, Table};

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
    /// Elementary operations: slots looked at, constraints checked, bounds moved, bytes of decisions queued. One takes two
    /// to six nanoseconds in a release build, whatever the request is. A search ends at most [`UNIT`] beyond it.
    pub work: u64,
}

/// The most work between two places where a search can pause: what it takes to find which parts overlap one of the most
/// parts there can be, if all differences between them are bounded.
pub const UNIT: u64 = 40_000;

/// What it takes to give a slot of a request of one part, in units of work: it is copied.
const LISTED_WORK: usize = 32;

/// How far a search came.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Progress {
    /// The best candidate that was not given yet.
    Found(Candidate),
    /// There are no more candidates.
    Exhausted,
    /// There may be more candidates, but the budget is used up.
    OutOfBudget,
    /// The slice is over, and the search is not.
    More,
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
    /// By how much each part could begin later in its slot, whatever becomes of the others.
    later: Vec<Seconds>,
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
    /// For each part, which of the slots found were excluded.
    gone: Vec<Vec<bool>>,
    queue: Queue,
    /// Of a request of one part: its choices that were not given yet, the best last. Nothing is to be decided there.
    listed: Vec<usize>,
    task: Option<Task>,
    work: u64,
    budget: Budget,
}

/// What a search is in the middle of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Task {
    Prepare(Box<Preparing>),
    /// The decision in which nothing is decided.
    Root(Box<Bounding>),
    Branch(Box<Branching>),
}

impl Search {
    /// Begins with the slots `found` for each part of the `request`. A request that is malformed has no candidates. It
    /// does no work yet that grows with the slots but to note that none is excluded.
    pub fn new(request: &Request, found: Vec<Vec<Found>>, budget: Budget) -> Search {
        Search::over(request, Arc::new(found), budget)
    }

    /// Another search of the same slots, also of those that were excluded.
    pub fn again(&self, request: &Request, budget: Budget) -> Search {
        Search::over(request, self.found.clone(), budget)
    }

    fn over(request: &Request, found: Arc<Vec<Vec<Found>>>, budget: Budget) -> Search {
        let task = Preparing::new(request, &found).map(|preparing| Task::Prepare(Box::new(preparing)));
        let gone = found.iter().map(|found| vec![false; found.len()]).collect();
        let (table, queue, listed) = (Arc::default(), Queue::default(), Vec::new());
        Search { found, table, gone, queue, listed, task, work: 0, budget }
    }

    /// Goes on without what could not be had.
    pub fn without(&mut self, what: &Excluded) {
        for (found, gone) in self.found.iter().zip(&mut self.gone) {
            for (found, gone) in found.iter().zip(gone) {
                *gone |= what.covers(found);
            }
        }
    }

    /// The slots it was given, for each part.
    pub fn found(&self) -> &[Vec<Found>] {
        &self.found
    }

    /// Gives them back.
    pub fn into_found(self) -> Vec<Vec<Found>> {
        Arc::unwrap_or_clone(self.found)
    }

    /// The work it took until now.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// Goes on for so much `work`, and at most [`UNIT`] more, or to the next candidate. Without work it only says whether
    /// there may be more.
    pub fn advance(&mut self, work: u64) -> Progress {
        let pause_at = self.work.saturating_add(work).min(self.budget.work);
        let mut meter = Meter::new(self.work, pause_at);
        let progress = self.go_on(&mut meter);
        self.work = meter.work();
        match progress {
            Poll::Ready(Some(candidate)) => Progress::Found(candidate),
            Poll::Ready(None) => Progress::Exhausted,
            Poll::Pending if self.work >= self.budget.work => Progress::OutOfBudget,
            Poll::Pending => Progress::More,
        }
    }

    fn go_on(&mut self, meter: &mut Meter) -> Poll<Option<Candidate>> {
        loop {
            ready!(self.go_on_with_task(meter));
            if self.task.is_some() {
                continue;
            }
            if meter.is_spent() && !(self.queue.is_empty() && self.listed.is_empty()) {
                return Poll::Pending;
            }
            if let Some(at) = self.listed.pop() {
                meter.charge(LISTED_WORK);
                let choice = &self.table.rows[0].choices[at];
                if self.gone[0][choice.found] {
                    continue;
                }
                let (begins, found) = (vec![choice.earliest], vec![choice.found]);
                let key = Key { cost: choice.cost, end: self.table.end(&begins), begins, found };
                return Poll::Ready(Some(self.candidate(&key, &[Some(at)])));
            }
            let Some(node) = self.queue.pop() else { return Poll::Ready(None) };
            meter.charge(node.picks.len());
            if self.is_gone(&node) {
                continue;
            }
            match self.table.order.iter().find(|&&part| node.picks[part].is_none()) {
                Some(&part) => {
                    let scope = Scope { table: &self.table, gone: &self.gone, domains: &[] };
                    self.task = Some(Task::Branch(Box::new(Branching::new(node, part, scope))));
                }
                None => return Poll::Ready(Some(self.candidate(&node.key, &node.picks))),
            }
        }
    }

    /// Brings what it is in the middle of to its end, and begins what follows from it.
    fn go_on_with_task(&mut self, meter: &mut Meter) -> Poll<()> {
        let scope = Scope { table: &self.table, gone: &self.gone, domains: &[] };
        self.task = match &mut self.task {
            None => None,
            Some(Task::Prepare(preparing)) => {
                let table = ready!(preparing.advance(&self.found, meter));
                let task = if let [row] = table.rows.as_slice() {
                    self.listed = row.best_last();
                    None
                } else {
                    let nothing_decided = vec![Domain::OPEN; table.rows.len()];
                    let scope = Scope { table: &table, domains: &nothing_decided, ..scope };
                    Bounding::new(scope).map(|root| Task::Root(Box::new(root)))
                };
                self.table = Arc::new(table);
                task
            }
            Some(Task::Root(root)) => {
                if let Some((key, narrowed)) = ready!(root.advance(scope, meter)) {
                    let node = Node { key, picks: root.picks(), narrowed, choices: None };
                    self.queue.insert(node, meter);
                }
                None
            }
            Some(Task::Branch(branching)) => {
                ready!(branching.advance(scope, &mut self.queue, meter));
                None
            }
        };
        Poll::Ready(())
    }

    fn is_gone(&self, node: &Node) -> bool {
        node.picks.iter().enumerate().any(|(part, pick)| {
            pick.is_some_and(|pick| self.gone[part][self.table.rows[part].choices[pick].found])
        })
    }

    /// Of a decision in which all parts are decided.
    fn candidate(&self, key: &Key, choices: &[Option<usize>]) -> Candidate {
        let picked = key.found.iter().zip(&key.begins).enumerate();
        let picks: Vec<Pick> = picked.map(|(part, (&found, &start))| Pick { part, found, start }).collect();
        let slots = picks.iter().map(|pick| self.concrete(pick)).collect();
        let later = |(pick, choice): (&Pick, &Option<usize>)| {
            let choice = choice.map(|at| &self.table.rows[pick.part].choices[at]);
            choice.map_or(Seconds::ZERO, |choice| choice.latest - pick.start)
        };
        let later = picks.iter().zip(choices).map(later).collect();
        Candidate { picks, end: key.end, slots, later }
    }

    fn concrete(&self, pick: &Pick) -> Found {
        let Found { peer, slot } = self.found[pick.part][pick.found].clone();
        let interval = Interval::starting(pick.start, self.table.rows[pick.part].duration);
        Found { peer, slot: Slot { interval, slack: Seconds::ZERO, ..slot } }
    }
}

impl Iterator for Search {
    type Item = Candidate;

    /// The best candidate that was not given yet, in one slice.
    fn next(&mut self) -> Option<Candidate> {
        match self.advance(u64::MAX) {
            Progress::Found(candidate) => Some(candidate),
            Progress::Exhausted | Progress::OutOfBudget | Progress::More => None,
        }
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
