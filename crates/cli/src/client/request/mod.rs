//! What is wanted, as people say it on the command line or in a file, and the request that is sent for it.
//!
//! - [`described`]: the description; [`length`], [`requirement`], [`text`]: its values; [`file`]: one in a file
//! - [`build`]: the request that it describes
//! - [`flags`]: options of a command, and options for a request

mod build;
mod described;
mod file;
mod flags;
pub(crate) mod length;
pub(crate) mod requirement;
#[cfg(test)]
mod tests;
pub(crate) mod text;

pub(crate) use flags::{Description, Wanted, flags_of, terms_of};
