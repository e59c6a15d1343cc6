//! What a run does. `simulate`, generated grids and the experiments run inside of this process, with workloads that are
//! read once; a grid with a description is a process of its own.

mod experiment;
mod grid;

use super::VERSION;
use super::description::{Command, Sweep};
use super::grid::{Setting, digest, digest_of_file};
use super::table::{JOB_COLUMNS, Row};
use super::values::Value;
use crate::grid::scale::swept::Line as GeneratedLine;
use crate::simulate::swept::{Line, Traces};
use anyhow::{Context, Result, anyhow};
use bookahead_lrms::command::quoted;
use std::path::{Path, PathBuf};

/// One list for each of [`JOB_COLUMNS`].
pub(crate) type JobLists = [Vec<i64>; JOB_COLUMNS.len()];

/// What a run found.
pub(crate) struct Outcome {
    pub(crate) row: Row,
    /// If jobs are wanted.
    pub(crate) jobs: Option<Box<JobLists>>,
}

impl From<Row> for Outcome {
    fn from(row: Row) -> Outcome {
        Outcome { row, jobs: None }
    }
}

/// The command of a sweep, ready to run.
pub(crate) struct Task<'a> {
    sweep: &'a Sweep,
    /// Folder of relative paths.
    folder: PathBuf,
    kind: TaskKind,
}

enum TaskKind {
    Simulate(Traces),
    Grid(grid::Grid),
    /// A grid without a description: all parameters are options.
    Generated,
    Experiment(experiment::Experiment),
}

/// Parameters of `simulate` that name a file.
const FILES: [&str; 3] = ["site", "priorities", "reservations"];

/// Values of a parameter that are checked before the first run; with more, the start would take long.
const CHECKED_VALUES: usize = 100;

/// The first line of an error about options, without the hints for a command line.
pub(crate) fn option_error(command: &str, error: &clap::Error) -> anyhow::Error {
    let text = error.to_string();
    let said = text.lines().next().unwrap_or_default();
    anyhow!("{command}: {}", said.strip_prefix("error: ").unwrap_or(said).trim_end_matches(':'))
}

impl<'a> Task<'a> {
    /// Checks the parameters.
    pub(crate) fn new(sweep: &'a Sweep, folder: &Path) -> Result<Task<'a>> {
        let kind = match sweep.command {
            Command::Simulate => TaskKind::Simulate(Traces::default()),
            Command::SimulateGrid if sweep.input.is_empty() => TaskKind::Generated,
            Command::SimulateGrid => TaskKind::Grid(grid::Grid::read(sweep)?),
            Command::Experiment => TaskKind::Experiment(experiment::Experiment::new(sweep, folder)?),
        };
        let task = Task { sweep, folder: folder.to_owned(), kind };
        task.check()?;
        Ok(task)
    }

    /// Checks each value once, together with the first values of the other parameters.
    fn check(&self) -> Result<()> {
        let first = self.sweep.setting(0);
        self.check_setting(&first)?;
        for (at, parameter) in self.sweep.parameters.iter().enumerate() {
            for value in parameter.values.iter().take(CHECKED_VALUES) {
                let mut setting = first.clone();
                setting[at].1 = value;
                self.check_setting(&setting).with_context(|| format!("{} = {value}", parameter.name))?;
            }
        }
        Ok(())
    }

    fn check_setting(&self, setting: &Setting<'_>) -> Result<()> {
        match &self.kind {
            TaskKind::Simulate(_) => Line::parse(&self.words(setting)).map(drop),
            TaskKind::Grid(grid) => grid.described(setting).map(drop),
            TaskKind::Generated => GeneratedLine::parse(&self.words(setting)).map(drop),
            TaskKind::Experiment(experiment) => experiment.check(setting),
        }
    }

    pub(crate) fn run(&self, setting: &Setting<'_>) -> Result<Outcome> {
        match &self.kind {
            TaskKind::Simulate(traces) => Line::parse(&self.words(setting))?.run(traces, self.sweep.jobs),
            TaskKind::Grid(grid) => grid.run(setting).map(Outcome::from),
            TaskKind::Generated => GeneratedLine::parse(&self.words(setting))?.run().map(Outcome::from),
            TaskKind::Experiment(experiment) => experiment.run(setting).map(Outcome::from),
        }
    }

    /// The words of `simulate`, or of a generated grid, for a run: each parameter is an option.
    fn words(&self, setting: &Setting<'_>) -> Vec<String> {
        let mut words: Vec<String> =
            Some(&self.sweep.input).filter(|input| !input.is_empty()).cloned().into_iter().collect();
        for (parameter, value) in setting {
            match value {
                Value::Flag(true) => words.push(format!("--{}", parameter.name)),
                Value::Flag(false) => {}
                Value::Text(file) if FILES.contains(&&*parameter.name) => {
                    let file = self.folder.join(file);
                    words.push(format!("--{}={}", parameter.name, file.display()));
                }
                value => words.push(format!("--{}={value}", parameter.name)),
            }
        }
        words
    }

    /// A command line that repeats a run alone.
    pub(crate) fn repeat(&self, root: &Path, run: usize) -> String {
        let mut words = vec!["bookahead".to_owned()];
        match &self.kind {
            TaskKind::Simulate(_) | TaskKind::Generated => {
                words.push(self.sweep.command.name().to_owned());
                words.extend(self.words(&self.sweep.setting(run)));
            }
            _ => {
                words.extend(["sweep", "one"].map(str::to_owned));
                words.extend([root.display().to_string(), run.to_string()]);
            }
        }
        let plain = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:+".contains(c));
        let shown = |word: &String| {
            if plain(word) { word.clone() } else { quoted(word).unwrap_or_else(|| word.clone()) }
        };
        words.iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    /// The digest of version, command and the contents of all input files.
    pub(crate) fn identity(&self) -> Result<u128> {
        let mut texts = vec![VERSION.to_owned(), self.sweep.command.name().to_owned()];
        texts.push(format!("jobs {}", self.sweep.jobs));
        if self.sweep.command == Command::Experiment {
            texts.push(self.sweep.input.clone());
        }
        for file in self.files() {
            let content = digest_of_file(&file)
                .with_context(|| format!("cannot read {}; check the path", file.display()))?;
            texts.push(format!("{content:032x}"));
        }
        Ok(digest(texts.iter().map(String::as_str)))
    }

    fn files(&self) -> Vec<PathBuf> {
        match &self.kind {
            TaskKind::Simulate(_) => {
                let mut files = vec![PathBuf::from(&self.sweep.input)];
                for parameter in &self.sweep.parameters {
                    if FILES.contains(&&*parameter.name) {
                        files.extend(parameter.values.iter().map(|file| self.folder.join(file.to_string())));
                    }
                }
                files
            }
            TaskKind::Grid(grid) => grid.files(),
            TaskKind::Generated => Vec::new(),
            TaskKind::Experiment(experiment) => experiment.files(),
        }
    }
}
