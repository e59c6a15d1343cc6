//! `bookahead commit` and `bookahead extend`: what is done with a hold.

use super::place::Place;
use super::request::length::{Length, some_time};
use super::reserve::show;
use super::session::{Session, by_clock};
use anyhow::Result;
use bookahead_api::{Commit, ExtendHold};
use bookahead_protocol::{JobId, ReservationId};
use clap::Args;

#[derive(Args)]
pub(crate) struct CommitArguments {
    /// The reservation
    #[arg(value_name = "rsv_ID")]
    id: ReservationId,

    /// A job that is to run in it; may be repeated
    #[arg(long, value_name = "job_ID")]
    job: Vec<JobId>,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn commit(arguments: &CommitArguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    let commit = Commit { jobs: arguments.job.clone() };
    let reservation = session.ask("committing", session.client.commit(arguments.id, &commit))?;
    show(&session, &reservation)
}

#[derive(Args)]
pub(crate) struct ExtendArguments {
    /// The reservation
    #[arg(value_name = "rsv_ID")]
    id: ReservationId,

    /// How long from now on, on your clock; less may be granted
    #[arg(long, value_name = "LENGTH", default_value = "5m", value_parser = some_time)]
    hold: Length,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn extend(arguments: &ExtendArguments) -> Result<()> {
    by_clock(&arguments.place, |session| {
        let extend = ExtendHold { hold_for_ms: session.hold_ms(arguments.hold.0) };
        let reservation = session.ask("extending", session.timed_client().extend(arguments.id, &extend))?;
        show(session, &reservation)
    })
}
