//! `bookahead site` and `bookahead broker`: a service from its configuration, until it is told to end or cannot go on. What
//! it tells of itself while it runs are lines on standard error, for people or for programs.
//! A party is a site or a broker from its configuration, whichever was asked for.

use crate::output::say;
use anyhow::{Context, Result, anyhow, bail};
use bookahead_lrms::batch::Finding;
use bookahead_service::config::{BrokerConfig, Listeners, SiteConfig};
use bookahead_service::daemon::{self, Compacted, DaemonError, OnLostJournal, Running};
use bookahead_service::http::listener::Listen;
use clap::{Args, ValueEnum};
use serde_json::json;
use std::io;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::{Path, PathBuf};
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;

/// A service waits for the disk and the network, not for processors.
const FEWEST_WORKERS: usize = 2;
const MOST_WORKERS: usize = 4;

#[derive(Args)]
#[command(
    after_help = "It ends with SIGTERM or SIGINT: requests under way get their answers, and the exit code is 0. \
    With SIGHUP it reads the keys of tokens anew. Where it cannot write its journal it ends with exit code 1."
)]
pub(crate) struct Arguments {
    /// The configuration, in TOML; --print-config shows all that can be in it
    #[arg(long, short, value_name = "FILE", required = true)]
    config: Option<PathBuf>,

    /// Listen here, and not where the configuration says: IP address and port (0 is any free port), or unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Listen>,

    /// Keep the journal and jobs in this folder, and not where the configuration says
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,

    /// Check the configuration and the files that it names, and end
    #[arg(long)]
    check: bool,

    /// Print the configuration complete, with what it takes for granted and comments, and end
    #[arg(long, conflicts_with = "check")]
    print_config: bool,

    /// Say that it is ready as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    log: LogArguments,
}

pub(super) fn run(role: Role, arguments: &Arguments, on_lost_journal: OnLostJournal) -> Result<()> {
    // Only where a subcommand takes its place is there none.
    let Some(config) = &arguments.config else { bail!("the configuration is missing; give --config FILE") };
    let mut party = Party::read(role, config)?;
    if let Some(listen) = &arguments.listen {
        // A path that the user gave begins where the user is, and not at the configuration.
        party.listen(listen.below(Path::new("")));
    }
    if let Some(folder) = &arguments.state {
        party.keep_in(folder)?;
    }
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
        return Ok(writeln!(stdout(), "{}: nothing is wrong with {}", whose(), party.name())?);
    }
    arguments.log.begin()?;
    let runtime = runtime()?;
    let served = runtime.block_on(serve(&party, arguments, on_lost_journal));
    // What still blocks has nothing to say any more.
    runtime.shutdown_background();
    served
}

fn runtime() -> Result<Runtime> {
    let processors = std::thread::available_parallelism().map_or(FEWEST_WORKERS, usize::from);
    let workers = processors.clamp(FEWEST_WORKERS, MOST_WORKERS);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(workers).thread_name("bookahead").enable_all().build();
    runtime.context("the system gives no threads")
}

async fn serve(party: &Party, arguments: &Arguments, on_lost_journal: OnLostJournal) -> Result<()> {
    let mut signals = Signals::new().context("the system does not tell of signals")?;
    let mut running = tokio::select! {
        started = party.start(on_lost_journal) => started.map_err(|why| told(&why))?,
        () = signals.end() => return Ok(()),
    };
    announce(&running, arguments.json);
    loop {
        tokio::select! {
            why = running.failed() => {
                // It is over anyhow; what failed is what counts.
                let _ = running.stop().await;
                return Err(told(&why));
            }
            signal = signals.next() => match signal {
                Told::Reload => running.reload(),
                Told::End => break,
            },
        }
    }
    tracing::info!("ends");
    tokio::select! {
        stopped = running.stop() => stopped.map_err(|why| told(&why)),
        () = signals.end() => Err(anyhow!("told to end twice, and ended without waiting for requests under way")),
    }
}

/// One line, so that whoever started it knows when to ask. It serves also where nobody reads it.
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

/// Everything that is told from now on.
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

    /// Waits until it is told to end.
    pub(super) async fn end(&mut self) {
        while self.next().await != Told::End {}
    }
}

/// Where the filter comes from if no option gives it.
const VARIABLE: &str = "BOOKAHEAD_LOG";
const USUAL: &str = "info";

#[derive(Args)]
pub(super) struct LogArguments {
    /// What is logged: error, warn, info, debug or trace, also for parts alone, as in warn,audit=info [env:
    /// BOOKAHEAD_LOG] [default: info]
    #[arg(long, value_name = "FILTER", help_heading = "Output")]
    log: Option<String>,

    /// How it is logged
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
    log_format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Lines for people
    Text,
    /// One JSON document a line
    Json,
}

impl LogArguments {
    /// Logs from now on.
    pub(super) fn begin(&self) -> Result<()> {
        let said = self.log.clone().or_else(|| std::env::var(VARIABLE).ok().filter(|said| !said.is_empty()));
        let said = said.unwrap_or_else(|| USUAL.to_owned());
        let filter = EnvFilter::builder().parse(&said);
        let filter = filter.with_context(|| {
            format!("\"{said}\" is no filter of the log; give error, warn, info, debug or trace")
        })?;
        let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
        // A second one in this process would be a defect of ours, and is no reason not to serve.
        let _ = match self.log_format {
            Format::Text => lines.with_ansi(stderr().is_terminal()).try_init(),
            Format::Json => lines.json().try_init(),
        };
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Site,
    Broker,
}

/// A configuration, and the folder that its paths begin at.
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

    /// Reads a configuration that may be of either: one that describes resources is a site's.
    pub(super) fn read_either(path: &Path) -> Result<Party> {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| {
            format!("{} cannot be read; give the configuration of a site or broker", path.display())
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

    /// Keeps its state elsewhere; a path that the user gave begins where he is.
    pub(super) fn keep_in(&mut self, folder: &Path) -> Result<()> {
        let folder =
            std::path::absolute(folder).with_context(|| format!("{} is no folder", folder.display()))?;
        match &mut self.config {
            Config::Site(config) => config.state = Some(folder),
            Config::Broker(config) => config.state = Some(folder),
        }
        Ok(())
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

    /// Everything that it needs, looked at. A broker is examined by its sites.
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
        printed.context("the configuration cannot be printed")
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

/// An error with what can be done about it. It says itself what caused it.
pub(super) fn told(why: &DaemonError) -> anyhow::Error {
    match why.hint() {
        Some(hint) => anyhow!("{why}; {hint}"),
        None => anyhow!("{why}"),
    }
}
