//! What dialects of batch systems have in common, whatever their commands are called. Nothing here knows one of them.
//!
//! - `tools`: running their commands, and noticing that nobody answers
//! - `ends`: what the end of a command means, and how that is told
//! - `grants`: whether what was granted is what was wanted, and what follows where it is not
//! - `findings`: what every examination looks at

mod ends;
mod findings;
mod grants;
mod tools;

pub(crate) use ends::{
    document, ended, failed, refused, said, start, submitted, the_job, the_reservation, unreadable,
};
pub(crate) use findings::{Trial, endless, resource, seen};
pub(crate) use grants::{amount, differs, is_plain, undone, wait_until_gone};
pub(crate) use tools::{Tools, printed, seconds};
