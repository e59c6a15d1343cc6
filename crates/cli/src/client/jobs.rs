//! `bookahead jobs`: jobs, as far as the caller may see them.

use super::place::Place;
use super::session::Session;
use super::view;
use crate::talk::say;
use anyhow::Result;
use bookahead_api::{Jobs, JobsQuery};
use clap::Args;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Only mine
    #[arg(long, conflicts_with = "owner")]
    mine: bool,

    /// Only those of this user
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,

    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,

    /// All of them, however many
    #[arg(long, conflicts_with = "limit")]
    all: bool,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    let owner = if arguments.mine { Some(session.user()) } else { arguments.owner.as_deref() };
    let limit = (!arguments.all).then_some(arguments.limit);
    let mut query = JobsQuery { owner: owner.map(Into::into), limit, cursor: None };
    let mut found = session.ask("listing", session.client.jobs(&query))?;
    while let (true, Some(cursor)) = (arguments.all, found.next.take()) {
        query.cursor = Some(cursor);
        let page: Jobs = session.ask("listing", session.client.jobs(&query))?;
        found.jobs.extend(page.jobs);
        found.next = page.next;
    }
    session.print(&found, || view::jobs::print(&found.jobs, &session.dates))?;
    if found.next.is_some() {
        say!("there are more; give --all, or a larger --limit");
    }
    Ok(())
}
