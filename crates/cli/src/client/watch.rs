//! `bookahead watch`: prints events of one reservation or job, or of all that the caller may see, as they happen. After a
//! lost connection it resumes from the last event, so that none is missed.

use super::dates::Dates;
use super::looking::Thing;
use super::place::Place;
use super::session::Session;
use super::view::{job_state_word, state_word};
use crate::output::{say, stdout};
use anyhow::Result;
use bookahead_api::{Event, JobState, State};
use bookahead_client::{ClientError, Watch};
use bookahead_protocol::{JobId, ReservationId};
use clap::Args;
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Delay between attempts to reconnect.
const PAUSE: Duration = Duration::from_secs(1);
/// How long to try to reconnect: long enough for a restart of the server.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Args)]
pub(crate) struct Arguments {
    /// Reservation (rsv_…) or job (job_…); the command ends with it [default: all, until interrupted]
    #[arg(value_name = "ID")]
    id: Option<Thing>,

    /// Start with the events after this event number
    #[arg(long, value_name = "N")]
    after: Option<u64>,

    #[command(flatten)]
    place: Place,
}

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watched {
    All,
    Reservation(ReservationId),
    Job(JobId),
}

impl Watched {
    async fn begin(self, session: &Session, after: Option<u64>) -> Result<Watch, ClientError> {
        match self {
            Watched::All => session.client.watch(None, after).await,
            Watched::Reservation(id) => session.client.watch(Some(id), after).await,
            Watched::Job(id) => session.client.watch_job(id, after).await,
        }
    }

    /// Whether nothing follows this event.
    fn ends_with(self, event: &Event) -> bool {
        match self {
            Watched::All => false,
            // Events of jobs in the reservation have no state of it.
            Watched::Reservation(_) => event.state.is_some_and(is_over),
            Watched::Job(_) => event.job_state.is_some_and(JobState::is_over),
        }
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Watched::All => f.write_str("all reservations and jobs that you may see"),
            Watched::Reservation(id) => id.fmt(f),
            Watched::Job(id) => id.fmt(f),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    let watched = match &arguments.id {
        None => Watched::All,
        Some(Thing::Reservation(id)) => Watched::Reservation(session.reservation_id(id)?),
        Some(Thing::Job(id)) => Watched::Job(session.job_id(id)?),
    };
    let mut watch = session.run(watched.begin(&session, arguments.after))?;
    if !session.json {
        say!("watching {watched} at {}", session.client.url());
    }
    loop {
        let event = session.run(next(&session, watched, &mut watch))?;
        print(&event, &session)?;
        if watched.ends_with(&event) {
            return Ok(());
        }
    }
}

/// The next event; reconnects if the server closed the connection.
async fn next(session: &Session, watched: Watched, watch: &mut Watch) -> Result<Event, ClientError> {
    loop {
        if let Some(event) = watch.next().await? {
            return Ok(event);
        }
        say!("{} closed the connection; reconnecting", session.client.url());
        *watch = watch_again(session, watched, watch.last()).await?;
    }
}

async fn watch_again(session: &Session, watched: Watched, last: Option<u64>) -> Result<Watch, ClientError> {
    let until = Instant::now() + PATIENCE;
    loop {
        // Also before the first attempt: a server that has just closed its streams is usually restarting.
        sleep(PAUSE).await;
        match watched.begin(session, last).await {
            // Other errors, such as an expired token, do not go away by waiting.
            Err(error) if error.may_pass() && Instant::now() < until => {}
            outcome => return outcome,
        }
    }
}

/// Whether the state is final.
fn is_over(state: State) -> bool {
    use State::{Cancelled, Completed, Expired, Rejected, Terminated};
    matches!(state, Rejected | Expired | Completed | Cancelled | Terminated)
}

fn print(event: &Event, session: &Session) -> io::Result<()> {
    let mut out = stdout();
    if session.json {
        serde_json::to_writer(&mut out, event)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}", line(event, &session.dates()))?;
    }
    // A pipe is block-buffered, and readers want each event at once.
    out.flush()
}

fn line(event: &Event, dates: &Dates) -> String {
    let at = event.at.moment().second().try_into().map_or_else(|_| event.at.to_string(), |at| dates.wall(at));
    let mut words = vec![at, event.kind.clone()];
    if event.kind == "reset" {
        words.push(format!(
            "events up to {} are not sent again; `bookahead list` and `bookahead jobs` show the current state",
            event.sequence
        ));
    }
    words.extend(event.job.map(|id| id.to_string()));
    let inside = if event.job.is_some() { "in " } else { "" };
    words.extend(event.reservation.map(|id| format!("{inside}{id}")));
    words.extend(event.owner.as_ref().map(|owner| format!("of {owner}")));
    words.extend(event.state.map(|state| format!("now {}", state_word(state))));
    words.extend(event.job_state.map(|state| format!("now {}", job_state_word(state, event.exit))));
    words.extend(event.version.map(|version| format!("version {version}")));
    words.extend(event.missing.filter(|missing| *missing > 0).map(|missing| format!("{missing} missing")));
    if !event.could_begin.is_empty() {
        let begins: Vec<String> = event.could_begin.iter().map(|begin| dates.wall(*begin)).collect();
        words.push(format!("whole if moved to {}", begins.join(" or ")));
    }
    words.join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_protocol::Moment;
    use jiff::tz::TimeZone;

    #[test]
    fn a_reset_says_what_is_missing() {
        let event = Event::new(7, Moment(1_794_819_600_250), "reset").unwrap();
        let line = line(&event, &Dates::new(TimeZone::UTC, "2026-11-15T15:30:00Z".parse().unwrap()));
        assert!(
            line.ends_with(
                "reset  events up to 7 are not sent again; `bookahead list` and `bookahead jobs` show the current state"
            )
        );
    }

    #[test]
    fn an_event_is_one_line() {
        let mut event = Event::new(7, Moment(1_794_819_600_250), "committed").unwrap();
        event.reservation = Some(ReservationId(0x4f));
        event.owner = Some("ada".into());
        event.state = Some(State::Committed);
        let line = line(
            &event,
            &Dates::new(TimeZone::get("Europe/Berlin").unwrap(), "2026-11-15T15:30:00Z".parse().unwrap()),
        );
        assert_eq!(line, "Mon 2026-11-16 10:00+01:00  committed  rsv_4f  of ada  now committed");
    }

    #[test]
    fn an_event_of_a_job_names_its_reservation_and_its_exit_code() {
        let mut event = Event::new(7, Moment(1_794_819_600_250), "job-failed").unwrap();
        event.reservation = Some(ReservationId(0x4f));
        (event.job, event.job_state, event.exit) = (Some(JobId(0x7d)), Some(JobState::Done), Some(3));
        event.owner = Some("ada".into());
        let line = line(&event, &Dates::new(TimeZone::UTC, "2026-11-15T15:30:00Z".parse().unwrap()));
        let expected = "Mon 2026-11-16 09:00Z  job-failed  job_7d  in rsv_4f  of ada  now done, exit code 3";
        assert_eq!(line, expected);
        assert!(Watched::Job(JobId(0x7d)).ends_with(&event));
        assert!(!Watched::Reservation(ReservationId(0x4f)).ends_with(&event));
    }
}
