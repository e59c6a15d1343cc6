//! `bookahead show` and `bookahead cancel`: one thing, or several, by their ids.

use super::place::Place;
use super::reserve::show as show_reservation;
use super::session::Session;
use super::thing::Thing;
use super::view;
use crate::talk::say;
use anyhow::Result;
use bookahead_api::Job;
use clap::Args;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Reservations (rsv_…) or jobs (job_…)
    #[arg(value_name = "ID", required = true)]
    ids: Vec<Thing>,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn show(arguments: &Arguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    each(&arguments.ids, |thing| match thing {
        Thing::Reservation(id) => {
            show_reservation(&session, &session.ask("looking", session.client.show(id))?)
        }
        Thing::Job(id) => show_job(&session, &session.ask("looking", session.client.job(id))?),
    })
}

pub(crate) fn cancel(arguments: &Arguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    each(&arguments.ids, |thing| match thing {
        Thing::Reservation(id) => {
            show_reservation(&session, &session.ask("cancelling", session.client.cancel(id))?)
        }
        Thing::Job(id) => show_job(&session, &session.ask("cancelling", session.client.cancel_job(id))?),
    })
}

/// Does it with all of them, also after one has failed; what failed first decides how the command ends.
fn each(ids: &[Thing], act: impl Fn(Thing) -> Result<()>) -> Result<()> {
    let mut first = None;
    for thing in ids {
        let Err(error) = act(*thing) else { continue };
        let error = if ids.len() > 1 { error.context(thing.to_string()) } else { error };
        match first {
            None => first = Some(error),
            Some(_) => say!("error: {error:#}"),
        }
    }
    first.map_or(Ok(()), Err)
}

/// Shows a job as every command does that has changed one.
pub(crate) fn show_job(session: &Session, job: &Job) -> Result<()> {
    session.print(job, || view::jobs::print(std::slice::from_ref(job), &session.dates))
}
