//! The ledger of a site: all its reservations, as a plain value. A command and the time go in. An answer,
//! events for the journal, and changes for the schedules of the resources come out. The state is the fold of
//! the events ([`Ledger::apply`]), live and after a restart; a [`Snapshot`] replaces all events before it.
//! The caller supplies jobs and foreign reservations ([`Views`]), and must store the events before it sends
//! the answer. The ledger never reads a clock.
//!
//! - *Time* advances with commands and with [`Ledger::tick`]. Every command first does the work of a tick at
//!   its moment, so the timing of ticks has no effect on the result. Time never goes back.
//! - *Holding is pessimistic*: a hold takes its capacity at once, so a commit in time never fails for lack of
//!   room. A hold lasts until its deadline or the start of its slot, whichever is first. A commit at exactly
//!   that moment is too late.
//! - *Idempotence*: a repeated call has no effect and gets the first answer again, with the remaining hold
//!   time reduced by the time passed. Independently of keys, a reservation id stands for one request for as
//!   long as the id is remembered.
//! - *Seconds*: capacity is planned in whole seconds. Capacity released in the middle of a second stays taken
//!   until the end of that second.
//!
//! A call goes through `handling` (time, repetitions), `commands`, `changing` and `placing` (the decision, by what
//! `sight` and `slots` find) and `fold` (its events change the `state`).

mod book;
mod changing;
mod commands;
mod decision;
mod ended;
mod entry;
mod failure;
mod fold;
mod handling;
mod notice;
mod placing;
mod priorities;
mod rules;
mod sight;
mod slots;
mod snapshot;
mod spans;
mod state;
mod tres;
mod waiting;
mod what;

pub use crate::life_cycle::Because;
pub use decision::{Maintenance, View, Views};
pub use ended::Bounds;
pub use entry::{
    AnsweredCall, Change, Denied, Entry, Event, Handled, Preparing, Then, Ticked, Waiting, What,
};
pub use notice::{ResourceNotice, Started, Waited};
pub use priorities::{Class, Priorities};
pub use rules::{HoldRules, JobUsage, Limits, Offered, Reveal, Rules, RulesError, Usage, UserLimits};
pub use snapshot::{RestoreError, Snapshot};
pub use spans::{both, less, shortfall, taken};
pub use state::Ledger;
