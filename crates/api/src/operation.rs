//! A call of the protocol as HTTP says it: a method, a path, a document, and the version where one is meant. Whoever
//! sends calls uses this; servers turn the documents back with their `call` methods.

use crate::offer::Probe;
use crate::reservation::{
    Attach, Change, Commit, Extend, FinishChange, Hold, PrepareChange, Release, Reserve,
};
use crate::time::{OutOfCalendar, Timestamp};
use bookahead_protocol::{Call, NewTerms, ReservationId};

/// One operation on reservations, and what it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// What could be had?
    Probe(Probe),
    /// Hold or book.
    Reserve(Reserve),
    /// Make a hold longer.
    Hold(ReservationId, Hold),
    /// Make a reservation longer, if it is still at this version.
    Extend(ReservationId, Option<u32>, Extend),
    /// Make final.
    Commit(ReservationId, Commit),
    /// One more job.
    Attach(ReservationId, Attach),
    /// Other terms, if it is still at this version.
    Change(ReservationId, Option<u32>, Change),
    /// Prepare other terms, if it is still at this version.
    PrepareChange(ReservationId, Option<u32>, PrepareChange),
    /// Take prepared terms, or keep the old ones.
    FinishChange(ReservationId, FinishChange),
    /// Give back early.
    Release(ReservationId, Release),
    /// Give up.
    Cancel(ReservationId),
    /// How is it?
    Show(ReservationId),
}

/// How HTTP is asked to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Tell.
    Get,
    /// Do.
    Post,
    /// Replace.
    Put,
    /// Take away.
    Delete,
}

impl Operation {
    /// How.
    pub fn method(&self) -> Method {
        match self {
            Operation::Show(_) => Method::Get,
            Operation::Change(..) => Method::Put,
            Operation::Cancel(_) => Method::Delete,
            _ => Method::Post,
        }
    }

    /// Where.
    pub fn path(&self) -> String {
        match self {
            Operation::Probe(_) => "/v1/probes".into(),
            Operation::Reserve(_) => "/v1/reservations".into(),
            Operation::Hold(id, _) => format!("/v1/reservations/{id}/hold"),
            Operation::Extend(id, ..) => format!("/v1/reservations/{id}/extend"),
            Operation::Commit(id, _) => format!("/v1/reservations/{id}/commit"),
            Operation::Attach(id, _) => format!("/v1/reservations/{id}/jobs"),
            Operation::PrepareChange(id, ..) => format!("/v1/reservations/{id}/prepare"),
            Operation::FinishChange(id, _) => format!("/v1/reservations/{id}/finish"),
            Operation::Release(id, _) => format!("/v1/reservations/{id}/release"),
            Operation::Change(id, ..) | Operation::Cancel(id) | Operation::Show(id) => {
                format!("/v1/reservations/{id}")
            }
        }
    }

    /// With what, as JSON.
    pub fn body(&self) -> Result<Option<String>, serde_json::Error> {
        match self {
            Operation::Probe(document) => serde_json::to_string(document).map(Some),
            Operation::Reserve(document) => serde_json::to_string(document).map(Some),
            Operation::Hold(_, document) => serde_json::to_string(document).map(Some),
            Operation::Extend(_, _, document) => serde_json::to_string(document).map(Some),
            Operation::Commit(_, document) => serde_json::to_string(document).map(Some),
            Operation::Attach(_, document) => serde_json::to_string(document).map(Some),
            Operation::Change(_, _, document) => serde_json::to_string(document).map(Some),
            Operation::PrepareChange(_, _, document) => serde_json::to_string(document).map(Some),
            Operation::FinishChange(_, document) => serde_json::to_string(document).map(Some),
            Operation::Release(_, document) => serde_json::to_string(document).map(Some),
            Operation::Cancel(_) | Operation::Show(_) => Ok(None),
        }
    }

    /// Whether it changes nothing.
    pub fn only_asks(&self) -> bool {
        matches!(self, Operation::Probe(_) | Operation::Show(_))
    }

    /// The version for `If-Match`, of operations that carry one; `Some(None)` is any version.
    pub fn version(&self) -> Option<Option<u32>> {
        match self {
            Operation::Extend(_, version, _)
            | Operation::Change(_, version, _)
            | Operation::PrepareChange(_, version, _) => Some(*version),
            _ => None,
        }
    }
}

impl TryFrom<Call> for Operation {
    type Error = OutOfCalendar;

    fn try_from(call: Call) -> Result<Operation, OutOfCalendar> {
        Ok(match call {
            Call::Probe { request, most, starts } => {
                let starts = starts.into_iter().map(Timestamp::try_from).collect::<Result<_, _>>()?;
                Operation::Probe(Probe { request: request.try_into()?, most: Some(most), starts })
            }
            Call::Reserve { id, request, hold_for, book } => Operation::Reserve(Reserve {
                id: Some(id),
                request: request.try_into()?,
                hold_for_ms: hold_for.0,
                book,
            }),
            Call::Hold { id, hold_for } => Operation::Hold(id, Hold { hold_for_ms: hold_for.0 }),
            Call::Extend { id, version, end } => {
                Operation::Extend(id, version, Extend { end: end.try_into()? })
            }
            Call::Commit { id, jobs } => Operation::Commit(id, Commit { jobs }),
            Call::Attach { id, part, job } => Operation::Attach(id, Attach { part, job }),
            Call::Change { id, version, request } => {
                Operation::Change(id, version, Change { request: request.try_into()? })
            }
            Call::PrepareChange { id, change, version, terms, hold_for } => {
                let (request, end) = match terms {
                    NewTerms::Request(request) => (Some(request.try_into()?), None),
                    NewTerms::Until(end) => (None, Some(end.try_into()?)),
                };
                let document = PrepareChange { change, request, end, hold_for_ms: hold_for.0 };
                Operation::PrepareChange(id, version, document)
            }
            Call::FinishChange { id, change, accept } => {
                Operation::FinishChange(id, FinishChange { change, accept })
            }
            Call::Release { id, part, from, keep } => {
                Operation::Release(id, Release { part, from: from.try_into()?, keep: keep.0 })
            }
            Call::Cancel { id } => Operation::Cancel(id),
            Call::Show { id } => Operation::Show(id),
        })
    }
}
