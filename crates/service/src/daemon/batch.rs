//! Creates the batch system of a site from its configuration, or the built-in scheduler with simulated local jobs
//! or real programs.

use super::DaemonError;
use crate::config::{BatchConfig, LocalJobs, Resource, SiteConfig, SshConfig, SystemName};
use crate::journal::Lease;
use crate::security::is_root;
use bookahead_lrms::batch::{Accounts, BatchSystem, Place, Projects, Settings};
use bookahead_lrms::builtin::sources::{Nothing, Source};
use bookahead_lrms::builtin::{Account, Hosted, Processes};
use bookahead_lrms::command::{Command, Runner, Ssh};
use bookahead_lrms::grid_engine::GridEngine;
use bookahead_lrms::lsf::Lsf;
use bookahead_lrms::maui::Maui;
use bookahead_lrms::output::{BatchOutputs, ProcessOutputs};
use bookahead_lrms::pbs::Pbs;
use bookahead_lrms::slurm::Slurm;
use bookahead_lrms::{Batch, Builtin, LrmsError, grid_engine, lsf, maui, pbs, slurm};
use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::Moment;
use nix::unistd::User;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Folder of the ssh control sockets, in the state folder.
const CONNECTIONS: &str = "ssh";

/// How long to wait for Slurm to release a reservation after its jobs were cancelled.
const LET_GO_WITHIN: Duration = Duration::from_secs(3);

/// Commands in progress that read the output of jobs. They must not crowd out those of the batch system.
const OUTPUTS_AT_ONCE: usize = 4;

/// A batch system, and the runner of its commands, which measures their duration.
pub(super) struct Driven {
    pub(super) batch: Batch,
    pub(super) runner: Runner,
    pub(super) outputs: BatchOutputs,
}

/// Connects to the batch system of a site. `state` is the state folder. May run commands and wait for them.
pub(super) async fn driven(
    config: &SiteConfig,
    batch: &BatchConfig,
    base: &Path,
    state: &Path,
    lease: &Lease,
) -> Result<Driven, DaemonError> {
    let (config, batch, base, state) = (config.clone(), batch.clone(), base.to_owned(), state.to_owned());
    let lease = lease.clone();
    let made = tokio::task::spawn_blocking(move || drive(&config, &batch, &base, &state, lease)).await;
    made.map_err(|_| DaemonError::Task)?
}

fn drive(
    config: &SiteConfig,
    batch: &BatchConfig,
    base: &Path,
    state: &Path,
    lease: Lease,
) -> Result<Driven, DaemonError> {
    // Before the lease is taken only the batch system's settings are read, and no orders are given.
    let may_start = move |timeout| lease.epoch() == 0 || lease.allows(timeout);
    let runner = runner(batch, base, state)?.permitted_by(may_start);
    let places = config.resources.iter().map(|resource| {
        let place = resource.batch.clone().unwrap_or_default().place(&resource.name);
        (place, Capacity(resource.capacity))
    });
    let places: Vec<(Place, Capacity)> = places.collect();
    let accounts = accounts(batch, &runner)?;
    let named: Vec<Place> = places.iter().map(|(place, _)| place.clone()).collect();
    let projects = projects(batch);
    let reading = self::runner(batch, base, state)?.at_most(OUTPUTS_AT_ONCE);
    let told = system(batch, base, Vec::clone(&named), BTreeMap::new(), reading.clone());
    let folder = batch.output.as_ref().map(|path| base.join(path));
    let outputs = BatchOutputs::new(told, reading, accounts.clone(), folder);
    let system = system(batch, base, named, projects.members(&accounts), runner.clone());
    let end_jobs_early = batch.end_jobs_early.seconds();
    let (qos, maintenance) = (batch.qos.clone(), config.windows()?);
    let offers = config.resources.iter().map(|resource| (resource.name.as_str().into(), resource.tres()));
    let settings = Settings {
        tres: offers.filter(|(_, tres)| !tres.is_empty()).collect(),
        projects,
        qos,
        end_jobs_early,
        maintenance,
        ..Settings::new(config.name.as_str().into(), places, accounts)
    };
    Ok(Driven { batch: Batch::new(system, settings)?, runner, outputs })
}

/// Longest timeout of a command: those that wait until Slurm has released a reservation get more time.
pub(super) fn longest_command(batch: &BatchConfig) -> Duration {
    batch.time_out.duration() + LET_GO_WITHIN
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
    // The path of a Unix socket is limited. Without a control socket, every command opens a connection of its own.
    let fits = folder.as_os_str().len() <= bookahead_lrms::command::LONGEST_CONTROL_FOLDER;
    if !fits {
        tracing::warn!(
            event = "ssh_socket_path_too_long",
            "{} is too long for an ssh control socket, so every command opens its own connection; set a shorter state",
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

/// Accounts for commands: those of the owners with `become`, otherwise one account for all.
fn accounts(batch: &BatchConfig, runner: &Runner) -> Result<Accounts, DaemonError> {
    if !batch.r#become.is_empty() {
        return Ok(Accounts::Owners { map: batch.accounts.clone() });
    }
    if let Some(account) = &batch.account {
        return Ok(Accounts::Service(account.clone()));
    }
    // The account must be known, because ownership of jobs and reservations is compared with it. It may be on
    // another host.
    let outcome = runner.run(&Command::new("id").arg("-un"))?;
    let account = outcome.out.trim();
    if !outcome.is_success() || account.is_empty() {
        let why = format!(
            "cannot find the account that runs commands: id -un failed ({}); write account = \"…\" in [batch]",
            outcome.said()
        );
        return Err(LrmsError::Misconfigured(why).into());
    }
    Ok(Accounts::Service(account.to_owned()))
}

/// Projects of owners.
pub(super) fn projects(batch: &BatchConfig) -> Projects {
    Projects { usual: batch.project.clone(), map: batch.projects.clone() }
}

/// Creates the dialect. `projects` maps each project to its known users.
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
            // If it takes longer, the next comparison tries again.
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

/// The account that runs programs if the service runs as root. Without it, any user who may submit a job could run
/// it as root. If the service does not run as root, programs run as the service.
pub(super) fn job_account(config: &SiteConfig) -> Result<Option<Account>, DaemonError> {
    let wrong = |why: String| Err(DaemonError::JobAccount(format!("jobs.account: {why}")));
    if !config.jobs.processes || !is_root() {
        return Ok(None);
    }
    let Some(name) = config.jobs.account.clone() else {
        return wrong("this service runs as root, but jobs must not; write account = \"…\" in [jobs]".into());
    };
    let Ok(Some(User { uid, gid, dir: home, .. })) = User::from_name(&name) else {
        return wrong(format!("there is no account \"{}\" on this machine", name.escape_debug()));
    };
    if uid.is_root() {
        return wrong("jobs must not run as root; set another account".into());
    }
    Ok(Some(Account { name, user: uid.as_raw(), group: gid.as_raw(), home }))
}

/// Lets jobs of another account pass through the state folder to their own folders, without listing it.
fn let_through(state: &Path) -> Result<(), DaemonError> {
    use std::os::unix::fs::PermissionsExt as _;
    let failed = |cause| DaemonError::State { path: state.to_owned(), cause };
    let mode = std::fs::metadata(state).map_err(failed)?.permissions().mode();
    std::fs::set_permissions(state, std::fs::Permissions::from_mode(mode | 0o011)).map_err(failed)
}

/// The built-in scheduler, and the output of its programs. `state` is the folder for programs.
pub(super) fn scheduler(
    config: &SiteConfig,
    base: &Path,
    state: &Path,
    now: Moment,
) -> Result<(Builtin, Option<ProcessOutputs>), DaemonError> {
    let account = job_account(config)?;
    if account.is_some() {
        let_through(state)?;
    }
    let processes = config.jobs.processes.then(|| Processes::open(state, account)).transpose()?;
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let output = config.jobs.output.as_ref().map(|path| absolute(base.join(path)));
    let processes = processes.map(|processes| processes.with_output(output));
    let outputs = processes.as_ref().map(Processes::outputs);
    // Local jobs start in the past, so that the machines are busy at the start.
    let warm_ups = config.resources.iter().filter_map(|resource| resource.jobs.as_ref());
    let earliest = warm_ups.map(|jobs| jobs.warm_up.seconds()).max().unwrap_or(Seconds::ZERO);
    let start = Moment::of(now.second() - earliest);
    let hosted = config.resources.iter().enumerate().map(|(at, resource)| {
        let source = source(resource, base, now).map_err(|wrong| wrong.within(at).within("resource"))?;
        host(config, resource, source)
    });
    let hosted = hosted.collect::<Result<_, DaemonError>>()?;
    Ok((Builtin::new(hosted, start.min(now), processes)?, outputs))
}

/// A scheduler without jobs, for checks that do not start the site.
pub(super) fn idle(config: &SiteConfig, now: Moment) -> Result<Builtin, DaemonError> {
    let hosted = config.resources.iter().map(|resource| host(config, resource, Box::new(Nothing)));
    let hosted = hosted.collect::<Result<_, DaemonError>>()?;
    Builtin::new(hosted, now, None).map_err(|why: LrmsError| why.into())
}

fn host(
    config: &SiteConfig,
    resource: &Resource<LocalJobs>,
    source: Box<dyn Source>,
) -> Result<Hosted, DaemonError> {
    let classes = config.priorities.iter();
    let priorities = classes.map(|(name, class)| (name.as_str().into(), class.number)).collect();
    let name = resource.name.as_str().into();
    let (capacity, policy) = (Capacity(resource.capacity), resource.queue_policy()?);
    let maintenance = config.windows()?;
    Ok(Hosted { name, capacity, policy, priorities, source, maintenance })
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
