//! A computational grid as GridSim models it: resources of rated CPUs with a first-come-first-served queue and
//! advance reservations. It relies on the availability profile of the plan for every promise; resources know nothing
//! of one another, and a run is a function of what is asked of it and when. The life of a reservation is the one table of
//! the protocol.
//!
//! - [`cpus`]: work in million instructions, ratings, and which CPUs are free
//! - [`zone`]: users and resources in different time zones
//! - [`job`]: what is run, and what comes back
//! - [`reservation`]: requests, answers with a busy-time hint, and what is booked
//! - [`resource`]: the operations of a user and the passing of time
//!
//! After A. Sulistio and R. Buyya, *A Grid simulation infrastructure supporting advance reservation* (2004).

pub mod cpus;
mod dispatch;
pub mod job;
pub mod reservation;
pub mod resource;
pub mod zone;

pub use bookahead_protocol::{IllegalMove, Move, State};
pub use cpus::{CpuId, Rating, Work};
pub use job::{Job, JobId, Piece, Returned, Stopped};
pub use reservation::{Booked, Refusal, Request, ReservationId, Start, Status};
pub use resource::{Resource, Rules, UseError};
pub use zone::{LocalTime, Zone};
