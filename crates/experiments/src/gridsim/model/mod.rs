//! A computational grid as GridSim models it: resources of rated CPUs with a first-come-first-served queue and
//! advance reservations. It relies on the availability profile of the plan for every promise. Resources know nothing
//! of one another, and a run is a function of what is asked of it and when.
//!
//! - [`cpus`]: work in million instructions, ratings, and which CPUs are free
//! - [`request`]: time zones, jobs, requests for reservations and their answers
//! - [`resource`]: the operations of a user and the passing of time
//!
//! After A. Sulistio and R. Buyya, *A Grid simulation infrastructure supporting advance reservation* (2004).

pub mod cpus;
pub mod request;
pub mod resource;

pub use cpus::{CpuId, Rating, Work};
pub use request::{
    Booked, Job, JobId, LocalTime, Piece, Refusal, Request, ReservationId, Returned, Start, Stopped, Zone,
};
pub use resource::{CommitError, Resource, Rules};
