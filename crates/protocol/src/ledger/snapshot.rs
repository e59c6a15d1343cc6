//! What of a book is kept in the place of all events before it: what two equal books have in common, and what
//! is taken in the second that has begun. Rooms, totals and the agenda are made anew from it. It relies on the
//! fold for what follows from an entry; it decides nothing and drops nothing.
//!
//! The rules may have changed since:
//! - *A resource is gone.* What was promised on it is kept and goes on with its life, but has room nowhere. As
//!   long as something is live there the site cannot keep its word, which [`Ledger::check_resources`] says. It
//!   is asked once the events after the snapshot are applied, since those may tell of the end. What is over
//!   does no harm: it is remembered for as long as anything else, and shown without a slot. If the resource
//!   comes back, its reservations have their room again; what of it had failed is to be reported anew.
//! - *A resource is smaller.* All promises stand. Where they are more than there is, nothing new is granted.
//! - *Other rules* hold from now on: for how long things are remembered, whose share is limited.

use super::Ledger;
use super::book::Taken;
use super::entry::{Denied, Entry};
use super::rules::{Rules, RulesError};
use super::waiting::{Answered, Granted};
use crate::clock::Moment;
use crate::deadline::Observed;
use crate::ids::{Name, ReservationId};
use bookahead_plan::Capacity;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use thiserror::Error;

/// What the events so far come to. Whoever restores it and applies the events after it has the book that
/// would have come of all events from the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The latest moment seen.
    latest: Moment,
    /// How many were ever accepted.
    accepted: u64,
    observed: Observed,
    holds: Granted,
    resources: BTreeMap<Name, Standing>,
    entries: BTreeMap<ReservationId, Entry>,
    #[serde(deserialize_with = "read_denied")]
    denied: Vec<(ReservationId, Denied)>,
    /// In order of their keys.
    answers: Vec<Answered>,
}

/// In the first release an id was denied to everybody, and these were by their ids.
fn read_denied<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(ReservationId, Denied)>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        List(Vec<(ReservationId, Denied)>),
        ById(BTreeMap<ReservationId, Denied>),
    }
    Ok(match Written::deserialize(deserializer)? {
        Written::List(denied) => denied,
        Written::ById(denied) => denied.into_iter().collect(),
    })
}

/// How a resource stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Standing {
    /// What has failed.
    lost: Capacity,
    /// What is taken in the second of the latest moment. From the next one on it follows from the entries.
    taken: Taken,
}

/// Why a site cannot go on with its book under these rules.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Error)]
pub enum RestoreError {
    /// The rules make no sense.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// These reservations are live, and the resources they are promised on are not in the rules.
    #[error("{}", tell_gone(.0))]
    ResourcesGone(Vec<(ReservationId, Name)>),
}

/// No more reservations are named in a message.
const MOST_NAMED: usize = 10;

fn tell_gone(live: &[(ReservationId, Name)]) -> String {
    let named = live.iter().take(MOST_NAMED).map(|(id, resource)| format!("{id} on {resource}"));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match live.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "there are live reservations on resources that the site no longer offers: {named}{more}; offer these \
         resources until the reservations are over or cancelled"
    )
}

impl Ledger {
    /// What stands for all events so far.
    pub fn snapshot(&self) -> Snapshot {
        let second = self.latest.second();
        let names = self.rules.resources.iter().map(|offered| offered.resource.name.clone());
        let standing =
            self.books.iter().map(|book| Standing { lost: book.lost, taken: book.taken_in(second) });
        Snapshot {
            latest: self.latest,
            accepted: self.accepted,
            observed: self.observed,
            holds: self.holds,
            resources: names.zip(standing).collect(),
            entries: self.entries.clone(),
            denied: self.denied().map(|(id, denied)| (id, denied.clone())).collect(),
            answers: self.answers.all().map(|(_, answered)| answered.clone()).collect(),
        }
    }

    /// The book that all events before a snapshot make, under rules that may be others than then. The events
    /// after it are to be applied next, and then [`Ledger::check_resources`] to be asked.
    pub fn restore(rules: Rules, snapshot: Snapshot) -> Result<Ledger, RestoreError> {
        let Snapshot { latest, accepted, observed, holds, resources, entries, denied, answers } = snapshot;
        let mut ledger = Ledger::new(rules)?;
        (ledger.latest, ledger.accepted) = (latest, accepted);
        (ledger.observed, ledger.holds) = (observed, holds);
        ledger.books.iter_mut().for_each(|book| book.advance(latest.second()));
        for (id, entry) in entries {
            ledger.enter(id, entry);
        }
        for (id, denied) in denied {
            ledger.deny(id, denied);
        }
        answers.into_iter().for_each(|answered| ledger.remember_answer(answered));
        for (resource, Standing { lost, taken }) in resources {
            if let Some(at) = ledger.at(&resource) {
                ledger.books[at].set_lost(lost);
                ledger.books[at].set_taken_in(latest.second(), &taken);
            }
        }
        Ok(ledger)
    }

    /// Whether every live reservation has a resource; says which have none. To be asked after a restart, once
    /// all events are applied: the rules may have changed.
    pub fn check_resources(&self) -> Result<(), RestoreError> {
        let live = self.entries.iter().filter(|(_, entry)| entry.is_live());
        let gone = live.filter(|(_, entry)| self.at(&entry.resource).is_none());
        let gone: Vec<_> = gone.map(|(id, entry)| (*id, entry.resource.clone())).collect();
        if gone.is_empty() { Ok(()) } else { Err(RestoreError::ResourcesGone(gone)) }
    }
}

impl Ledger {
    fn failures(&self) -> impl Iterator<Item = (&Name, Capacity)> {
        let names = self.rules.resources.iter().map(|offered| &offered.resource.name);
        names.zip(&self.books).map(|(name, book)| (name, book.lost))
    }
}

impl PartialEq for Ledger {
    fn eq(&self, other: &Ledger) -> bool {
        self.rules == other.rules
            && self.entries == other.entries
            && self.denied == other.denied
            && self.answers == other.answers
            && (self.accepted, self.observed, self.holds) == (other.accepted, other.observed, other.holds)
            && self.failures().eq(other.failures())
    }
}

// Rules hold weights that are numbers between 0 and 1, and never anything that differs from itself.
impl Eq for Ledger {}

impl Hash for Ledger {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.entries.hash(state);
        self.denied.hash(state);
        self.answers.hash(state);
        (self.accepted, self.observed, self.holds).hash(state);
        self.failures().for_each(|failure| failure.hash(state));
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("entries", &self.entries)
            .field("denied", &self.denied)
            .field("answers", &self.answers)
            .field("accepted", &self.accepted)
            .field("observed", &self.observed)
            .field("holds", &self.holds)
            .field("lost", &self.failures().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
