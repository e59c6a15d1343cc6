//! What is taken when, for drawing. Who may not see whose something is, sees only that it is there.

use crate::ids::NameText;
use crate::reservation::State;
use crate::time::Timestamp;
use bookahead_protocol::Name;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The schedules of some resources, as far as the site reveals them to the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// By name.
    pub resources: Vec<ResourceSchedule>,
}

/// The schedule of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceSchedule {
    /// Which, by its name at whoever answers.
    #[schema(value_type = NameText)]
    pub resource: Name,
    /// What there is in all.
    pub capacity: u32,
    /// The moment of the answer, by the clock of whoever answers.
    pub now: Timestamp,
    /// How much of the capacity is lost at the moment.
    #[serde(default)]
    pub lost: u32,
    /// What is taken, by begin.
    pub blocks: Vec<Block>,
}

/// So much of a resource, taken from then until then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "kind": "reservation", "begin": "2026-11-16T09:00:00Z", "end": "2026-11-16T11:00:00Z", "capacity": 64,
    "id": "rsv_4f3c2b1a", "owner": "ada", "state": "committed"
}))]
pub struct Block {
    /// By what.
    pub kind: BlockKind,
    /// From then. Of a waiting job: by the plan of this moment.
    pub begin: Timestamp,
    /// Until just before then. Of a job: by its estimate.
    pub end: Timestamp,
    /// How much.
    pub capacity: u32,
    /// The id of the reservation or job, where the caller may see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "rsv_4f3c2b1a")]
    pub id: Option<String>,
    /// Whose it is, where the caller may see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<NameText>, example = "ada")]
    pub owner: Option<Name>,
    /// Of a reservation: where in its life it is, where the caller may see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
}

/// What takes capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BlockKind {
    /// A reservation that is committed.
    Reservation,
    /// A reservation that is held and not committed yet.
    Hold,
    /// A running job.
    RunningJob,
    /// A waiting job, where the plan of this moment puts it.
    WaitingJob,
    /// A reservation that was made past this site, in the batch system.
    Foreign,
}
