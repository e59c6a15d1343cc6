//! Jobs without a reservation of their own: which site would have them done first, and how to get them there once.
//!
//! - [`words`]: what is to be run, and how it stands
//! - [`ranking`]: sites by the shortest expected delay
//! - [`choice`]: the best of three reservations, for a job that is to run in one
//! - [`race`]: copies of a best-effort job at several sites, of which one runs
//!
//! After Migol's Job Broker Service. The heads are values: messages and the time go in; events, messages and an outcome
//! come out. Events are journalled before anything is sent, and are all that a restart needs.

pub mod choice;
pub mod race;
pub mod ranking;
pub mod words;

mod patience;

pub use choice::{Choice, Order};
pub use patience::Patience;
pub use race::Race;
pub use ranking::{Delay, Ranked, Site, Task, rank};
pub use words::{Ending, JobRequest, JobView, JobWord, MOST_COPIES, Mode, Work};
