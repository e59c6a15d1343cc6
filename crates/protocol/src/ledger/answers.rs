//! Answers: what was decided and how it is carried out, and the answers that were given, by the keys of their calls, so that
//! a repeated call gets the same answer and has no effect. Their number and their age are bounded by the ledger.

use super::Ledger;
use super::event::{Ticked, What};
use crate::clock::Moment;
use crate::ids::{Key, ReservationId};
use crate::message::{Answer, Envelope};
use crate::problem::{Problem, Why};
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

/// What is to happen, and what is to be said.
pub(super) struct Decision {
    events: Vec<What>,
    reply: Reply,
    waits: Option<ReservationId>,
}

enum Reply {
    /// The reservation as it is once the events have happened.
    View(ReservationId),
    Answer(Box<Answer>),
}

impl Decision {
    /// Nothing is to happen.
    pub(super) fn say(answer: impl Into<Answer>) -> Decision {
        Decision::say_after(Vec::new(), answer)
    }

    /// Something is to happen all the same.
    pub(super) fn say_after(events: Vec<What>, answer: impl Into<Answer>) -> Decision {
        Decision { events, reply: Reply::Answer(Box::new(answer.into())), waits: None }
    }

    /// The reservation is to be shown.
    pub(super) fn show(id: ReservationId) -> Decision {
        Decision::show_after(id, Vec::new())
    }

    /// The reservation is to be shown as it is afterwards.
    pub(super) fn show_after(id: ReservationId, events: Vec<What>) -> Decision {
        Decision { events, reply: Reply::View(id), waits: None }
    }

    /// The caller waits until the batch system has answered for this reservation.
    pub(super) fn wait_after(id: ReservationId, events: Vec<What>) -> Decision {
        Decision { waits: Some(id), ..Decision::show_after(id, events) }
    }

    /// The reservation whose caller waits.
    pub(super) fn waits(&self) -> Option<ReservationId> {
        self.waits
    }
}

impl From<Why> for Decision {
    fn from(why: Why) -> Decision {
        Decision::say(Problem::new(why))
    }
}

impl Ledger {
    pub(super) fn carry_out(&mut self, now: Moment, decision: Decision, course: &mut Ticked) -> Answer {
        self.happen(now, decision.events, course);
        match decision.reply {
            Reply::Answer(answer) => *answer,
            Reply::View(id) => match self.entries.get(&id) {
                Some(entry) => Answer::Reservation(self.view(now, id, entry)),
                None => Problem::new(Why::Unknown(id)).into(),
            },
        }
    }
}
