//! The answers that were given, by the keys of their calls, so that a repeated call gets the same answer and
//! has no effect. Their number and their age are bounded by whoever keeps the book.

use crate::clock::Moment;
use crate::ids::Key;
use crate::message::{Answer, Envelope};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// A call, and the answer that it got.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Answered {
    pub(super) at: Moment,
    pub(super) envelope: Box<Envelope>,
    pub(super) answer: Answer,
}

/// All that are remembered.
#[derive(Debug, Clone, Default)]
pub(super) struct Answers {
    by_key: BTreeMap<Key, Answered>,
    /// The same, the oldest first.
    by_age: BTreeSet<(Moment, Key)>,
}

impl Answers {
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn get(&self, key: Key) -> Option<&Answered> {
        self.by_key.get(&key)
    }

    /// In order of their keys.
    pub(super) fn all(&self) -> impl Iterator<Item = &Answered> {
        self.by_key.values()
    }

    pub(super) fn oldest(&self) -> Option<(Moment, Key)> {
        self.by_age.first().copied()
    }

    pub(super) fn remember(&mut self, answered: Answered) {
        let key = answered.envelope.key;
        self.forget(key);
        self.by_age.insert((answered.at, key));
        self.by_key.insert(key, answered);
    }

    pub(super) fn forget(&mut self, key: Key) {
        if let Some(known) = self.by_key.remove(&key) {
            self.by_age.remove(&(known.at, key));
        }
    }
}

// The order by age follows from the rest.
impl PartialEq for Answers {
    fn eq(&self, other: &Answers) -> bool {
        self.by_key == other.by_key
    }
}

impl Eq for Answers {}

impl Hash for Answers {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.by_key.hash(state);
    }
}
