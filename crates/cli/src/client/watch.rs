//! `bookahead watch`: prints events of one reservation, or of all that the caller may see, as they happen. After a lost
//! connection it resumes from the last event, so that none is missed.

use super::dates::Dates;
use super::ids::IdText;
use super::place::Place;
use super::session::Session;
use super::view::state_word;
use crate::output::{say, stdout};
use anyhow::Result;
use bookahead_api::{Event, State};
use bookahead_client::{ClientError, Watch};
use bookahead_protocol::ReservationId;
use clap::Args;
use std::io::{self, Write};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Delay between attempts to reconnect.
const PAUSE: Duration = Duration::from_secs(1);
/// How long to try to reconnect: long enough for a restart of the server.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Args)]
pub(crate) struct Arguments {
    /// ID of a reservation; the command ends with it [default: all reservations, until interrupted]
    #[arg(value_name = "rsv_ID")]
    id: Option<IdText<ReservationId>>,

    /// Start with the events after this event number
    #[arg(long, value_name = "N")]
    after: Option<u64>,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    let id = arguments.id.as_ref().map(|id| session.reservation_id(id)).transpose()?;
    let mut watch = session.run(session.client.watch(id, arguments.after))?;
    if !session.json {
        let what = id.map_or_else(|| "all reservations that you may see".to_owned(), |id| id.to_string());
        say!("watching {what} at {}", session.client.url());
    }
    loop {
        let event = session.run(next(&session, id, &mut watch))?;
        print(&event, &session)?;
        if id.is_some() && event.state.is_some_and(is_over) {
            return Ok(());
        }
    }
}

/// The next event; reconnects if the server closed the connection.
async fn next(session: &Session, id: Option<ReservationId>, watch: &mut Watch) -> Result<Event, ClientError> {
    loop {
        if let Some(event) = watch.next().await? {
            return Ok(event);
        }
        say!("{} closed the connection; reconnecting", session.client.url());
        *watch = watch_again(session, id, watch.last()).await?;
    }
}

async fn watch_again(
    session: &Session,
    id: Option<ReservationId>,
    last: Option<u64>,
) -> Result<Watch, ClientError> {
    let until = Instant::now() + PATIENCE;
    loop {
        sleep(PAUSE).await;
        match session.client.watch(id, last).await {
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
            "events up to {} are not sent again; `bookahead list` shows the current state",
            event.sequence
        ));
    }
    words.extend(event.reservation.map(|id| id.to_string()));
    words.extend(event.owner.as_ref().map(|owner| format!("of {owner}")));
    words.extend(event.state.map(|state| format!("now {}", state_word(state))));
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
                "reset  events up to 7 are not sent again; `bookahead list` shows the current state"
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
}
