//! The batch system of a site, from its configuration: which it is and how its commands are run, or the built-in scheduler
//! with the local jobs that the configuration describes or with real programs.

use super::DaemonError;
use crate::config::{BatchConfig, LocalJobs, Resource, SiteConfig, SshConfig, SystemName};
use crate::security::is_root;
use bookahead_lrms::batch::{Accounts, BatchSystem, Place, Projects, Settings};
use bookahead_lrms::builtin::sources::{Nothing, Source};
use bookahead_lrms::builtin::{Account, Hosted, Processes};
use bookahead_lrms::command::{Command, Runner, Ssh};
use bookahead_lrms::grid_engine::GridEngine;
use bookahead_lrms::lsf::Lsf;
use bookahead_lrms::maui::Maui;
use bookahead_lrms::pbs::Pbs;
use bookahead_lrms::slurm::Slurm;
use bookahead_lrms::{Batch, Builtin, LrmsError, grid_engine, lsf, maui, pbs, slurm};
use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::Moment;
use nix::unistd::User;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The sockets of open connections are in this folder of the state.
const CONNECTIONS: &str = "ssh";

/// A reservation whose jobs are being ended is waited for so long.
const LET_GO_WITHIN: Duration = Duration::from_secs(3);

/// A batch system, and whoever runs its commands, who knows how long they took.
pub(super) struct Driven {
    pub(super) batch: Batch,
    pub(super) runner: Runner,
}

/// The batch system of a site; `state` is the folder of its state. It may have to ask it something, and wait.
pub(super) async fn driven(
    config: &SiteConfig,
    batch: &BatchConfig,
    base: &Path,
    state: &Path,
) -> Result<Driven, DaemonError> {
    let (config, batch, base, state) = (config.clone(), batch.clone(), base.to_owned(), state.to_owned());
    let made = tokio::task::spawn_blocking(move || drive(&config, &batch, &base, &state)).await;
    made.map_err(|_| DaemonError::Task)?
}

fn drive(config: &SiteConfig, batch: &BatchConfig, base: &Path, state: &Path) -> Result<Driven, DaemonError> {
    let runner = runner(batch, base, state)?;
    let places = config.resources.iter().map(|resource| {
        let place = resource.batch.clone().unwrap_or_default().place(&resource.name);
        (place, Capacity(resource.capacity))
    });
    let places: Vec<(Place, Capacity)> = places.collect();
    let accounts = accounts(batch, &runner)?;
    let named = places.iter().map(|(place, _)| place.clone()).collect();
    let projects = Projects { usual: batch.project.clone(), map: batch.projects.clone() };
    let system = system(batch, base, named, projects.members(&accounts), runner.clone());
    let end_jobs_early = batch.end_jobs_early.seconds();
    let settings =
        Settings { projects, end_jobs_early, ..Settings::new(config.name.as_str().into(), places, accounts) };
    Ok(Driven { batch: Batch::new(system, settings)?, runner })
}

fn runner(batch: &BatchConfig, base: &Path, state: &Path) -> Result<Runner, DaemonError> {
    let time_out = batch.time_out.duration();
    let runner = match &batch.ssh {
        None => Runner::local(time_out),
        Some(ssh) => Runner::ssh(connection(ssh, base, state), time_out)?,
    };
    let runner = runner.becoming(batch.r#become.clone()).at_most(batch.at_once);
    Ok(runner.with_environment(batch.environment.clone()))
}

fn connection(ssh: &SshConfig, base: &Path, state: &Path) -> Ssh {
    let absolute = |path: &PathBuf| {
        let path = base.join(path);
        std::path::absolute(&path).unwrap_or(path)
    };
    let folder = absolute(&state.join(CONNECTIONS));
    // The path of a socket has to be short; without one every call makes a connection of its own.
    let fits = folder.as_os_str().len() <= bookahead_lrms::command::LONGEST_CONTROL_FOLDER;
    if !fits {
        tracing::warn!(
            "{} is too long for the socket of an ssh connection, so every command makes one of its own; give a shorter state",
            folder.display()
        );
    }
    Ssh {
        user: ssh.user.clone(),
        port: ssh.port,
        key_file: ssh.key.as_ref().map(absolute),
        known_hosts: ssh.known_hosts.as_ref().map(absolute),
        control_folder: fits.then_some(folder),
        ..Ssh::to(&ssh.host)
    }
}

/// As whom things are done: as the owners where it is said how, or else all as one account.
fn accounts(batch: &BatchConfig, runner: &Runner) -> Result<Accounts, DaemonError> {
    if !batch.r#become.is_empty() {
        return Ok(Accounts::Owners { map: batch.accounts.clone() });
    }
    if let Some(account) = &batch.account {
        return Ok(Accounts::Service(account.clone()));
    }
    let outcome = runner.run(&Command::new("id").arg("-un"))?;
    let account = outcome.out.trim();
    if !outcome.is_success() || account.is_empty() {
        let why = format!(
            "id -un does not say as whom commands run ({}); write account = \"…\" in [batch]",
            outcome.said()
        );
        return Err(LrmsError::Misconfigured(why).into());
    }
    Ok(Accounts::Service(account.to_owned()))
}

/// The dialect. Of projects it is told who is known to use them.
fn system(
    batch: &BatchConfig,
    base: &Path,
    places: Vec<Place>,
    projects: BTreeMap<String, BTreeSet<String>>,
    runner: Runner,
) -> Box<dyn BatchSystem> {
    let bin = batch.commands.as_ref().map(|path| base.join(path));
    let output = batch.output.as_ref().map(|path| base.join(path));
    let environment = BTreeMap::new();
    match batch.system {
        SystemName::Slurm => {
            let conf = batch.conf.as_ref().map(|path| base.join(path));
            let usual = slurm::Settings::new(places);
            let accounting = batch.accounting;
            // Where it takes longer it is told again with the next comparison; nobody else waits for that.
            let let_go_within = LET_GO_WITHIN;
            let settings =
                slurm::Settings { conf, bin, accounting, projects, output, let_go_within, ..usual };
            Box::new(Slurm::new(runner, settings))
        }
        SystemName::Pbs => {
            let confirm_within = batch.confirm_within().seconds();
            let usual = pbs::Settings::new(places);
            let conf = batch.conf.as_ref().map(|path| base.join(path));
            Box::new(Pbs::new(runner, pbs::Settings { conf, bin, output, confirm_within, ..usual }))
        }
        SystemName::GridEngine => {
            let usual =
                grid_engine::Settings::new(places, batch.parallel_environment.clone().unwrap_or_default());
            let accounting = batch.accounting.then_some(usual.accounting).flatten();
            Box::new(GridEngine::new(runner, grid_engine::Settings { bin, output, accounting, ..usual }))
        }
        SystemName::Lsf => {
            let settings = lsf::Settings { places, bin, environment, output, ..lsf::Settings::default() };
            Box::new(Lsf::new(runner, settings))
        }
        SystemName::Maui => {
            let (maui_bin, torque_bin) = (bin.clone(), bin);
            Box::new(Maui::new(runner, maui::Settings { places, maui_bin, torque_bin, environment, output }))
        }
    }
}

/// The account that runs programs, if the service runs as root: whoever may submit a job would be root otherwise. Only root can
/// choose; programs of any other service run as that service does.
pub(super) fn job_account(config: &SiteConfig) -> Result<Option<Account>, DaemonError> {
    let wrong = |why: String| Err(DaemonError::JobAccount(format!("jobs.account: {why}")));
    if !config.jobs.processes || !is_root() {
        return Ok(None);
    }
    let Some(name) = config.jobs.account.clone() else {
        return wrong("this service runs as root, and jobs must not; write account = \"…\" in [jobs]".into());
    };
    let Ok(Some(User { uid, gid, dir: home, .. })) = User::from_name(&name) else {
        return wrong(format!("there is no account \"{}\" on this machine", name.escape_debug()));
    };
    if uid.is_root() {
        return wrong("jobs do not run as root; name another account".into());
    }
    Ok(Some(Account { name, user: uid.as_raw(), group: gid.as_raw(), home }))
}

/// Lets jobs of another account reach their folders below the state; they cannot list what is in it.
fn let_through(state: &Path) -> Result<(), DaemonError> {
    use std::os::unix::fs::PermissionsExt as _;
    let failed = |cause| DaemonError::State { path: state.to_owned(), cause };
    let mode = std::fs::metadata(state).map_err(failed)?.permissions().mode();
    std::fs::set_permissions(state, std::fs::Permissions::from_mode(mode | 0o011)).map_err(failed)
}

/// The batch system as it runs jobs from now on; `state` is the folder for programs.
pub(super) fn scheduler(
    config: &SiteConfig,
    base: &Path,
    state: &Path,
    now: Moment,
) -> Result<Builtin, DaemonError> {
    let account = job_account(config)?;
    if account.is_some() {
        let_through(state)?;
    }
    let processes = config.jobs.processes.then(|| Processes::open(state, account)).transpose()?;
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let output = config.jobs.output.as_ref().map(|path| absolute(base.join(path)));
    let processes = processes.map(|processes| processes.with_output(output));
    // Local jobs come from an earlier moment on, so that the machines are not empty.
    let warm_ups = config.resources.iter().filter_map(|resource| resource.jobs.as_ref());
    let earliest = warm_ups.map(|jobs| jobs.warm_up.seconds()).max().unwrap_or(Seconds::ZERO);
    let start = Moment::of(now.second() - earliest);
    let hosted = config.resources.iter().enumerate().map(|(at, resource)| {
        let source = source(resource, base, now).map_err(|wrong| wrong.within(at).within("resource"))?;
        host(resource, source)
    });
    Ok(Builtin::new(hosted.collect::<Result<_, DaemonError>>()?, start.min(now), processes)?)
}

/// One that runs nothing, for whoever only wants to look into the book.
pub(super) fn idle(config: &SiteConfig, now: Moment) -> Result<Builtin, DaemonError> {
    let hosted = config.resources.iter().map(|resource| host(resource, Box::new(Nothing)));
    let hosted = hosted.collect::<Result<_, DaemonError>>()?;
    Builtin::new(hosted, now, None).map_err(|why: LrmsError| why.into())
}

fn host(resource: &Resource<LocalJobs>, source: Box<dyn Source>) -> Result<Hosted, DaemonError> {
    let name = resource.name.as_str().into();
    let (capacity, policy) = (Capacity(resource.capacity), resource.queue_policy()?);
    Ok(Hosted { name, capacity, policy, source })
}

fn source(
    resource: &Resource<LocalJobs>,
    base: &Path,
    now: Moment,
) -> Result<Box<dyn Source>, crate::config::Wrong> {
    let Some(jobs) = &resource.jobs else { return Ok(Box::new(Nothing)) };
    let start = now.second() - jobs.warm_up.seconds();
    jobs.source(resource.capacity, start, base).map_err(|wrong| wrong.within("jobs"))
}
