//! A snapshot of a ledger, which replaces all events before it. It contains the state that equality compares,
//! and the capacity taken in the current second. Profiles, usage and the agenda are rebuilt from the entries
//! by the same code that applies events. Nothing is dropped.
//!
//! The rules may have changed since:
//! - *A resource is gone.* Its reservations are kept and continue their life, but have capacity nowhere.
//!   While any of them is live the site cannot keep its promises, and [`Ledger::check_resources`] says so.
//!   Call it after the events that follow the snapshot are applied, because those may end reservations.
//!   Finished reservations do no harm: they are remembered for the retention time and shown without a slot.
//!   If the resource comes back, its reservations have their capacity again; failures on it must be reported
//!   anew.
//! - *A resource is smaller.* All promises stay. Nothing new is granted while it is overbooked.
//! - *Other rules* apply from now on, such as the retention time and limited shares.

use super::book::Taken;
use super::entry::{Denied, Entry};
use super::notice::Waits;
use super::rules::{Rules, RulesError};
use super::state::{Answered, Granted, Ledger};
use crate::clock::Moment;
use crate::deadline::Observed;
use crate::ids::{Name, ReservationId};
use bookahead_plan::Capacity;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use thiserror::Error;

/// The state after all events so far. Restoring it and applying later events gives the same ledger as
/// applying all events from the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The latest moment seen.
    latest: Moment,
    /// Number of reservations ever accepted.
    accepted: u64,
    observed: Observed,
    holds: Granted,
    resources: BTreeMap<Name, Standing>,
    entries: BTreeMap<ReservationId, Entry>,
    #[serde(deserialize_with = "read_denied")]
    denied: Vec<(ReservationId, Denied)>,
    /// By key.
    answers: Vec<Answered>,
}

/// The first release denied an id to all users, and stored a map by id.
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

/// State of a resource that does not follow from the entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Standing {
    /// Failed capacity.
    lost: Capacity,
    /// Capacity taken in the second of `latest`. Later seconds follow from the entries.
    taken: Taken,
    /// Waits of its jobs.
    #[serde(default, skip_serializing_if = "Waits::is_empty")]
    waits: Waits,
}

/// Why a site cannot continue with its ledger under these rules.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Error)]
pub enum RestoreError {
    /// The rules contradict themselves.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// Live reservations on resources that the rules no longer have.
    #[error("{}", tell_gone(.0))]
    ResourcesGone(Vec<(ReservationId, Name)>),
}

/// Most reservations named in the error, to keep it readable.
const MOST_NAMED: usize = 10;

fn tell_gone(live: &[(ReservationId, Name)]) -> String {
    let named = live.iter().take(MOST_NAMED).map(|(id, resource)| format!("{id} on {resource}"));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match live.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "live reservations use resources that the site no longer offers: {named}{more}; keep these resources in \
         the configuration until the reservations have ended or are cancelled"
    )
}

impl Ledger {
    /// The state after all events so far.
    pub fn snapshot(&self) -> Snapshot {
        let second = self.latest.second();
        let names = self.rules.resources.iter().map(|offered| offered.resource.name.clone());
        let standing = self.books.iter().map(|book| Standing {
            lost: book.lost,
            taken: book.taken_in(second),
            waits: book.waits.clone(),
        });
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

    /// The ledger at a snapshot, under possibly different rules. Apply the later events next, then call
    /// [`Ledger::check_resources`].
    pub fn restore(rules: Rules, snapshot: Snapshot) -> Result<Ledger, RestoreError> {
        let Snapshot { latest, accepted, observed, holds, resources, entries, mut denied, mut answers } =
            snapshot;
        let mut ledger = Ledger::new(rules)?;
        (ledger.latest, ledger.accepted) = (latest, accepted);
        (ledger.observed, ledger.holds) = (observed, holds);
        ledger.books.iter_mut().for_each(|book| book.advance(latest.second()));
        for (id, mut entry) in entries {
            entry.changed_to = entry.changed_to.take().map(|changed| entry.with_fixed_terms(changed));
            ledger.enter(id, entry);
        }
        // Snapshots of earlier versions may have more than is remembered. The oldest are dropped.
        let mut ended: Vec<_> = ledger.entries().map(|(id, entry)| (entry.ended, id)).collect();
        ended.sort_unstable();
        ended.into_iter().for_each(|(_, id)| ledger.count_ended(id));
        denied.sort_by_key(|(_, denied)| denied.at);
        answers.sort_by_key(|answered| answered.at);
        for (id, denied) in denied {
            ledger.deny(id, denied);
        }
        answers.into_iter().for_each(|answered| ledger.remember_answer(answered));
        for (resource, Standing { lost, taken, waits }) in resources {
            if let Some(at) = ledger.at(&resource) {
                ledger.books[at].waits = waits;
                ledger.books[at].set_lost(lost);
                ledger.books[at].set_taken_in(latest.second(), &taken);
            }
        }
        Ok(ledger)
    }

    /// Checks that every live reservation has a resource. Call it after a restart, when all events are
    /// applied: the rules may have changed.
    pub fn check_resources(&self) -> Result<(), RestoreError> {
        let live = self.entries.iter().filter(|(_, entry)| entry.is_live());
        let gone = live.filter(|(_, entry)| self.at(&entry.resource).is_none());
        let gone: Vec<_> = gone.map(|(id, entry)| (*id, entry.resource.clone())).collect();
        if gone.is_empty() { Ok(()) } else { Err(RestoreError::ResourcesGone(gone)) }
    }
}

impl Ledger {
    /// The state of each resource that does not follow from the entries.
    fn standings(&self) -> impl Iterator<Item = (&Name, Capacity, &Waits)> {
        let names = self.rules.resources.iter().map(|offered| &offered.resource.name);
        names.zip(&self.books).map(|(name, book)| (name, book.lost, &book.waits))
    }
}

impl PartialEq for Ledger {
    fn eq(&self, other: &Ledger) -> bool {
        self.rules == other.rules
            && self.entries == other.entries
            && self.denied == other.denied
            && self.answers == other.answers
            && (self.accepted, self.observed, self.holds) == (other.accepted, other.observed, other.holds)
            && self.standings().eq(other.standings())
    }
}

// Rules contain weights between 0 and 1, never NaN, so equality is reflexive.
impl Eq for Ledger {}

impl Hash for Ledger {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.entries.hash(state);
        self.denied.hash(state);
        self.answers.hash(state);
        (self.accepted, self.observed, self.holds).hash(state);
        self.standings().for_each(|standing| standing.hash(state));
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
            .field("standings", &self.standings().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
