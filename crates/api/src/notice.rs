//! The notice that a service posts to the webhook of a reservation, and writes to the standard input of the
//! operator's command.

use crate::State;
use crate::time::{FineTimestamp, Timestamp};
use bookahead_protocol::{Name, ReservationId};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// A change to a reservation that its owner relies on.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Unique for each notice. A repeated delivery has the same id.
    pub id: String,
    /// The site or broker that sends it.
    pub service: Name,
    /// Id of the reservation.
    pub reservation: ReservationId,
    /// Owner of the reservation.
    pub owner: Name,
    /// Kind of the change, such as "committed", "degraded", "broken", "whole", "cancelled".
    pub what: String,
    /// Time of the change, to the millisecond.
    pub at: FineTimestamp,
    /// Reason: who cancelled it, why a part was lost, or the code of a refusal.
    pub because: Option<String>,
    /// State after the change.
    pub state: Option<State>,
    /// Version after the change.
    pub version: Option<u32>,
    /// Capacity missing after the change.
    pub missing: Option<u32>,
    /// If capacity is missing: start times at which the full capacity is available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub could_begin: Vec<Timestamp>,
}
