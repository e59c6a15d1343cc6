//! Chunks as jobs of a batch system: arrays of Slurm, tasks of HyperQueue. Each job is this program with `sweep chunk`.
//! Commands run here or over ssh, by the runner of the adapters; the folder of the sweep must have the same path there.

use super::chunk::unfinished;
use super::description::text_of;
use super::store::{Store, Submitted};
use crate::output::{Progress, say};
use anyhow::{Context, Result, bail, ensure};
use bookahead_lrms::command::{Command, Runner, Ssh, quoted};
use bookahead_service::config::SshConfig;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// Settings of a batch system in the description of a sweep.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// More options of `sbatch` or `hq submit`.
    options: Vec<String>,
    /// Cores of each chunk.
    cpus: u32,
    /// This program, on the nodes. Default: the path of the one that runs.
    program: Option<String>,
    /// Folder of the commands. Default: `PATH`.
    commands: Option<PathBuf>,
    /// Variables of the commands, such as `SLURM_CONF` or `HQ_SERVER_DIR`.
    environment: BTreeMap<String, String>,
    /// The host on which commands run. Default: this one.
    ssh: Option<SshConfig>,
}

impl Default for Settings {
    fn default() -> Settings {
        let (options, environment) = (Vec::new(), BTreeMap::new());
        Settings { options, cpus: 1, program: None, commands: None, environment, ssh: None }
    }
}

/// A batch system that runs chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum System {
    Slurm,
    HyperQueue,
}

/// Most tasks in an array of Slurm: its default limit (`MaxArraySize` of slurm.conf(5) is 1001, and task numbers are
/// below it).
const MOST_IN_ARRAY: usize = 1_000;
/// Time for a command to answer. A busy controller may need many seconds.
const TIME_OUT: Duration = Duration::from_secs(60);
/// Time between two looks at the batch system, at first and at most: the first results come soon, and a day of looks
/// should not load a controller.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// Looks that may fail in a row. With the longest time between them these are several minutes.
const MOST_FAILED_LOOKS: usize = 20;
/// Looks after the last job ended until a chunk counts as dead: a network file system shows new files late.
const LOOKS_AFTER_END: usize = 4;

/// A batch system, and how to reach it.
pub(crate) struct Batch {
    system: System,
    settings: Settings,
    runner: Runner,
    /// Socket of the ssh connection.
    _control: Option<TempDir>,
}

impl System {
    pub(crate) fn name(self) -> &'static str {
        match self {
            System::Slurm => "slurm",
            System::HyperQueue => "hyperqueue",
        }
    }

    pub(crate) fn named(name: &str) -> Option<System> {
        [System::Slurm, System::HyperQueue].into_iter().find(|system| system.name() == name)
    }
}

impl Batch {
    pub(crate) fn new(system: System, store: &Store) -> Result<Batch> {
        let sweep = &store.sweep;
        let settings = match system {
            System::Slurm => sweep.slurm.clone(),
            System::HyperQueue => sweep.hyperqueue.clone(),
        };
        ensure!((1..=4096).contains(&settings.cpus), "cpus of [{}] must be 1 to 4096", system.name());
        let (runner, control) = match &settings.ssh {
            None => (Runner::local(TIME_OUT), None),
            Some(ssh) => {
                let control = tempfile::tempdir()?;
                let ssh = Ssh {
                    user: ssh.user.clone(),
                    port: ssh.port,
                    key_file: ssh.key.clone(),
                    known_hosts: ssh.known_hosts.clone(),
                    control_folder: Some(control.path().to_owned()),
                    ..Ssh::to(&*ssh.host)
                };
                (Runner::ssh(ssh, TIME_OUT)?, Some(control))
            }
        };
        let runner = runner.with_environment(settings.environment.clone());
        Ok(Batch { system, settings, runner, _control: control })
    }

    fn command(&self, name: &str) -> Command {
        let program = self.settings.commands.as_ref().map(|folder| folder.join(name));
        Command::new(program.map_or(name.to_owned(), |path| path.to_string_lossy().into_owned()))
    }

    fn run(&self, command: &Command) -> Result<String> {
        let outcome = self.runner.run(command)?;
        ensure!(outcome.is_success(), "{}: {}", command.program, outcome.said());
        Ok(outcome.out)
    }

    /// Submits all chunks, and returns the numbers of the jobs.
    pub(crate) fn submit(&self, store: &Store) -> Result<Vec<String>> {
        let program = match &self.settings.program {
            Some(program) => program.clone(),
            None => text_of(&std::env::current_exe()?)?,
        };
        let threads = format!("--threads={}", self.settings.cpus);
        let words = [program, "sweep".into(), "chunk".into(), threads, text_of(&store.root)?];
        match self.system {
            System::Slurm => self.submit_arrays(store, &words),
            System::HyperQueue => self.submit_tasks(store, &words).map(|job| vec![job]),
        }
    }

    fn submit_arrays(&self, store: &Store, words: &[String]) -> Result<Vec<String>> {
        let words: Option<Vec<String>> = words.iter().map(|word| quoted(word)).collect();
        let line = words.context("a path contains a NUL byte")?.join(" ");
        let mut jobs: Vec<String> = Vec::new();
        for first in (0..store.chunks()).step_by(MOST_IN_ARRAY) {
            let last = (store.chunks() - first).min(MOST_IN_ARRAY) - 1;
            let script = format!("#!/bin/sh\nexec {line} \"$((SLURM_ARRAY_TASK_ID + {first}))\"\n");
            // A requeued chunk continues behind the last run in its log.
            let command = self.command("sbatch").args(["--parsable", "--requeue"]).args([
                format!("--array=0-{last}"),
                format!("--job-name={}", store.job_name()),
                format!("--cpus-per-task={}", self.settings.cpus),
                format!("--output={}/slurm-%A_%a.out", text_of(&store.work())?),
            ]);
            let command = command.args(self.settings.options.clone()).input(script);
            let submitted = self.run(&command).inspect_err(|_| {
                // All or none: a part of the chunks would have to be found again.
                if !jobs.is_empty() {
                    let _ = self.run(&self.command("scancel").args(jobs.clone()));
                }
            });
            let submitted = submitted.context("cannot submit the chunks")?;
            // `--parsable` prints the number, and the name of the cluster behind a semicolon.
            let number = submitted.trim().split(';').next().unwrap_or_default().to_owned();
            ensure!(number.parse::<u64>().is_ok(), "sbatch printed no job number: {}", submitted.trim());
            jobs.push(number);
        }
        Ok(jobs)
    }

    fn submit_tasks(&self, store: &Store, words: &[String]) -> Result<String> {
        let options = [
            "--output-mode=json".to_owned(),
            "submit".to_owned(),
            format!("--array=0-{}", store.chunks().saturating_sub(1)),
            format!("--name={}", store.job_name()),
            format!("--cpus={}", self.settings.cpus),
            "--stdout=none".to_owned(),
            format!("--stderr={}/hq-%{{TASK_ID}}.err", text_of(&store.work())?),
        ];
        let command = self.command("hq").args(options).args(self.settings.options.clone());
        let printed =
            self.run(&command.arg("--").args(words.to_vec())).context("cannot submit the chunks")?;
        let job: serde_json::Value = serde_json::from_str(&printed)
            .with_context(|| format!("hq printed no JSON: {}", printed.trim()))?;
        let id = job["id"].as_u64().with_context(|| format!("hq printed no job id: {}", printed.trim()))?;
        Ok(id.to_string())
    }

    /// Whether a job of the plan waits or runs.
    pub(crate) fn is_alive(&self, store: &Store, submitted: &Submitted) -> Result<bool> {
        match self.system {
            System::Slurm => self.is_array_alive(store),
            System::HyperQueue => {
                let alive = submitted.jobs.iter().map(|job| self.are_tasks_alive(job));
                Ok(alive.collect::<Result<Vec<bool>>>()?.contains(&true))
            }
        }
    }

    /// By name: if we were killed while `sbatch` ran, its job number is unknown.
    fn is_array_alive(&self, store: &Store) -> Result<bool> {
        let name = format!("--name={}", store.job_name());
        let jobs = self.run(&self.command("squeue").args(["--noheader", "--format=%T", &name]))?;
        Ok(!jobs.trim().is_empty())
    }

    fn are_tasks_alive(&self, job: &str) -> Result<bool> {
        let printed = self.run(&self.command("hq").args(["--output-mode=json", "job", "info", job]))?;
        let details: serde_json::Value = serde_json::from_str(&printed)
            .with_context(|| format!("hq printed no JSON: {}", printed.trim()))?;
        let counts = &details[0]["info"]["task_stats"];
        let count = |name: &str| counts[name].as_u64();
        match (count("waiting"), count("running")) {
            (Some(waiting), Some(running)) => Ok(waiting + running > 0),
            // A job that the server no longer knows.
            _ if details.as_array().is_some_and(Vec::is_empty) => Ok(false),
            _ => bail!("hq printed no counts of tasks for job {job}"),
        }
    }

    /// Waits until all chunks are done, or no job is left.
    pub(crate) fn wait(&self, store: &Store, submitted: &Submitted, quiet: bool) -> Result<()> {
        let progress = Progress::new(store.pending() as u64, "runs", quiet);
        let (mut ended, mut failed, mut after_end) = (0, 0, 0);
        let mut every = LOOK_EVERY.0;
        while !unfinished(store).is_empty() && after_end < LOOKS_AFTER_END {
            std::thread::sleep(every);
            every = (every * 5 / 4).min(LOOK_EVERY.1);
            let now = store.count_ended() as u64;
            progress.add(now.saturating_sub(ended));
            ended = ended.max(now);
            match self.is_alive(store, submitted) {
                Ok(true) => (failed, after_end) = (0, 0),
                Ok(false) => {
                    (failed, after_end) = (0, after_end + 1);
                    every = LOOK_EVERY.0;
                }
                Err(error) => {
                    failed += 1;
                    if failed == 1 {
                        say!("cannot ask {}: {error:#}; trying again", self.system.name());
                    }
                    let jobs = submitted.jobs.join(" ");
                    let hint = || format!("jobs {jobs} may still run; repeat the command to wait for them");
                    ensure!(failed < MOST_FAILED_LOOKS, "{error:#}; {}", hint());
                }
            }
        }
        Ok(())
    }
}
