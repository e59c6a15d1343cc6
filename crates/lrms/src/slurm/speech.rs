//! Speaking to Slurm: every command with the configuration and the folder that were set, and times printed as seconds since
//! the epoch. Here is known by which words a command says that there is no controller to speak to.

use super::Settings;
use super::version;
use crate::command::{Command, Outcome, Runner};
use crate::error::LrmsError;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What commands say when they hear nothing. They wait about nine seconds for it.
const SILENCE: [&str; 8] = [
    "Unable to contact slurm controller",
    "Unable to connect to slurm daemon",
    "Socket timed out",
    "Connection refused",
    "Connection timed out",
    "Zero Bytes were transmitted or received",
    "backup controller in standby mode",
    "Slurm temporarily unable to accept job",
];

/// Runs Slurm's commands.
#[derive(Debug)]
pub(super) struct Speech {
    runner: Runner,
    conf: Option<String>,
    bin: Option<String>,
    version: Mutex<Option<(u32, u32)>>,
}

impl Speech {
    pub(super) fn new(runner: Runner, settings: &Settings) -> Speech {
        let text = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let (conf, bin) = (text(&settings.conf), text(&settings.bin));
        let speech = Speech { runner, conf, bin, version: Mutex::default() };
        // It answers at once where others wait for nine seconds to hear nothing.
        let probe = speech.command("scontrol").arg("ping");
        Speech { runner: speech.runner.with_probe(probe), ..speech }
    }

    /// The folder of the commands, if `PATH` does not lead to them.
    pub(super) fn bin(&self) -> Option<&str> {
        self.bin.as_deref()
    }

    /// A command of Slurm.
    pub(super) fn command(&self, name: &str) -> Command {
        let program = self.bin.as_ref().map_or(name.to_owned(), |bin| format!("{bin}/{name}"));
        let command = Command::new(program);
        match &self.conf {
            Some(conf) => command.env("SLURM_CONF", conf.as_str()),
            None => command,
        }
    }

    /// A command that prints times, which are to be seconds since the epoch.
    pub(super) fn reader(&self, name: &str) -> Command {
        // Lists of the tasks of arrays are cut otherwise.
        self.command(name).env("SLURM_TIME_FORMAT", "%s").env("SLURM_BITSTR_LEN", "0")
    }

    /// `scontrol` with these words.
    pub(super) fn scontrol<S: Into<String>>(&self, words: impl IntoIterator<Item = S>) -> Command {
        self.reader("scontrol").args(words)
    }

    /// Runs a command, whatever it answers, as long as the controller answers.
    pub(super) fn ask(&self, command: &Command) -> Result<Outcome, LrmsError> {
        let began = Instant::now();
        let outcome = self.runner.run(command)?;
        let said = outcome.said();
        if !outcome.is_success() && SILENCE.iter().any(|words| said.contains(words)) {
            // The next ones need not wait as long to hear nothing.
            self.runner.note_silence();
            return Err(LrmsError::Silent { what: shown(command), after: began.elapsed() });
        }
        Ok(outcome)
    }

    /// Runs a command that should succeed, and answers what it printed.
    pub(super) fn tell(&self, command: &Command) -> Result<String, LrmsError> {
        let outcome = self.ask(command)?;
        if outcome.is_success() { Ok(outcome.out) } else { Err(failed(command, &outcome)) }
    }

    /// Runs commands that should succeed side by side.
    pub(super) fn tell_all<const N: usize>(&self, commands: &[Command; N]) -> [Result<String, LrmsError>; N] {
        std::thread::scope(|scope| {
            let running = commands.each_ref().map(|command| scope.spawn(|| self.tell(command)));
            let mut commands = commands.iter();
            running.map(|one| {
                let command = commands.next().map(shown).unwrap_or_default();
                let ended = || LrmsError::Failed { command, code: None, said: "its thread ended".into() };
                one.join().unwrap_or_else(|_| Err(ended()))
            })
        })
    }

    /// The version of the commands, asked once; concurrent callers wait for the answer.
    pub(super) fn version(&self) -> Result<(u32, u32), LrmsError> {
        let mut known = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(version) = *known {
            return Ok(version);
        }
        let command = self.command("scontrol").arg("--version");
        let said = self.tell(&command)?;
        let unreadable = || LrmsError::Unreadable {
            command: shown(&command),
            why: format!("{:?} is no version", said.trim()),
        };
        Ok(*known.insert(version::read(&said).ok_or_else(unreadable)?))
    }
}

/// A command that failed for a reason that is not known.
pub(super) fn failed(command: &Command, outcome: &Outcome) -> LrmsError {
    // Whatever it said, nobody reads more of it.
    let said = outcome.said().chars().take(500).collect();
    LrmsError::Failed { command: shown(command), code: outcome.code, said }
}

/// A command for people: its name and first words.
pub(super) fn shown(command: &Command) -> String {
    let words = std::iter::once(&command.program).chain(&command.arguments).map(String::as_str);
    // What only hands on its input is left out.
    let mut words = words.skip(if command.program == "sh" { 4 } else { 0 });
    let name = words.next().and_then(|program| program.rsplit('/').next()).unwrap_or_default();
    std::iter::once(name).chain(words.take(3)).collect::<Vec<_>>().join(" ")
}
