//! By how much the parts of a candidate may begin later. Constraints about time and the turns that parts take on a resource bound
//! the differences of begins; what a part may do is what is left of its own slot by these bounds. It never changes the
//! candidate or the search.

use super::table::{Bounds, Difference};
use super::{Candidate, Search};
use bookahead_plan::{Interval, Seconds, Time};
use std::collections::BTreeMap;

impl Search {
    /// By how much each part of a candidate of this search may begin later. For every begin of a part in this range there are
    /// begins of the other parts in theirs with which the candidate still fulfils the request. Parts that take turns on a
    /// resource keep their order: what another order would allow is not in the range.
    pub fn slack(&mut self, candidate: &Candidate) -> Vec<Seconds> {
        let begins: Vec<Time> = candidate.picks.iter().map(|pick| pick.start).collect();
        let latest = begins.iter().zip(&candidate.later).map(|(&begin, &later)| begin + later).collect();
        let mut bounds = Bounds { earliest: begins.clone(), latest };
        let (differences, turns) = (&self.table.differences, self.turns(candidate));
        let round = (differences.len() + turns.len() + begins.len()) as u64;
        // A bound travels over each part once at most.
        for _ in 0..=begins.len() {
            self.work = self.work.saturating_add(round);
            if bounds.round(differences, &turns) != Some(true) {
                break;
            }
        }
        bounds.latest.iter().zip(&begins).map(|(&latest, &begin)| latest - begin).collect()
    }

    /// The order of parts that follow each other on a resource which has no room for all of its parts at once. Then no more
    /// parts overlap at any instant than do in the candidate, where they fit.
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
