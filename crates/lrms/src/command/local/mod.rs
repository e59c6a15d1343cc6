//! One process on this machine, from its start to its end. It leads a group of its own; if it takes too long or writes too
//! much, the whole group is killed.
//!
//! A process is over when it ends by itself, even if it leaves others behind that have its pipes: what it wrote is
//! read, what those may write is not waited for.

#[cfg(not(unix))]
mod elsewhere;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(super) use elsewhere::{Going, Stop, run, stop};
#[cfg(unix)]
pub(super) use unix::{Going, Stop, run, stop};

use std::time::Instant;

/// Within what a process has to stay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits<'a> {
    pub(super) until: Instant,
    /// On each of its outputs.
    pub(super) most_bytes: usize,
    /// It is ended if this says so.
    pub(super) stop: Option<&'a Stop>,
}

/// How a process ended.
#[derive(Debug)]
pub(super) enum End {
    /// By itself, or by a signal of somebody else.
    Exited { code: Option<i32>, out: String, err: String },
    /// It took too long.
    TimedOut,
    /// It wrote too much, to this output.
    TooMuch(&'static str),
    /// It was stopped.
    Stopped,
    /// The system does not say, for that reason.
    Unknown(std::io::Error),
}
