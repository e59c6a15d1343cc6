//! Reservations as their owners see them, and the operations on them. The id and the expected version are not in
//! the documents: the path and `If-Match` carry them.

use crate::convert::{converted, same_fields, words};
use crate::decimal::FineSeconds;
use crate::description::{ChangeIdText, JobIdText, NameText, ReservationIdText};
use crate::offer::Slot;
use crate::request::Request;
use crate::sharing::Consent;
use crate::time::Timestamp;
use bookahead_plan::Capacity;
use bookahead_protocol as protocol;
use bookahead_protocol::{
    Call, ChangeId, Description, JobId, Millis, Name, NewTerms, ReservationId, life_cycle,
};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Default duration of a hold: one minute, enough for a person to compare offers.
const HOLD_FOR: FineSeconds = FineSeconds(60_000);

/// Hold a slot, or book it at once.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "request": {"parts": [{
        "capacity": 64, "duration_seconds": 7200,
        "earliest_start": "2026-11-16T09:00:00Z", "latest_end": "2026-11-16T18:00:00Z"
    }]},
    "hold_for_seconds": 60
}))]
pub struct Reserve {
    /// Id of the new reservation. Default: the server makes one. A client that makes the id itself can find the
    /// reservation again if the answer is lost.
    #[schema(value_type = Option<ReservationIdText>)]
    pub id: Option<ReservationId>,
    /// What to reserve: a fixed start, or a window to choose from.
    pub request: Request,
    /// Duration of the hold in seconds, from the grant. The service may grant less.
    #[serde(default = "hold_for")]
    #[schema(value_type = f64, default = 60, minimum = 0, example = 60)]
    pub hold_for_seconds: FineSeconds,
    /// Commit the reservation as soon as it is held.
    #[serde(default)]
    #[schema(default = false)]
    pub book: bool,
}

/// Prolong a hold. To prolong a committed reservation, use `Extend`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"hold_for_seconds": 60}))]
pub struct Hold {
    /// New duration in seconds, from now. The service may grant less. A hold is never shortened.
    #[serde(default = "hold_for")]
    #[schema(value_type = f64, default = 60, minimum = 0, example = 60)]
    pub hold_for_seconds: FineSeconds,
}

/// Prolong a committed or active reservation, with the capacity that it has at its end. If there is no room, it
/// stays unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"end": "2026-11-16T13:00:00Z"}))]
pub struct Extend {
    /// New end. Nothing changes if the reservation already ends then or later; to shorten it, release the rest.
    pub end: Timestamp,
}

/// Commit a hold, with or without jobs to run in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    /// Waiting jobs of the owner at the site, to be moved into the reservation. More can be attached later. If a
    /// job cannot be moved, a site commits nothing; a broker moves the jobs after the commit. At most 1024.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<JobIdText>, max_items = 1024)]
    pub jobs: Vec<JobId>,
}

/// Attach a waiting job to a committed reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Attach {
    /// Part of the reservation, counted from 0.
    #[serde(default)]
    pub part: usize,
    /// Id of the job.
    #[schema(value_type = JobIdText)]
    pub job: JobId,
}

/// Change the terms of a committed or active reservation. If the new terms are not available, the old ones stay. Of
/// an active reservation only the end can change, and the capacity to less.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// New terms.
    pub request: Request,
}

/// Prepare new terms for a committed or active reservation. Old and new terms are both held until the change is
/// finished; if it is not finished in time, the old terms stay. Brokers prepare each part of a co-reservation, so
/// that all parts change or none. Give either `request` or `end`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"change": "chg_4f3c2b1a", "end": "2026-11-16T13:00:00Z", "hold_for_seconds": 60}))]
pub struct PrepareChange {
    /// Id of the change, made by the caller.
    #[schema(value_type = ChangeIdText)]
    pub change: ChangeId,
    /// New terms.
    pub request: Option<Request>,
    /// New end; everything else stays unchanged.
    pub end: Option<Timestamp>,
    /// How long to hold both terms, in seconds. The service may grant less.
    #[serde(default = "hold_for")]
    #[schema(value_type = f64, default = 60, minimum = 0, example = 60)]
    pub hold_for_seconds: FineSeconds,
}

/// Accept or discard a prepared change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"change": "chg_4f3c2b1a", "accept": true}))]
pub struct FinishChange {
    /// Id of the change.
    #[schema(value_type = ChangeIdText)]
    pub change: ChangeId,
    /// `true` accepts the new terms, `false` keeps the old ones.
    pub accept: bool,
}

/// Release a part of a reservation, or some of its capacity, before its end.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Part of the reservation, counted from 0. Required if there are several parts. To release all parts, cancel
    /// the reservation.
    pub part: Option<usize>,
    /// Time from which capacity is released, before the end. The past cannot be released.
    pub from: Timestamp,
    /// Capacity to keep, at most the present one. Default: 0.
    #[serde(default)]
    pub keep: u32,
    /// End the jobs in the reservation that have no room in what is kept. Default: the release is refused while there
    /// are such jobs (`jobs-inside`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end_jobs: bool,
}

/// A reservation, as far as the caller may see it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "id": "rsv_4f3c2b1a", "owner": "ada", "state": "held", "held_for_seconds": 60, "jobs": [],
    "slots": [{
        "resource": "cluster", "site": "north", "begin": "2026-11-16T09:00:00Z", "end": "2026-11-16T11:00:00Z",
        "capacity": 64, "slack_seconds": 0, "cost": 3.2
    }],
    "missing": [0], "condition": "whole", "version": 1
}))]
pub struct Reservation {
    /// Id of the reservation.
    #[schema(value_type = ReservationIdText)]
    pub id: ReservationId,
    /// Owner of the reservation.
    #[schema(value_type = NameText, example = "ada")]
    pub owner: Name,
    /// State in the life cycle.
    pub state: State,
    /// The reserved slots, one for each part.
    pub slots: Vec<Slot>,
    /// Holds and prepared changes only: time until they expire, in seconds from this answer, by the clock of
    /// the server.
    #[schema(value_type = Option<f64>, example = 60)]
    pub held_for_seconds: Option<FineSeconds>,
    /// Terms of a prepared change, one slot for each part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepared: Vec<Slot>,
    /// Attached jobs.
    #[serde(default)]
    pub jobs: Vec<AttachedJob>,
    /// Capacity missing from each part because resources failed; 0 for a part that is whole.
    #[serde(default)]
    pub missing: Vec<u32>,
    /// Whether everything that was promised is available.
    #[serde(default)]
    pub condition: Condition,
    /// Broker only: losses at the sites, by part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<Loss>,
    /// Broker only: parts that were replaced after a loss; the last 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<Replacement>,
    /// Who gave it up. Missing for a reservation that was not given up.
    pub given_up: Option<GivenUp>,
    /// Why the request was refused. Missing for a reservation that was not refused.
    pub refused: Option<RefusalReason>,
    /// Version of the terms. Every change increases it; the entity tag begins with it.
    pub version: u32,
    /// Name, if it has one.
    pub name: Option<String>,
    /// Note, if it has one.
    pub note: Option<String>,
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Priority class, if it has one.
    pub priority: Option<String>,
    /// Other users that may see it and run jobs in it. For guests only themselves and users of their projects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<NameText>)]
    pub shared_with: Vec<Name>,
    /// Answers of these users. A user who is missing here is invited and has not answered.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Consent>)]
    pub consents: BTreeMap<Name, Consent>,
    /// Whether the caller is invited and has not answered. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    pub invitation: bool,
    /// When it was granted first. Missing if that was before the service recorded it.
    pub created: Option<Timestamp>,
    /// The request as it was made, or as it was last changed. Only in the answer of `GET /v1/reservations/{id}`.
    pub request: Option<Request>,
}

words! {
    /// Whether everything that was promised is available. Independent of the state.
    #[derive(Default)]
    Condition = protocol::Condition {
        /// Nothing is missing.
        #[default]
        Whole,
        /// Capacity is missing because resources failed; see `missing`.
        Degraded,
        /// A site lost a part of a co-reservation; the other parts stand.
        Broken,
    }
}

/// Loss of a part, or of capacity of a part.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Loss {
    /// Part of the reservation, counted from 0.
    pub part: usize,
    /// Time at which the broker noticed the loss.
    pub since: Timestamp,
    /// Cause of the loss.
    pub why: Lost,
    /// Time of the next attempt to find a replacement. Missing if none is planned.
    pub heal_at: Option<Timestamp>,
}

/// Record of a replaced part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Replacement {
    /// Part of the reservation, counted from 0.
    pub part: usize,
    /// Time of the replacement.
    pub at: Timestamp,
    /// The slot that was replaced.
    pub was: Slot,
    /// Why it was replaced.
    pub why: Lost,
}

words! {
    /// Why a part was lost. In all cases except `degraded` nothing is left of it.
    Lost = protocol::Lost {
        /// Capacity is missing at the site; see `missing`.
        Degraded,
        /// The owner cancelled it at the site, or released all of it.
        GivenUp,
        /// An operator of the site cancelled it.
        Revoked,
        /// The site ended it, or could not keep it.
        Ended,
        /// The site does not know it any more.
        Forgotten,
        /// A change was decided, but the site could not apply it and has the old terms.
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
        /// The capacity of a hold failed.
        Lost,
    }
}

/// The reason of a refusal as it was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusalReason {
    /// Stable code, as in a problem document.
    #[schema(value_type = NameText, example = "no-room")]
    pub code: Name,
    /// What happened, and what to do.
    pub detail: String,
}

/// A job attached to a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttachedJob {
    /// Part that the job runs in, counted from 0.
    pub part: usize,
    /// Id of the job.
    #[schema(value_type = JobIdText)]
    pub job: JobId,
}

words! {
    /// State of a reservation in its life cycle.
    #[schema(as = ReservationState)]
    State = life_cycle::State {
        /// Waiting for the batch system of the site. Its capacity is taken meanwhile.
        Requested,
        /// Refused.
        Rejected,
        /// Held for its owner until its deadline.
        Held,
        /// A hold that was not committed in time.
        Expired,
        /// Confirmed: the site will provide it.
        Committed,
        /// A change or extension waits for the batch system, or is prepared and not finished. Old and new terms are
        /// both taken meanwhile.
        ChangeRequested,
        /// Between its start and its end.
        Active,
        /// Ended on time, or its owner released the rest.
        Completed,
        /// Given up before its start.
        Cancelled,
        /// Given up between its start and its end.
        Terminated,
    }
}

fn hold_for() -> FineSeconds {
    HOLD_FOR
}

impl Reserve {
    /// Converts to a call. `made` is used if the document has no id.
    pub fn call(self, made: ReservationId) -> Call {
        Call::Reserve {
            id: self.id.unwrap_or(made),
            request: self.request.into(),
            hold_for: Millis(self.hold_for_seconds.0),
            book: self.book,
        }
    }
}

impl Hold {
    /// Converts to a call.
    pub fn call(self, id: ReservationId) -> Call {
        Call::Hold { id, hold_for: Millis(self.hold_for_seconds.0) }
    }
}

impl Extend {
    /// Converts to a call; `version` comes from `If-Match`.
    pub fn call(self, id: ReservationId, version: Option<u32>) -> Call {
        Call::Extend { id, version, end: self.end.time() }
    }
}

impl Commit {
    /// Converts to a call.
    pub fn call(self, id: ReservationId) -> Call {
        Call::Commit { id, jobs: self.jobs }
    }
}

impl Attach {
    /// Converts to a call.
    pub fn call(self, id: ReservationId) -> Call {
        Call::Attach { id, part: self.part, job: self.job }
    }
}

impl Change {
    /// Converts to a call; `version` comes from `If-Match`.
    pub fn call(self, id: ReservationId, version: Option<u32>) -> Call {
        Call::Change { id, version, request: self.request.into() }
    }
}

impl PrepareChange {
    /// Converts to a call; `version` comes from `If-Match`. `None` unless exactly one of `request` and `end` is
    /// given.
    pub fn call(self, id: ReservationId, version: Option<u32>) -> Option<Call> {
        let terms = match (self.request, self.end) {
            (Some(request), None) => NewTerms::Request(request.into()),
            (None, Some(end)) => NewTerms::Until(end.time()),
            // With both it would be open which one counts.
            _ => return None,
        };
        let hold_for = Millis(self.hold_for_seconds.0);
        Some(Call::PrepareChange { id, change: self.change, version, terms, hold_for })
    }
}

impl FinishChange {
    /// Converts to a call.
    pub fn call(self, id: ReservationId) -> Call {
        Call::FinishChange { id, change: self.change, accept: self.accept }
    }
}

impl Release {
    /// Converts to a call.
    pub fn call(self, id: ReservationId) -> Call {
        let (from, keep, end_jobs) = (self.from.time(), Capacity(self.keep), self.end_jobs);
        Call::Release { id, part: self.part, from, keep, end_jobs }
    }
}

same_fields!(Reservation = protocol::Reservation {
    id, owner, state, slots, prepared, jobs, missing, condition, losses, replaced, given_up, refused, version, shared_with,
    consents, created, request
} { held_for_seconds = held_for } in description: Description { name, note, labels, priority } + invitation: false);
same_fields!(Loss = protocol::Loss { part, since, why, heal_at });
same_fields!(Replacement = protocol::Replacement { part, at, was, why });
converted!(AttachedJob = (usize, JobId), RefusalReason = protocol::Refused);

impl From<RefusalReason> for protocol::Refused {
    fn from(RefusalReason { code, detail }: RefusalReason) -> protocol::Refused {
        protocol::Refused { code, detail }
    }
}

impl From<protocol::Refused> for RefusalReason {
    fn from(protocol::Refused { code, detail }: protocol::Refused) -> RefusalReason {
        RefusalReason { code, detail }
    }
}

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
