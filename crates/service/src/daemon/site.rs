//! Starts a site from its configuration. Also examines everything that a site needs, without starting it and even
//! while it runs: configuration, state, listeners, brokers, batch system.

use super::batch::{Driven, driven, idle, job_account, longest_command, projects, scheduler};
use super::front::{Credentials, Watched, exposed_state, open, start};
use super::reload::Current;
use super::{Boxed, DaemonError, Running};
use crate::config::{BatchConfig, Common, SiteConfig, url_below};
use crate::http::limits::MOST_ATTRIBUTES;
use crate::http::listener::Listen;
use crate::http::{JobOutputs, Projects};
use crate::journal::{self, JournalError, Kind, Lease, Store};
use crate::thread::{BatchSide, Liveness, Outlets, PartyHandle, PartyOptions, ReadKind};
use bookahead_lrms::Batch;
use bookahead_lrms::batch::Finding;
use bookahead_lrms::worker::Worker;
use bookahead_party::queries::BatchState;
use bookahead_party::site::{OnLostJournal, Site, SiteOptions};
use bookahead_party::{Attracting, BatchOrder, BatchReport, Heartbeat, Input, Party, Queries};
use bookahead_protocol::{Moment, Value};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

/// A site reports ready after this time even without an answer of the batch system. Longer than the default timeout
/// of a command.
const FIRST_LOOK: Duration = Duration::from_secs(15);

/// Brokers refuse programs if they know no site that runs them.
fn say_if_no_programs(config: &SiteConfig, about: &mut Heartbeat) {
    // With more attributes, brokers would refuse the whole heartbeat.
    let room = about.attributes.len() < MOST_ATTRIBUTES;
    if config.batch.is_none() && !config.jobs.processes && room {
        let none = Value::Text(Heartbeat::NO_PROGRAMS.into());
        about.attributes.entry(Heartbeat::PROGRAMS.into()).or_insert(none);
    }
}

/// Starts a site. Paths are relative to `base`. `on_lost_journal` decides what to do with reservations in the batch
/// system if the journal is new.
pub fn site<'a>(
    config: &'a SiteConfig,
    base: &'a Path,
    on_lost_journal: OnLostJournal,
) -> Boxed<'a, Result<Running, DaemonError>> {
    Box::pin(start_site(config, base, on_lost_journal))
}

async fn start_site(
    config: &SiteConfig,
    base: &Path,
    on_lost_journal: OnLostJournal,
) -> Result<Running, DaemonError> {
    config.check()?;
    let state = config.state(base);
    let mut front = Common::from(config).listen(base, &state).await?;
    front.projects = projects_of(config);
    say_if_no_programs(config, &mut front.about);
    let projects = config.batch.as_ref().map(projects).unwrap_or_default();
    let longest = config.batch.as_ref().map_or(Duration::ZERO, longest_command);
    let seat = Common::from(config).seat(base, &front.about.url, longest)?;
    let kind = Kind::new(Site::KIND, config.name.clone(), Site::SCHEMA);
    let whose = (Site::KIND, config.name.as_str());
    let outbox = config.notify.outbox(whose, base, &state, (&seat.store, &seat.lease))?;
    let mut options = PartyOptions {
        outbox: outbox.clone(),
        history: Common::from(config).history(&state, projects),
        ..PartyOptions::new(config.name.as_str().into(), &seat.store, config.clock.clock())
    };
    let rules = config.rules()?;
    // Before the batch system is asked anything: a stand-by may not start commands.
    options.options = seat.take(kind, &mut front, options.clock, &state).await?;
    let (thread, watched) = match &config.batch {
        None => {
            let site = Site::new(rules, front.about.clone(), SiteOptions::default())?;
            // The scheduler begins at the time of the site, which depends on the journal.
            let clock = options.clock;
            let site = open(options, site).await?;
            let (scheduler, outputs) = scheduler(config, base, &state, clock.now())?;
            let outputs = outputs.map_or(JobOutputs::None, |outputs| JobOutputs::Here(Arc::new(outputs)));
            let batch = BatchSide::Inline(Box::new(scheduler));
            let thread = start(site, move |_| Outlets::only(batch)).await?;
            (thread, Watched { outputs, ..Watched::default() })
        }
        Some(batch) => {
            let (config_of_batch, at_once) = (batch, batch.at_once);
            let Driven { batch, runner, outputs } = driven(config, batch, base, &state, &seat.lease).await?;
            // Without a lease no other process can take over.
            let holds_jobs = seat.lease.epoch() > 0;
            let site_options =
                SiteOptions { holds_jobs, ..options_with(config_of_batch, &batch, on_lost_journal) };
            let look_every = site_options.look_every;
            let site = Site::new(rules, front.about.clone(), site_options)?;
            let over_ssh = config_of_batch.ssh.is_some();
            let connect = move |party: &PartyHandle| {
                let (party, clock) = (party.clone(), party.clock());
                let report = move |report: BatchReport| {
                    if let BatchReport::Looked { outcome: Ok(look), .. } = &report
                        && let Some(clocks) = look.clocks.filter(|clocks| clocks.elsewhere || over_ssh)
                    {
                        // A clock on another machine is independent evidence: if it agrees, the local clock is
                        // followed again.
                        clock.confirm(Moment::of(clocks.theirs), "the batch system");
                    }
                    party.tell(Input::Batch(report));
                };
                let worker = Worker::start(batch, at_once, Arc::new(move || clock.now()), Arc::new(report));
                let sink =
                    move |orders: Vec<BatchOrder>| orders.into_iter().for_each(|order| worker.order(order));
                Outlets::only(BatchSide::Worker(Box::new(sink)))
            };
            let outputs = JobOutputs::Here(Arc::new(outputs));
            let watched = Watched { commands: Some(runner), look_every: Some(look_every), outputs };
            let thread = start(open(options, site).await?, connect).await?;
            first_look(thread.handle()).await;
            (thread, watched)
        }
    };
    front.epochs = seat.epochs(Site::KIND, &config.name, &state).await?;
    front.set_user_lists(seat.user_lists(Site::KIND, &config.name, &state).await?);
    let current = Current::Site(Box::new(config.clone()));
    Ok(front.open(thread, JoinSet::new(), watched, outbox, current))
}

/// What a site does with this batch system.
fn options_with(config: &BatchConfig, batch: &Batch, on_lost_journal: OnLostJournal) -> SiteOptions {
    SiteOptions {
        on_lost_journal: Some(on_lost_journal),
        look_every: config.look_every.0,
        move_after: config.move_after.0,
        binds_jobs: batch.binds_jobs(),
        requeues_jobs: batch.requeues_jobs(),
        sharing: batch.sharing(),
        attracting: match (batch.attracts(), config.attract) {
            (_, true) => Attracting::Allowed,
            (true, false) => Attracting::Forbidden,
            (false, false) => Attracting::Impossible,
        },
        ..SiteOptions::default()
    }
}

/// Users of projects: those of the configuration, and those in the accounting of the batch system.
pub(super) fn projects_of(config: &SiteConfig) -> Projects {
    let mut projects = config.security.projects.clone();
    for (user, project) in config.batch.iter().flat_map(|batch| &batch.projects) {
        projects.entry(project.as_str().into()).or_default().insert(user.clone());
    }
    projects
}

/// Waits for the first poll of the batch system, so that a ready site knows its reservations. Gives up if the batch
/// system is silent.
async fn first_look(party: &PartyHandle) {
    let begun = Instant::now();
    let unknown = |queries: &mut dyn Queries, now| {
        let health = queries.batch_health(now);
        health.is_some_and(|health| health.look_age.is_none() && health.state != BatchState::Silent)
    };
    while begun.elapsed() < FIRST_LOOK
        && party.liveness() == Liveness::Alive
        && party.read(ReadKind::Short, unknown)
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Checks whether a site could start with this configuration. Reads the files that it names; writes nothing and
/// opens no listener.
pub fn check_site(config: &SiteConfig, base: &Path) -> Result<(), DaemonError> {
    config.check()?;
    Common::from(config).check_files(base)?;
    job_account(config)?;
    let now = config.clock.clock().now();
    idle(config, now)?;
    for (at, resource) in config.resources.iter().enumerate() {
        if let Some(jobs) = &resource.jobs {
            let source = jobs.source(resource.capacity, now.second(), base);
            source.map_err(|wrong| wrong.within("jobs").within(at).within("resource"))?;
        }
    }
    Ok(())
}

/// Examines everything that a site needs. Paths are relative to `base`.
pub fn examine_site<'a>(config: &'a SiteConfig, base: &'a Path) -> Boxed<'a, Vec<Finding>> {
    Box::pin(examined(config, base))
}

async fn examined(config: &SiteConfig, base: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    match check_site(config, base) {
        Ok(()) => findings.push(Finding::well("configuration", "valid, and its files are readable")),
        Err(why) => {
            findings.push(Finding::wrong(
                "configuration",
                why.to_string(),
                "correct it; nothing else was checked",
            ));
            return findings;
        }
    }
    let state = config.state(base);
    findings.push(state_of(&state));
    match Common::from(config).store(base) {
        Ok(store) => findings.extend(journal_of(store).await),
        Err(wrong) => findings.push(Finding::wrong("journal", wrong.to_string(), "correct state")),
    }
    findings.extend(listeners(config, base).await);
    findings.extend(identity_provider(config, base).await);
    for broker in &config.brokers {
        let credentials = Credentials::new(&config.calls, broker.token_file.as_ref(), base);
        findings.push(answers(&url_below(&broker.url, base), credentials).await);
    }
    let Some(batch) = &config.batch else {
        findings.push(Finding::well("batch system", "none; uses the built-in scheduler"));
        return findings;
    };
    match driven(config, batch, base, &state, &Lease::for_ever()).await {
        Ok(Driven { batch, .. }) => {
            let now = config.clock.clock().now();
            let looked = tokio::task::spawn_blocking(move || batch.examine(now)).await;
            findings.extend(looked.unwrap_or_default());
        }
        Err(why) => {
            let advice = "check that its commands can be run with the settings in [batch]";
            findings.push(Finding::wrong("batch system", why.to_string(), advice));
        }
    }
    findings
}

fn state_of(state: &Path) -> Finding {
    let what = "state";
    let shown = state.display();
    match std::fs::metadata(state) {
        Ok(folder) if folder.is_dir() && !folder.permissions().readonly() => match exposed_state(state) {
            None => Finding::well(what, format!("{shown} exists")),
            Some(why) => Finding::doubtful(what, why, format!("chmod 700 {shown}")),
        },
        Ok(_) => Finding::wrong(what, format!("{shown} is not a writable folder"), "set another state"),
        Err(why) if why.kind() == ErrorKind::NotFound => {
            Finding::well(what, format!("{shown} will be created at the first start"))
        }
        Err(why) => Finding::wrong(what, format!("{shown}: {why}"), "check the folder and its permissions"),
    }
}

async fn journal_of(store: Store) -> Option<Finding> {
    let (what, shown) = ("journal", store.to_string());
    if matches!(&store, Store::File(path) if !path.exists()) {
        return None;
    }
    let checked = tokio::task::spawn_blocking(move || journal::check(store)).await.ok()?;
    Some(match checked {
        Ok(report) if report.is_sound() => {
            let held = report.held_by.map_or_else(String::new, |holder| format!(", in use by {holder}"));
            Finding::well(what, format!("{} records, no damage{held}", report.records))
        }
        Ok(report) => {
            let seen = format!("{} damages", report.damages.len());
            Finding::wrong(what, seen, format!("see: bookahead journal check {shown}"))
        }
        Err(JournalError::Missing { .. }) => {
            Finding::well(what, format!("{shown} answers; the journal will be created at the first start"))
        }
        Err(why) => Finding::wrong(what, why.to_string(), "restore it from a backup"),
    })
}

async fn listeners(config: &SiteConfig, base: &Path) -> Vec<Finding> {
    let (what, mut findings) = ("listener", Vec::new());
    let common = Common::from(config);
    for at in common.listeners(base) {
        findings.push(match probe(&at).await {
            Ok(()) => Finding::well(what, format!("{at} is free")),
            Err(why) if why.kind() == ErrorKind::AddrInUse => {
                let advice = "if that is not this site itself, set another address in listen";
                Finding::doubtful(what, format!("{at} is in use"), advice)
            }
            Err(why) => Finding::wrong(what, format!("{at}: {why}"), "set another address in listen"),
        });
    }
    if common.is_open_to_local_users() {
        let seen = "no authentication: every user of this machine can book, change and cancel as any user";
        let advice = "remove listen to use a Unix socket, or set security.keys or security.issuer";
        findings.push(Finding::doubtful("authentication", seen, advice));
    }
    findings
}

/// Checks whether the address is free. Leaves nothing behind.
async fn probe(at: &Listen) -> std::io::Result<()> {
    match at {
        // The state folder is created at the first start.
        Listen::Unix(path) if path.parent().is_some_and(|folder| !folder.exists()) => Ok(()),
        Listen::Unix(path) if path.exists() => match UnixStream::connect(path).await {
            Ok(_) => Err(ErrorKind::AddrInUse.into()),
            Err(_) => Ok(()),
        },
        _ => at.bind(None).await.map(drop),
    }
}

async fn identity_provider(config: &SiteConfig, base: &Path) -> Option<Finding> {
    let authenticator = config.security.for_service(&config.name).authenticator(base).ok()?;
    let (what, provider) = ("identity provider", authenticator.provider()?);
    Some(match provider.examine().await {
        Ok(keys) => Finding::well(what, format!("{} has {keys} usable keys", provider.issuer())),
        Err(why) => {
            let advice = "no token can be verified until it answers; the site will keep trying";
            Finding::doubtful(what, why.to_string(), advice)
        }
    })
}

async fn answers(url: &str, credentials: Result<Credentials, super::DaemonError>) -> Finding {
    let what = "broker";
    let asked = async {
        let client =
            credentials.map_err(|why| why.to_string())?.client(url).map_err(|why| why.to_string())?;
        client.sites().await.map(drop).map_err(|why| why.to_string())
    };
    match asked.await {
        Ok(()) => Finding::well(what, format!("{url} answers")),
        Err(why) => Finding::doubtful(what, format!("{url}: {why}"), "the site will keep trying to register"),
    }
}
