//! Deleting reservations, with the jobs inside. What is there afterwards decides.

use super::{jobs, reservations, submit};
use crate::batch::Handle;
use crate::dialect::{Tools, failed};
use crate::error::LrmsError;

/// Deletes a reservation with its jobs, which LSF would let run on.
pub(super) fn delete(tools: &Tools, handle: &Handle) -> Result<(), LrmsError> {
    let clock = tools.clock()?;
    for job in jobs::all(tools, clock)? {
        if job.fact.reservations.contains(handle) && !job.fact.state.is_over() {
            submit::cancel(tools, &job.fact.native)?;
        }
    }
    let command = tools.command("brsvdel").arg(&handle.0);
    let outcome = tools.run(&command)?;
    match reservations::one(tools, &handle.0, clock)? {
        None => Ok(()),
        Some(_) => Err(failed(&command, &outcome)),
    }
}
