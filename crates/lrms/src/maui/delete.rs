//! Releasing reservations, with the jobs inside. What is there afterwards decides.

use super::commands::Commands;
use super::{jobs, reservations, submit};
use crate::batch::Handle;
use crate::dialect::failed;
use crate::error::LrmsError;

/// Releases a reservation with its jobs, which would wait for ever or run on.
pub(super) fn delete(commands: &Commands, handle: &Handle) -> Result<(), LrmsError> {
    for job in jobs::all(commands)? {
        if job.fact.reservations.contains(handle) && !job.fact.state.is_over() {
            submit::cancel(commands, &job.fact.native)?;
        }
    }
    let command = commands.maui.command("releaseres").arg(&handle.0);
    let outcome = commands.maui.run(&command)?;
    let there =
        reservations::all(commands, &[])?.reservations.into_iter().any(|there| there.handle == *handle);
    if there { Err(failed(&command, &outcome)) } else { Ok(()) }
}
