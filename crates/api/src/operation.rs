//! A protocol call as an HTTP request: method, path, body, and version for `If-Match`. Clients use this; servers
//! turn the documents back into calls with their `call` methods.

use crate::offer::Probe;
use crate::reservation::{
    Attach, Change, Commit, Extend, FinishChange, Hold, PrepareChange, Release, Reserve,
};
use crate::time::{OutOfCalendar, Timestamp};
use bookahead_protocol::{Call, NewTerms, ReservationId};

/// One operation on reservations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Ask for offers.
    Probe(Probe),
    /// Hold or book.
    Reserve(Reserve),
    /// Prolong a hold.
    Hold(ReservationId, Hold),
    /// Prolong a reservation. The number is the expected version.
    Extend(ReservationId, Option<u32>, Extend),
    /// Commit a hold.
    Commit(ReservationId, Commit),
    /// Attach a job.
    Attach(ReservationId, Attach),
    /// Change the terms. The number is the expected version.
    Change(ReservationId, Option<u32>, Change),
    /// Prepare a change. The number is the expected version.
    PrepareChange(ReservationId, Option<u32>, PrepareChange),
    /// Accept or discard a prepared change.
    FinishChange(ReservationId, FinishChange),
    /// Release capacity early.
    Release(ReservationId, Release),
    /// Cancel a reservation.
    Cancel(ReservationId),
    /// Get a reservation.
    Show(ReservationId),
}

/// HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Read only.
    Get,
    /// Create, or act on a reservation.
    Post,
    /// Replace the terms.
    Put,
    /// Cancel.
    Delete,
}

impl Operation {
    /// HTTP method of the operation.
    pub fn method(&self) -> Method {
        match self {
            Operation::Show(_) => Method::Get,
            Operation::Change(..) => Method::Put,
            Operation::Cancel(_) => Method::Delete,
            _ => Method::Post,
        }
    }

    /// Path of the operation, starting with `/v1`.
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

    /// JSON body. `None` for operations without one.
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
            // HTTP gives the body of a GET or DELETE no meaning, and proxies may drop it (RFC 9110, 9.3).
            Operation::Cancel(_) | Operation::Show(_) => Ok(None),
        }
    }

    /// Whether the operation changes nothing at the service.
    pub fn only_asks(&self) -> bool {
        matches!(self, Operation::Probe(_) | Operation::Show(_))
    }

    /// Version for `If-Match`. `None` if the operation has no version, `Some(None)` for any version.
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
                // The number is always sent, because the default of the peer may differ.
                Operation::Probe(Probe { request: request.try_into()?, most: Some(most), starts })
            }
            // The peer must not make the id: a repeated call has to mean the same reservation.
            Call::Reserve { id, request, hold_for, book } => Operation::Reserve(Reserve {
                id: Some(id),
                request: request.try_into()?,
                hold_for_seconds: hold_for.into(),
                book,
            }),
            Call::Hold { id, hold_for } => Operation::Hold(id, Hold { hold_for_seconds: hold_for.into() }),
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
                let document = PrepareChange { change, request, end, hold_for_seconds: hold_for.into() };
                Operation::PrepareChange(id, version, document)
            }
            Call::FinishChange { id, change, accept } => {
                Operation::FinishChange(id, FinishChange { change, accept })
            }
            Call::Release { id, part, from, keep, end_jobs } => {
                Operation::Release(id, Release { part, from: from.try_into()?, keep: keep.0, end_jobs })
            }
            Call::Cancel { id } => Operation::Cancel(id),
            Call::Show { id } => Operation::Show(id),
        })
    }
}
