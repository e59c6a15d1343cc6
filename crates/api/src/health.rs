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
    /// Its name.
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
    /// Number of the last event in its journal.
    pub journal_sequence: u64,
    /// How its batch system is; missing where it has none, or one that is part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchHealth>,
}

/// How the batch system of a site is. The site takes calls in any case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"state": "slow", "since": "2026-11-16T09:00:00Z", "looked_seconds_ago": 47}))]
pub struct BatchHealth {
    /// Whether it answers.
    pub state: BatchState,
    /// Since when it is in this state; missing before its first answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Age in seconds of the last look at its queue and nodes; missing before the first since the site started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked_seconds_ago: Option<u64>,
}

/// Whether a batch system answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BatchState {
    /// It answers.
    Ok,
    /// It takes long to answer.
    Slow,
    /// It does not answer. New requests get `no-batch-system`; those that wait get `batch-timeout` if that lasts too long.
    Silent,
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
    /// No: it has ended, cannot write its journal, or makes no progress.
    Failed,
}
