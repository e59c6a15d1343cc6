//! Counts of acknowledged and refused calls, by kind of call and role of the server.

use super::daemons::Role;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Answers {
    pub(super) acknowledged: u64,
    pub(super) refused: u64,
}

#[derive(Debug, Default, Clone, Serialize)]
pub(super) struct Counts {
    pub(super) at_sites: BTreeMap<&'static str, Answers>,
    pub(super) at_brokers: BTreeMap<&'static str, Answers>,
    /// Calls repeated after their answer, to check idempotency.
    pub(super) repeated: u64,
    /// Calls repeated because there was no answer.
    pub(super) sent_again: u64,
}

impl Counts {
    pub(super) fn add(&mut self, role: Role, word: &'static str, is_refused: bool) {
        let answers = match role {
            Role::Site => &mut self.at_sites,
            Role::Broker => &mut self.at_brokers,
        };
        let answers = answers.entry(word).or_default();
        *(if is_refused { &mut answers.refused } else { &mut answers.acknowledged }) += 1;
    }

    pub(super) fn add_all(&mut self, other: &Counts) {
        for (ours, theirs) in
            [(&mut self.at_sites, &other.at_sites), (&mut self.at_brokers, &other.at_brokers)]
        {
            for (word, more) in theirs {
                let answers = ours.entry(word).or_default();
                answers.acknowledged += more.acknowledged;
                answers.refused += more.refused;
            }
        }
        self.repeated += other.repeated;
        self.sent_again += other.sent_again;
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.at_sites.values().chain(self.at_brokers.values()).map(|answers| answers.acknowledged).sum()
    }

    pub(super) fn kinds(&self) -> Vec<&'static str> {
        let mut kinds: Vec<_> = self.at_sites.keys().chain(self.at_brokers.keys()).copied().collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}
