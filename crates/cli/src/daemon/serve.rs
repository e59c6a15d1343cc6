//! `bookahead site` and `bookahead broker`: run a service from its configuration until it is stopped by a signal or
//! fails. It logs to standard error, as text or JSON. A [`Party`] is the configuration of either kind.

use crate::output::say;
use anyhow::{Context, Result, anyhow, bail};
use bookahead_lrms::batch::Finding;
use bookahead_service::clock::Clock;
use bookahead_service::config::{BrokerConfig, Listeners, SiteConfig};
use bookahead_service::daemon::{self, Compacted, DaemonError, OnLostJournal, Running};
use bookahead_service::http::listener::Listen;
use bookahead_service::journal::Database;
use bookahead_service::thread::Liveness;
use clap::{Args, ValueEnum};
use sd_notify::{NotifyState, watchdog_enabled};
use serde_json::json;
use std::io;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::interval;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Two, so that one task that blocks does not stop all others.
const FEWEST_WORKERS: usize = 2;
/// A service waits for the disk and the network, not for processors: more threads would gain little.
const MOST_WORKERS: usize = 4;

/// Interval between signs of life without a watchdog, which nothing waits for.
const NO_WATCHDOG: Duration = Duration::from_secs(86_400);

#[derive(Args)]
#[command(
    after_help = "SIGTERM or SIGINT stop the service: outstanding requests are answered, and the exit code is 0. \
    SIGHUP reads the configuration again, with keys, certificates, limits and rules; if it is invalid, or changes \
    something that needs a restart, the log says so and nothing changes. If the journal cannot be written, or its \
    lease in PostgreSQL is lost, the service ends with exit code 1; started again, it stands by."
)]
pub(crate) struct Arguments {
    /// Configuration file, in TOML; --print-config shows all options
    #[arg(long, short, value_name = "FILE", required = true)]
    config: Option<PathBuf>,

    /// Listen address: IP address and port (0 for any free port), or unix:PATH [default: from the configuration]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Listen>,

    /// Folder for the journal and jobs, or for local files if the journal is in PostgreSQL [default: from the
    /// configuration]
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,

    /// Check the configuration and the files that it names, then exit
    #[arg(long)]
    check: bool,

    /// Print the complete configuration, with defaults and comments, then exit
    #[arg(long, conflicts_with = "check")]
    print_config: bool,

    /// Trust the system clock although it disagrees with the journal, because you know that it is right. If it is not,
    /// promises end too early
    #[arg(long)]
    trust_clock: bool,

    /// Print the ready message as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    log: LogArguments,
}

impl Arguments {
    /// The configuration, with what the options change.
    fn party(&self, role: Role, config: &Path) -> Result<Party> {
        let mut party = Party::read(role, config)?;
        if let Some(listen) = &self.listen {
            // A path on the command line is relative to the current folder, not to that of the configuration.
            party.listen(listen.below(Path::new("")));
        }
        if let Some(folder) = &self.state {
            party.keep_in(folder)?;
        }
        Ok(party)
    }
}

pub(super) fn run(role: Role, arguments: &Arguments, on_lost_journal: OnLostJournal) -> Result<()> {
    // Clap requires it, except with a subcommand (`site doctor`), which does not get here.
    let Some(config) = &arguments.config else { bail!("the configuration is missing; use --config FILE") };
    let party = arguments.party(role, config)?;
    let whose = || config.display().to_string();
    if arguments.print_config {
        return Ok(stdout().write_all(party.print()?.as_bytes())?);
    }
    if arguments.check {
        party.check().map_err(|why| told(&why)).with_context(whose)?;
        if let Some(why) = daemon::exposed_state(&party.state()) {
            say!("warning: {why}");
        }
        if let Some(why) = party.shared_tokens() {
            say!("warning: {why}");
        }
        return Ok(writeln!(stdout(), "{}: the configuration of {} is valid", whose(), party.name())?);
    }
    // Only a running service logs; the options above print their result and exit.
    arguments.log.begin()?;
    if arguments.trust_clock {
        Clock::trust_at_start();
    }
    let runtime = runtime()?;
    let read_again = || arguments.party(role, config);
    let served = runtime.block_on(serve(&party, read_again, arguments, on_lost_journal));
    // Blocking tasks that are still running must not delay the exit: the service has stopped.
    runtime.shutdown_background();
    served
}

fn runtime() -> Result<Runtime> {
    let processors = std::thread::available_parallelism().map_or(FEWEST_WORKERS, usize::from);
    let workers = processors.clamp(FEWEST_WORKERS, MOST_WORKERS);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(workers).thread_name("bookahead").enable_all().build();
    runtime.context("cannot start threads")
}

async fn serve(
    party: &Party,
    read_again: impl Fn() -> Result<Party>,
    arguments: &Arguments,
    on_lost_journal: OnLostJournal,
) -> Result<()> {
    // Before the start: without a handler, SIGHUP would kill a service that is still starting.
    let mut signals = Signals::new().context("cannot handle signals")?;
    if party.may_stand_by() {
        // A stand-by may wait for days, and systemd would give up on it.
        tell_supervisor(&[NotifyState::Ready]);
    }
    // A signal during the start ends the process at once: nothing is being served yet.
    let mut running = tokio::select! {
        started = party.start(on_lost_journal) => started.map_err(|why| told(&why))?,
        () = signals.end() => return Ok(()),
    };
    announce(&running, arguments.json);
    tell_supervisor(&[NotifyState::Ready]);
    let mut alive = interval(watchdog_enabled().map_or(NO_WATCHDOG, |every| every / 2));
    loop {
        tokio::select! {
            // Without these, systemd restarts a service that has a watchdog and hangs.
            _ = alive.tick() => if running.handle().liveness() == Liveness::Alive {
                tell_supervisor(&[NotifyState::Watchdog]);
            },
            why = running.failed() => {
                // The original failure is reported, not a failure to stop after it.
                let _ = running.stop().await;
                return Err(told(&why));
            }
            signal = signals.next() => match signal {
                Told::Reload => {
                    // With the time, as Type=notify-reload requires.
                    let since = NotifyState::monotonic_usec_now().ok();
                    let reloading: Vec<_> = std::iter::once(NotifyState::Reloading).chain(since).collect();
                    tell_supervisor(&reloading);
                    reload(&mut running, &read_again);
                    tell_supervisor(&[NotifyState::Ready]);
                }
                Told::End => break,
            },
        }
    }
    tracing::info!(event = "stopping", "stopping");
    tell_supervisor(&[NotifyState::Stopping]);
    tokio::select! {
        stopped = running.stop() => stopped.map_err(|why| told(&why)),
        () = signals.end() => Err(anyhow!("stopped by a second signal, without waiting for outstanding requests")),
    }
}

/// Tells systemd about the state of the service, if systemd has started it. It is no loss if that fails.
fn tell_supervisor(state: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(state);
}

/// Reads the configuration again. If it cannot be used, the old one stays in use, and the log says why.
fn reload(running: &mut Running, read_again: impl Fn() -> Result<Party>) {
    let read = read_again().inspect_err(|_| running.note_failed_reload());
    let reloaded = read.and_then(|new| {
        let reloaded = match &new.config {
            Config::Site(config) => running.reload_site(config),
            Config::Broker(config) => running.reload_broker(config),
        };
        reloaded.map_err(|why| told(&why))
    });
    match reloaded {
        Ok(changed) => {
            let changed = if changed.is_empty() { "nothing".to_owned() } else { changed.join(", ") };
            tracing::info!(event = "config_reloaded", changed, "read the configuration and its files again");
        }
        Err(why) => {
            let event = "config_not_reloaded";
            tracing::error!(event, "the old configuration stays in use, and nothing changed: {why:#}");
        }
    }
}

/// Prints one line on standard output when the service is ready, for scripts that start it. A closed standard output is
/// no reason to stop.
fn announce(running: &Running, as_json: bool) {
    let (name, url, role) = (running.name(), running.url(), running.role());
    let mut out = stdout().lock();
    let _ = if as_json {
        writeln!(out, "{}", json!({ "name": name, "url": url, "role": role }))
    } else {
        writeln!(out, "{name} is ready at {url}")
    };
    let _ = out.flush();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    End,
    Reload,
}

/// Signals since its creation.
pub(super) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    pub(super) async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::End,
            _ = self.interrupt.recv() => Told::End,
            _ = self.hang_up.recv() => Told::Reload,
        }
    }

    /// Waits for a signal to end.
    pub(super) async fn end(&mut self) {
        while self.next().await != Told::End {}
    }
}

/// Environment variable with the default of `--log`.
const VARIABLE: &str = "BOOKAHEAD_LOG";
const USUAL: &str = "info";

#[derive(Args)]
pub(super) struct LogArguments {
    /// Log level: error, warn, info, debug or trace, optionally per target, as in warn,audit=info [env: BOOKAHEAD_LOG]
    /// [default: info]
    #[arg(long, value_name = "FILTER", help_heading = "Output")]
    log: Option<String>,

    /// Log format
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
    log_format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Plain lines
    Text,
    /// One JSON object per line
    Json,
}

impl LogArguments {
    /// Installs the logger.
    pub(super) fn begin(&self) -> Result<()> {
        let said = self.log.clone().or_else(|| std::env::var(VARIABLE).ok().filter(|said| !said.is_empty()));
        let said = said.unwrap_or_else(|| USUAL.to_owned());
        let filter = said.parse::<Targets>().with_context(|| {
            format!("invalid log filter \"{said}\"; use error, warn, info, debug or trace")
        })?;
        let (log, lines) = (tracing_subscriber::registry().with(filter), fmt::layer().with_writer(stderr));
        // Fails only if a logger is installed already, which is no reason not to serve.
        let _ = match self.log_format {
            Format::Text => log.with(lines.with_ansi(stderr().is_terminal())).try_init(),
            Format::Json => log.with(lines.json()).try_init(),
        };
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Site,
    Broker,
}

/// A configuration, and the folder that its paths are relative to.
pub(super) struct Party {
    config: Config,
    base: PathBuf,
}

enum Config {
    Site(Box<SiteConfig>),
    Broker(Box<BrokerConfig>),
}

impl Party {
    pub(super) fn read(role: Role, path: &Path) -> Result<Party> {
        let config = match role {
            Role::Site => Config::Site(Box::new(SiteConfig::read(path)?)),
            Role::Broker => Config::Broker(Box::new(BrokerConfig::read(path)?)),
        };
        let base = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Party { config, base })
    }

    /// Reads a configuration of either kind. One with resources is that of a site. One that is not valid TOML is read
    /// as a site's, which reports the error.
    pub(super) fn read_either(path: &Path) -> Result<Party> {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| {
            format!("cannot read {}; use the configuration of a site or broker", path.display())
        })?;
        let table: Option<toml::Table> = toml::from_str(&text).ok();
        let broker = table.is_some_and(|table| !table.contains_key("resource"));
        Party::read(if broker { Role::Broker } else { Role::Site }, path)
    }

    pub(super) fn listen(&mut self, listen: Listen) {
        let listen = Some(Listeners(vec![listen]));
        match &mut self.config {
            Config::Site(config) => config.listen = listen,
            Config::Broker(config) => config.listen = listen,
        }
    }

    /// Sets the state folder. A relative path is resolved against the current folder, not that of the configuration.
    pub(super) fn keep_in(&mut self, folder: &Path) -> Result<()> {
        let (state, local) = match &mut self.config {
            Config::Site(config) => (&mut config.state, &mut config.folder),
            Config::Broker(config) => (&mut config.state, &mut config.folder),
        };
        let is_url = |path: &Path| path.to_str().is_some_and(Database::is_url);
        if is_url(folder) {
            *state = Some(folder.to_owned());
            return Ok(());
        }
        let folder =
            std::path::absolute(folder).with_context(|| format!("invalid folder {}", folder.display()))?;
        // With the journal in a database, the folder is that of the local files.
        *(if state.as_deref().is_some_and(is_url) { local } else { state }) = Some(folder);
        Ok(())
    }

    /// Whether the journal is in a database, so that another process may be active.
    fn may_stand_by(&self) -> bool {
        let state = match &self.config {
            Config::Site(config) => &config.state,
            Config::Broker(config) => &config.state,
        };
        state.as_deref().and_then(Path::to_str).is_some_and(Database::is_url)
    }

    fn state(&self) -> PathBuf {
        match &self.config {
            Config::Site(config) => config.state(&self.base),
            Config::Broker(config) => config.state(&self.base),
        }
    }

    fn shared_tokens(&self) -> Option<String> {
        match &self.config {
            Config::Site(_) => None,
            Config::Broker(config) => daemon::shared_tokens(config),
        }
    }

    pub(super) fn name(&self) -> &str {
        match &self.config {
            Config::Site(config) => &config.name,
            Config::Broker(config) => &config.name,
        }
    }

    pub(super) fn check(&self) -> Result<(), DaemonError> {
        match &self.config {
            Config::Site(config) => daemon::check_site(config, &self.base),
            Config::Broker(config) => daemon::check_broker(config, &self.base),
        }
    }

    /// The findings of `site doctor`. There are none for a broker.
    pub(super) async fn examine(&self) -> Vec<Finding> {
        match &self.config {
            Config::Site(config) => daemon::examine_site(config, &self.base).await,
            Config::Broker(_) => Vec::new(),
        }
    }

    fn print(&self) -> Result<String> {
        let printed = match &self.config {
            Config::Site(config) => config.print(),
            Config::Broker(config) => config.print(),
        };
        printed.context("cannot print the configuration")
    }

    pub(super) async fn start(&self, on_lost_journal: OnLostJournal) -> Result<Running, DaemonError> {
        match &self.config {
            Config::Site(config) => daemon::site(config, &self.base, on_lost_journal).await,
            Config::Broker(config) => daemon::broker(config, &self.base).await,
        }
    }

    pub(super) fn compact(&self) -> Result<Compacted, DaemonError> {
        match &self.config {
            Config::Site(config) => daemon::compact_site(config, &self.base),
            Config::Broker(config) => daemon::compact_broker(config, &self.base),
        }
    }
}

/// The error with its hint. Not as an error source: its message already contains the cause.
pub(super) fn told(why: &DaemonError) -> anyhow::Error {
    match why.hint() {
        Some(hint) => anyhow!("{why}; {hint}"),
        None => anyhow!("{why}"),
    }
}
