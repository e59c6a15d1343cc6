//! A small Slurm of our own: munged, slurmctld and one slurmd for each node, as children of this process, in one folder, on
//! ports that were free, as whoever runs it. Nothing outside the folder is touched. For demonstrations and tests; the
//! nodes are made up and all run on this machine.
//!
//! It relies on Debian's packages (or a Slurm in another place, see [`OwnClusterSettings::programs`]). When it is
//! stopped or dropped, all its processes end, jobs included; also where this process is killed.

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

/// So long may it take until all nodes are ready: fifty slurmds on a busy machine need some of it.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A port that was free may be taken by somebody else before its daemon asks for it.
const ATTEMPTS: usize = 3;

/// What the cluster is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnClusterSettings {
    /// Its name: letters and digits.
    pub name: String,
    /// Where it lives; made if it is not there. A short path: sockets are made in it.
    pub folder: PathBuf,
    /// So many nodes, called `n1`, `n2` and so on, all in the partition `main`.
    pub nodes: u32,
    /// Each with so many cores.
    pub cores_per_node: u32,
    /// Each core with so many hardware threads.
    pub threads_per_core: u32,
    /// More lines for slurm.conf, such as further partitions.
    pub extra: Vec<String>,
    /// A folder that has Slurm's `bin` and `sbin`; None for the Slurm that is installed.
    pub programs: Option<PathBuf>,
}

/// A Slurm that runs.
#[derive(Debug)]
pub struct OwnCluster {
    settings: OwnClusterSettings,
    programs: Programs,
    munged: Daemon,
    controller: Daemon,
    /// Those that run.
    nodes: BTreeMap<String, Daemon>,
    runner: Runner,
    _guard: Guard,
}

/// Why there is no such cluster.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum OwnClusterError {
    /// A program is not there.
    #[error(
        "{program} is not installed; install Debian's packages slurmctld, slurmd, slurm-client and munge"
    )]
    NotInstalled { program: String },
    /// Sockets could not be made in the folder.
    #[error(
        "the folder {} is too long by {by} characters for the sockets in it; take a shorter one, such as /tmp/c1", folder.display()
    )]
    FolderTooLong { folder: PathBuf, by: usize },
    /// It cannot be as it is asked for.
    #[error("a cluster cannot be like that: {0}")]
    Malformed(String),
    /// A daemon ended, or is not ready in time.
    #[error("{daemon} {what}; the last lines of its log:\n{log}")]
    Daemon { daemon: String, what: String, log: String },
    /// A command of it could not be run.
    #[error(transparent)]
    Command(#[from] LrmsError),
}

impl OwnClusterSettings {
    /// A cluster in that folder: two nodes with four cores.
    pub fn new(name: impl Into<String>, folder: impl Into<PathBuf>) -> OwnClusterSettings {
        OwnClusterSettings {
            name: name.into(),
            folder: folder.into(),
            nodes: 2,
            cores_per_node: 4,
            threads_per_core: 1,
            extra: Vec::new(),
            programs: None,
        }
    }
}

impl OwnCluster {
    /// Starts it, and waits until all nodes are idle.
    pub fn start(settings: &OwnClusterSettings) -> Result<OwnCluster, OwnClusterError> {
        config::check(settings)?;
        let programs = Programs::find(settings.programs.as_deref())?;
        config::make_folders(&settings.folder)?;
        // Processes are known by the folder that they are in, and that is told without symbolic links.
        let folder =
            fs::canonicalize(&settings.folder).map_err(LrmsError::files("find", &settings.folder))?;
        let settings = OwnClusterSettings { folder, ..settings.clone() };
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
        config::write(settings, &ports, programs, &runner)?;
        let folder = &settings.folder;
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

    /// The variables with which Slurm's commands speak to it.
    pub fn environment(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("SLURM_CONF".into(), self.conf().display().to_string())])
    }

    /// Its configuration, as `SLURM_CONF` wants it.
    pub fn conf(&self) -> PathBuf {
        config::conf(&self.settings.folder)
    }

    /// Where its commands are, if not in `PATH`.
    pub fn commands(&self) -> Option<PathBuf> {
        self.settings.programs.as_ref().map(|folder| folder.join("bin"))
    }

    /// Where it lives.
    pub fn folder(&self) -> &Path {
        &self.settings.folder
    }

    /// Whose it is: the account that may do everything in it, and the only one that has jobs.
    pub fn account(&self) -> Result<String, OwnClusterError> {
        config::account(&self.runner)
    }

    /// Ends the controller; nodes and jobs go on.
    pub fn stop_controller(&mut self) {
        self.controller.end();
    }

    /// Starts the controller again, where it was stopped, and waits until all nodes that run are known again.
    pub fn start_controller(&mut self) -> Result<(), OwnClusterError> {
        self.controller.end();
        self.controller = self.programs.controller(&self.settings.folder)?;
        self.wait_until(|state| !state.contains("UNKNOWN") && !state.ends_with('*'))
    }

    /// Kills the daemon of a node. Slurm shows it as down after its `SlurmdTimeout`; jobs on it go on.
    pub fn stop_node(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// Starts the daemon of a node. It is back once Slurm has heard of it.
    pub fn start_node(&mut self, node: &str) -> Result<(), OwnClusterError> {
        self.stop_node(node);
        let daemon = self.programs.node(&self.settings.folder, node)?;
        self.nodes.insert(node.to_owned(), daemon);
        Ok(())
    }

    /// Sets a node `down`, to `drain` or to `resume`.
    pub fn set_node(&self, node: &str, state: &str) -> Result<(), OwnClusterError> {
        let words = ["update".to_owned(), format!("NodeName={node}"), format!("State={state}")];
        self.run(self.command("scontrol").args(words).arg("Reason=as it was asked for"))?;
        Ok(())
    }

    /// Ends all of it, jobs included. Its folder stays.
    pub fn stop(mut self) {
        self.end();
    }

    /// A command of this Slurm that speaks to this cluster.
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

    /// Waits until the states of all nodes that run are as they should be.
    fn wait_until(&mut self, is_right: impl Fn(&str) -> bool) -> Result<(), OwnClusterError> {
        let deadline = Instant::now() + READY_WITHIN;
        let mut seen = String::from("nothing was seen of the nodes");
        while Instant::now() < deadline {
            self.munged.check()?;
            self.controller.check()?;
            self.nodes.values_mut().try_for_each(Daemon::check)?;
            // A controller that does not listen yet is asked only once it does: commands wait long for one that is silent.
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
        // Nodes first, so that the controller starts nothing on them any more. The guard ends what jobs left.
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

/// The names of nodes and their states.
fn states(nodes: &str) -> impl Iterator<Item = (&str, &str)> {
    nodes.lines().filter_map(|line| {
        let name = line.strip_prefix("NodeName=")?.split(' ').next()?;
        Some((name, line.split_once(" State=")?.1.split(' ').next()?))
    })
}

/// Makes a folder that only we can read, with all above it.
fn private_folder(path: &Path) -> Result<(), OwnClusterError> {
    use std::os::unix::fs::DirBuilderExt;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| LrmsError::files("make the folder", path)(source).into())
}
