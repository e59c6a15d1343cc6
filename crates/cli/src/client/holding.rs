//! `bookahead commit`, `bookahead hold`, `bookahead extend` and `bookahead release`: making a hold final or longer, and a
//! reservation longer or shorter.

use super::place::Place;
use super::refusal::Usage;
use super::request::values::{Length, some_time};
use super::reserve::show;
use super::session::{Session, by_clock};
use super::when::When;
use anyhow::{Result, bail};
use bookahead_api::{Commit, Extend, Hold, Release};
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
pub(crate) struct HoldArguments {
    /// The reservation
    #[arg(value_name = "rsv_ID")]
    id: ReservationId,

    /// How long from now on, on your clock; less may be granted
    #[arg(long = "for", value_name = "LENGTH", default_value = "5m", value_parser = some_time)]
    hold: Length,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn hold(arguments: &HoldArguments) -> Result<()> {
    by_clock(&arguments.place, |session| {
        let hold = Hold { hold_for_ms: session.hold_ms(arguments.hold.0) };
        let reservation = session.ask("holding longer", session.timed_client().hold(arguments.id, &hold))?;
        show(session, &reservation)
    })
}

#[derive(Args)]
pub(crate) struct ExtendArguments {
    /// The reservation
    #[arg(value_name = "rsv_ID")]
    id: ReservationId,

    /// How much longer
    #[arg(long, value_name = "LENGTH", value_parser = some_time, required_unless_present = "until")]
    by: Option<Length>,

    /// Its new end
    #[arg(long, value_name = "TIME", conflicts_with = "by")]
    until: Option<When>,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn extend(arguments: &ExtendArguments) -> Result<()> {
    by_clock(&arguments.place, |session| extend_in(arguments, session))
}

fn extend_in(arguments: &ExtendArguments, session: &Session) -> Result<()> {
    let now = session.ask("looking", session.client.show(arguments.id))?;
    let [slot] = now.slots.as_slice() else {
        bail!(Usage(format!(
            "{} has {} parts, and only a reservation of one part can be extended",
            arguments.id,
            now.slots.len()
        )));
    };
    let end = match (&arguments.until, &arguments.by) {
        (Some(until), _) => session.read(until)?,
        (None, Some(by)) => (slot.end.time() + by.0).try_into()?,
        (None, None) => slot.end,
    };
    if end <= slot.end {
        let end = session.dates.wall(slot.end);
        bail!(Usage(format!("it ends at {end}; give a later end (to end earlier: bookahead release)")));
    }
    let (client, extend) = (session.timed_client(), Extend { end });
    let extended = client.extend(arguments.id, Some(now.version), &extend);
    let reservation = session.ask("extending", extended)?;
    show(session, &reservation)
}

#[derive(Args)]
pub(crate) struct ReleaseArguments {
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

pub(crate) fn release(arguments: &ReleaseArguments) -> Result<()> {
    by_clock(&arguments.place, |session| {
        let from = session.read(&arguments.from)?;
        let release = Release { part: arguments.part, from, keep: arguments.keep };
        let reservation = session.ask("releasing", session.timed_client().release(arguments.id, &release))?;
        show(session, &reservation)
    })
}
