//! `bookahead sites` and `bookahead calendar`: what there is around, and when one's own reservations are.

use super::place::Place;
use super::session::Session;
use super::view;
use crate::files::save_and_tell;
use anyhow::Result;
use clap::Args;
use std::io::{Write, stdout};
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct SitesArguments {
    #[command(flatten)]
    place: Place,
}

pub(crate) fn sites(arguments: &SitesArguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    let sites = session.ask("asking who is there", session.client.sites())?;
    session.print(&sites, || view::sites::print(&sites.sites, &session.dates))
}

#[derive(Args)]
pub(crate) struct CalendarArguments {
    /// Write it here [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    place: Place,
}

/// iCalendar is for programs as it is, with `--json` or without.
pub(crate) fn calendar(arguments: &CalendarArguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    let text = session.ask("asking for the calendar", session.client.calendar())?;
    match &arguments.out {
        Some(path) => save_and_tell(path, &text),
        None => Ok(stdout().lock().write_all(text.as_bytes())?),
    }
}
