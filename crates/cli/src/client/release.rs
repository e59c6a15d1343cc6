//! `bookahead release`: gives back part of a reservation, or the rest of it, early.

use super::place::Place;
use super::reserve::show;
use super::session::by_clock;
use super::when::When;
use anyhow::Result;
use bookahead_api::Release;
use bookahead_protocol::ReservationId;
use clap::Args;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The reservation
    #[arg(value_name = "rsv_ID")]
    id: ReservationId,

    /// Which of its parts, counted from 0 as 'bookahead show' does
    #[arg(long, value_name = "N", default_value_t = 0)]
    part: usize,

    /// From when on
    #[arg(long, value_name = "TIME", default_value = "now")]
    from: When,

    /// How much to keep
    #[arg(long, value_name = "N", default_value_t = 0)]
    keep: u32,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    by_clock(&arguments.place, |session| {
        let from = session.read(&arguments.from)?;
        let release = Release { part: arguments.part, from, keep: arguments.keep };
        let reservation = session.ask("releasing", session.timed_client().release(arguments.id, &release))?;
        show(session, &reservation)
    })
}
