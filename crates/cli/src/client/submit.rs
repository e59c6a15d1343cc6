//! `bookahead submit`: has a script or a program run, in a reservation or in the queue.

use super::ids::IdText;
use super::looking::show_job;
use super::place::Place;
use super::refusal::Usage;
use super::request::values::{Length, Required, some_time};
use super::session::{Session, by_clock};
use super::when::When;
use anyhow::{Context, Result, bail};
use bookahead_api::{Mode, Slot, SubmitJob, Work};
use bookahead_client::make;
use bookahead_protocol::{JobId, ReservationId};
use clap::{Args, ValueEnum};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

#[derive(Args)]
pub(crate) struct Arguments {
    /// A script ('-' is standard input) and its arguments, or behind two dashes a program that is at the site
    /// already: submit --limit 1h -- /usr/bin/simulate --fast. The first line of a script names its interpreter
    #[arg(
        value_name = "SCRIPT",
        required_unless_present = "pretend",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<String>,

    /// Nothing that runs: only take the time
    #[arg(long, value_name = "LENGTH", value_parser = some_time, conflicts_with = "command", help_heading = "Job")]
    pretend: Option<Length>,

    /// The reservation that it is to run in
    #[arg(long, short, value_name = "rsv_ID", help_heading = "Job")]
    reservation: Option<IdText<ReservationId>>,

    /// How much it takes [default: all of the reservation, or 1]
    #[arg(long, value_name = "N", help_heading = "Job")]
    capacity: Option<u32>,

    /// It is ended when it has run for so long [default: as long as the rest of the reservation]
    #[arg(long, value_name = "LENGTH", value_parser = some_time, help_heading = "Job")]
    #[arg(required_unless_present = "reservation")]
    limit: Option<Length>,

    /// What kind of resource
    #[arg(long, value_name = "KIND", default_value = "processors", help_heading = "Job")]
    kind: String,

    /// This very resource; of a reservation with several parts, the part that is on it
    #[arg(long, value_name = "NAME", help_heading = "Job")]
    resource: Option<String>,

    /// What the resource must have, as in 'bookahead probe'; may be repeated
    #[arg(long, value_name = "WHAT", help_heading = "Job")]
    require: Vec<Required>,

    /// It is of no use if it has not ended by then (of a broker)
    #[arg(long, value_name = "TIME", help_heading = "Job")]
    #[arg(conflicts_with = "reservation")]
    until: Option<When>,

    /// How a broker finds a place for it
    #[arg(long, value_enum, help_heading = "Job")]
    #[arg(conflicts_with = "reservation")]
    mode: Option<ModeName>,

    /// How many copies wait at the same time, each at another site (of a broker that floods) [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32), help_heading = "Job")]
    #[arg(conflicts_with = "reservation")]
    copies: Option<u32>,

    /// The clock rate in MHz of the machine that --limit was measured on; slower sites get longer (of a broker)
    #[arg(long, value_name = "MHZ", help_heading = "Job")]
    #[arg(conflicts_with = "reservation")]
    reference_mhz: Option<u32>,

    /// How many bytes must be at the site before it can start (of a broker, to choose the site)
    #[arg(long, value_name = "BYTES", help_heading = "Job")]
    #[arg(conflicts_with = "reservation")]
    input_bytes: Option<u64>,

    /// The folder, at the site, in which a program runs
    #[arg(long, value_name = "FOLDER", help_heading = "Job")]
    folder: Option<String>,

    /// A variable for a program; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable, help_heading = "Job")]
    env: Vec<(String, String)>,

    /// The id of the job [default: a new one]
    #[arg(long, value_name = "job_ID", help_heading = "Job")]
    id: Option<JobId>,

    /// The key of the call; the same call with the same key is done once [default: a new one]
    #[arg(long, value_name = "KEY", help_heading = "Job")]
    key: Option<String>,

    #[command(flatten)]
    place: Place,
}

#[derive(Clone, Copy, ValueEnum)]
enum ModeName {
    /// It asks the best sites for reservations, and keeps the one that is over first
    Reserve,
    /// It puts copies into several queues; the first that is ready claims the job and gets the go of the broker, and the
    /// others are withdrawn. The job runs once
    Flood,
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    if name.is_empty() { Err("write NAME=VALUE".to_owned()) } else { Ok((name.to_owned(), value.to_owned())) }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let work = work(arguments)?;
    by_clock(&arguments.place, |session| submit(arguments, work.clone(), session))
}

fn submit(arguments: &Arguments, work: Work, session: &Session) -> Result<()> {
    let reservation = arguments.reservation.as_ref().map(|id| session.reservation_id(id)).transpose()?;
    let slot = match reservation {
        Some(id) => part(arguments, session, id)?,
        None => None,
    };
    let submit = SubmitJob {
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
    };
    let key = arguments.key.clone().map_or_else(|| make::key().map(|key| key.to_string()), Ok)?;
    let job = session.ask("submitting", session.timed_client().submit(&submit, &key))?;
    show_job(session, &job)
}

/// The part of a reservation that it is to run in, for what is not said of the job. Where several are left the server refuses
/// it, and says between which to choose.
fn part(arguments: &Arguments, session: &Session, id: ReservationId) -> Result<Option<Slot>> {
    let all = session.ask("looking", session.client.show(id))?.slots;
    let mut slots = all.clone();
    if let Some(named) = arguments.resource.as_deref() {
        slots.retain(|slot| slot.resource.as_str() == named);
        if slots.is_empty() {
            let names: Vec<&str> = all.iter().map(|slot| slot.resource.as_str()).collect();
            bail!(Usage(format!("{id} has no part on {named}; give --resource {}", names.join(" or "))));
        }
    } else if slots.len() > 1 {
        let offered = session.ask("looking", session.client.resources())?.resources;
        let kind_of = |slot: &Slot| offered.iter().find(|one| one.name == slot.resource).map(|one| &one.kind);
        slots.retain(|slot| kind_of(slot).is_none_or(|kind| kind.as_str() == arguments.kind));
    }
    let fits = |slot: &Slot| arguments.capacity.is_none_or(|wanted| wanted <= slot.capacity);
    let now = session.server_now();
    let best = slots.into_iter().find(|slot| fits(slot) && slot.end > now);
    Ok(best.or_else(|| all.into_iter().next()))
}

/// What is said, or what is left of the reservation.
fn limit(arguments: &Arguments, session: &Session, slot: Option<&Slot>) -> Result<i64> {
    let left = |slot: &Slot| slot.end.time().0.saturating_sub(slot.begin.max(session.server_now()).time().0);
    match arguments.limit.map(|limit| limit.0.0).or(slot.map(left)) {
        Some(limit) if limit > 0 => Ok(limit),
        Some(_) => bail!(Usage(
            "there is no time in which it could run; give another --limit or --reservation".to_owned()
        )),
        None => bail!(Usage("the reservation does not say how long it is; give --limit".to_owned())),
    }
}

/// Whether the command stands behind two dashes. The options are read by then, so that the first two dashes are it.
fn is_program(command: &[String]) -> bool {
    let words: Vec<_> = std::env::args_os().collect();
    let dashes = words.iter().position(|word| word == "--");
    dashes.is_some_and(|at| words.len() - at - 1 == command.len())
}

/// What is to be run. A script travels with the call; a program is at the site already.
fn work(arguments: &Arguments) -> Result<Work> {
    if let Some(Length(length)) = arguments.pretend {
        return Ok(Work::Pretended { run_seconds: length.0 });
    }
    let Some((first, rest)) = arguments.command.split_first() else {
        bail!(Usage("there is nothing to run; give a script, or a program behind --".to_owned()));
    };
    if is_program(&arguments.command) {
        let environment: BTreeMap<String, String> = arguments.env.iter().cloned().collect();
        let folder = arguments.folder.clone();
        return Ok(Work::Program { program: first.clone(), arguments: rest.to_vec(), folder, environment });
    }
    if arguments.folder.is_some() || !arguments.env.is_empty() {
        bail!(Usage("--folder and --env are for programs; let the script itself say them".to_owned()));
    }
    Ok(Work::Script { text: script(first)?, arguments: rest.to_vec() })
}

fn script(path: &str) -> Result<String> {
    let cannot = || format!("the script {path} cannot be read; a program that is at the site goes behind --");
    let mut text = String::new();
    if path == "-" {
        std::io::stdin().read_to_string(&mut text).with_context(cannot)?;
    } else {
        text = std::fs::read_to_string(Path::new(path)).with_context(cannot)?;
    }
    Ok(text)
}
