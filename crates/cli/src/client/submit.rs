//! `bookahead submit`: submits a script or program, to a reservation or to the queue.

use super::about::About;
use super::ids::IdText;
use super::looking::show_job;
use super::place::Place;
use super::refusal::Usage;
use super::request::values::{Required, capacity, some_time};
use super::session::{Session, by_clock};
use super::wait::{Until, wait_for_job};
use anyhow::{Context, Result, bail};
use bookahead_api::when::When;
use bookahead_api::{Length, Mode, Slot, SubmitJob, Work};
use bookahead_client::make;
use bookahead_protocol::{JobId, ReservationId};
use clap::{Args, ValueEnum};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Script to run ('-' for standard input) and its arguments; or, after '--', a program installed at the site:
    /// submit --limit 1h -- /usr/bin/simulate --fast. The first line of a script names its interpreter
    #[arg(
        value_name = "SCRIPT",
        required_unless_present = "pretend",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<String>,

    /// Submit a placeholder that only occupies the slot for this time
    #[arg(long, value_name = "LENGTH", value_parser = some_time, conflicts_with = "command", help_heading = "Job")]
    pretend: Option<Length>,

    /// Reservation to run in
    #[arg(long, short, value_name = "rsv_ID", help_heading = "Job")]
    reservation: Option<IdText<ReservationId>>,

    /// Capacity that the job needs [default: that of the reservation, else 1]
    #[arg(long, value_name = "N", value_parser = capacity, allow_hyphen_values = true, help_heading = "Job")]
    capacity: Option<u32>,

    /// Time limit of the job [default: the rest of the reservation]
    #[arg(long, value_name = "LENGTH", value_parser = some_time, help_heading = "Job")]
    #[arg(required_unless_present = "reservation")]
    limit: Option<Length>,

    /// Kind of resource
    #[arg(long, value_name = "KIND", default_value = "processors", help_heading = "Job")]
    kind: String,

    /// Name of the resource; in a reservation with several parts, selects the part
    #[arg(long, value_name = "NAME", help_heading = "Job")]
    resource: Option<String>,

    #[command(flatten)]
    about: About,

    /// Requirement on the resource, as in 'bookahead probe'; may be repeated
    #[arg(long, value_name = "WHAT", help_heading = "Job")]
    require: Vec<Required>,

    /// Latest useful end time (broker only)
    #[arg(long, value_name = "TIME", help_heading = "Job")]
    #[arg(conflicts_with = "reservation")]
    until: Option<When>,

    /// How a broker chooses the site (broker only)
    #[arg(long, value_enum, help_heading = "Job")]
    #[arg(conflicts_with = "reservation")]
    mode: Option<ModeName>,

    /// Number of copies that wait at the same time, each at another site (broker with --mode flood) [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32), help_heading = "Job")]
    #[arg(conflicts_with = "reservation")]
    copies: Option<u32>,

    /// Clock rate in MHz of the machine that --limit refers to; slower sites get a longer limit (broker only)
    #[arg(long, value_name = "MHZ", help_heading = "Job")]
    #[arg(conflicts_with = "reservation")]
    reference_mhz: Option<u32>,

    /// Bytes of input that must be copied to the site before the job starts, used to choose the site (broker only)
    #[arg(long, value_name = "BYTES", help_heading = "Job")]
    #[arg(conflicts_with = "reservation")]
    input_bytes: Option<u64>,

    /// Put the job back into the queue of its site, under the same id, if its reservation ends or is cancelled before
    /// the job is done, or if a node fails
    #[arg(long, help_heading = "Job")]
    restartable: bool,

    /// Send SIGUSR1 to the program this long before its reservation or time limit ends, to save its work
    #[arg(long, value_name = "LENGTH", value_parser = some_time, help_heading = "Job")]
    warn: Option<Length>,

    /// Submit the job again, at other sites first, up to N times after a site lost it; a site that does not answer has
    /// not lost it (broker only)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=16), help_heading = "Job")]
    #[arg(conflicts_with = "reservation")]
    retry: Option<u32>,

    /// Working folder of the program at the site
    #[arg(long, value_name = "FOLDER", help_heading = "Job")]
    folder: Option<String>,

    /// Environment variable of the program; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable, help_heading = "Job")]
    env: Vec<(String, String)>,

    /// ID of the job [default: a new one]
    #[arg(long, value_name = "job_ID", help_heading = "Job")]
    id: Option<JobId>,

    /// Idempotency key: repeated calls with the same key take effect once [default: a new one]
    #[arg(long, value_name = "KEY", help_heading = "Job")]
    key: Option<String>,

    /// Wait until the job is over; the command fails if the job does
    #[arg(long, help_heading = "Job")]
    wait: bool,

    #[command(flatten)]
    place: Place,
}

#[derive(Clone, Copy, ValueEnum)]
enum ModeName {
    /// Reserve at the best sites and keep the reservation that ends first
    Reserve,
    /// Queue copies at several sites; the first copy that is ready to start runs, the others are withdrawn. The job
    /// runs once
    Flood,
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("use NAME=VALUE")?;
    if name.is_empty() { Err("use NAME=VALUE".to_owned()) } else { Ok((name.to_owned(), value.to_owned())) }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // Before the part that may run a second time: standard input can be read only once.
    let work = work(arguments)?;
    by_clock(&arguments.place, |session| submit(arguments, work.clone(), session))
}

fn submit(arguments: &Arguments, work: Work, session: &Session) -> Result<()> {
    let reservation = arguments.reservation.as_ref().map(|id| session.reservation_id(id)).transpose()?;
    let slot = match reservation {
        Some(id) => part(arguments, session, id)?,
        None => None,
    };
    let mut submit = SubmitJob {
        id: arguments.id,
        reservation,
        resource: arguments.resource.as_deref().map(Into::into),
        kind: arguments.kind.as_str().into(),
        capacity: arguments.capacity.unwrap_or_else(|| slot.as_ref().map_or(1, |slot| slot.capacity)),
        limit_seconds: limit(arguments, session, slot.as_ref())?,
        latest_end: arguments.until.as_ref().map(|when| session.read(when)).transpose()?,
        requirements: arguments.require.iter().map(|required| required.0.clone()).collect(),
        reference_mhz: arguments.reference_mhz,
        input_bytes: arguments.input_bytes,
        work,
        mode: arguments.mode.map(|mode| match mode {
            ModeName::Reserve => Mode::Reserve,
            ModeName::Flood => Mode::Flood,
        }),
        copies: arguments.copies,
        claims: false,
        restartable: arguments.restartable,
        warn_seconds: arguments.warn.map(|warn| warn.seconds().0),
        retry: arguments.retry,
        name: None,
        note: None,
        labels: BTreeMap::new(),
        priority: None,
    };
    arguments.about.add_to(&mut submit.name, &mut submit.note, &mut submit.labels, &mut submit.priority);
    let key = arguments.key.clone().map_or_else(|| make::key().map(|key| key.to_string()), Ok)?;
    let job = session.ask("submitting", session.timed_client().submit(&submit, &key))?;
    if arguments.wait { wait_for_job(session, job.id, Until::Ended) } else { show_job(session, &job) }
}

/// The part of the reservation that supplies the defaults of capacity and limit. The server makes the actual choice: if
/// several parts match, it refuses the job and lists them.
fn part(arguments: &Arguments, session: &Session, id: ReservationId) -> Result<Option<Slot>> {
    let all = session.ask("looking", session.client.show(id))?.slots;
    let mut slots = all.clone();
    if let Some(named) = arguments.resource.as_deref() {
        slots.retain(|slot| slot.resource.as_str() == named);
        if slots.is_empty() {
            let names: Vec<&str> = all.iter().map(|slot| slot.resource.as_str()).collect();
            bail!(Usage(format!("{id} has no part on {named}; use --resource {}", names.join(" or "))));
        }
    } else if slots.len() > 1 {
        let offered = session.ask("looking", session.client.resources())?.resources;
        let kind_of = |slot: &Slot| offered.iter().find(|one| one.name == slot.resource).map(|one| &one.kind);
        // A resource that the server no longer lists stays a candidate: the server decides.
        slots.retain(|slot| kind_of(slot).is_none_or(|kind| kind.as_str() == arguments.kind));
    }
    let fits = |slot: &Slot| arguments.capacity.is_none_or(|wanted| wanted <= slot.capacity);
    let now = session.server_now();
    let best = slots.into_iter().find(|slot| fits(slot) && slot.end > now);
    // If no part matches, the defaults of any part will do: the server refuses the job with the exact reason.
    Ok(best.or_else(|| all.into_iter().next()))
}

/// `--limit`, or the rest of the reservation, in seconds.
fn limit(arguments: &Arguments, session: &Session, slot: Option<&Slot>) -> Result<i64> {
    let left = |slot: &Slot| slot.end.time().0.saturating_sub(slot.begin.max(session.server_now()).time().0);
    match arguments.limit.map(|limit| limit.seconds().0).or(slot.map(left)) {
        Some(limit) if limit > 0 => Ok(limit),
        Some(_) => bail!(Usage("no time is left in the reservation; use another --reservation".to_owned())),
        None => bail!(Usage("the duration of the reservation is unknown; use --limit".to_owned())),
    }
}

/// Whether `command` was given after `--`. Clap does not report that, so the raw arguments are searched: options cannot
/// follow the command, hence the first `--` with exactly these words behind it is the separator.
fn is_program(command: &[String]) -> bool {
    let words: Vec<_> = std::env::args_os().collect();
    let dashes = words.iter().position(|word| word == "--");
    dashes.is_some_and(|at| words.len() - at - 1 == command.len())
}

/// The work of the job. A script is sent with the call; a program must be installed at the site.
fn work(arguments: &Arguments) -> Result<Work> {
    if let Some(length) = arguments.pretend {
        return Ok(Work::Pretended { run_seconds: length.seconds().0 });
    }
    let Some((first, rest)) = arguments.command.split_first() else {
        bail!(Usage("nothing to run; use a script, or a program after --".to_owned()));
    };
    if is_program(&arguments.command) {
        let environment: BTreeMap<String, String> = arguments.env.iter().cloned().collect();
        let folder = arguments.folder.clone();
        return Ok(Work::Program { program: first.clone(), arguments: rest.to_vec(), folder, environment });
    }
    if arguments.folder.is_some() || !arguments.env.is_empty() {
        bail!(Usage("--folder and --env apply only to programs; set them in the script".to_owned()));
    }
    Ok(Work::Script { text: script(first)?, arguments: rest.to_vec() })
}

fn script(path: &str) -> Result<String> {
    let cannot =
        || format!("cannot read the script {path}; to run a program installed at the site, put it after --");
    let mut text = String::new();
    if path == "-" {
        std::io::stdin().read_to_string(&mut text).with_context(cannot)?;
    } else {
        text = std::fs::read_to_string(Path::new(path)).with_context(cannot)?;
    }
    Ok(text)
}
