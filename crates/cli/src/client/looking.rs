//! `bookahead show` and `bookahead cancel`, for one or several reservations and jobs; `bookahead sites`, which lists
//! sites and brokers; `bookahead calendar`, which exports the user's reservations; and `bookahead sign-out`.

use super::dates::Dates;
use super::ids::IdText;
use super::place::Place;
use super::reserve::show as show_reservation;
use super::schedule::print_timeline;
use super::session::Session;
use super::view::{self, job_state_word, state_word};
use crate::output::{save_and_tell, say, stdout};
use crate::table::{Column, Table};
use anyhow::Result;
use bookahead_api::{CalendarQuery, Event, History, Job, OfUser};
use bookahead_protocol::{JobId, ReservationId};
use clap::Args;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Args)]
pub(crate) struct Arguments {
    /// IDs of reservations (rsv_…) or jobs (job_…)
    #[arg(value_name = "ID", required = true)]
    ids: Vec<Thing>,

    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(crate) struct ShowArguments {
    #[command(flatten)]
    what: Arguments,

    /// Also draw the parts of a reservation on a common time axis
    #[arg(long, conflicts_with = "json")]
    timeline: bool,

    /// Also list what happened to a reservation and to jobs in it
    #[arg(long, conflicts_with = "json")]
    history: bool,
}

pub(crate) fn show(arguments: &ShowArguments) -> Result<()> {
    let ShowArguments { what, timeline, history } = arguments;
    let session = Session::open(&what.place)?;
    each(&what.ids, |thing| match thing {
        Thing::Reservation(id) => {
            let id = session.reservation_id(id)?;
            let reservation = session.ask("looking", session.client.show(id))?;
            show_reservation(&session, &reservation)?;
            if *timeline {
                print_timeline(&reservation, &session.dates())?;
            }
            if *history {
                print_history(&session.ask("looking", session.client.history(id))?, &session)?;
            }
            Ok(())
        }
        Thing::Job(id) => {
            let id = session.job_id(id)?;
            show_job(&session, &session.ask("looking", session.client.job(id))?)
        }
    })
}

/// The events of a reservation as a table.
fn print_history(history: &History, session: &Session) -> io::Result<()> {
    let dates = session.dates();
    writeln!(stdout())?;
    if !history.complete {
        say!("earlier events are no longer known");
    }
    let heads = [format!("time ({})", dates.zone_name()), "event".into(), "then".into(), "because".into()];
    let mut table = Table::new(heads.map(Column::left));
    for event in &history.events {
        let state = event.state.map(|state| state_word(state).to_owned());
        let job = event.job.map(|id| {
            let state = event.job_state.map(|state| job_state_word(state, event.exit));
            format!("{} {}", session.short(id), state.unwrap_or_default())
        });
        let missing =
            event.missing.filter(|missing| *missing > 0).map(|missing| format!("{missing} missing"));
        let then: Vec<String> = [state, job, missing].into_iter().flatten().collect();
        table.row([
            event_time(event, &dates),
            event.kind.replace('-', " "),
            then.join(", "),
            event.because.clone().unwrap_or_default(),
        ]);
    }
    table.print()
}

fn event_time(event: &Event, dates: &Dates) -> String {
    event.at.moment().second().try_into().map_or_else(|_| event.at.to_string(), |at| dates.short(at))
}

pub(crate) fn cancel(arguments: &Arguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    each(&arguments.ids, |thing| match thing {
        Thing::Reservation(id) => {
            let id = session.reservation_id(id)?;
            show_reservation(&session, &session.ask("cancelling", session.client.cancel(id))?)
        }
        Thing::Job(id) => {
            let id = session.job_id(id)?;
            show_job(&session, &session.ask("cancelling", session.client.cancel_job(id))?)
        }
    })
}

/// Applies `act` to all ids, even after a failure. The first failure determines the exit code.
fn each(ids: &[Thing], act: impl Fn(&Thing) -> Result<()>) -> Result<()> {
    let mut first = None;
    for thing in ids {
        let Err(error) = act(thing) else { continue };
        let error = if ids.len() > 1 { error.context(thing.to_string()) } else { error };
        match first {
            // Not printed here: it is returned, and the caller prints it.
            None => first = Some(error),
            Some(_) => say!("error: {error:#}"),
        }
    }
    first.map_or(Ok(()), Err)
}

pub(crate) fn show_job(session: &Session, job: &Job) -> Result<()> {
    session.print(job, || view::print_job(job, session))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Thing {
    Reservation(IdText<ReservationId>),
    Job(IdText<JobId>),
}

#[derive(Debug, thiserror::Error)]
#[error("invalid id '{0}'; use the id of a reservation (rsv_4f3c2b1a) or a job (job_9d8e7f)")]
pub(crate) struct BadThing(String);

impl FromStr for Thing {
    type Err = BadThing;

    fn from_str(text: &str) -> Result<Thing, BadThing> {
        let reservation = || text.parse().map(Thing::Reservation);
        let job = || text.parse().map(Thing::Job);
        // The order does not matter: the prefixes differ, so a text can be an id of one kind at most.
        reservation().or_else(|_| job()).map_err(|_| BadThing(text.to_owned()))
    }
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Thing::Reservation(id) => id.fmt(f),
            Thing::Job(id) => id.fmt(f),
        }
    }
}

#[derive(Args)]
pub(crate) struct SitesArguments {
    #[command(flatten)]
    place: Place,
}

pub(crate) fn sites(arguments: &SitesArguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    let sites = session.ask("listing sites", session.client.sites())?;
    session.print(&sites, || view::print_sites(&sites.sites, &session.dates()))
}

#[derive(Args)]
pub(crate) struct CalendarArguments {
    /// Only my reservations
    #[arg(long, conflicts_with = "owner")]
    mine: bool,

    /// Only reservations of this user
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,

    /// Output file [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Make an address with a secret, at which a calendar program can read my calendar; an earlier one is withdrawn
    #[arg(long, conflicts_with_all = ["mine", "owner", "out"])]
    new_address: bool,

    /// Withdraw the address of my calendar; operators can withdraw that of --owner
    #[arg(long, conflicts_with_all = ["mine", "out", "new_address"])]
    withdraw_address: bool,

    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(crate) struct SignOutArguments {
    /// Another user (operators only) [default: yourself]
    #[arg(value_name = "USER")]
    of_user: Option<String>,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn sign_out(arguments: &SignOutArguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    let of = OfUser { user: arguments.of_user.as_deref().map(Into::into) };
    session.ask("signing out", session.client.sign_out_everywhere(&of))?;
    say!("all sessions and tokens that were issued up to now are ended at {}", session.client.url());
    Ok(())
}

/// Prints iCalendar, also with `--json`: the format is already meant for programs.
pub(crate) fn calendar(arguments: &CalendarArguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    if arguments.new_address {
        let made = session.ask("making an address", session.client.make_calendar_address())?;
        return session.print(&made, || writeln!(stdout(), "{}{}", session.client.url(), made.path));
    }
    if arguments.withdraw_address {
        let of = OfUser { user: arguments.owner.as_deref().map(Into::into) };
        return session.ask("withdrawing the address", session.client.withdraw_calendar_address(&of));
    }
    let owner = if arguments.mine { Some(session.user()) } else { arguments.owner.as_deref() };
    let query = CalendarQuery { owner: owner.map(Into::into) };
    let text = session.ask("fetching the calendar", session.client.calendar(&query))?;
    match &arguments.out {
        Some(path) => save_and_tell(path, &text),
        None => Ok(stdout().write_all(text.as_bytes())?),
    }
}
