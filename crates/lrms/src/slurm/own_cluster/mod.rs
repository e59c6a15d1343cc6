//! A small private Slurm cluster: munged, slurmctld and one slurmd for each node, as children of this process, in one
//! folder, on free ports, under the current account. Nothing outside the folder is changed. For demonstrations and
//! tests; all nodes run on this machine.
//!
//! It needs Debian's packages (or a Slurm elsewhere, see [`OwnClusterSettings::programs`]). When it is stopped or
//! dropped, all its processes end, including jobs; also if this process is killed.

mod config;
mod daemons;

use crate::command::{Command, Runner};
use crate::error::LrmsError;
use config::Ports;
use daemons::Guard;
use daemons::{Daemon, Programs};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long to wait for all nodes: fifty slurmds on a busy machine need some of it.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Attempts to start: another process may take a free port before its daemon does.
const ATTEMPTS: usize = 3;

/// First version that uses control groups unless they are disabled.
const USES_CONTROL_GROUPS: (u32, u32) = (22, 11);

/// Settings of a private cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnClusterSettings {
    /// Letters and digits.
    pub name: String,
    /// Its folder, created if missing. The path must be short, as sockets are created in it.
    pub folder: PathBuf,
    /// Number of nodes, called `n1`, `n2` and so on, all in the partition `main`.
    pub nodes: u32,
    /// Cores of each node.
    pub cores_per_node: u32,
    /// Hardware threads of each core.
    pub threads_per_core: u32,
    /// Additional lines for slurm.conf, such as further partitions.
    pub extra: Vec<String>,
    /// GPUs of single nodes, by the number of the node: type and count. Plain files stand for the devices.
    pub gpus: BTreeMap<u32, (String, u32)>,
    /// Folder with Slurm's `bin` and `sbin`; None for the installed Slurm.
    pub programs: Option<PathBuf>,
}

/// A running private cluster. Dropping it ends all its processes.
#[derive(Debug)]
pub struct OwnCluster {
    settings: OwnClusterSettings,
    programs: Programs,
    munged: Daemon,
    controller: Daemon,
    /// Running nodes.
    nodes: BTreeMap<String, Daemon>,
    runner: Runner,
    _guard: Guard,
}

/// Why a private cluster could not be started or used.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum OwnClusterError {
    /// A required program is missing.
    #[error(
        "{program} is not installed; install Debian's packages slurmctld, slurmd, slurm-client and munge"
    )]
    NotInstalled { program: String },
    /// The path of the folder leaves no room for sockets.
    #[error(
        "the path {} is too long by {by} characters for the sockets in it; take a shorter one, such as \
         /tmp/c1", folder.display()
    )]
    FolderTooLong { folder: PathBuf, by: usize },
    /// The settings are invalid.
    #[error("the settings of the cluster are invalid: {0}")]
    Malformed(String),
    /// A daemon exited, or was not ready in time.
    #[error("{daemon} {what}; the last lines of its log:\n{log}")]
    Daemon { daemon: String, what: String, log: String },
    /// A command failed.
    #[error(transparent)]
    Command(#[from] LrmsError),
}

impl OwnClusterSettings {
    /// Defaults: two nodes with four cores each.
    pub fn new(name: impl Into<String>, folder: impl Into<PathBuf>) -> OwnClusterSettings {
        OwnClusterSettings {
            name: name.into(),
            folder: folder.into(),
            nodes: 2,
            cores_per_node: 4,
            threads_per_core: 1,
            extra: Vec::new(),
            gpus: BTreeMap::new(),
            programs: None,
        }
    }
}

impl OwnCluster {
    /// Starts the cluster and waits until all nodes are idle.
    pub fn start(settings: &OwnClusterSettings) -> Result<OwnCluster, OwnClusterError> {
        config::check(settings)?;
        let programs = Programs::find(settings.programs.as_deref())?;
        config::make_folders(&settings.folder)?;
        // Processes are recognised by their working folder, which the system reports without symbolic links.
        let folder =
            fs::canonicalize(&settings.folder).map_err(LrmsError::files("find", &settings.folder))?;
        let settings = OwnClusterSettings { folder, ..settings.clone() };
        // Once more, as the path without links may be longer.
        config::check(&settings)?;
        let mut attempt = 1;
        loop {
            match OwnCluster::try_to_start(&settings, &programs) {
                Err(OwnClusterError::Daemon { log, .. })
                    if attempt < ATTEMPTS && log.contains("Address already in use") =>
                {
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    fn try_to_start(
        settings: &OwnClusterSettings,
        programs: &Programs,
    ) -> Result<OwnCluster, OwnClusterError> {
        let runner = Runner::local(READY_WITHIN);
        let ports = Ports::free(settings.nodes)?;
        config::write(settings, &ports, &runner)?;
        let folder = &settings.folder;
        if programs.version(&runner)? >= USES_CONTROL_GROUPS {
            config::disable_control_groups(folder)?;
        }
        // The guard goes first, so that no daemon can outlive us.
        let guard = Guard::of(folder)?;
        let munged = programs.munged(folder)?;
        let controller = programs.controller(folder)?;
        let (settings, programs, nodes) = (settings.clone(), programs.clone(), BTreeMap::new());
        let count = settings.nodes;
        let mut cluster = OwnCluster { settings, programs, munged, controller, nodes, runner, _guard: guard };
        (1..=count).try_for_each(|node| cluster.start_node(&format!("n{node}")))?;
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    /// Environment variables for Slurm's commands.
    pub fn environment(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("SLURM_CONF".into(), self.conf().display().to_string())])
    }

    /// Path of its configuration, for `SLURM_CONF`.
    pub fn conf(&self) -> PathBuf {
        config::conf(&self.settings.folder)
    }

    /// Folder of its commands; None for `PATH`.
    pub fn commands(&self) -> Option<PathBuf> {
        self.settings.programs.as_ref().map(|folder| folder.join("bin"))
    }

    /// Its folder, without symbolic links.
    pub fn folder(&self) -> &Path {
        &self.settings.folder
    }

    /// The account that administers it, and the only one that can run jobs.
    pub fn account(&self) -> Result<String, OwnClusterError> {
        config::account(&self.runner)
    }

    /// Stops the controller; nodes and jobs continue.
    pub fn stop_controller(&mut self) {
        self.controller.end();
    }

    /// Restarts the controller and waits until it knows all running nodes again.
    pub fn start_controller(&mut self) -> Result<(), OwnClusterError> {
        self.controller.end();
        self.controller = self.programs.controller(&self.settings.folder)?;
        self.wait_until(|state| !state.contains("UNKNOWN") && !state.ends_with('*'))
    }

    /// Kills the daemon of a node. Slurm shows the node as down after its `SlurmdTimeout`; its jobs continue.
    pub fn stop_node(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// Starts the daemon of a node. The node is back once it has registered with the controller.
    pub fn start_node(&mut self, node: &str) -> Result<(), OwnClusterError> {
        self.stop_node(node);
        let daemon = self.programs.node(&self.settings.folder, node)?;
        self.nodes.insert(node.to_owned(), daemon);
        Ok(())
    }

    /// Sets the state of a node: `down`, `drain` or `resume`.
    pub fn set_node(&self, node: &str, state: &str) -> Result<(), OwnClusterError> {
        let words = ["update".to_owned(), format!("NodeName={node}"), format!("State={state}")];
        self.run(self.command("scontrol").args(words).arg("Reason=set by bookahead"))?;
        Ok(())
    }

    /// Stops all processes, including jobs. The folder remains.
    pub fn stop(mut self) {
        self.end();
    }

    /// A command of Slurm for this cluster.
    pub fn command(&self, name: &str) -> Command {
        let program = self.commands().map_or(name.to_owned(), |bin| bin.join(name).display().to_string());
        let command = Command::new(program);
        self.environment().into_iter().fold(command, |command, (name, value)| command.env(name, value))
    }

    fn run(&self, command: Command) -> Result<String, OwnClusterError> {
        let outcome = self.runner.run(&command)?;
        if outcome.is_success() {
            return Ok(outcome.out);
        }
        let said = outcome.said().to_owned();
        Err(LrmsError::Failed { command: command.program, code: outcome.code, said }.into())
    }

    fn wait_until_ready(&mut self) -> Result<(), OwnClusterError> {
        self.wait_until(|state| state == "IDLE")
    }

    /// Waits until all running nodes have a state that `is_right` accepts.
    fn wait_until(&mut self, is_right: impl Fn(&str) -> bool) -> Result<(), OwnClusterError> {
        let deadline = Instant::now() + READY_WITHIN;
        let mut seen = String::from("no state of the nodes is known");
        while Instant::now() < deadline {
            self.munged.check()?;
            self.controller.check()?;
            self.nodes.values_mut().try_for_each(Daemon::check)?;
            // Ask only after the controller listens: commands wait long for one that does not answer.
            if self.controller.log().contains("Running as primary controller") {
                seen = self.run(self.command("scontrol").args(["-o", "show", "nodes"]))?;
                let mut running = states(&seen).filter(|(node, _)| self.nodes.contains_key(*node));
                if running.all(|(_, state)| is_right(state)) {
                    return Ok(());
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let what = format!("is not ready after {READY_WITHIN:?}: {:?}", states(&seen).collect::<Vec<_>>());
        Err(OwnClusterError::Daemon { daemon: "slurmctld".into(), what, log: self.controller.log_end() })
    }

    fn end(&mut self) {
        // Nodes first, so that the controller starts nothing more on them. The guard kills what jobs leave behind.
        self.nodes.clear();
        self.controller.kill();
        self.munged.kill();
    }
}

impl Drop for OwnCluster {
    fn drop(&mut self) {
        self.end();
    }
}

fn states(nodes: &str) -> impl Iterator<Item = (&str, &str)> {
    nodes.lines().filter_map(|line| {
        let name = line.strip_prefix("NodeName=")?.split(' ').next()?;
        Some((name, line.split_once(" State=")?.1.split(' ').next()?))
    })
}

/// Creates a folder, with its parents, that only our account can read.
fn private_folder(path: &Path) -> Result<(), OwnClusterError> {
    use std::os::unix::fs::DirBuilderExt;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| LrmsError::files("make the folder", path)(source).into())
}
