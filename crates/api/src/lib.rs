//! The JSON documents of the HTTP API, their OpenAPI schemas, and lossless conversions to and from the types of the
//! protocol. Relies on `protocol`; never sends, serves or decides.
//!
//! - [`time`]: instants as RFC 3339; [`length`]: lengths of time as people write them; [`decimal`]: numbers with
//!   decimals; [`header`]: HTTP headers
//! - [`request`]: requests; [`offer`]: probes and offers; [`reservation`]: reservations and operations on them
//! - [`operation`]: a protocol call as an HTTP request
//! - [`problem`]: refusals and errors
//! - [`description`]: OpenAPI schemas of ids and names; [`openapi`]: the document for generators of clients
//! - [`site`]: sites, resources, schedules and health
//! - [`job`]: jobs; [`list`]: pages, filters and events; [`notice`]: webhook notices; [`usage`]: usage
//!
//! Requests with unknown fields are refused; answers may gain fields, so clients must ignore unknown ones.

mod convert;
pub mod decimal;
pub mod description;
pub mod header;
pub mod job;
pub mod length;
pub mod list;
pub mod notice;
pub mod offer;
pub mod openapi;
pub mod operation;
pub mod problem;
pub mod request;
pub mod reservation;
pub mod schedule;
pub mod session;
pub mod sharing;
pub mod site;
pub mod time;
pub mod usage;
pub mod when;

pub use decimal::{Cost, FineSeconds, Price, Rating};
pub use job::{Job, JobState, Jobs, LostAttempt, Mode, SubmitJob, Work};
pub use length::{BadLength, Length, whole_seconds};
pub use list::{
    CalendarQuery, Event, JobsQuery, Labels, ListQuery, OfUser, OutputQuery, OutputStream, Reservations,
    ScheduleQuery, States,
};
pub use notice::Notice;
pub use offer::{Impact, Maintenance, Offer, Offers, Probe, Slot};
pub use operation::Operation;
pub use problem::{Blocker, BlockerKind, Code, CounterOffer, Problem, Relaxation};
pub use request::{
    AttributeValue, Constraint, MeasuredOn, Objective, OnLoss, Part, Prefer, Request, Requirement, UpTo,
};
pub use reservation::{
    Attach, AttachedJob, Change, Commit, Condition, Extend, FinishChange, GivenUp, Hold, Loss, Lost,
    PrepareChange, RefusalReason, Release, Replacement, Reservation, Reserve, State,
};
pub use schedule::{Block, BlockKind, Free, Levels, ResourceSchedule, Schedule, TrySlot, WaitingJob, WhatIf};
pub use session::{
    CalendarAddress, CalendarAddressState, Session, SessionUser, SignIn, SignInWays, TypedKind, TypedText,
    TypedValue,
};
pub use sharing::{BlockedUser, BlockedUsers, Consent, InvitationAnswer};
pub use site::{
    BatchHealth, BatchState, Changes, Health, Heartbeat, IdentityProviderHealth, IdentityProviderState, Load,
    Reachability, Resource, Resources, Role, Site, Sites, Status,
};
pub use time::{FineTimestamp, OutOfCalendar, Timestamp};
pub use usage::{
    History, RecordsQuery, Usage, UsageJob, UsageQuery, UsageRecords, UsageReservation, UsageRow, UsageSpan,
};
