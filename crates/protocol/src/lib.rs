//! The messages between sites, brokers and clients, and the decisions that each of them makes. Values without
//! I/O: a message and the time go in; messages, timers and journal events come out. The simulator, the fault
//! tests and the daemons drive the same values.
//!
//! - [`clock`], [`ids`]: time in milliseconds; names and identities
//! - [`request`]: a client's request, its parts and the constraints between them; resources and matching
//! - [`tres`]: GPUs, memory, licences and other countable things of a resource
//! - [`flexible`]: requests that may be larger or longer than the least
//! - [`description`]: name, note and labels of reservations and jobs
//! - [`message`]: calls and answers; [`problem`]: refusals and their reasons
//! - [`life_cycle`]: the states of a reservation and all transitions between them
//! - [`level`]: which calls a client may use
//! - [`ledger`]: the reservations of a site
//! - [`candidates`]: the search for slots that satisfy all parts of a request
//! - [`broker`]: the negotiation, all or nothing
//! - [`deadline`]: how long a hold should last
//! - [`flaw`]: deliberate protocol faults, for tests
//! - [`jobs`]: choosing sites for jobs without a reservation
//! - [`per_user`]: bounds on what is remembered of each user and of all

pub mod broker;
pub mod candidates;
pub mod clock;
pub mod deadline;
mod derived;
pub mod description;
pub mod digest;
pub mod flaw;
pub mod flexible;
pub mod ids;
pub mod jobs;
pub mod ledger;
pub mod level;
pub mod life_cycle;
pub mod message;
pub mod missing;
pub mod per_user;
pub mod problem;
pub mod request;
pub mod sharing;
mod size;
mod speed;
pub mod tres;

pub use clock::{Millis, Moment};
pub use description::Description;
pub use ids::{ChangeId, JobId, Key, Name, ReservationId};
pub use life_cycle::{IllegalMove, Move, State};
pub use message::{
    Answer, Call, Caller, Condition, Envelope, Impact, Loss, Lost, NewTerms, Offer, Rating, Refused,
    Replacement, Reservation, Slot,
};
pub use problem::{Problem, Why};
pub use request::{Constraint, Objective, OnLoss, Part, Request, Requirement, Resource, Test, Value};
pub use sharing::{Consent, Consents, Guests};
pub use speed::MeasuredOn;
pub use tres::Tres;
