//! Deleting reservations, with the jobs inside.

use crate::batch::Handle;
use crate::dialect::{Tools, ended, wait_until_gone};
use crate::error::LrmsError;
use crate::text::xml;

/// Deletes a reservation with its jobs, and waits until they are gone: until then it is shown as being deleted.
pub(super) fn delete(tools: &Tools, handle: &Handle) -> Result<(), LrmsError> {
    let command = tools.command("qrdel").arg(&handle.0);
    let outcome = tools.run(&command)?;
    let what = format!("deleting reservation {handle}");
    ended(&command, &outcome, what, &["does not exist"], &["privileges", "denied"])?;
    // Otherwise it had no jobs, or is not there.
    if !outcome.out.contains("registered") && !outcome.err.contains("registered") {
        return Ok(());
    }
    let shown = tools.command("qrstat").args(["-ar", &handle.0, "-xml"]);
    wait_until_gone(|| {
        let document = xml::read(&tools.run(&shown)?.out).unwrap_or_default();
        Ok(document.child("ar_summary").is_none())
    })
}
