//! Deleting reservations, with the jobs inside.

use super::reservations;
use crate::batch::Handle;
use crate::dialect::{Tools, ended, wait_until_gone};
use crate::error::LrmsError;

/// Deletes a reservation with its jobs, and waits until they are gone.
pub(super) fn delete(tools: &Tools, handle: &Handle) -> Result<(), LrmsError> {
    let command = tools.command("pbs_rdel").arg(&handle.0);
    let outcome = tools.run(&command)?;
    let what = format!("deleting reservation {handle}");
    ended(&command, &outcome, what, &["Unknown Reservation"], &["Unauthorized"])?;
    wait_until_gone(|| reservations::is_gone(tools, handle))
}
