//! Usage by user, project, site, resource and month, and what happened to one reservation.

use crate::description::{JobIdText, NameText, ReservationIdText};
use crate::list::Event;
use crate::time::Timestamp;
use bookahead_protocol::{JobId, Name, ReservationId};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::{IntoParams, ToSchema};

/// What to add up.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UsageQuery {
    /// Columns to group by, separated by commas: `user`, `project`, `site`, `resource`, `month`. Default: `user`.
    #[param(example = "user,month", max_length = 64)]
    pub by: Option<String>,
    /// Only what was booked or used from then on. Default: the beginning of the current month.
    pub from: Option<Timestamp>,
    /// Only what was booked or used before. Default: the end of the month of `from`.
    pub until: Option<Timestamp>,
    /// Only that of this user.
    #[param(value_type = Option<NameText>)]
    pub owner: Option<Name>,
    /// Time zone in which months begin, by its IANA name. Default: UTC.
    #[param(example = "Europe/Berlin", max_length = 64)]
    pub zone: Option<String>,
}

/// Usage within an interval.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "from": "2026-11-01T00:00:00Z", "until": "2026-12-01T00:00:00Z", "by": ["user"], "zone": "UTC",
    "rows": [{
        "user": "ada", "kind": "processors", "reservations": 3, "cancelled": 1, "expired": 0, "lost": 0, "jobs": 5,
        "booked_unit_hours": 384.0, "kept_unit_hours": 256.0, "job_unit_hours": 201.5
    }],
    "totals": [{
        "kind": "processors", "reservations": 3, "cancelled": 1, "expired": 0, "lost": 0, "jobs": 5,
        "booked_unit_hours": 384.0, "kept_unit_hours": 256.0, "job_unit_hours": 201.5
    }]
}))]
pub struct Usage {
    /// Begin of the interval.
    pub from: Timestamp,
    /// End of the interval.
    pub until: Timestamp,
    /// Columns that the rows are grouped by.
    pub by: Vec<String>,
    /// Time zone in which months begin.
    pub zone: String,
    /// The history is complete only from then on. Missing if it covers the whole interval.
    pub complete_since: Option<Timestamp>,
    /// Sorted by the columns. Groups without usage are left out.
    pub rows: Vec<UsageRow>,
    /// Sums over all rows, one for each kind of resource. A reservation in several rows is counted once.
    pub totals: Vec<UsageRow>,
}

/// What happened to a reservation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "events": [{"sequence": 17, "at": "2026-11-17T09:00:00.250Z", "kind": "held", "owner": "ada", "state": "held", "version": 1}],
    "complete": true
}))]
pub struct History {
    /// Its events and those of jobs in it, oldest first.
    pub events: Vec<Event>,
    /// Whether these are all. Otherwise earlier ones are no longer known.
    pub complete: bool,
}

/// Usage of one group, on resources of one kind. Reservations and jobs of which only a part lies within the interval
/// are counted, with that part of their time.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct UsageRow {
    /// Owner of the reservations and jobs. Only if grouped by user.
    pub user: Option<String>,
    /// Project of the owner, as the site has it configured for its batch system; empty if there is none. Only if
    /// grouped by project.
    pub project: Option<String>,
    /// Site of the resource. Only if grouped by site.
    pub site: Option<String>,
    /// The resource. Only if grouped by resource.
    pub resource: Option<String>,
    /// Month, such as `2026-11`. Only if grouped by month.
    pub month: Option<String>,
    /// Kind of resource. Units of different kinds are not added. Empty if it is not known.
    pub kind: String,
    /// Committed reservations, including those that were cancelled or lost.
    pub reservations: u64,
    /// Those given up by their owner or an operator, before or after the start.
    pub cancelled: u64,
    /// Holds that expired without a commit.
    pub expired: u64,
    /// Reservations that their site lost.
    pub lost: u64,
    /// Jobs that ran.
    pub jobs: u64,
    /// Capacity times hours as booked. What is given back or lost does not lower it.
    pub booked_unit_hours: f64,
    /// Capacity times hours that the reservations kept: less than booked after a cancellation, an early release or
    /// a failure. The future counts as it is booked.
    pub kept_unit_hours: f64,
    /// Capacity times run time of jobs, within reservations or outside of them.
    pub job_unit_hours: f64,
}

/// Which records to list.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RecordsQuery {
    /// Only those on this resource.
    #[param(value_type = Option<NameText>)]
    pub resource: Option<Name>,
    /// Only jobs submitted from then on, and reservations that end after it. Default: all.
    pub from: Option<Timestamp>,
    /// Only jobs submitted before, and reservations that begin before it. Default: all.
    pub until: Option<Timestamp>,
    /// Only those of this user.
    #[param(value_type = Option<NameText>)]
    pub owner: Option<Name>,
    /// Most records on a page. The server has a limit of its own.
    #[param(minimum = 1)]
    pub limit: Option<u32>,
    /// Cursor: `next` of the previous page.
    pub cursor: Option<String>,
}

/// A page of jobs and reservations, as the history has them.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageRecords {
    /// Jobs, by id. All jobs come before the first reservation.
    pub jobs: Vec<UsageJob>,
    /// Parts of reservations, by id.
    pub reservations: Vec<UsageReservation>,
    /// Cursor of the next page. Missing on the last page.
    pub next: Option<String>,
    /// The history is complete only from then on. Missing if it is complete.
    pub complete_since: Option<Timestamp>,
}

/// A job of the history.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageJob {
    /// Its id.
    #[schema(value_type = JobIdText)]
    pub id: JobId,
    /// Its resource.
    pub resource: String,
    /// Its owner.
    pub owner: String,
    /// Project of the owner, if there is one.
    pub project: Option<String>,
    /// The reservation that it ran in. Missing if it ran from the queue.
    #[schema(value_type = Option<ReservationIdText>)]
    pub reservation: Option<ReservationId>,
    /// How it stands or ended, such as `done`, `cancelled` or `out-of-time`.
    pub state: String,
    /// Capacity.
    pub capacity: u32,
    /// When it was submitted.
    pub submitted: Timestamp,
    /// When it started. Missing if it did not.
    pub started: Option<Timestamp>,
    /// When it ended. Missing if it has not.
    pub ended: Option<Timestamp>,
    /// Its time limit. Missing if it has not started.
    pub limit_seconds: Option<i64>,
}

/// A part of a reservation of the history.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageReservation {
    /// Its id.
    #[schema(value_type = ReservationIdText)]
    pub id: ReservationId,
    /// Index of the part.
    pub part: u32,
    /// Its resource.
    pub resource: String,
    /// Its owner.
    pub owner: String,
    /// Project of the owner, if there is one.
    pub project: Option<String>,
    /// How it stands or ended: `held`, `booked`, `completed`, `cancelled`, `expired`, `lost` or `replaced`.
    pub state: String,
    /// What was booked, by time.
    pub spans: Vec<UsageSpan>,
    /// When it was accepted, if that is known.
    pub accepted: Option<Timestamp>,
    /// When it ended, if it has.
    pub ended: Option<Timestamp>,
    /// Earliest start by its request, if that is known.
    pub earliest_start: Option<Timestamp>,
    /// Latest end by its request, if that is known.
    pub latest_end: Option<Timestamp>,
}

/// Capacity for an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageSpan {
    /// Begin.
    pub begin: Timestamp,
    /// End.
    pub end: Timestamp,
    /// Capacity.
    pub capacity: u32,
}
