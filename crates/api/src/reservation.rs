//! A reservation as its owner sees it, and what can be done with one. The version of a change and the identity of what is
//! meant are not in the documents: they are in `If-Match` and in the path.

use crate::convert::{converted, same_fields, words};
use crate::description::{ChangeIdText, JobIdText, NameText, ReservationIdText};
use crate::offer::Slot;
use crate::request::Request;
use crate::time::Timestamp;
use bookahead_plan::Capacity;
use bookahead_protocol as protocol;
use bookahead_protocol::{Call, ChangeId, JobId, Millis, Name, NewTerms, ReservationId, life_cycle};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

/// Default length of a hold: a minute, long enough to think and to compare.
pub const HOLD_FOR_MS: i64 = 60_000;

/// Hold this until its deadline, or book it at once.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "request": {"parts": [{
        "capacity": 64, "duration_seconds": 7200,
        "earliest_start": "2026-11-16T09:00:00Z", "latest_end": "2026-11-16T18:00:00Z"
    }]},
    "hold_for_ms": 60000
}))]
pub struct Reserve {
    /// The id of the new reservation; the server makes one by default. A client that makes the id itself can find the
    /// reservation again if the answer is lost.
    #[schema(value_type = Option<ReservationIdText>)]
    pub id: Option<ReservationId>,
    /// What is wanted: one begin (fixed), or a window to choose from (flexible).
    pub request: Request,
    /// How long the hold should last from the grant, in milliseconds; less may be granted.
    #[serde(default = "hold_for_ms")]
    #[schema(default = 60_000, minimum = 0, example = 60_000)]
    pub hold_for_ms: i64,
    /// Book: commit as soon as it is held.
    #[serde(default)]
    #[schema(default = false)]
    pub book: bool,
}

/// Make a hold longer. To make a committed reservation longer, use `Extend`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"hold_for_ms": 60000}))]
pub struct Hold {
    /// How long from now, in milliseconds; less may be granted. It never makes a hold shorter.
    #[serde(default = "hold_for_ms")]
    #[schema(default = 60_000, minimum = 0, example = 60_000)]
    pub hold_for_ms: i64,
}

/// Make a reservation longer, committed or active, with the capacity that it has at its end. If there is no room it stays as
/// it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"end": "2026-11-16T13:00:00Z"}))]
pub struct Extend {
    /// Its new end. Nothing changes if the reservation lasts as long already; to make it shorter, release the rest.
    pub end: Timestamp,
}

/// Confirm a hold, with or without jobs to run in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    /// Waiting jobs of its owner at the site, to be moved into it; more can be given later. If one cannot be moved, nothing is
    /// committed. A broker takes them once it is committed. At most 1024.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<JobIdText>, max_items = 1024)]
    pub jobs: Vec<JobId>,
}

/// One more waiting job for a committed reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Attach {
    /// The part of the reservation, counted from 0.
    #[serde(default)]
    pub part: usize,
    /// The job.
    #[schema(value_type = JobIdText)]
    pub job: JobId,
}

/// Other terms for a committed or active reservation; the old ones stand if the new ones cannot be had. Once it is active only its
/// end can change, and its capacity to less.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The new terms.
    pub request: Request,
}

/// Prepare other terms for a committed or active reservation: the old terms and the new ones are both kept until the change is
/// finished or its time is up; then the old ones stand. Brokers do so with each part of a co-reservation, so that all parts
/// change or none does. Give either `request` or `end`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"change": "chg_4f3c2b1a", "end": "2026-11-16T13:00:00Z", "hold_for_ms": 60000}))]
pub struct PrepareChange {
    /// The name of the change, made by the caller.
    #[schema(value_type = ChangeIdText)]
    pub change: ChangeId,
    /// The new terms.
    pub request: Option<Request>,
    /// The new end; all else stays as it is.
    pub end: Option<Timestamp>,
    /// How long both terms should be kept, in milliseconds; less may be granted.
    #[serde(default = "hold_for_ms")]
    #[schema(default = 60_000, minimum = 0, example = 60_000)]
    pub hold_for_ms: i64,
}

/// Take the terms that were prepared, or keep the old ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"change": "chg_4f3c2b1a", "accept": true}))]
pub struct FinishChange {
    /// The name of the change.
    #[schema(value_type = ChangeIdText)]
    pub change: ChangeId,
    /// Whether the new terms are taken.
    pub accept: bool,
}

/// Give back part of a reservation early, or all that is left of it.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// The part of the reservation, counted from 0. Required where there are several; cancel the reservation to give back all.
    pub part: Option<usize>,
    /// From when on, before its end; the past cannot be given back.
    pub from: Timestamp,
    /// Capacity to keep, at most what it has. Default: none.
    #[serde(default)]
    pub keep: u32,
}

/// A reservation as its owner may see it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "id": "rsv_4f3c2b1a", "owner": "ada", "state": "held", "held_for_ms": 60000, "jobs": [],
    "slots": [{
        "resource": "cluster", "site": "north", "begin": "2026-11-16T09:00:00Z", "end": "2026-11-16T11:00:00Z",
        "capacity": 64, "slack_seconds": 0, "cost_thousandths": 3200
    }],
    "missing": [0], "condition": "whole", "version": 1
}))]
pub struct Reservation {
    /// Its id.
    #[schema(value_type = ReservationIdText)]
    pub id: ReservationId,
    /// Whose it is.
    #[schema(value_type = NameText, example = "ada")]
    pub owner: Name,
    /// Its state in the life cycle.
    pub state: State,
    /// What is reserved, one slot for each part.
    pub slots: Vec<Slot>,
    /// Of a hold, and of a change that is prepared: how long it lasts from this answer on, in milliseconds, by the clock of the
    /// server.
    pub held_for_ms: Option<i64>,
    /// The terms of a change that is prepared, one slot for each part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepared: Vec<Slot>,
    /// The jobs attached.
    #[serde(default)]
    pub jobs: Vec<AttachedJob>,
    /// Capacity missing from each part because resources failed; 0 for a part that is whole.
    #[serde(default)]
    pub missing: Vec<u32>,
    /// Whether all that was promised is there.
    #[serde(default)]
    pub condition: Condition,
    /// Of a booking at a broker: what its sites no longer have, by part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<Loss>,
    /// Of a booking at a broker: the parts that were replaced since their sites lost them, the last 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<Replacement>,
    /// Of what was given up: by whom.
    pub given_up: Option<GivenUp>,
    /// Version of its terms: grows with every change; the entity tag begins with it.
    pub version: u32,
}

words! {
    /// Whether all that was promised is there. A reservation goes through its states in any condition.
    #[derive(Default)]
    Condition = protocol::Condition {
        /// All of it.
        #[default]
        Whole,
        /// Capacity is missing, since resources failed; `missing` says how much.
        Degraded,
        /// A part of a co-reservation was lost at its site; the other parts stand.
        Broken,
    }
}

/// Something that a part no longer has, though it was promised.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Loss {
    /// The part, counted from 0.
    pub part: usize,
    /// When the broker noticed it.
    pub since: Timestamp,
    /// Why.
    pub why: Lost,
    /// When a replacement is looked for again, where there was none so far.
    pub heal_at: Option<Timestamp>,
}

/// A part that was replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Replacement {
    /// The part, counted from 0.
    pub part: usize,
    /// When.
    pub at: Timestamp,
    /// What it was before.
    pub was: Slot,
    /// Why it was replaced.
    pub why: Lost,
}

words! {
    /// Why a part no longer has what was promised. In all cases but `degraded` nothing is left of it.
    Lost = protocol::Lost {
        /// Capacity is missing at its site; `missing` says how much.
        Degraded,
        /// Its owner gave it up at its site, or released all of it.
        GivenUp,
        /// An operator of its site gave it up.
        Revoked,
        /// Its site ended it, or could not keep it.
        Ended,
        /// Its site does not know it any more.
        Forgotten,
        /// A change was decided, and its site has the old terms: the new ones could not be had any more.
        NotChanged,
    }
}

words! {
    /// Who gave a reservation up.
    GivenUp = protocol::ledger::Because {
        /// Its owner.
        Owner,
        /// An operator of the site.
        Operator,
        /// It was a hold, and the capacity for it failed.
        Lost,
    }
}

/// A job in a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttachedJob {
    /// The part that it runs in, counted from 0.
    pub part: usize,
    /// The job.
    #[schema(value_type = JobIdText)]
    pub job: JobId,
}

words! {
    /// State of a reservation in its life cycle.
    #[schema(as = ReservationState)]
    State = life_cycle::State {
        /// Waits for the batch system of the site; its room is taken meanwhile.
        Requested,
        /// Refused.
        Rejected,
        /// Held for its owner until its deadline.
        Held,
        /// A hold that was not committed in time.
        Expired,
        /// Confirmed: it will be honoured.
        Committed,
        /// A change or extension waits for the batch system of the site, or is prepared and not yet finished; old and new terms
        /// are taken meanwhile.
        ChangeRequested,
        /// Between its start and its end.
        Active,
        /// Its end has come, or its owner gave back the rest.
        Completed,
        /// Given up before its start.
        Cancelled,
        /// Given up between its start and its end.
        Terminated,
    }
}

fn hold_for_ms() -> i64 {
    HOLD_FOR_MS
}

impl Reserve {
    /// As a call; `made` is the id where the document has none.
    pub fn call(self, made: ReservationId) -> Call {
        Call::Reserve {
            id: self.id.unwrap_or(made),
            request: self.request.into(),
            hold_for: Millis(self.hold_for_ms),
            book: self.book,
        }
    }
}

impl Hold {
    /// As a call about a reservation.
    pub fn call(self, id: ReservationId) -> Call {
        Call::Hold { id, hold_for: Millis(self.hold_for_ms) }
    }
}

impl Extend {
    /// As a call about a reservation; `version` comes from `If-Match`.
    pub fn call(self, id: ReservationId, version: Option<u32>) -> Call {
        Call::Extend { id, version, end: self.end.time() }
    }
}

impl Commit {
    /// As a call about a reservation.
    pub fn call(self, id: ReservationId) -> Call {
        Call::Commit { id, jobs: self.jobs }
    }
}

impl Attach {
    /// As a call about a reservation.
    pub fn call(self, id: ReservationId) -> Call {
        Call::Attach { id, part: self.part, job: self.job }
    }
}

impl Change {
    /// As a call about a reservation; `version` comes from `If-Match`.
    pub fn call(self, id: ReservationId, version: Option<u32>) -> Call {
        Call::Change { id, version, request: self.request.into() }
    }
}

impl PrepareChange {
    /// As a call about a reservation; `version` comes from `If-Match`. None where not exactly one of both terms is given.
    pub fn call(self, id: ReservationId, version: Option<u32>) -> Option<Call> {
        let terms = match (self.request, self.end) {
            (Some(request), None) => NewTerms::Request(request.into()),
            (None, Some(end)) => NewTerms::Until(end.time()),
            _ => return None,
        };
        let hold_for = Millis(self.hold_for_ms);
        Some(Call::PrepareChange { id, change: self.change, version, terms, hold_for })
    }
}

impl FinishChange {
    /// As a call about a reservation.
    pub fn call(self, id: ReservationId) -> Call {
        Call::FinishChange { id, change: self.change, accept: self.accept }
    }
}

impl Release {
    /// As a call about a reservation.
    pub fn call(self, id: ReservationId) -> Call {
        Call::Release { id, part: self.part, from: self.from.time(), keep: Capacity(self.keep) }
    }
}

same_fields!(Reservation = protocol::Reservation {
    id, owner, state, slots, prepared, jobs, missing, condition, losses, replaced, given_up, version
} { held_for_ms = held_for });
same_fields!(Loss = protocol::Loss { part, since, why, heal_at });
same_fields!(Replacement = protocol::Replacement { part, at, was, why });
converted!(AttachedJob = (usize, JobId));

impl From<AttachedJob> for (usize, JobId) {
    fn from(AttachedJob { part, job }: AttachedJob) -> (usize, JobId) {
        (part, job)
    }
}

impl From<(usize, JobId)> for AttachedJob {
    fn from((part, job): (usize, JobId)) -> AttachedJob {
        AttachedJob { part, job }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_written_with_the_words_of_the_life_cycle() {
        for state in life_cycle::State::ALL {
            let written = serde_json::to_string(&State::from(state)).unwrap();
            assert_eq!(written, format!("{:?}", state.word()));
            assert_eq!(life_cycle::State::from(State::from(state)), state);
        }
    }
}
