//! `bookahead list` and `bookahead jobs`: the reservations and jobs that the caller may see.

use super::about::Search;
use super::place::Place;
use super::session::{Session, by_clock};
use super::view;
use crate::output::say;
use anyhow::Result;
use bookahead_api::when::When;
use bookahead_api::{JobsQuery, ListQuery, State, States};
use clap::Args;

/// The states that are not final.
const LIVE: [State; 5] =
    [State::Requested, State::Held, State::Committed, State::ChangeRequested, State::Active];

#[derive(Args)]
pub(crate) struct Arguments {
    /// Only reservations in these states, separated by commas: requested, rejected, held, expired, committed,
    /// change-requested, active, completed, cancelled, terminated; or all [default: all that are not final]
    #[arg(long, value_name = "STATES", value_parser = states)]
    state: Option<States>,

    /// Only your own
    #[arg(long, conflicts_with = "owner")]
    mine: bool,

    /// Only those owned by this user
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,

    /// Only those on this resource
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,

    #[command(flatten)]
    search: Search,

    /// Only those that end after this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<When>,

    /// Only those that begin before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<When>,

    /// Maximum number of results
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,

    /// No limit
    #[arg(long, conflicts_with = "limit")]
    all: bool,

    #[command(flatten)]
    place: Place,
}

/// `all` is an empty list of states, which means no filter.
fn states(text: &str) -> Result<States, String> {
    if text == "all" {
        return Ok(States(Vec::new()));
    }
    let states: States = text.parse().map_err(|error| format!("{error}, or all"))?;
    if states.0.is_empty() { Err("use a state, or all".to_owned()) } else { Ok(states) }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    by_clock(&arguments.place, |session| list(arguments, session))
}

fn list(arguments: &Arguments, session: &Session) -> Result<()> {
    let mut query = query(arguments, session)?;
    let mut found = session.ask("listing", session.timed_client().list(&query))?;
    while arguments.all
        && let Some(cursor) = found.next.take()
    {
        query.cursor = Some(cursor);
        // Without the speed of the clock: the first page was accepted with these times.
        let page = session.ask("listing", session.client.list(&query))?;
        found.reservations.extend(page.reservations);
        found.next = page.next;
    }
    session.print(&found, || view::print_reservations(&found.reservations, session))?;
    say_if_more(found.next.is_some(), found.total);
    Ok(())
}

fn say_if_more(more: bool, total: Option<usize>) {
    if let Some(total) = total.filter(|_| more) {
        say!("there are more; use --all or a larger --limit ({total} in all)");
    } else if more {
        say!("there are more; use --all or a larger --limit");
    }
}

fn query(arguments: &Arguments, session: &Session) -> Result<ListQuery> {
    let read = |when: &Option<When>| when.as_ref().map(|when| session.read(when)).transpose();
    let owner = if arguments.mine { Some(session.user()) } else { arguments.owner.as_deref() };
    // Finished reservations are kept for their retention, and would soon outnumber those that still matter.
    let states = arguments.state.clone().unwrap_or_else(|| States(LIVE.to_vec()));
    Ok(ListQuery {
        id: None,
        owner: owner.map(Into::into),
        state: (!states.0.is_empty()).then_some(states),
        resource: arguments.resource.as_deref().map(Into::into),
        from: read(&arguments.from)?,
        until: read(&arguments.until)?,
        name: arguments.search.name(),
        label: arguments.search.labels(),
        // With `--all` the server chooses the size of a page, and the caller follows the cursors.
        limit: (!arguments.all).then_some(arguments.limit),
        cursor: None,
    })
}

#[derive(Args)]
pub(crate) struct JobsArguments {
    /// Only your own
    #[arg(long, conflicts_with = "owner")]
    mine: bool,

    /// Only those owned by this user
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,

    #[command(flatten)]
    search: Search,

    /// Maximum number of results
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,

    /// No limit
    #[arg(long, conflicts_with = "limit")]
    all: bool,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn jobs(arguments: &JobsArguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    let owner = if arguments.mine { Some(session.user()) } else { arguments.owner.as_deref() };
    let limit = (!arguments.all).then_some(arguments.limit);
    let (name, label) = (arguments.search.name(), arguments.search.labels());
    let owner = owner.map(Into::into);
    let mut query = JobsQuery { id: None, owner, name, label, limit, cursor: None };
    let mut found = session.ask("listing", session.client.jobs(&query))?;
    while arguments.all
        && let Some(cursor) = found.next.take()
    {
        query.cursor = Some(cursor);
        let page = session.ask("listing", session.client.jobs(&query))?;
        found.jobs.extend(page.jobs);
        found.next = page.next;
    }
    session.print(&found, || view::print_jobs(&found.jobs, &session))?;
    say_if_more(found.next.is_some(), None);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_the_states_as_they_are_printed_and_read() {
        let command = Arguments::augment_args(clap::Command::new("list"));
        let help = command.get_arguments().find(|argument| argument.get_id() == "state").unwrap();
        let help = help.get_help().unwrap().to_string();
        for state in bookahead_protocol::State::ALL {
            assert!(help.contains(state.word()), "{} is not in: {help}", state.word());
            assert_eq!(states(state.word()).unwrap(), States(vec![state.into()]));
            assert!(states("accepted").unwrap_err().contains(state.word()));
        }
    }
}
