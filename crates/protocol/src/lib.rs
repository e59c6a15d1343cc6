//! What sites, brokers and clients say to each other, and what each of them decides. Values without I/O: a message and
//! the time go in, messages, timers and events to be journalled come out. The simulator, the fault tests and the
//! daemons drive the same values.
//!
//! - [`clock`], [`ids`]: milliseconds of the wire; names and identities
//! - [`request`]: what a client wants, in parts, with constraints between them; what a site offers, and what fits a part
//! - [`message`]: calls and answers; [`problem`]: answers that say no, and why
//! - [`life_cycle`]: the states of a reservation and the only moves between them
//! - [`level`]: who may send what
//! - [`ledger`]: the book of a site
//! - [`candidates`]: the search for slots that fulfil all parts of a request
//! - [`broker`]: the negotiation, all or nothing
//! - [`deadline`]: how long a hold should last
//! - [`flaw`]: the protocol broken on purpose, for tests
//! - [`jobs`]: sites for jobs without a reservation

pub mod broker;
pub mod candidates;
pub mod clock;
pub mod deadline;
pub mod digest;
pub mod flaw;
pub mod ids;
pub mod jobs;
pub mod ledger;
pub mod level;
pub mod life_cycle;
pub mod message;
mod per_user;
pub mod problem;
pub mod request;

pub use clock::{Millis, Moment};
pub use ids::{ChangeId, JobId, Key, Name, ReservationId};
pub use life_cycle::{IllegalMove, Move, State};
pub use message::{
    Answer, Call, Caller, Condition, Envelope, Impact, Loss, Lost, NewTerms, Offer, Rating, Replacement,
    Reservation, Slot,
};
pub use problem::{Problem, Why};
pub use request::{Constraint, Objective, OnLoss, Part, Request, Requirement, Resource, Test, Value};
