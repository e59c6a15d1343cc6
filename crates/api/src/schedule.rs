//! Schedules of resources, and what a slot would do to them.

use crate::description::NameText;
use crate::reservation::State;
use crate::time::Timestamp;
use bookahead_protocol::Name;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Schedules of resources, as far as the site reveals them to the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// Sorted by name.
    pub resources: Vec<ResourceSchedule>,
}

/// The schedule of one resource.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceSchedule {
    /// Name of the resource at the service that answers.
    #[schema(value_type = NameText)]
    pub resource: Name,
    /// Total capacity in units of the resource.
    pub capacity: u32,
    /// Current time of the service that answers.
    pub now: Timestamp,
    /// Capacity that is currently failed.
    #[serde(default)]
    pub lost: u32,
    /// Occupied intervals, sorted by begin, except for those in `levels`.
    pub blocks: Vec<Block>,
    /// Only with `pixels`: the intervals that are too narrow or too many to draw each.
    pub levels: Option<Levels>,
    /// Only with `pixels`: the free capacity, from each time on. Where it changes too often to draw, the least of
    /// each pixel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub free: Vec<Free>,
}

/// Mean occupied capacity in steps of equal length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Levels {
    /// Begin of the first step.
    pub begin: Timestamp,
    /// Length of a step in seconds.
    #[schema(minimum = 1)]
    pub step_seconds: i64,
    /// The capacity in each step, by what occupies it (a `BlockKind`).
    pub used: BTreeMap<String, Vec<u32>>,
}

/// Capacity that is free from a time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Free {
    /// From this time until the next.
    pub begin: Timestamp,
    /// Free capacity.
    pub capacity: u32,
}

/// Capacity of a resource that is occupied for an interval.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "kind": "reservation", "begin": "2026-11-16T09:00:00Z", "end": "2026-11-16T11:00:00Z", "capacity": 64,
    "id": "rsv_4f3c2b1a", "owner": "ada", "state": "committed"
}))]
pub struct Block {
    /// What occupies it.
    pub kind: BlockKind,
    /// Start time. For a waiting job: by the current plan.
    pub begin: Timestamp,
    /// End time (exclusive). For a job: by its estimate.
    pub end: Timestamp,
    /// Occupied capacity.
    pub capacity: u32,
    /// Id of the reservation or job. Missing if the caller may not see it.
    #[schema(example = "rsv_4f3c2b1a")]
    pub id: Option<String>,
    /// Owner. Missing if the caller may not see it.
    #[schema(value_type = Option<NameText>, example = "ada")]
    pub owner: Option<Name>,
    /// State of a reservation. Missing if the caller may not see it.
    pub state: Option<State>,
    /// Name of the reservation, if it has one and the caller may see it, or of the maintenance.
    pub name: Option<String>,
    /// Capacity that the reservation was promised and does not have, because machines failed.
    pub missing: Option<u32>,
}

/// What occupies capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BlockKind {
    /// A committed reservation.
    Reservation,
    /// A reservation that is held and not committed.
    Hold,
    /// A running job.
    RunningJob,
    /// A waiting job, at its place in the current plan.
    WaitingJob,
    /// A reservation that was made directly in the batch system, not through this site.
    Foreign,
    /// A maintenance window, with its name.
    Maintenance,
}

impl BlockKind {
    /// As it is written in documents.
    pub fn word(self) -> &'static str {
        match self {
            BlockKind::Reservation => "reservation",
            BlockKind::Hold => "hold",
            BlockKind::RunningJob => "running-job",
            BlockKind::WaitingJob => "waiting-job",
            BlockKind::Foreign => "foreign",
            BlockKind::Maintenance => "maintenance",
        }
    }
}

/// A slot to try: what would it do to the jobs that wait?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "resource": "cluster", "begin": "2026-11-16T09:00:00Z", "end": "2026-11-16T11:00:00Z", "capacity": 64
}))]
pub struct TrySlot {
    /// Name of the resource at the service that is asked.
    #[schema(value_type = NameText)]
    pub resource: Name,
    /// Start time.
    pub begin: Timestamp,
    /// End time (exclusive).
    pub end: Timestamp,
    /// Capacity in units of the resource.
    #[schema(minimum = 1)]
    pub capacity: u32,
}

/// The waiting jobs of a resource by the current plan, without and with the slot. Nothing is booked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhatIf {
    /// Name of the resource at the service that answers.
    #[schema(value_type = NameText)]
    pub resource: Name,
    /// In the order of the queue. At most 10,000: those that move come first if there are more.
    pub jobs: Vec<WaitingJob>,
}

/// A waiting job, without its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitingJob {
    /// Its place in the queue, from 1.
    pub place: u32,
    /// Capacity that it needs.
    pub capacity: u32,
    /// Its time limit in seconds.
    pub limit_seconds: i64,
    /// Planned start without the slot.
    pub before: Timestamp,
    /// Planned start with it.
    pub after: Timestamp,
}
