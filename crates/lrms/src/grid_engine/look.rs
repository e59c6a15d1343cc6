//! Taking a picture of a Grid Engine: its commands side by side, but for those whose words come from what others print.

use super::{jobs, nodes, reservations};
use crate::batch::{Picture, Place};
use crate::dialect::{Tools, document, printed, seconds};
use crate::error::LrmsError;
use bookahead_plan::Seconds;
use std::sync::OnceLock;

/// What is there now. `slack` is what [`jobs::slack`] found, once it has.
pub(super) fn look(tools: &Tools, places: &[Place], slack: &OnceLock<Seconds>) -> Result<Picture, LrmsError> {
    // What takes longest comes first.
    let asked = [jobs::details(tools), jobs::listing(tools), reservations::listing(tools), tools.date()];
    let [detailed, listed, reserved, date] = tools.run_each(&asked);
    let [_, _, reservations_asked, date_asked] = &asked;
    let clock = seconds(date_asked, &date?).ok();
    let listed = listed?;
    let slack = match slack.get() {
        Some(known) => *known,
        None => {
            let asked = jobs::slack(tools)?;
            *slack.get_or_init(|| asked)
        }
    };
    let listing = jobs::Listing::read(tools, listed, detailed, slack)?;
    let (queues, nodes) = nodes::find(tools, places, listing.instances())?;
    let jobs = jobs::facts(&listing, &queues, clock)?;
    let reserved = document(reservations_asked, &printed(reservations_asked, reserved?)?)?;
    let reservations = reservations::list(tools, &reserved)?;
    Ok(Picture { clock, nodes, reservations, jobs })
}
