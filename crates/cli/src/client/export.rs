//! `bookahead export`: the history of a site as a log in Standard Workload Format, and its reservations as requests that
//! `bookahead simulate` replays. Read from the service, or from the state folder of a site that need not run.
//!
//! Times of both files begin with the first job or reservation. Jobs that ran in a reservation have queue 2.

use super::place::Place;
use super::session::{Session, by_clock};
use crate::output::{plural, say};
use crate::trace::file_not_stdout;
use anyhow::{Context, Result, anyhow, bail};
use bookahead_api::when::When;
use bookahead_api::{RecordsQuery, Timestamp, UsageJob, UsageRecords, UsageReservation};
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use bookahead_protocol::Name;
use bookahead_service::config::SiteConfig;
use bookahead_service::history::records::{RecordsQuestion, in_state_folder};
use bookahead_workload::import::Names;
use bookahead_workload::requests::{self, Request};
use bookahead_workload::swf::{self, Header, Record};
use clap::Args;
use std::path::{Path, PathBuf};

/// Rows of a page: as many as a server gives at most by default.
const PAGE: usize = 1_000;

/// Queues in the log: [`QUEUED`] for jobs of the queue, [`IN_RESERVATION`] for jobs that ran in a reservation.
const QUEUED: i64 = 1;
const IN_RESERVATION: i64 = 2;

/// `Conversion` in the header of an exported log.
pub(crate) const CONVERSION: &str = "bookahead export";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Output file for the jobs, in SWF; gzip if the name ends in .gz; - for standard output
    #[arg(value_name = "OUTPUT")]
    output: PathBuf,

    /// Write the reservations to this file, as requests for simulate --reservations
    #[arg(long, value_name = "FILE", value_parser = file_not_stdout())]
    reservations_out: Option<PathBuf>,

    /// Resource whose history to write [default: the only one]
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,

    /// Only jobs submitted from then on, and reservations that end after it
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<When>,

    /// Only jobs submitted before, and reservations that begin before it
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<When>,

    /// Give reservations the window of their request instead of the slot that was booked
    #[arg(long, requires = "reservations_out")]
    windows: bool,

    /// Write the names of users and projects into the header; otherwise they have numbers only
    #[arg(long)]
    names: bool,

    /// Read the state folder of the site with this configuration instead of asking a server; the site need not run
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["server", "profile"])]
    config: Option<PathBuf>,

    /// State folder [default: from the configuration]
    #[arg(long, value_name = "FOLDER", requires = "config")]
    state: Option<PathBuf>,

    #[command(flatten)]
    place: Place,
}

/// The resource whose history is written.
struct Source {
    site: String,
    resource: Name,
    capacity: u32,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    by_clock(&arguments.place, |session| export(arguments, session))
}

fn export(arguments: &Arguments, session: &Session) -> Result<()> {
    let read = |when: &Option<When>| when.as_ref().map(|when| session.read(when)).transpose();
    let (from, until) = (read(&arguments.from)?, read(&arguments.until)?);
    let (source, records) = match &arguments.config {
        Some(config) => offline(arguments, config, from, until)?,
        None => online(arguments, session, from, until)?,
    };
    let log = Log::of(&source, &records, arguments);
    if log.records.is_empty() && log.requests.is_empty() {
        bail!("the history of {} has no job or reservation; check --from and --until", source.resource);
    }
    swf::write_file(&arguments.output, &log.header, &log.records)?;
    let what = |path: &Path, count: usize, noun: &str| {
        if path.as_os_str() != "-" {
            say!("wrote {}: {}", path.display(), plural(count as u64, noun));
        }
    };
    what(&arguments.output, log.records.len(), "job");
    match &arguments.reservations_out {
        Some(path) => {
            requests::write_file(path, &log.requests)?;
            what(path, log.requests.len(), "reservation");
        }
        None if !log.requests.is_empty() => {
            let count = plural(log.requests.len() as u64, "reservation");
            say!("note: {count} not written; use --reservations-out FILE");
        }
        None => {}
    }
    if log.live > 0 {
        say!("note: left out {} that had not ended", plural(log.live as u64, "job"));
    }
    if let Some(since) = records.complete_since {
        say!("note: the history is complete only from {} on", session.dates().wall(since));
    }
    Ok(())
}

fn online(
    arguments: &Arguments,
    session: &Session,
    from: Option<Timestamp>,
    until: Option<Timestamp>,
) -> Result<(Source, UsageRecords)> {
    let all = session.ask("looking", session.client.resources())?.resources;
    let all = all.into_iter().map(|found| (found.site.to_string(), found.name, found.capacity)).collect();
    let source = chosen(arguments, all)?;
    let mut query =
        RecordsQuery { resource: Some(source.resource.clone()), from, until, ..RecordsQuery::default() };
    let ask = |query: &RecordsQuery| {
        session.ask("reading the history", session.timed_client().usage_records(query))
    };
    let mut records = ask(&query)?;
    while let Some(next) = records.next.take() {
        query.cursor = Some(next);
        add(&mut records, ask(&query)?);
    }
    Ok((source, records))
}

fn offline(
    arguments: &Arguments,
    path: &Path,
    from: Option<Timestamp>,
    until: Option<Timestamp>,
) -> Result<(Source, UsageRecords)> {
    let config = SiteConfig::read(path)?;
    let base = path.parent().unwrap_or(Path::new(""));
    let state = arguments.state.clone().unwrap_or_else(|| config.state(base));
    let all = config.resources.iter();
    let all = all.map(|found| (config.name.clone(), found.name.as_str().into(), found.capacity)).collect();
    let source = chosen(arguments, all)?;
    let begin = from.map_or(Time::MIN, Timestamp::time);
    let mut question = RecordsQuestion {
        window: Interval::new(begin, until.map_or(Time::MAX, Timestamp::time).max(begin)),
        owner: None,
        resource: Some(source.resource.clone()),
        after: None,
        limit: PAGE,
    };
    let advice = || format!("{}: start the site once with this version, or check --state", state.display());
    let read = |question: &RecordsQuestion| in_state_folder(&state, question).with_context(advice);
    let mut records = read(&question)?;
    while let Some(next) = records.next.take() {
        question.after =
            Some(next.parse().map_err(|()| anyhow!("the history has an unreadable id: {next}"))?);
        add(&mut records, read(&question)?);
    }
    Ok((source, records))
}

fn add(records: &mut UsageRecords, page: UsageRecords) {
    records.jobs.extend(page.jobs);
    records.reservations.extend(page.reservations);
    records.next = page.next;
}

/// The named resource, or the only one.
fn chosen(arguments: &Arguments, all: Vec<(String, Name, u32)>) -> Result<Source> {
    let names: Vec<String> = all.iter().map(|(_, name, _)| name.to_string()).collect();
    let wanted = |name: &Name| arguments.resource.as_deref().is_none_or(|wanted| wanted == name.as_str());
    let mut found = all.into_iter().filter(|(_, name, _)| wanted(name));
    match (found.next(), found.next()) {
        (Some((site, resource, capacity)), None) => Ok(Source { site, resource, capacity }),
        (None, _) => bail!("unknown resource; use --resource with one of: {}", names.join(", ")),
        (Some(_), Some(_)) => bail!("several resources; use --resource with one of: {}", names.join(", ")),
    }
}

/// The two files.
struct Log {
    header: Header,
    records: Vec<Record>,
    requests: Vec<Request>,
    /// Jobs that had not ended.
    live: usize,
}

impl Log {
    fn of(source: &Source, history: &UsageRecords, arguments: &Arguments) -> Log {
        let mut jobs: Vec<&UsageJob> = history.jobs.iter().filter(|job| job.ended.is_some()).collect();
        // The order within a second is not recorded; the start comes nearest to it.
        jobs.sort_by_key(|job| (job.submitted, job.started.unwrap_or(job.submitted), job.id));
        let submits = jobs.iter().map(|job| job.submitted.time());
        let booked = history.reservations.iter().filter_map(accepted);
        let origin = submits.chain(booked).min().unwrap_or_default();
        let (mut users, mut groups) = (Names::default(), Names::default());
        let mut records = Vec::new();
        for (number, job) in (1..).zip(&jobs) {
            let user = users.number(&job.owner);
            let group = groups.number(job.project.as_deref().unwrap_or_default());
            records.push(Record { user, group, ..record(number, job, origin) });
        }
        let mut requests: Vec<Request> = history
            .reservations
            .iter()
            .flat_map(|reservation| requests_of(reservation, origin, arguments.windows))
            .collect();
        requests.sort_by_key(|request| (request.submit, request.earliest_start));
        (1..).zip(&mut requests).for_each(|(number, request)| request.number = number);
        let mut header = header(source, origin, records.len());
        if arguments.names {
            users.describe("User", &mut header);
            groups.describe("Group", &mut header);
        }
        Log { header, live: history.jobs.len() - records.len(), records, requests }
    }
}

fn header(source: &Source, origin: Time, jobs: usize) -> Header {
    let Source { site, resource, capacity } = source;
    let mut header = Header::default();
    header.push("Version", "2.2");
    header.push("Computer", site);
    header.push("Conversion", CONVERSION);
    header.push("Note", format_args!("jobs on {resource} of {site}, from its usage history"));
    header.push("MaxJobs", jobs);
    header.push("MaxRecords", jobs);
    header.push("UnixStartTime", origin);
    header.push("MaxProcs", capacity);
    header.push("Queue", format_args!("{QUEUED} queue"));
    header.push("Queue", format_args!("{IN_RESERVATION} reservation"));
    header
}

fn record(number: i64, job: &UsageJob, origin: Time) -> Record {
    let submit = job.submitted.time();
    let ended = job.ended.map_or(submit, Timestamp::time);
    let started = job.started.map(Timestamp::time);
    Record {
        job: number,
        submit: (submit - origin).0,
        wait: (started.unwrap_or(ended) - submit).0.max(0),
        // A job that ran for a part of a second took its room; one that never started has no run time.
        run: started.map_or(0, |started| (ended - started).0.max(1)),
        allocated_processors: started.map_or(0, |_| job.capacity.into()),
        requested_processors: job.capacity.into(),
        requested_time: job.limit_seconds.unwrap_or(swf::UNKNOWN),
        status: match job.state.as_str() {
            "done" => 1,
            "cancelled" => 5,
            _ => 0,
        },
        queue: if job.reservation.is_some() { IN_RESERVATION } else { QUEUED },
        ..Record::BLANK
    }
}

/// When a reservation took its room. If that is not known, when it began.
fn accepted(reservation: &UsageReservation) -> Option<Time> {
    let begin = reservation.spans.first()?.begin.time();
    Some(reservation.accepted.map_or(begin, |accepted| accepted.time().min(begin)))
}

/// One request for each span: a reservation whose capacity changed has several.
fn requests_of(reservation: &UsageReservation, origin: Time, windows: bool) -> Vec<Request> {
    let Some(submit) = accepted(reservation) else { return Vec::new() };
    let since = |time: Time| Time((time - origin).0);
    let window = reservation.earliest_start.zip(reservation.latest_end);
    let window = window.filter(|_| windows && reservation.spans.len() == 1);
    let request = |span: &bookahead_api::UsageSpan| {
        let (begin, end) = (span.begin.time(), span.end.time());
        let (earliest, latest) = window
            .map_or((begin, end), |(earliest, latest)| (earliest.time().min(begin), latest.time().max(end)));
        let ended = reservation.ended.map(Timestamp::time).filter(|ended| *ended < end);
        Request {
            number: 0,
            submit: since(submit),
            earliest_start: since(earliest.max(submit)),
            latest_end: since(latest),
            duration: (end - begin).max(Seconds(1)),
            processors: Capacity(span.capacity),
            released: ended.map(|ended| since(ended.max(submit))),
        }
    };
    reservation.spans.iter().map(request).collect()
}
