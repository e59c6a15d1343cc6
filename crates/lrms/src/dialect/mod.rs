//! Code shared by dialects of batch systems. Nothing here knows a particular one.
//!
//! - [`Tools`]: runs commands, detects outages, and interprets the exit of a command
//! - `grants`: compares grants with requests; checks that all dialects share
//! - [`calendar`]: dates of the UTC calendar and durations
//! - [`script`]: a job as a script for a submit command
//! - [`json`]: objects of a list, even if some are damaged
//! - [`xml`]: elements, attributes and text, even if not well-formed

pub(crate) mod calendar;
#[cfg(test)]
pub(crate) mod damage;
pub(crate) mod directives;
mod grants;
pub(crate) mod json;
pub(crate) mod script;
pub(crate) mod xml;

use crate::batch::{Place, Submission, Unit, Wanted};
use crate::command::{Command, Outcome, Runner};
use crate::error::LrmsError;
use bookahead_plan::Time;
use bookahead_protocol::Name;
pub(crate) use grants::{Trial, differs, endless, is_plain, resource, seen, undone, wait_until_gone};
use script::called;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use xml::Element;

/// Configuration for running the commands of one batch system.
#[derive(Debug, Clone)]
pub(crate) struct Tools {
    runner: Runner,
    bin: Option<PathBuf>,
    environment: BTreeMap<String, String>,
    silence: &'static [&'static str],
    date: String,
    id: String,
    /// Accounts known to exist. Missing ones are not cached, as they may be created later.
    accounts: Arc<Mutex<BTreeSet<String>>>,
}

impl Tools {
    /// Commands from `bin`, or else from `PATH`, with these variables. `silence` lists error messages that mean that
    /// the daemon does not answer.
    pub(crate) fn new(
        runner: Runner,
        bin: Option<PathBuf>,
        environment: BTreeMap<String, String>,
        silence: &'static [&'static str],
    ) -> Tools {
        let (date, id, accounts) = ("date".into(), "id".into(), Arc::default());
        Tools { runner, bin, environment, silence, date, id, accounts }
    }

    /// Sets a command that succeeds if and only if the batch system answers; it is run during outages.
    pub(crate) fn probed_by(self, program: &str, arguments: &[&str]) -> Tools {
        let probe = self.command(program).args(arguments.iter().copied());
        Tools { runner: self.runner.with_probe(probe), ..self }
    }

    /// Replaces `date`, for hosts or tests with another one.
    pub(crate) fn with_date(self, date: String) -> Tools {
        Tools { date, ..self }
    }

    /// Replaces `id`, for hosts or tests with another one.
    pub(crate) fn with_id(self, id: String) -> Tools {
        Tools { id, ..self }
    }

    /// A copy that uses the slots of looks.
    pub(crate) fn for_looks(&self) -> Tools {
        Tools { runner: self.runner.for_looks(), ..self.clone() }
    }

    /// A copy with a longer timeout, for commands that wait for an event.
    pub(crate) fn patient(&self, longer: Duration) -> Tools {
        Tools { runner: self.runner.patient(longer), ..self.clone() }
    }

    /// The shell words with which a job calls one of the commands.
    pub(crate) fn called(&self, program: &str) -> String {
        called(program, self.bin.as_ref().map(|bin| bin.to_string_lossy()).as_deref())
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let path = self.bin.as_ref().map(|bin| bin.join(program).to_string_lossy().into_owned());
        let mut command = Command::new(path.unwrap_or_else(|| program.to_owned()));
        command.environment = self.environment.clone();
        command
    }

    /// Runs a command, whatever its exit code. A message from the list in [`Tools::new`] becomes
    /// [`LrmsError::Silent`].
    pub(crate) fn run(&self, command: &Command) -> Result<Outcome, LrmsError> {
        let began = Instant::now();
        self.answered(command, self.runner.run(command)?, began.elapsed())
    }

    /// Runs commands in parallel; the results are those of [`Tools::run`], in the same order.
    pub(crate) fn run_all(&self, commands: &[Command]) -> Vec<Result<Outcome, LrmsError>> {
        let began = Instant::now();
        let outcomes = self.runner.run_all(commands);
        let after = began.elapsed();
        let outcomes = outcomes.into_iter().zip(commands);
        outcomes.map(|(outcome, command)| self.answered(command, outcome?, after)).collect()
    }

    /// As [`Tools::ask`], for several commands in parallel.
    pub(crate) fn ask_each<const N: usize>(&self, commands: &[Command; N]) -> [Result<String, LrmsError>; N] {
        let mut outcomes = self.run_all(commands).into_iter();
        commands
            .each_ref()
            // `run_all` returns a result for each command; the fallback only avoids a panic.
            .map(|command| printed(command, outcomes.next().unwrap_or_else(|| self.run(command))?))
    }

    /// Runs a query and returns its output; a failure is an error.
    pub(crate) fn ask(&self, command: &Command) -> Result<String, LrmsError> {
        printed(command, self.run(command)?)
    }

    /// As [`Tools::ask`]; None if the command fails with one of these messages, which mean that nothing was found.
    pub(crate) fn ask_for(&self, command: &Command, nothing: &[&str]) -> Result<Option<String>, LrmsError> {
        let outcome = self.run(command)?;
        if !outcome.is_success() && nothing.iter().any(|words| outcome.said().contains(words)) {
            return Ok(None);
        }
        printed(command, outcome).map(Some)
    }

    /// Runs a query and parses its XML output.
    pub(crate) fn ask_xml(&self, command: &Command) -> Result<Element, LrmsError> {
        document(command, &self.ask(command)?)
    }

    /// The command that prints the time where commands run, in seconds since the epoch.
    pub(crate) fn date(&self) -> Command {
        Command::new(&self.date).arg("+%s")
    }

    /// The time where commands run.
    pub(crate) fn clock(&self) -> Result<Time, LrmsError> {
        let date = self.date();
        let said = self.ask(&date)?;
        said.trim()
            .parse()
            .map(Time)
            .map_err(|_| unreadable(&date, format!("{said:?} is not a number of seconds")))
    }

    /// The account that commands run as, if it can be determined.
    pub(crate) fn account(&self) -> Option<String> {
        let name = self.ask(&Command::new(&self.id).arg("-un")).ok()?.trim().to_owned();
        (!name.is_empty()).then_some(name)
    }

    /// Whether an account exists where commands run: some batch systems reserve for accounts that do not.
    pub(crate) fn has_account(&self, account: &str) -> Result<bool, LrmsError> {
        let known = || self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if known().contains(account) {
            return Ok(true);
        }
        let exists = self.run(&Command::new(&self.id).args(["-u", account]))?.is_success();
        if exists {
            known().insert(account.to_owned());
        }
        Ok(exists)
    }

    fn answered(&self, command: &Command, outcome: Outcome, after: Duration) -> Result<Outcome, LrmsError> {
        let is_silence = || self.silence.iter().any(|words| outcome.said().contains(words));
        // A command that succeeds may print such words in the text of a user.
        if !outcome.is_success() && is_silence() {
            // The following commands then fail at once, instead of waiting for their own timeouts.
            self.runner.note_silence();
            let said = Some(format!("cannot reach the batch system: {}", said(&outcome)));
            return Err(LrmsError::Silent { what: shown(command), after, said });
        }
        Ok(outcome)
    }
}

/// The output of a command that must succeed.
pub(crate) fn printed(command: &Command, outcome: Outcome) -> Result<String, LrmsError> {
    if outcome.is_success() { Ok(outcome.out) } else { Err(failed(command, &outcome)) }
}

/// Longest excerpt of output in a message, in characters.
const MOST_TOLD: usize = 300;

/// The error for a failure of unknown cause.
pub(crate) fn failed(command: &Command, outcome: &Outcome) -> LrmsError {
    LrmsError::Failed { command: shown(command), code: outcome.code, said: said(outcome) }
}

/// The error for output that cannot be parsed.
pub(crate) fn unreadable(command: &Command, why: impl Into<String>) -> LrmsError {
    LrmsError::Unreadable { command: shown(command), why: why.into() }
}

/// The error for a request that the batch system refuses, or would refuse.
pub(crate) fn refused(what: impl Into<String>, said: impl Into<String>) -> LrmsError {
    LrmsError::Refused { what: what.into(), said: said.into() }
}

pub(crate) fn document(command: &Command, out: &str) -> Result<Element, LrmsError> {
    xml::read(out).map_err(|why| unreadable(command, why))
}

/// The result of a command that ends or deletes something. A message in `gone` means that there was nothing to end,
/// one in `denied` that it is not permitted. `what` is for messages.
pub(crate) fn ended(
    command: &Command,
    outcome: &Outcome,
    what: String,
    gone: &[&str],
    denied: &[&str],
) -> Result<(), LrmsError> {
    let says =
        |words: &[&str]| words.iter().any(|word| outcome.out.contains(word) || outcome.err.contains(word));
    if outcome.is_success() || says(gone) {
        Ok(())
    } else if says(denied) {
        Err(refused(what, said(outcome)))
    } else {
        Err(failed(command, outcome))
    }
}

/// The id of a submitted job: the last line of the output, which begins with a number and may have the name of a
/// server behind it. Warnings may precede it.
pub(crate) fn submitted(command: &Command, outcome: &Outcome) -> Result<String, LrmsError> {
    let last = outcome.out.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let is_id = last.starts_with(|first: char| first.is_ascii_digit()) && !last.contains(char::is_whitespace);
    if is_id {
        Ok(last.into())
    } else {
        Err(unreadable(command, format!("{:?} is not the id of a job", start(last))))
    }
}

/// The error for a failed command that creates something: a refusal, unless it printed nothing or a signal ended it.
pub(crate) fn denied(what: String, command: &Command, outcome: &Outcome) -> LrmsError {
    // Without a message the command may have stopped halfway.
    let unknown = outcome.code.is_none() || outcome.said().is_empty();
    if unknown { failed(command, outcome) } else { refused(what, said(outcome)) }
}

/// The resources on which a job in one of these queues (separated by commas) may run.
pub(crate) fn resources_in(queues: &str, places: &[Place]) -> Vec<Name> {
    let takes = |place: &&Place| {
        place.partition.as_ref().is_none_or(|wanted| queues.split(',').any(|queue| queue == wanted))
    };
    places.iter().filter(takes).map(|place| place.resource.clone()).collect()
}

/// Describes a job in messages.
pub(crate) fn the_job(job: &Submission) -> String {
    format!("the job {}", job.name)
}

/// Describes a reservation in messages, with the batch system's words for cores and nodes.
pub(crate) fn the_reservation(wanted: &Wanted, [cores_are, nodes_are]: [&str; 2]) -> String {
    let Wanted { name, amount, place, .. } = wanted;
    let unit = match place.unit {
        Unit::Cores => cores_are,
        Unit::Nodes => nodes_are,
    };
    format!("the reservation {name} of {amount} {unit} on {}", place.resource)
}

/// A command in messages: the name of the program and its first arguments. A shell wrapper such as `sh -c … sh` is
/// left out.
pub(crate) fn shown(command: &Command) -> String {
    let words = [&command.program].into_iter().chain(&command.arguments).map(String::as_str);
    let mut words: Vec<&str> = words.collect();
    while let ["sh", "-c", _, "sh", rest @ ..] = &words[..] {
        words = rest.to_vec();
    }
    let (name, words) = words.split_first().unwrap_or((&"", &[]));
    let name = name.rsplit('/').next().unwrap_or_default();
    start(&[&name].into_iter().chain(words).copied().collect::<Vec<_>>().join(" "))
}

/// The message of a command, shortened.
pub(crate) fn said(outcome: &Outcome) -> String {
    start(outcome.said())
}

/// Shortens a text to [`MOST_TOLD`] characters.
pub(crate) fn start(text: &str) -> String {
    text.chars().take(MOST_TOLD).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(code: i32, out: &str, err: &str) -> Outcome {
        Outcome { code: Some(code), out: out.into(), err: err.into() }
    }

    #[test]
    fn after_a_command_that_heard_nothing_the_next_is_not_run() {
        let runner = Runner::local(Duration::from_secs(30));
        let tools = Tools::new(runner, None, BTreeMap::new(), &["no daemon answers"]);
        let silent =
            tools.run(&Command::new("sh").args(["-c", "echo no daemon answers >&2; exit 1"])).unwrap_err();
        assert!(matches!(silent, LrmsError::Silent { .. }), "{silent}");
        let told = silent.to_string();
        assert!(told.contains("cannot reach the batch system: no daemon answers"), "{told}");
        assert!(!told.contains("within"), "it did not time out: {told}");
        let next = tools.ask(&Command::new("true")).unwrap_err().to_string();
        assert!(next.contains("true was not run"), "{next}");
    }

    #[test]
    fn a_submitted_job_is_the_last_line_that_is_printed() {
        let read = |out: &str| submitted(&Command::new("qsub"), &outcome(0, out, ""));
        assert_eq!(read("welcome\n\n123.srv.example\n").unwrap(), "123.srv.example");
        assert_eq!(read("Unable to read script file\n7\n").unwrap(), "7");
        for text in ["", "qsub: x", "1 2", "job 7", "7\nbye"] {
            assert!(matches!(read(text), Err(LrmsError::Unreadable { .. })), "{text}");
        }
    }

    #[test]
    fn what_was_gone_is_no_error_and_denial_is_a_refusal() {
        let ended = |code, out, err| {
            let outcome = outcome(code, out, err);
            super::ended(
                &Command::new("/x/qdel").arg("7"),
                &outcome,
                "it".into(),
                &["not exist"],
                &["denied"],
            )
        };
        assert!(ended(0, "", "").is_ok() && ended(1, "it does not exist", "note").is_ok());
        assert!(
            matches!(ended(1, "", "denied: no"), Err(LrmsError::Refused { said, .. }) if said == "denied: no")
        );
        assert!(matches!(ended(1, "", "odd"), Err(LrmsError::Failed { command, .. }) if command == "qdel 7"));
    }

    #[test]
    fn what_is_long_is_told_in_part() {
        assert_eq!(start(&"ä".repeat(1000)).chars().count(), MOST_TOLD);
        assert_eq!(shown(&Command::new("x").arg("y".repeat(1000))).len(), MOST_TOLD);
    }
}
