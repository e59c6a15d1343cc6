//! Answers for people: tables on standard output. Programs get the documents themselves.
//!
//! - [`columns`]: tables that leave out what nobody has anything to say about
//! - [`offers`], [`reservations`], [`jobs`], [`sites`]: what is shown

mod columns;
pub(crate) mod jobs;
pub(crate) mod offers;
pub(crate) mod reservations;
pub(crate) mod sites;
