//! `bookahead accept` and `bookahead decline` answer an invitation: a reservation that another user shared with the
//! caller. `bookahead block` hides all invitations of a user, and `bookahead unblock` shows them again.

use super::ids::IdText;
use super::place::Place;
use super::reserve::show;
use super::session::Session;
use crate::output::{say, stdout};
use anyhow::Result;
use bookahead_api::{Consent, Reservation};
use bookahead_protocol::{Name, ReservationId};
use clap::Args;
use std::io::Write;

#[derive(Args)]
pub(crate) struct AcceptArguments {
    /// ID of the reservation
    #[arg(value_name = "rsv_ID")]
    id: IdText<ReservationId>,

    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(crate) struct DeclineArguments {
    /// ID of the reservation
    #[arg(value_name = "rsv_ID")]
    id: IdText<ReservationId>,

    /// Also hide further invitations of its owner
    #[arg(long)]
    block: bool,

    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(crate) struct BlockArguments {
    /// User whose invitations are hidden [default: print the blocked users]
    #[arg(value_name = "USER")]
    other: Option<String>,

    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(crate) struct UnblockArguments {
    /// User whose invitations are shown again
    #[arg(value_name = "USER")]
    other: String,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn accept(arguments: &AcceptArguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    let id = session.reservation_id(&arguments.id)?;
    let reservation = session.ask("accepting", session.client.answer_invitation(id, Consent::Accepted))?;
    show(&session, &reservation)
}

pub(crate) fn decline(arguments: &DeclineArguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    let id = session.reservation_id(&arguments.id)?;
    let reservation = session.ask("declining", session.client.answer_invitation(id, Consent::Declined))?;
    session.print(&reservation, || Ok(()))?;
    say!("{id} of {} is declined and no longer shown to you", reservation.owner);
    if arguments.block { block_user(&session, &reservation.owner) } else { Ok(()) }
}

pub(crate) fn block(arguments: &BlockArguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    if let Some(other) = &arguments.other {
        return block_user(&session, &Name::from(other.as_str()));
    }
    let blocked = session.ask("listing", session.client.blocked_users())?;
    session.print(&blocked, || blocked.users.iter().try_for_each(|user| writeln!(stdout(), "{user}")))
}

fn block_user(session: &Session, other: &Name) -> Result<()> {
    session.ask("blocking", session.client.block_user(other))?;
    say!("invitations of {other} are no longer shown to you at {}", session.client.url());
    Ok(())
}

pub(crate) fn unblock(arguments: &UnblockArguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    let other = Name::from(arguments.other.as_str());
    session.ask("unblocking", session.client.unblock_user(&other))?;
    say!("invitations of {other} are shown to you again at {}", session.client.url());
    Ok(())
}

/// `bob, eve (invited), kim (declined)`.
pub(super) fn guests(reservation: &Reservation) -> String {
    let guest = |user: &Name| match reservation.consents.get(user) {
        Some(Consent::Accepted) => user.to_string(),
        Some(Consent::Declined) => format!("{user} (declined)"),
        None => format!("{user} (invited)"),
    };
    reservation.shared_with.iter().map(guest).collect::<Vec<_>>().join(", ")
}
