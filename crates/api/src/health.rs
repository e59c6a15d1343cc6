//! Whether a site or broker is well.

use crate::ids::NameText;
use crate::site::Role;
use crate::time::Timestamp;
use bookahead_protocol::Name;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a site or broker is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Whether it takes calls.
    pub status: Status,
    /// What it is called.
    #[schema(value_type = NameText)]
    pub name: Name,
    /// What it is.
    pub role: Role,
    /// The version of its software.
    #[schema(example = "0.1.0")]
    pub version: String,
    /// The time by its clock.
    pub now: Timestamp,
    /// How many seconds pass on its clock in one real second: 1, unless time is accelerated.
    #[schema(example = 1)]
    pub clock_speed: u32,
    /// The last event that is written down.
    pub journal_sequence: u64,
}

/// Whether calls are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = HealthStatus)]
pub enum Status {
    /// Yes.
    Ready,
    /// No longer: it finishes what is under way and stops.
    Stopping,
    /// No: it cannot write its journal.
    Failed,
}
