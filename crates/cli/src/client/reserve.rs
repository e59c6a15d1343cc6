//! `bookahead probe`: shows possible slots and their effect on waiting jobs, without booking. `bookahead reserve`:
//! holds resources until a deadline, or books them at once.

use super::about::{About, Sharing};
use super::dates::countdown;
use super::place::Place;
use super::refusal::{Refused, Usage};
use super::request::values::some_time;
use super::request::{Description, Wanted, flags_of};
use super::session::{Session, by_clock, spinner};
use super::{refusal, view};
use crate::output::say;
use anyhow::Result;
use bookahead_api::{
    Code, Length, Objective, Offers, Part, Probe, Problem, Request, Reservation, Reserve, State,
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

    /// Maximum number of offers
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
    let answer = session.ask("probing", session.timed_client().probe(&probe));
    let again = |part: &Part| asking("probe", part, probe.request.objective, session);
    let parts = probe.request.parts.len();
    let offers = answer.map_err(|error| with_commands(error, session, parts, again))?;
    session.print(&offers, || view::print_offers(&offers, &session.dates()))?;
    // An error, with the exit code of a refusal, so that scripts do not take an empty list for success.
    if offers.offers.is_empty() {
        let problem = Box::new(Problem::new(Code::NoCandidate, "there is no offer for this request"));
        let text = refusal::text(&problem, Some(&session.dates()));
        return Err(Refused { problem, text }.into());
    }
    say_how_to_hold(session, &probe.request, &offers);
    Ok(())
}

/// Adds commands for the alternatives to a refusal; `words` returns the command for a changed part.
pub(crate) fn with_commands(
    error: anyhow::Error,
    session: &Session,
    parts: usize,
    words: impl Fn(&Part) -> Vec<String>,
) -> anyhow::Error {
    let command = |request: &Request| Some(session.command(&words(request.parts.first()?)));
    match error.downcast::<Refused>() {
        Ok(Refused { problem, .. }) => {
            let text = refusal::with_commands(&problem, Some(&session.dates()), Some(parts), command);
            Refused { problem, text }.into()
        }
        Err(other) => other,
    }
}

/// The words of a `probe` or `reserve` command for a part.
pub(crate) fn asking(verb: &str, part: &Part, objective: Objective, session: &Session) -> Vec<String> {
    let flags = flags_of(part, objective, &session.dates());
    [verb.to_owned()].into_iter().chain(flags).collect()
}

/// Prints the command that holds the best offer, because a probe holds nothing. Prints none for several parts: the user
/// reserves the same request instead.
fn say_how_to_hold(session: &Session, request: &Request, offers: &Offers) {
    let ([part], Some([slot])) =
        (request.parts.as_slice(), offers.offers.first().map(|offer| offer.slots.as_slice()))
    else {
        return;
    };
    // The offer has fixed what the request left open. Otherwise not the end of the slot, which may be longer than the
    // request.
    let was_open = part.up_to.is_some() || part.measured_on.is_some();
    let (capacity, duration) = if was_open {
        (slot.capacity, slot.end.time() - slot.begin.time())
    } else {
        (part.capacity, Seconds(part.duration_seconds))
    };
    let fixed = Part {
        capacity,
        duration_seconds: duration.0,
        earliest_start: slot.begin,
        latest_end: (slot.begin.time() + duration).try_into().unwrap_or(slot.end),
        resource: Some(slot.resource.clone()),
        up_to: None,
        measured_on: None,
        ..part.clone()
    };
    let words = asking("reserve", &fixed, request.objective, session);
    say!("nothing is held yet; to hold the first offer:\n  {}", session.command(&words));
}

/// Poll interval of `--wait`: short enough for a countdown in seconds.
const LOOK: Duration = Duration::from_millis(500);

/// Default of `--hold`.
const USUAL_HOLD: Length = Length::of_seconds(300);

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    wanted: Wanted,

    /// How long to hold it for you to commit, by your clock; the server may grant less
    #[arg(long, value_name = "LENGTH", default_value_t = USUAL_HOLD, value_parser = some_time, help_heading = "Hold")]
    hold: Length,

    /// Commit at once
    #[arg(long, help_heading = "Hold")]
    book: bool,

    /// Wait until the hold is committed or over, with a countdown
    #[arg(long, conflicts_with = "book", help_heading = "Hold")]
    wait: bool,

    /// URL that the service notifies of events of the reservation with a POST; its operator configures which
    /// addresses are allowed
    #[arg(long, value_name = "URL", help_heading = "Hold")]
    webhook: Option<String>,

    #[command(flatten)]
    about: About,

    #[command(flatten)]
    sharing: Sharing,

    /// Run your jobs in the reservation even if they do not name it, such as those of plain sbatch. Your other jobs can
    /// use it up. Only at sites that allow it
    #[arg(long, help_heading = "Description")]
    attract: bool,

    /// ID of the reservation [default: a new one]
    #[arg(long, value_name = "rsv_ID", help_heading = "Hold")]
    id: Option<ReservationId>,

    /// Idempotency key: repeated calls with the same key take effect once [default: a new one]
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
    if arguments.wanted.is_immediate() && !arguments.book {
        return Err(Usage("a hold ends when its first part begins, so now; add --book".to_owned()).into());
    }
    request.webhook = arguments.webhook.clone().or(request.webhook);
    arguments.about.describe(&mut request);
    arguments.sharing.share(&mut request);
    request.attract |= arguments.attract;
    // The client makes the id, so that the user can look the reservation up if the answer is lost.
    let id = arguments.id.map_or_else(make::reservation_id, Ok)?;
    let key = arguments.key.clone().map_or_else(|| make::key().map(|key| key.to_string()), Ok)?;
    let hold_for_seconds = session.hold_for(arguments.hold.seconds());
    let reserve = Reserve { id: Some(id), request, hold_for_seconds, book: arguments.book };
    let answer = session.ask("negotiating", session.timed_client().reserve(&reserve, &key));
    let reservation = answer.map_err(|error| {
        // Before the error is converted below: its original type tells whether the call was sent.
        say_if_uncertain(&error, session, id);
        let again = |part: &Part| again(arguments, part, &reserve, session);
        with_commands(error, session, reserve.request.parts.len(), again)
    })?;
    show(session, &reservation)?;
    if arguments.wanted.is_open() {
        let release = session.command(&["cancel".to_owned(), id.to_string()]);
        say!("it ends when you release it, at the latest at the end above:\n  {release}");
    }
    if reservation.state != State::Held {
        return Ok(());
    }
    let granted = session.left_ms(reservation.held_for_seconds.unwrap_or_default());
    // An answer takes a moment, in which the hold already runs.
    const MOMENT: i64 = 5_000;
    if granted + MOMENT < arguments.hold.0.0 {
        let asked = countdown(arguments.hold.0.0);
        say!(
            "note: held for {} instead of {asked}: a hold ends when the first part begins, or when the server ends it",
            countdown(granted)
        );
    }
    let commit = session.command(&["commit".to_owned(), id.to_string()]);
    say!("commit it before the hold expires:\n  {commit}");
    if arguments.wait { wait(session, &reservation) } else { Ok(()) }
}

/// The words of this command for a changed part.
fn again(arguments: &Arguments, part: &Part, reserve: &Reserve, session: &Session) -> Vec<String> {
    // Neither --id nor --key is repeated: another request must not get the answer of the first one.
    let mut words = asking("reserve", part, reserve.request.objective, session);
    if arguments.book {
        words.push("--book".to_owned());
    } else if arguments.hold != USUAL_HOLD {
        words.extend(["--hold".to_owned(), arguments.hold.to_string()]);
    }
    if let Some(webhook) = &arguments.webhook {
        words.extend(["--webhook".to_owned(), webhook.clone()]);
    }
    words.extend(described(&reserve.request));
    words
}

/// The options for name, note, labels and users of a request.
fn described(request: &Request) -> Vec<String> {
    let option = |option: &str, value: &str| [option.to_owned(), value.to_owned()];
    let name = request.name.iter().flat_map(|name| option("--name", name));
    let note = request.note.iter().flat_map(|note| option("--note", note));
    let labels = request.labels.iter();
    let labels = labels.flat_map(|(key, value)| option("--label", &format!("{key}={value}")));
    let users: Vec<&str> = request.shared_with.iter().map(bookahead_protocol::Name::as_str).collect();
    let with = (!users.is_empty()).then(|| option("--with", &users.join(","))).into_iter().flatten();
    let priority = request.priority.iter().flat_map(|class| option("--priority", class));
    let attract = request.attract.then(|| "--attract".to_owned());
    name.chain(note).chain(labels).chain(with).chain(priority).chain(attract).collect()
}

/// After a lost answer the reservation may or may not exist: prints the command that shows it.
fn say_if_uncertain(error: &anyhow::Error, session: &Session, id: ReservationId) {
    let sent = error.downcast_ref::<ClientError>().is_some_and(|error| !error.was_not_sent());
    if sent {
        say!(
            "the answer was lost; check the reservation with: {}",
            session.command(&["show".to_owned(), id.to_string()])
        );
    }
}

pub(crate) fn show(session: &Session, reservation: &Reservation) -> Result<()> {
    session.print(reservation, || view::print_reservation(reservation, session))
}

fn wait(session: &Session, held: &Reservation) -> Result<()> {
    let bar = stderr().is_terminal().then(|| spinner("held for {msg}"));
    let ended = session.run(async {
        loop {
            let now = session.client.show(held.id).await?;
            if now.state != State::Held {
                return Ok(now);
            }
            if let Some(bar) = &bar {
                bar.set_message(countdown(session.left_ms(now.held_for_seconds.unwrap_or_default())));
            }
            sleep(LOOK).await;
        }
    });
    // Before a failure is returned: its message must not share a line with the spinner.
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let ended = ended?;
    show(session, &ended)?;
    match ended.state {
        State::Rejected | State::Expired | State::Cancelled => {
            let problem = Box::new(Problem::new(Code::Expired, "the hold ended without a commit"));
            let text = refusal::text(&problem, Some(&session.dates()));
            Err(Refused { problem, text }.into())
        }
        _ => Ok(()),
    }
}
