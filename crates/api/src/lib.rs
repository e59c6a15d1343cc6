//! The documents of the HTTP API: what is said in JSON, with its description for OpenAPI, and how it becomes the words of
//! the protocol and back without loss. Relies on `protocol` for the words; never sends, serves or decides.
//!
//! - [`time`]: instants as RFC 3339; [`header`]: what travels beside
//! - [`request`]: what is wanted; [`offer`]: what could be had; [`reservation`]: what is had, and what is done with it
//! - [`operation`]: a call of the protocol as one of these documents
//! - [`problem`]: answers that say no
//! - [`description`]: what the OpenAPI document says of identities, names and fields that are refused
//! - [`site`]: what there is, where, when it is taken, and whether all is well
//! - [`job`]: jobs; [`list`]: pages, filters and events; [`notice`]: what owners are told
//!
//! Documents that come in refuse fields that they do not know; documents that go out may gain fields.

mod convert;
pub mod description;
pub mod header;
pub mod job;
pub mod list;
pub mod notice;
pub mod offer;
pub mod operation;
pub mod problem;
pub mod request;
pub mod reservation;
pub mod site;
pub mod time;

pub use job::{Job, JobState, Jobs, Mode, SubmitJob, Work};
pub use list::{Event, JobsQuery, ListQuery, Reservations, ScheduleQuery, States};
pub use notice::Notice;
pub use offer::{Impact, Offer, Offers, Probe, Slot};
pub use operation::Operation;
pub use problem::{Blocker, BlockerKind, Code, Problem, Relaxation};
pub use request::{Constraint, Objective, OnLoss, Part, Request, Requirement};
pub use reservation::{
    Attach, AttachedJob, Change, Commit, Condition, Extend, FinishChange, GivenUp, Hold, Loss, Lost,
    PrepareChange, Release, Replacement, Reservation, Reserve, State,
};
pub use site::{
    AttributeValue, BatchHealth, BatchState, Block, BlockKind, Changes, Health, Heartbeat,
    IdentityProviderHealth, IdentityProviderState, Load, Reachability, Resource, ResourceSchedule, Resources,
    Role, Schedule, Site, Sites, Status,
};
pub use time::{FineTimestamp, OutOfCalendar, Timestamp};
