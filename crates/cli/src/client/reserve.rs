//! `bookahead probe`: what could be had, when and where, and what it would do to waiting jobs; nothing is booked. And
//! `bookahead reserve`: holds something until a deadline, or books it at once.

use super::dates::countdown;
use super::place::Place;
use super::refusal::Refused;
use super::request::values::{Length, some_time};
use super::request::{Description, Wanted, flags_of};
use super::session::{Session, by_clock, spinner};
use super::{refusal, view};
use crate::output::say;
use anyhow::Result;
use bookahead_api::{
    Code, Objective, Offers, Part, Probe, Problem, Relaxation, Request, Reservation, Reserve, State,
};
use bookahead_client::{ClientError, make};
use bookahead_plan::Seconds;
use bookahead_protocol::ReservationId;
use clap::Args;
use std::io::{IsTerminal, stderr};
use std::time::Duration;
use tokio::time::sleep;

#[derive(Args)]
pub(crate) struct ProbeArguments {
    #[command(flatten)]
    wanted: Wanted,

    /// At most so many offers
    #[arg(long, value_name = "N", help_heading = "Request")]
    most: Option<u32>,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn run_probe(arguments: &ProbeArguments) -> Result<()> {
    let wanted = arguments.wanted.read()?;
    by_clock(&arguments.place, |session| probe(arguments, &wanted, session))
}

fn probe(arguments: &ProbeArguments, wanted: &Description, session: &Session) -> Result<()> {
    let request = wanted.request(session)?;
    let probe = Probe { request, most: arguments.most, starts: Vec::new() };
    let answer = session.ask("asking what could be had", session.timed_client().probe(&probe));
    let again = |part: &Part| asking("probe", part, probe.request.objective, session);
    let offers = answer.map_err(|error| with_commands(error, session, &probe.request, again))?;
    session.print(&offers, || view::print_offers(&offers, &session.dates()))?;
    if offers.offers.is_empty() {
        let problem = Box::new(Problem::new(Code::NoCandidate, "nobody makes an offer for this request"));
        let text = refusal::text(&problem, Some(&session.dates()));
        return Err(Refused { problem, text }.into());
    }
    say_how_to_hold(session, &probe.request, &offers);
    Ok(())
}

/// A refusal with the commands for what would do instead; `words` are those of a command for a part.
pub(crate) fn with_commands(
    error: anyhow::Error,
    session: &Session,
    request: &Request,
    words: impl Fn(&Part) -> Vec<String>,
) -> anyhow::Error {
    let command = |relaxation: &Relaxation| {
        let part = refusal::relaxed(request, relaxation)?;
        Some(session.command(&words(&part)))
    };
    match error.downcast::<Refused>() {
        Ok(Refused { problem, .. }) => {
            let text = refusal::with_commands(&problem, Some(&session.dates()), command);
            Refused { problem, text }.into()
        }
        Err(other) => other,
    }
}

/// A command that asks for a part.
pub(crate) fn asking(verb: &str, part: &Part, objective: Objective, session: &Session) -> Vec<String> {
    let flags = flags_of(part, objective, &session.dates());
    [verb.to_owned()].into_iter().chain(flags).collect()
}

/// An offer is not held; says how to hold the best. Of several parts, the request itself is reserved.
fn say_how_to_hold(session: &Session, request: &Request, offers: &Offers) {
    let ([part], Some([slot])) =
        (request.parts.as_slice(), offers.offers.first().map(|offer| offer.slots.as_slice()))
    else {
        return;
    };
    let end = (slot.begin.time() + Seconds(part.duration_seconds)).try_into();
    let resource = Some(slot.resource.clone());
    let fixed =
        Part { earliest_start: slot.begin, latest_end: end.unwrap_or(slot.end), resource, ..part.clone() };
    let words = asking("reserve", &fixed, request.objective, session);
    say!("nothing is held yet; to hold the first offer:\n  {}", session.command(&words));
}

/// How often somebody who waits looks at a hold.
const LOOK: Duration = Duration::from_millis(500);

/// Where nobody says how long.
const USUAL_HOLD: Seconds = Seconds(300);

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    wanted: Wanted,

    /// How long it should be held for you to commit, on your clock; less may be granted
    #[arg(long, value_name = "LENGTH", default_value_t = Length(USUAL_HOLD), value_parser = some_time, help_heading = "Hold")]
    hold: Length,

    /// Commit at once what is held
    #[arg(long, help_heading = "Hold")]
    book: bool,

    /// Stay until the hold is committed or over, and count down
    #[arg(long, conflicts_with = "book", help_heading = "Hold")]
    wait: bool,

    /// Where the service tells you what happens to the reservation, with a POST; its operator says which addresses it
    /// may call
    #[arg(long, value_name = "URL", help_heading = "Hold")]
    webhook: Option<String>,

    /// The id of the reservation [default: a new one]
    #[arg(long, value_name = "rsv_ID", help_heading = "Hold")]
    id: Option<ReservationId>,

    /// The key of the call; the same call with the same key is done once [default: a new one]
    #[arg(long, value_name = "KEY", help_heading = "Hold")]
    key: Option<String>,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let wanted = arguments.wanted.read()?;
    by_clock(&arguments.place, |session| reserve(arguments, &wanted, session))
}

fn reserve(arguments: &Arguments, wanted: &Description, session: &Session) -> Result<()> {
    let mut request = wanted.request(session)?;
    request.webhook = arguments.webhook.clone().or(request.webhook);
    // The one who asks makes the id, so that it can be found again whatever happens to the answer.
    let id = arguments.id.map_or_else(make::reservation_id, Ok)?;
    let key = arguments.key.clone().map_or_else(|| make::key().map(|key| key.to_string()), Ok)?;
    let hold_for_ms = session.hold_ms(arguments.hold.0);
    let reserve = Reserve { id: Some(id), request, hold_for_ms, book: arguments.book };
    let answer = session.ask("negotiating", session.timed_client().reserve(&reserve, &key));
    let reservation = answer.map_err(|error| {
        say_if_uncertain(&error, session, id);
        let again = |part: &Part| again(arguments, part, &reserve, session);
        with_commands(error, session, &reserve.request, again)
    })?;
    show(session, &reservation)?;
    if reservation.state != State::Held {
        return Ok(());
    }
    let granted = session.left_ms(reservation.held_for_ms.unwrap_or(0));
    // An answer takes a moment, in which the hold already runs.
    const MOMENT: i64 = 5_000;
    if granted + MOMENT < arguments.hold.0.0.saturating_mul(1_000) {
        let asked = countdown(arguments.hold.0.0.saturating_mul(1_000));
        say!(
            "note: held for {} instead of {asked}, the longest hold that the server allows",
            countdown(granted)
        );
    }
    let commit = session.command(&["commit".to_owned(), id.to_string()]);
    say!("commit it before the hold expires:\n  {commit}");
    if arguments.wait { wait(session, &reservation) } else { Ok(()) }
}

/// The same command for another part.
fn again(arguments: &Arguments, part: &Part, reserve: &Reserve, session: &Session) -> Vec<String> {
    let mut words = asking("reserve", part, reserve.request.objective, session);
    if arguments.book {
        words.push("--book".to_owned());
    } else if arguments.hold != Length(USUAL_HOLD) {
        words.extend(["--hold".to_owned(), arguments.hold.to_string()]);
    }
    if let Some(webhook) = &arguments.webhook {
        words.extend(["--webhook".to_owned(), webhook.clone()]);
    }
    words
}

/// Somebody who does not know whether he has something can look.
fn say_if_uncertain(error: &anyhow::Error, session: &Session, id: ReservationId) {
    let sent = error.downcast_ref::<ClientError>().is_some_and(|error| !error.was_not_sent());
    if sent {
        say!("see what became of it with: {}", session.command(&["show".to_owned(), id.to_string()]));
    }
}

/// Shows a reservation as every command does that has changed one.
pub(crate) fn show(session: &Session, reservation: &Reservation) -> Result<()> {
    session.print(reservation, || view::print_reservation(reservation, session))
}

/// Stays with a hold until it is committed or over.
fn wait(session: &Session, held: &Reservation) -> Result<()> {
    let bar = stderr().is_terminal().then(|| spinner("held for {msg}"));
    let ended = session.run(async {
        loop {
            let now = session.client.show(held.id).await?;
            if now.state != State::Held {
                return Ok(now);
            }
            if let Some(bar) = &bar {
                bar.set_message(countdown(session.left_ms(now.held_for_ms.unwrap_or(0))));
            }
            sleep(LOOK).await;
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let ended = ended?;
    show(session, &ended)?;
    match ended.state {
        State::Rejected | State::Expired | State::Cancelled => {
            let problem = Box::new(Problem::new(Code::Expired, "the hold is over and was not committed"));
            let text = refusal::text(&problem, Some(&session.dates()));
            Err(Refused { problem, text }.into())
        }
        _ => Ok(()),
    }
}
