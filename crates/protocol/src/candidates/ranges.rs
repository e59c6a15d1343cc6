//! How much later the parts of a candidate may start. Time constraints, and the order of parts that take
//! turns on a resource, bound the differences of starts; the slack of a part is the rest of its slot within
//! these bounds. Neither the candidate nor the search changes.

use super::table::{Bounds, Difference};
use super::{Candidate, Search};
use bookahead_plan::{Interval, Seconds, Time};
use std::collections::BTreeMap;

impl Search {
    /// How much later each part of a candidate of this search may start. For every start of a part in its
    /// range, the others have starts in theirs with which the candidate still satisfies the request. Parts
    /// that take turns on a resource keep their order: the range does not cover other orders.
    pub fn slack(&mut self, candidate: &Candidate) -> Vec<Seconds> {
        let begins: Vec<Time> = candidate.picks.iter().map(|pick| pick.start).collect();
        let latest = begins.iter().zip(&candidate.later).map(|(&begin, &later)| begin + later).collect();
        let mut bounds = Bounds { earliest: begins.clone(), latest };
        let (differences, turns) = (&self.table.differences, self.turns(candidate));
        let round = (differences.len() + turns.len() + begins.len()) as u64;
        // A bound passes each part at most once, so this many rounds are enough.
        for _ in 0..=begins.len() {
            self.work = self.work.saturating_add(round);
            if bounds.round(differences, &turns) != Some(true) {
                break;
            }
        }
        bounds.latest.iter().zip(&begins).map(|(&latest, &begin)| latest - begin).collect()
    }

    /// The order of parts that follow each other on a resource without room for all of them at once. With the
    /// order kept, no more parts overlap at any instant than in the candidate, where they fit.
    fn turns(&self, candidate: &Candidate) -> Vec<Difference> {
        let mut sharing: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (part, peer, slot) in candidate.slots() {
            sharing.entry((peer, &slot.resource)).or_default().push(part);
        }
        let interval = |part: usize| -> Interval { candidate.slots[part].slot.interval };
        let mut turns = Vec::new();
        for parts in sharing.values().filter(|parts| !self.fit_together(candidate, parts)) {
            for (&from, &to) in parts.iter().flat_map(|from| parts.iter().map(move |to| (from, to))) {
                if from != to && interval(from).end <= interval(to).begin {
                    turns.push(Difference { from, to, least: self.table.rows[from].duration });
                }
            }
        }
        turns
    }

    fn fit_together(&self, candidate: &Candidate, parts: &[usize]) -> bool {
        let taken: u64 = parts.iter().map(|&part| u64::from(self.table.rows[part].capacity.0)).sum();
        let free = parts.iter().filter_map(|&part| candidate.slots[part].slot.free).min();
        free.is_none_or(|free| taken <= free.0.into())
    }
}
