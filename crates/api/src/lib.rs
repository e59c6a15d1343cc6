//! The documents of the HTTP API: what is said in JSON, with its description for OpenAPI, and how it becomes the words of
//! the protocol and back without loss. Relies on `protocol` for the words; never sends, serves or decides.
//!
//! - [`time`]: instants as RFC 3339; [`ids`]: how identities and names are described; [`header`]: what travels beside
//! - [`request`]: what is wanted; [`offer`]: what could be had; [`reservation`]: what is had, and what is done with it
//! - [`operation`]: a call of the protocol as one of these documents
//! - [`problem`]: answers that say no
//! - [`description`]: the OpenAPI document, completed
//! - [`resource`], [`site`], [`schedule`]: what there is, where, and when it is taken
//! - [`job`]: jobs; [`event`]: what happened; [`list`]: pages and filters; [`health`]: whether all is well
//!
//! Documents that come in refuse fields that they do not know; documents that go out may gain fields.

pub mod description;
pub mod event;
pub mod header;
pub mod health;
pub mod ids;
pub mod job;
pub mod list;
pub mod offer;
pub mod operation;
pub mod problem;
pub mod request;
pub mod reservation;
pub mod resource;
pub mod schedule;
pub mod site;
pub mod time;

pub use event::Event;
pub use health::{BatchHealth, BatchState, Health, Status};
pub use job::{Job, JobState, Jobs, Mode, SubmitJob, Work};
pub use list::{JobsQuery, ListQuery, Reservations, ScheduleQuery, States};
pub use offer::{Impact, Offer, Offers, Probe, Slot};
pub use operation::Operation;
pub use problem::{Blocker, BlockerKind, Code, Problem, Relaxation};
pub use request::{Constraint, Objective, Part, Request, Requirement};
pub use reservation::{
    Attach, AttachedJob, Change, Commit, Condition, Extend, Hold, Release, Reservation, Reserve, State,
};
pub use resource::{AttributeValue, Resource, Resources};
pub use schedule::{Block, BlockKind, ResourceSchedule, Schedule};
pub use site::{Heartbeat, Load, Reachability, Role, Site, Sites};
pub use time::{FineTimestamp, OutOfCalendar, Timestamp};
