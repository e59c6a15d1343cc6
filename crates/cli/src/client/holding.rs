//! Commands that change a reservation. `bookahead commit` makes a hold final, `bookahead hold` prolongs a hold,
//! `bookahead extend` prolongs a reservation, `bookahead release` returns part of one. `bookahead change` changes the
//! terms of a committed or active reservation: terms that are not given stay, and the old terms stay valid if the new
//! ones are refused. Several parts change all together or not at all.

use super::about::{About, Sharing};
use super::ids::IdText;
use super::place::Place;
use super::refusal::Usage;
use super::request::terms_of;
use super::request::values::{capacity, some_time};
use super::reserve::{show, with_commands};
use super::session::{Session, by_clock};
use crate::output::{plural, say};
use crate::times::written;
use anyhow::{Result, bail};
use bookahead_api::when::When;
use bookahead_api::{
    Change, Commit, Extend, Hold, Length, Part, Release, Request, Reservation, Resource, Slot, Timestamp,
};
use bookahead_plan::Seconds;
use bookahead_protocol::{JobId, Name, ReservationId};
use clap::Args;

#[derive(Args)]
pub(crate) struct CommitArguments {
    /// ID of the reservation
    #[arg(value_name = "rsv_ID")]
    id: IdText<ReservationId>,

    /// Move this waiting job of yours into the reservation; may be repeated
    #[arg(long, value_name = "job_ID")]
    job: Vec<IdText<JobId>>,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn commit(arguments: &CommitArguments) -> Result<()> {
    let session = Session::open(&arguments.place)?;
    let id = session.reservation_id(&arguments.id)?;
    let jobs = arguments.job.iter().map(|job| session.job_id(job)).collect::<Result<_>>()?;
    // No time is sent, so the command need not know the clock of the server.
    let commit = Commit { jobs };
    let reservation = session.ask("committing", session.client.commit(id, &commit))?;
    show(&session, &reservation)
}

#[derive(Args)]
pub(crate) struct HoldArguments {
    /// ID of the reservation
    #[arg(value_name = "rsv_ID")]
    id: IdText<ReservationId>,

    /// How long to hold it from now on, by your clock; the server may grant less
    #[arg(long = "for", value_name = "LENGTH", default_value = "5m", value_parser = some_time)]
    hold: Length,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn hold(arguments: &HoldArguments) -> Result<()> {
    by_clock(&arguments.place, |session| {
        let id = session.reservation_id(&arguments.id)?;
        let hold = Hold { hold_for_seconds: session.hold_for(arguments.hold.seconds()) };
        let reservation = session.ask("holding longer", session.timed_client().hold(id, &hold))?;
        show(session, &reservation)
    })
}

#[derive(Args)]
pub(crate) struct ExtendArguments {
    /// ID of the reservation
    #[arg(value_name = "rsv_ID")]
    id: IdText<ReservationId>,

    /// Duration to add
    #[arg(long = "for", alias = "by", value_name = "LENGTH", value_parser = some_time)]
    by: Option<Length>,

    /// New end time; with several parts it applies to those that end last
    #[arg(long, value_name = "TIME", conflicts_with = "by")]
    until: Option<When>,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn extend(arguments: &ExtendArguments) -> Result<()> {
    by_clock(&arguments.place, |session| extend_in(arguments, session))
}

fn extend_in(arguments: &ExtendArguments, session: &Session) -> Result<()> {
    if arguments.by.is_none() && arguments.until.is_none() {
        bail!(Usage(format!(
            "how much longer? To make the reservation longer: bookahead extend {0} --for 1h; to hold it longer before \
             you commit: bookahead hold {0} --for 5m",
            arguments.id
        )));
    }
    let id = session.reservation_id(&arguments.id)?;
    let now = session.ask("looking", session.client.show(id))?;
    let Some(ends) = now.slots.iter().map(|slot| slot.end).max() else {
        bail!("{id} has no slots left to extend; reserve again");
    };
    let end = match (&arguments.until, &arguments.by) {
        (Some(until), _) => session.read(until)?,
        (None, Some(by)) => (ends.time() + by.seconds()).try_into()?,
        // Cannot happen, since one of them is required above; the check below would refuse it.
        (None, None) => ends,
    };
    if end <= ends {
        let end = session.dates().wall(ends);
        bail!(Usage(format!(
            "it already lasts until {end}; use a later end (to end earlier: bookahead release)"
        )));
    }
    // The version makes the server refuse if another client changed the reservation after we read its end.
    let (client, extend) = (session.timed_client(), Extend { end });
    let extended = client.extend(id, Some(now.version), &extend);
    let reservation = session.ask("extending", extended)?;
    show(session, &reservation)
}

fn part_number(text: &str) -> Result<usize, String> {
    let number = text.parse::<usize>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("'{text}' is not a part; parts are numbered from 1"))
}

#[derive(Args)]
pub(crate) struct ReleaseArguments {
    /// ID of the reservation
    #[arg(value_name = "rsv_ID")]
    id: IdText<ReservationId>,

    /// Part number, as 'bookahead show' prints it (from 1); required if the reservation has several parts (to release
    /// all: bookahead cancel)
    #[arg(long, value_name = "N", value_parser = part_number)]
    part: Option<usize>,

    /// Release from this time on
    #[arg(long, value_name = "TIME", default_value = "now")]
    from: When,

    /// Capacity to keep
    #[arg(long, value_name = "N", default_value_t = 0)]
    keep: u32,

    /// End the jobs in it that have no room in what is kept; without this the release is refused
    #[arg(long)]
    end_jobs: bool,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn release(arguments: &ReleaseArguments) -> Result<()> {
    by_clock(&arguments.place, |session| {
        let from = session.read(&arguments.from)?;
        let id = session.reservation_id(&arguments.id)?;
        // Cannot underflow: `part_number` refuses 0.
        let part = arguments.part.map(|part| part - 1);
        let release = Release { part, from, keep: arguments.keep, end_jobs: arguments.end_jobs };
        let reservation = session.ask("releasing", session.timed_client().release(id, &release))?;
        show(session, &reservation)?;
        // The table shows the capacity at this moment, which a later release has not changed yet.
        if arguments.keep > 0 && from > session.server_now() {
            say!("from {} on its capacity is {}", session.dates().wall(from), arguments.keep);
        }
        Ok(())
    })
}

#[derive(Args)]
pub(crate) struct ChangeArguments {
    /// ID of the reservation
    #[arg(value_name = "rsv_ID")]
    id: IdText<ReservationId>,

    /// Change only this part, numbered as 'bookahead show' prints it (from 1) [default: all parts]
    #[arg(long, value_name = "N", value_parser = part_number)]
    part: Option<usize>,

    /// New capacity; needs --part if the reservation has several parts
    #[arg(long, value_name = "N", value_parser = capacity, allow_hyphen_values = true)]
    capacity: Option<u32>,

    /// New duration
    #[arg(long, value_name = "LENGTH", value_parser = some_time)]
    duration: Option<Length>,

    /// New earliest start; without --until the exact start. Several parts move together
    #[arg(long, value_name = "TIME")]
    from: Option<When>,

    /// New latest end
    #[arg(long, value_name = "TIME")]
    until: Option<When>,

    #[command(flatten)]
    about: About,

    #[command(flatten)]
    sharing: Sharing,

    /// Change it only if it is still at this version [default: the current version]
    #[arg(long, value_name = "N", conflicts_with = "force")]
    version: Option<u32>,

    /// Change it whatever its version is
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn change(arguments: &ChangeArguments) -> Result<()> {
    let ChangeArguments { capacity, duration, from, until, .. } = arguments;
    let changes_terms = capacity.is_some() || duration.is_some() || from.is_some() || until.is_some();
    if !changes_terms && !arguments.about.is_given() && arguments.sharing.with.is_none() {
        let why = "nothing to change; give --capacity, --duration, --from, --until, --name, --note, --label or --with";
        bail!(Usage(why.to_owned()));
    }
    let session = Session::open(&arguments.place)?;
    let id = session.reservation_id(&arguments.id)?;
    // This answer carries the clock of the server before any time is read, so that the command need not be
    // repeated `by_clock`.
    let reservation = session.ask("looking", session.client.show(id))?;
    let request = match &reservation.request {
        // With the same terms as before, the reservation does not move.
        Some(request) if !changes_terms => request.clone(),
        _ => Request { parts: parts_wanted(arguments, &session, &reservation.slots)?, ..asked(&reservation) },
    };
    let mut terms = Change { request };
    arguments.about.describe(&mut terms.request);
    arguments.sharing.share(&mut terms.request);
    // It stays, and the service refuses a change that names one.
    terms.request.webhook = None;
    let version = version(arguments, &reservation);
    let answer = session.ask("changing", session.timed_client().change(id, version, &terms));
    let again = |changed: &Request| {
        let [part] = changed.parts.as_slice() else { return None };
        let change =
            ["change".to_owned(), id.to_string()].into_iter().chain(terms_of(part, &session.dates()));
        Some(change.chain(arguments.about.words()).chain(arguments.sharing.words()).collect())
    };
    let changed = answer.map_err(|error| with_commands(error, &session, terms.request.parts.len(), again))?;
    show(&session, &changed)
}

/// The request of a reservation without its parts.
fn asked(reservation: &Reservation) -> Request {
    let none = || {
        let Reservation { name, note, labels, priority, shared_with, .. } = reservation.clone();
        Request { name, note, labels, priority, shared_with, ..Request::new(Vec::new(), Vec::new()) }
    };
    let request = reservation.request.clone().unwrap_or_else(none);
    // An empty list keeps the constraints that it was reserved with.
    Request { parts: Vec::new(), constraints: Vec::new(), ..request }
}

/// The version that the server must still have: the user's, or the one just read. None with `--force`.
fn version(arguments: &ChangeArguments, seen: &Reservation) -> Option<u32> {
    if arguments.force { None } else { Some(arguments.version.unwrap_or(seen.version)) }
}

/// The terms of all parts, with the wanted changes applied to the chosen ones.
fn parts_wanted(arguments: &ChangeArguments, session: &Session, slots: &[Slot]) -> Result<Vec<Part>> {
    let several = slots.len() > 1;
    if let Some(part) = arguments.part.filter(|part| *part > slots.len()) {
        bail!(Usage(format!(
            "there is no part {part}; the reservation has {}",
            plural(slots.len() as u64, "part")
        )));
    }
    if several && arguments.part.is_none() && arguments.capacity.is_some() {
        bail!(Usage(format!(
            "it has {} parts; choose the one whose capacity changes with --part",
            slots.len()
        )));
    }
    let chosen = |at: usize| arguments.part.is_none_or(|part| part == at + 1);
    let from = arguments.from.as_ref().map(|from| session.read(from)).transpose()?;
    let first = slots.iter().enumerate().filter(|(at, _)| chosen(*at)).map(|(_, slot)| slot.begin).min();
    // All chosen parts move by the same amount, so that their offsets to each other stay.
    let later = from.zip(first).map_or(Seconds::ZERO, |(from, first)| from.time() - first.time());
    let resources = session.ask("looking", session.client.resources())?.resources;
    let part = |(at, slot): (usize, &Slot)| {
        let kind = kind_of(session, &resources, slot)?;
        if chosen(at) { wanted(arguments, session, slot, kind, later) } else { Ok(as_it_is(slot, kind)) }
    };
    slots.iter().enumerate().map(part).collect()
}

fn as_it_is(slot: &Slot, kind: Name) -> Part {
    Part {
        kind,
        capacity: slot.capacity,
        duration_seconds: (slot.end.time() - slot.begin.time()).0,
        earliest_start: slot.begin,
        latest_end: slot.end,
        // The resource is named, so that a change of the time does not move the part to another machine. It
        // met the requirements when it was reserved.
        requirements: Vec::new(),
        resource: Some(slot.resource.clone()),
        replaces: None,
        changes: None,
        up_to: None,
        measured_on: None,
        tres: slot.tres.clone(),
    }
}

/// A change must name the kind of each resource, which a reservation does not carry; the list of resources does.
fn kind_of(session: &Session, resources: &[Resource], slot: &Slot) -> Result<Name> {
    match resources.iter().find(|resource| resource.name == slot.resource) {
        Some(resource) => Ok(resource.kind.clone()),
        None => bail!("{} no longer offers {}", session.client.url(), slot.resource),
    }
}

fn wanted(
    arguments: &ChangeArguments,
    session: &Session,
    slot: &Slot,
    kind: Name,
    later: Seconds,
) -> Result<Part> {
    let part = as_it_is(slot, kind);
    let duration = arguments.duration.map_or(part.duration_seconds, |length| length.seconds().0);
    let until = arguments.until.as_ref().map(|until| session.read(until)).transpose()?;
    let earliest_start: Timestamp = (slot.begin.time() + later).try_into()?;
    let ends: Timestamp = (earliest_start.time() + Seconds(duration)).try_into()?;
    let latest_end = until.unwrap_or(ends);
    if ends > latest_end {
        let (begin, end) = (session.dates().wall(earliest_start), session.dates().wall(latest_end));
        let takes = written(Seconds(duration));
        bail!(Usage(format!(
            "it cannot end by {end} if it begins at {begin} and takes {takes}; use a later --until, an earlier \
             --from or a shorter --duration"
        )));
    }
    let capacity = arguments.capacity.unwrap_or(slot.capacity);
    Ok(Part { capacity, duration_seconds: duration, earliest_start, latest_end, ..part })
}
