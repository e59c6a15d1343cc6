//! The search for co-reservation candidates: for each part of a request one of the slots that probes
//! returned, and a start in it, with all constraints satisfied. Candidates come one by one in the order of
//! the request's objective, and only as many are computed as are requested. The search knows peers only by
//! name, sends nothing, and reads no clock.
//!
//! The search is exact. It keeps a queue of partial decisions (`scope.rs`), each with a bound that no
//! candidate in it can beat (`bound.rs`), and continues with the best: a slot for one more part, and all
//! other slots for that part, are two new decisions (`branching.rs`). Decisions narrow the open parts: starts
//! are bounded by differences (`table.rs`) and by the remaining slots (`narrowing.rs`), sites by constraints
//! on places (`table.rs`). Parts on one resource that do not fit together are put one after the other
//! (`narrowing.rs`).
//!
//! For a candidate it can compute how much later its parts may start (`ranges.rs`). With one part there is
//! nothing to decide, and its slots are returned in order.
//!
//! It can be advanced in slices ([`Search::advance`]): work is counted in elementary operations (`scope.rs`),
//! and every loop whose length depends on the request or on the slots can pause and continue later. Slicing
//! changes neither the candidates nor the work.
//!
//! The order: first the objective, then the end of the last part, then the starts part by part, then the
//! order in which slots were found, part by part. Each combination of slots comes at most once, with its best
//! starts.
//!
//! Details that a site does not reveal: a slot without a rating counts as the worst, a slot without an impact
//! as one without delays, and a slot without free capacity never keeps two parts from sharing a resource.

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
use scope::{Domain, Key, Node, Queue, Scope};
use std::sync::Arc;
use std::task::{Poll, ready};
use table::{Meter, Preparing, Table};

/// A slot that a probe returned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Found {
    /// The peer that offers it.
    pub peer: Name,
    /// The slot.
    pub slot: Slot,
}

/// Bound on the cost of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Elementary operations: slots visited, constraints checked, bounds moved, bytes of decisions queued.
    /// One takes 2 to 6 ns in a release build, for any request. A search may exceed it by at most [`UNIT`].
    pub work: u64,
}

/// Most work between two points where a search can pause: finding which parts overlap one of the most parts
/// possible, with all differences bounded.
pub const UNIT: u64 = 40_000;

/// Work to return a slot of a request with one part, which is copied.
const LISTED_WORK: usize = 32;

/// Result of a slice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Progress {
    /// The next best candidate.
    Found(Candidate),
    /// There are no more candidates.
    Exhausted,
    /// There may be more candidates, but the budget is used up.
    OutOfBudget,
    /// The slice is used up; the search can continue.
    More,
}

/// Slots that must not be used any more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Excluded {
    /// Every slot of a resource, for any part, that could start at this time.
    Slot {
        /// The peer that offers it.
        peer: Name,
        /// The resource, by its name at the peer.
        resource: Name,
        /// The start that was refused.
        start: Time,
    },
    /// A resource.
    Resource {
        /// The peer that offers it.
        peer: Name,
        /// The resource, by its name at the peer.
        resource: Name,
    },
    /// All resources of a peer.
    Peer(Name),
}

/// A slot and a start for one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pick {
    /// Index of the part.
    pub part: usize,
    /// Index of the slot among those found for the part.
    pub found: usize,
    /// The start.
    pub start: Time,
}

/// A solution: all constraints are satisfied.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// One for each part, in order.
    pub picks: Vec<Pick>,
    /// End of the last part.
    pub end: Time,
    slots: Vec<Found>,
    /// How much later each part could start in its slot, without regard to the others.
    later: Vec<Seconds>,
}

impl Candidate {
    /// Part index, peer and slot for each part. The slot has the chosen start.
    pub fn slots(&self) -> impl Iterator<Item = (usize, &Name, &Slot)> {
        self.slots.iter().enumerate().map(|(part, found)| (part, &found.peer, &found.slot))
    }
}

/// A search that continues whenever the next candidate is requested. It is a value: a clone continues in the
/// same way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Search {
    found: Arc<Vec<Vec<Found>>>,
    table: Arc<Table>,
    /// For each part, which of its slots are excluded.
    gone: Vec<Vec<bool>>,
    queue: Queue,
    /// For a request with one part: the remaining choices, best last.
    listed: Vec<usize>,
    task: Option<Task>,
    work: u64,
    budget: Budget,
}

/// The current step of a search.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Task {
    Prepare(Box<Preparing>),
    /// The bound of the root, in which nothing is decided.
    Root(Box<Bounding>),
    Branch(Box<Branching>),
}

impl Search {
    /// Starts a search of the slots `found` for each part of `request`. A malformed request has no
    /// candidates. Most work is done later, by [`Search::advance`].
    pub fn new(request: &Request, found: Vec<Vec<Found>>, budget: Budget) -> Search {
        Search::over(request, Arc::new(found), budget)
    }

    /// A new search of the same slots; excluded ones are included again.
    pub fn again(&self, request: &Request, budget: Budget) -> Search {
        Search::over(request, self.found.clone(), budget)
    }

    fn over(request: &Request, found: Arc<Vec<Vec<Found>>>, budget: Budget) -> Search {
        let task = Preparing::new(request, &found).map(|preparing| Task::Prepare(Box::new(preparing)));
        let gone = found.iter().map(|found| vec![false; found.len()]).collect();
        let (table, queue, listed) = (Arc::default(), Queue::default(), Vec::new());
        Search { found, table, gone, queue, listed, task, work: 0, budget }
    }

    /// Continues without the excluded slots.
    pub fn without(&mut self, what: &Excluded) {
        for (found, gone) in self.found.iter().zip(&mut self.gone) {
            for (found, gone) in found.iter().zip(gone) {
                *gone |= what.covers(found);
            }
        }
    }

    /// The slots that it searches, for each part.
    pub fn found(&self) -> &[Vec<Found>] {
        &self.found
    }

    /// Returns the slots that it searched, for each part.
    pub fn into_found(self) -> Vec<Vec<Found>> {
        Arc::unwrap_or_clone(self.found)
    }

    /// Work done so far.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// Continues for at most `work` plus [`UNIT`], or to the next candidate. With zero work it only tells
    /// whether there may be more.
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
            // Slots may have been excluded after the decision was queued.
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

    /// Finishes the current step, and starts the next one that follows from it.
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

    /// From a decision in which all parts are decided.
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

    /// The next best candidate, without pausing.
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
