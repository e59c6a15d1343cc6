//! `bookahead probe`: shows possible slots and their effect on waiting jobs, without booking. `bookahead reserve`:
//! holds resources until a deadline, or books them at once.

use super::about::{About, Sharing, class};
use super::dates::countdown;
use super::place::Place;
use super::refusal::{Refused, Usage};
use super::request::values::some_time;
use super::request::{Description, Wanted, flags_of};
use super::session::{Session, by_clock, spinner};
use super::{refusal, view};
use crate::output::say;
use anyhow::Result;
use bookahead_api::{Code, Length, Offers, Part, Probe, Problem, Request, Reservation, Reserve, State};
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

    /// Priority class of the site [default: the site's own]
    #[arg(long, value_name = "CLASS", value_parser = class, help_heading = "Request")]
    priority: Option<String>,

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
    let mut request = wanted.request(session)?;
    if arguments.priority.is_some() {
        request.priority.clone_from(&arguments.priority);
    }
    let probe = Probe { request, most: arguments.most, starts: Vec::new() };
    let answer = session.ask("probing", session.timed_client().probe(&probe));
    let again = |changed: &Request| probing(&probe.request, changed, session);
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

/// Adds commands for the alternatives to a refusal; `words` returns the command for a changed request.
pub(crate) fn with_commands(
    error: anyhow::Error,
    session: &Session,
    parts: usize,
    words: impl Fn(&Request) -> Option<Vec<String>>,
) -> anyhow::Error {
    let command = |request: &Request| Some(session.command(&words(request)?));
    match error.downcast::<Refused>() {
        Ok(Refused { problem, .. }) => {
            let text = refusal::with_commands(&problem, Some(&session.dates()), Some(parts), command);
            Refused { problem, text }.into()
        }
        Err(other) => other,
    }
}

/// The words of a `probe` or `reserve` command for a changed request. A refusal has fixed terms, so the ranges come from the
/// original request.
fn asking(verb: &str, asked: &Request, changed: &Request, session: &Session) -> Option<Vec<String>> {
    let mut changed = changed.clone();
    for (part, asked) in changed.parts.iter_mut().zip(&asked.parts) {
        part.up_to.clone_from(&asked.up_to);
    }
    let flags = flags_of(&changed, &session.dates())?;
    Some([verb.to_owned()].into_iter().chain(flags).collect())
}

fn probing(asked: &Request, changed: &Request, session: &Session) -> Option<Vec<String>> {
    let mut words = asking("probe", asked, changed, session)?;
    words.extend(changed.priority.iter().flat_map(|class| ["--priority".to_owned(), class.clone()]));
    Some(words)
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
    let fixed = Request { parts: vec![fixed], ..request.clone() };
    if let Some(mut words) = asking("reserve", &fixed, &fixed, session) {
        words.extend(described(&fixed));
        say!("nothing is held yet; to hold the first offer:\n  {}", session.command(&words));
    }
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
        let again = |changed: &Request| again(arguments, &reserve.request, changed, session);
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

/// The words of this command for a changed request.
fn again(
    arguments: &Arguments,
    asked: &Request,
    changed: &Request,
    session: &Session,
) -> Option<Vec<String>> {
    // Neither --id nor --key is repeated: another request must not get the answer of the first one.
    let mut words = asking("reserve", asked, changed, session)?;
    if arguments.book {
        words.push("--book".to_owned());
    } else if arguments.hold != USUAL_HOLD {
        words.extend(["--hold".to_owned(), arguments.hold.to_string()]);
    }
    if let Some(webhook) = &arguments.webhook {
        words.extend(["--webhook".to_owned(), webhook.clone()]);
    }
    words.extend(described(asked));
    Some(words)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::dates::{Dates, Reader};
    use bookahead_api::{MeasuredOn, Objective, OnLoss, Prefer, Requirement, Timestamp, UpTo};
    use bookahead_plan::Time;
    use clap::Parser;
    use jiff::tz::TimeZone;
    use proptest::collection::btree_map;
    use proptest::option;
    use proptest::prelude::*;
    use proptest::sample::select;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[derive(Parser)]
    struct ProbeLine {
        #[command(flatten)]
        arguments: ProbeArguments,
    }

    /// 2026-11-15T15:30:00Z.
    const NOW: Time = Time(1_794_756_600);

    fn at(time: Time) -> Timestamp {
        time.try_into().unwrap()
    }

    fn zone() -> TimeZone {
        TimeZone::get("Europe/Berlin").unwrap()
    }

    fn words(words: &[&str]) -> impl Strategy<Value = String> + use<> {
        select(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    fn part() -> impl Strategy<Value = Part> {
        let amounts = (1..1_000u32, option::of(1..1_000u32), 1..100_000i64, option::of(1..100_000i64));
        let times = (1..1_000_000i64, prop_oneof![Just(0), 1..100_000i64], any::<bool>());
        let prefer = select(vec![Prefer::Capacity, Prefer::Duration, Prefer::EarliestBegin]);
        let requirement = Requirement::AtLeast { attribute: "gpus".into(), value: 4 };
        let machine = MeasuredOn { attribute: "mhz".into(), value: 2_600 };
        let rest = (
            words(&["processors", "qpu"]),
            option::of(words(&["cluster", "north/big one"])),
            option::of(Just(requirement)),
            option::of(Just(machine)),
            btree_map(words(&["gres/gpu:a100", "license/qpu"]).prop_map(Into::into), 1..9u32, 0..2),
        );
        (amounts, times, prefer, rest).prop_map(|(amounts, (after, slack, stays), prefer, rest)| {
            let (capacity, wider, duration, longer) = amounts;
            let (kind, resource, requirement, measured_on, tres) = rest;
            let begin = NOW + Seconds(after);
            let end = begin + Seconds(duration + slack);
            // Without a latest end the end moves with the duration.
            let moves = slack == 0 && !stays && measured_on.is_none();
            let up_to = UpTo {
                capacity: wider.map(|wider| capacity + wider),
                duration_seconds: longer.map(|longer| duration + longer),
                latest_end: longer.filter(|_| moves).map(|longer| at(end + Seconds(longer))),
                prefer,
            };
            Part {
                kind: kind.as_str().into(),
                capacity,
                duration_seconds: duration,
                earliest_start: at(begin),
                latest_end: at(end),
                requirements: requirement.into_iter().collect(),
                resource: resource.map(|resource| resource.as_str().into()),
                replaces: None,
                changes: None,
                measured_on,
                tres,
                up_to: (wider.is_some() || longer.is_some()).then_some(up_to),
            }
        })
    }

    fn request() -> impl Strategy<Value = Request> {
        let objectives = [
            Objective::EarliestEnd,
            Objective::BestAvailability,
            Objective::LeastImpact,
            Objective::LowestCost,
        ];
        let on_loss = select(vec![OnLoss::Heal, OnLoss::HealAnyTime, OnLoss::Keep, OnLoss::Cancel]);
        let texts = (
            option::of(words(&["MPI course", "it's -- odd"])),
            option::of(words(&["line one\nline two"])),
            btree_map(words(&["course", "a/b"]), words(&["mpi", "x=y"]), 0..2),
            option::of(words(&["urgent"])),
        );
        let rest = (select(vec![Vec::new(), vec!["bob"], vec!["bob", "project:x"]]), any::<bool>());
        (part(), select(objectives.to_vec()), on_loss, texts, rest).prop_map(
            |(part, objective, on_loss, (name, note, labels, priority), (with, attract))| Request {
                objective,
                on_loss,
                name,
                note,
                labels,
                priority,
                shared_with: with.into_iter().map(Into::into).collect(),
                attract,
                ..Request::new(vec![part], Vec::new())
            },
        )
    }

    fn read(wanted: &Wanted) -> Request {
        let Description::Options(described) = wanted.read().unwrap() else { panic!() };
        let request = described.request(&Reader::new(at(NOW), zone()));
        request.unwrap_or_else(|fault| panic!("{}", fault.what))
    }

    proptest! {
        #![proptest_config(bookahead_tests::cases::cases(256))]

        #[test]
        fn a_suggested_command_means_the_request_that_was_asked(asked in request()) {
            let dates = Dates::new(zone(), at(NOW));
            let flags = flags_of(&asked, &dates).unwrap();
            let line = |more: Vec<String>| ["bookahead".to_owned()].into_iter().chain(flags.clone()).chain(more);
            let Line { arguments } = Line::try_parse_from(line(described(&asked))).unwrap();
            let mut meant = read(&arguments.wanted);
            arguments.about.describe(&mut meant);
            arguments.sharing.share(&mut meant);
            meant.attract |= arguments.attract;
            prop_assert_eq!(&meant, &asked);
            let class = asked.priority.iter().flat_map(|class| ["--priority".to_owned(), class.clone()]);
            let ProbeLine { arguments } = ProbeLine::try_parse_from(line(class.collect())).unwrap();
            let probed = read(&arguments.wanted);
            prop_assert_eq!((probed.parts, probed.objective, probed.on_loss), (asked.parts, asked.objective, asked.on_loss));
            prop_assert_eq!(arguments.priority, asked.priority);
        }
    }
}
