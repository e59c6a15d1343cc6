//! What the owner of a reservation is told by a webhook, and what a command of the operator reads.

use crate::State;
use crate::time::{FineTimestamp, Timestamp};
use bookahead_protocol::{Name, ReservationId};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Something happened to a reservation that its owner relies on.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The same for every repetition of this notice, and for no other.
    pub id: String,
    /// The site or broker that tells it.
    pub service: Name,
    /// To which reservation.
    pub reservation: ReservationId,
    /// Whose it is.
    pub owner: Name,
    /// What, in a word, such as "committed", "degraded", "broken", "whole", "cancelled".
    pub what: String,
    /// When, to the millisecond.
    pub at: FineTimestamp,
    /// Why, in a word: who gave it up, why a part is gone, or the code of a refusal.
    pub because: Option<String>,
    /// Its state afterwards.
    pub state: Option<State>,
    /// Its version afterwards.
    pub version: Option<u32>,
    /// How much of its capacity is missing now.
    pub missing: Option<u32>,
    /// Where something is missing: begins at which it could be had whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub could_begin: Vec<Timestamp>,
}
