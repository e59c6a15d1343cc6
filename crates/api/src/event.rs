//! What happened, one event at a time, as it is told to whoever watches.

use crate::ids::{NameText, ReservationIdText};
use crate::reservation::State;
use crate::time::{FineTimestamp, OutOfCalendar, Timestamp};
use bookahead_protocol::{Moment, Name, ReservationId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Something that happened. In the stream its `sequence` is the `id` of the message, and its `kind` the `event`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "sequence": 4711, "at": "2026-11-16T09:00:00.250Z", "at_ms": 1_794_819_600_250_u64, "kind": "committed",
    "reservation": "rsv_4f3c2b1a", "owner": "ada", "state": "committed", "version": 1
}))]
pub struct Event {
    /// Its place in the journal; it only grows. Whoever asks again from here on (`Last-Event-ID`) misses nothing.
    pub sequence: u64,
    /// When, to the millisecond.
    pub at: FineTimestamp,
    /// The same in milliseconds since 1970.
    pub at_ms: i64,
    /// What, in one word, such as "held", "committed", "expired", "begun", "completed", "cancelled".
    #[schema(example = "committed")]
    pub kind: String,
    /// The reservation that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ReservationIdText>)]
    pub reservation: Option<ReservationId>,
    /// Whose that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<NameText>, example = "ada")]
    pub owner: Option<Name>,
    /// Where in its life that is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// Its version now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// How much of its capacity is missing now, since machines failed or the batch system does not keep it; 0 where it is
    /// whole again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<u32>,
    /// Where something is missing: begins within the window of its request at which it could be had whole. Whoever wants
    /// that changes the reservation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub could_begin: Vec<Timestamp>,
}

impl Event {
    /// Something that happened then, and is about no reservation so far.
    pub fn new(sequence: u64, at: Moment, kind: &str) -> Result<Event, OutOfCalendar> {
        Ok(Event {
            sequence,
            at: at.try_into()?,
            at_ms: at.0,
            kind: kind.into(),
            reservation: None,
            owner: None,
            state: None,
            version: None,
            missing: None,
            could_begin: Vec::new(),
        })
    }
}
