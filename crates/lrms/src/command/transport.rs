//! How one command is run, how its exit is interpreted, and usage counters for each program. Commands are independent
//! here.
//!
//! Words stay separate words; an unquoted word never reaches a shell. A command under another account loses our
//! environment, and only root could kill it. The prefix is therefore followed by `timeout` and `env`, which run as
//! that account. The same wrapper is used on the remote side of ssh.

use super::local::{self, End, Limits, Stop};
use super::ssh::{Line, Ssh};
use super::{Command, Outcome};
use crate::error::LrmsError;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::process::Command as Process;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Limit on standard output and on standard error of a command, in bytes each. A command that exceeds it is killed.
pub const MOST_OUTPUT: usize = 64 << 20;

/// Prefix of our own environment variables. Some are secret, so commands do not inherit them.
const OURS: &[u8] = b"BOOKAHEAD_";

#[derive(Debug, Clone)]
pub(super) struct Transport {
    pub(super) time_out: Duration,
    /// None for this machine.
    pub(super) ssh: Option<Arc<Ssh>>,
    /// Prefix for commands under another account.
    pub(super) prefix: Vec<String>,
    /// Default environment of all commands.
    pub(super) environment: BTreeMap<String, String>,
}

pub(super) enum Prepared {
    /// The program itself, in our environment.
    Plain,
    /// These words, in our environment.
    Wrapped(Vec<String>),
    /// This line, on the remote host.
    Remote(Arc<Ssh>, Line),
}

impl Transport {
    /// Adds the default environment to a command.
    pub(super) fn complete<'a>(&self, command: &'a Command) -> Cow<'a, Command> {
        if self.environment.is_empty() {
            return Cow::Borrowed(command);
        }
        let mut complete = command.clone();
        for (name, value) in &self.environment {
            complete.environment.entry(name.clone()).or_insert_with(|| value.clone());
        }
        Cow::Owned(complete)
    }

    /// Validates a command and builds its words. Runs nothing.
    pub(super) fn prepare(&self, command: &Command) -> Result<Prepared, LrmsError> {
        check(command)?;
        let words = || words(command, &self.prefix, self.time_out);
        match &self.ssh {
            Some(ssh) => Ok(Prepared::Remote(ssh.clone(), Line::of(&command.program, &words()?)?)),
            None if command.account.is_some() => Ok(Prepared::Wrapped(words()?)),
            None => Ok(Prepared::Plain),
        }
    }

    /// Runs a command now and counts it.
    pub(super) fn run(
        &self,
        command: &Command,
        prepared: &Prepared,
        counters: &Counters,
        stop: Option<&Stop>,
    ) -> Result<Outcome, LrmsError> {
        let began = Instant::now();
        let process = self.process(command, prepared);
        let program = process.get_program().to_string_lossy().into_owned();
        let input = command.input.as_deref().filter(|text| !text.is_empty());
        let limits = Limits { until: began + self.time_out, most_bytes: MOST_OUTPUT, stop };
        let result = match local::run(process, input, limits) {
            Ok(end) => self.judge(command, prepared, end),
            Err(source) => Err(LrmsError::cannot_run(program, source)),
        };
        let went = match &result {
            Ok(outcome) if outcome.is_success() => Went::Well,
            Err(LrmsError::Silent { .. }) => Went::TimedOut,
            _ => Went::Wrong,
        };
        counters.count(&command.program, began.elapsed(), went);
        result
    }

    fn process(&self, command: &Command, prepared: &Prepared) -> Process {
        let mut process = match prepared {
            Prepared::Plain => {
                let mut process = Process::new(&command.program);
                process.args(&command.arguments);
                process
            }
            Prepared::Wrapped(words) => {
                let mut process = Process::new(words.first().map_or("", String::as_str));
                process.args(words.iter().skip(1));
                process
            }
            Prepared::Remote(ssh, line) => ssh.process(line, self.time_out),
        };
        // Names are matched as bytes: a variable name need not be UTF-8.
        let ours = std::env::vars_os().map(|(name, _)| name);
        for name in ours.filter(|name| name.as_encoded_bytes().starts_with(OURS)) {
            process.env_remove(name);
        }
        // The wrapped forms set the command's variables with `env`, behind the change of account or host.
        if matches!(prepared, Prepared::Plain) {
            process.envs(own_environment(command));
        }
        // Last, so that neither the command nor our environment can change the locale and time zone that parsers rely
        // on.
        process.envs(ALWAYS);
        process
    }

    fn judge(&self, command: &Command, prepared: &Prepared, end: End) -> Result<Outcome, LrmsError> {
        let program = command.program.clone();
        let outcome = match end {
            End::Exited { code, out, err } => match prepared {
                Prepared::Plain => return Ok(Outcome { code, out, err }),
                Prepared::Wrapped(_) => Outcome { code, out, err },
                Prepared::Remote(ssh, line) => ssh.outcome(line, code, out, &err)?,
            },
            End::TimedOut => {
                return Err(LrmsError::Silent { what: program, after: self.time_out, said: None });
            }
            End::Unknown(why) => return Err(failed(program, format!("its exit status is unknown: {why}"))),
            End::Stopped => {
                return Err(failed(program, "it was ended because its result is no longer needed".into()));
            }
            End::TooMuch(output) => {
                let most = MOST_OUTPUT >> 20;
                return Err(failed(
                    program,
                    format!("it wrote more than {most} MiB to its {output} and was ended; query less data"),
                ));
            }
        };
        if says_no_such_program(&program, outcome.code, &outcome.err) {
            let source = io::Error::new(io::ErrorKind::NotFound, outcome.said());
            return Err(LrmsError::cannot_run(program, source));
        }
        Ok(outcome)
    }
}

/// Runs a process on this machine, outside of any batch system.
pub(crate) fn run_process(process: Process, within: Duration) -> Result<Outcome, LrmsError> {
    let program = process.get_program().to_string_lossy().into_owned();
    let limits = Limits { until: Instant::now() + within, most_bytes: MOST_OUTPUT, stop: None };
    match local::run(process, None, limits) {
        Ok(End::Exited { code, out, err }) => Ok(Outcome { code, out, err }),
        Ok(End::TimedOut) => Err(LrmsError::Silent { what: program, after: within, said: None }),
        Ok(_) => Err(failed(program, "it was ended before its exit".into())),
        Err(source) => Err(LrmsError::cannot_run(program, source)),
    }
}

fn failed(command: String, said: String) -> LrmsError {
    LrmsError::Failed { command, code: None, said }
}

/// Set for every command; a command cannot override them.
pub(super) const ALWAYS: [(&str, &str); 2] = [("LC_ALL", "C"), ("TZ", "UTC")];

/// Seconds between SIGTERM and SIGKILL by `timeout` (`-k`).
const GRACE: &str = "2";

/// Placeholder for the account in a prefix.
const USER: &str = "{user}";

/// Whether a command can be run at all, locally or remotely.
pub(super) fn check(command: &Command) -> Result<(), LrmsError> {
    let refused = |why: &str| {
        let what = command.program.replace('\0', "\u{fffd}");
        Err(LrmsError::NotRunnable { what: format!("{what:?}"), why: why.into() })
    };
    // `env` takes a word with a = before the program for a variable.
    if command.program.is_empty() || command.program.contains('=') {
        return refused("this is not a valid name of a program; it must not be empty or contain =");
    }
    let variables = &command.environment;
    let words = command.arguments.iter().chain(variables.values()).chain([&command.program]);
    if words.into_iter().any(|word| word.contains('\0')) {
        return refused("an argument or variable contains a NUL byte; remove it");
    }
    if let Some(name) = variables.keys().find(|name| !is_variable(name)) {
        return refused(&format!("{name:?} is not a valid name of a variable; use letters, digits and _"));
    }
    Ok(())
}

/// Variables of a command, without those in [`ALWAYS`].
pub(super) fn own_environment(command: &Command) -> impl Iterator<Item = (&str, &str)> {
    let own = command.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    own.filter(|(name, _)| ALWAYS.iter().all(|(always, _)| always != name))
}

/// The full command line, for runs that neither our environment nor our timeout reaches.
pub(super) fn words(
    command: &Command,
    prefix: &[String],
    time_out: Duration,
) -> Result<Vec<String>, LrmsError> {
    let mut words = match &command.account {
        Some(account) => becoming(&command.program, prefix, account)?,
        None => Vec::new(),
    };
    words.extend(["timeout", "-k", GRACE].map(String::from));
    words.push(whole_seconds(time_out).to_string());
    words.push("env".into());
    words.extend(
        ALWAYS.into_iter().chain(own_environment(command)).map(|(name, value)| format!("{name}={value}")),
    );
    words.push(command.program.clone());
    words.extend(command.arguments.iter().cloned());
    Ok(words)
}

/// The prefix for `account`.
fn becoming(program: &str, prefix: &[String], account: &str) -> Result<Vec<String>, LrmsError> {
    let refused = |why: String| {
        Err(LrmsError::NotRunnable { what: format!("{program} as the account {account:?}"), why })
    };
    if !is_account(account) {
        return refused(
            "this is not a valid name of an account; map the user to an account of the cluster".into(),
        );
    }
    if prefix.is_empty() {
        return refused(format!(
            "no prefix is configured to run commands as another account; configure one, such as sudo -n -u {USER} --"
        ));
    }
    Ok(prefix.iter().map(|word| word.replace(USER, account)).collect())
}

/// `[A-Za-z_][A-Za-z0-9_.-]*\$?`: never an option, a number, or a word that a program would split.
pub(super) fn is_account(name: &str) -> bool {
    let name = name.strip_suffix('$').unwrap_or(name).as_bytes();
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
    name.first().is_some_and(|first| first.is_ascii_alphabetic() || *first == b'_') && name.iter().all(legal)
}

/// Shells and `env` pass on no other names.
pub(crate) fn is_variable(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(legal) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

/// Rounds up to whole seconds. The remote `timeout` must not fire before ours, as only our own timeout is known to be
/// one.
pub(super) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).max(1)
}

/// Whether `env` reports a missing program, in which case nothing was done. It exits with 127, or with 126 if the
/// file is not executable (coreutils manual, "env invocation", exit status).
pub(super) fn says_no_such_program(program: &str, code: Option<i32>, err: &str) -> bool {
    let complaint = |line: &str| line.starts_with("env: ") && line.contains(program);
    matches!(code, Some(126 | 127)) && err.lines().last().is_some_and(complaint)
}

/// Quotes a word for a POSIX shell (not csh or fish): nothing between single quotes has a special meaning (Shell
/// Command Language, 2.2.2). None if it contains a NUL byte, which no argument can.
pub fn quoted(word: &str) -> Option<String> {
    if word.contains('\0') {
        return None;
    }
    // A single quote closes the quoted part, is escaped, and opens the next part.
    Some(format!("'{}'", word.replace('\'', r"'\''")))
}

/// Limit on separately counted programs. No batch system has more commands.
const MOST_PROGRAMS: usize = 64;

/// Name under which the programs beyond [`MOST_PROGRAMS`] are counted together.
const OTHER_PROGRAMS: &str = "other";

/// Usage of all programs since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// By the name of the program, without its folder.
    pub programs: BTreeMap<String, ProgramUsage>,
}

/// Usage of one program. Commands that were refused during an outage are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProgramUsage {
    /// Number of runs, including failed attempts to start it.
    pub runs: u64,
    /// Runs without exit code 0, for any reason.
    pub failures: u64,
    /// Runs that exceeded the timeout and were killed.
    pub time_outs: u64,
    /// Total run time. Time spent waiting for a slot is not included.
    pub spent: Duration,
    /// Run time of the longest run.
    pub longest: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Went {
    Well,
    Wrong,
    TimedOut,
}

#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<Usage>);

impl Usage {
    fn count(&mut self, program: &str, took: Duration, went: Went) {
        let name = program.rsplit('/').next().unwrap_or(program);
        let is_new = !self.programs.contains_key(name);
        let name = if is_new && self.programs.len() >= MOST_PROGRAMS { OTHER_PROGRAMS } else { name };
        let usage = self.programs.entry(name.to_owned()).or_default();
        usage.runs = usage.runs.saturating_add(1);
        usage.failures = usage.failures.saturating_add(u64::from(went != Went::Well));
        usage.time_outs = usage.time_outs.saturating_add(u64::from(went == Went::TimedOut));
        usage.spent = usage.spent.saturating_add(took);
        usage.longest = usage.longest.max(took);
    }
}

impl Counters {
    pub(super) fn count(&self, program: &str, took: Duration, went: Went) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count(program, took, went);
    }

    pub(super) fn usage(&self) -> Usage {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    fn sudo() -> Vec<String> {
        ["sudo", "-n", "-u", "{user}", "--as={user}", "--"].map(String::from).into()
    }

    #[test]
    fn the_environment_and_the_time_out_stand_behind_the_prefix() {
        let command = Command::new("sbatch").arg("a b").env("SLURM_CONF", "/x y").account(Some("ann".into()));
        let expected = [
            "sudo",
            "-n",
            "-u",
            "ann",
            "--as=ann",
            "--",
            "timeout",
            "-k",
            "2",
            "3",
            "env",
            "LC_ALL=C",
            "TZ=UTC",
            "SLURM_CONF=/x y",
            "sbatch",
            "a b",
        ];
        assert_eq!(words(&command, &sudo(), SECOND * 5 / 2).unwrap(), expected);
    }

    #[test]
    fn a_command_cannot_change_its_language_and_time_zone() {
        let command = Command::new("date").env("TZ", "Asia/Tokyo").env("LC_ALL", "de_DE");
        let words = words(&command, &[], SECOND).unwrap();
        assert_eq!(words, ["timeout", "-k", "2", "1", "env", "LC_ALL=C", "TZ=UTC", "date"]);
    }

    #[test]
    fn an_account_without_a_prefix_is_refused_with_what_to_configure() {
        let command = Command::new("sbatch").account(Some("ann".into()));
        let refused = words(&command, &[], SECOND).unwrap_err().to_string();
        assert!(
            refused.contains("sbatch as the account \"ann\"") && refused.contains("sudo -n -u"),
            "{refused}"
        );
    }

    #[test]
    fn an_odd_name_is_no_account() {
        for name in ["ann", "_x", "Ann.B-c_9", "machine$", "a"] {
            assert!(is_account(name), "{name}");
        }
        let odd =
            ["", "$", "-u", "9a", "a b", "a;b", "a$b", "a$$", "ä", "a\n", "a/b", "a@b", "#0", ".", "a\0"];
        for name in odd {
            assert!(!is_account(name), "{name:?}");
            let command = Command::new("sbatch").account(Some(name.into()));
            let refused = words(&command, &sudo(), SECOND).unwrap_err().to_string();
            assert!(refused.contains("name of an account"), "{refused}");
        }
    }

    #[test]
    fn what_no_program_could_be_given_is_refused() {
        let odd = [
            Command::new(""),
            Command::new("A=b"),
            Command::new("a\0"),
            Command::new("a").arg("\0"),
            Command::new("a").env("B", "\0"),
            Command::new("a").env("B=c", "d"),
            Command::new("a").env("-i", "d"),
            Command::new("a").env("", "d"),
            Command::new("a").env("9", "d"),
        ];
        for command in odd {
            assert!(check(&command).is_err(), "{command:?}");
        }
        assert!(check(&Command::new("-a").arg("").env("_B9", "=").input("\0")).is_ok());
    }

    #[test]
    fn seconds_are_rounded_up() {
        let whole =
            [Duration::ZERO, SECOND / 1000, SECOND, SECOND * 11 / 10, Duration::MAX].map(whole_seconds);
        assert_eq!(whole, [1, 1, 1, 2, u64::MAX]);
    }

    #[test]
    fn only_env_itself_says_that_there_is_no_such_program() {
        let complaint = "env: 'sbatsch': No such file or directory\n";
        assert!(says_no_such_program("sbatsch", Some(127), complaint));
        assert!(says_no_such_program("/x/y", Some(126), "env: '/x/y': Permission denied\n"));
        assert!(!says_no_such_program("sbatsch", Some(1), complaint));
        assert!(!says_no_such_program("sbatch", Some(127), "sh: 1: srun: not found\n"));
        assert!(!says_no_such_program("sbatch", Some(127), ""));
    }

    #[test]
    fn words_stand_between_single_quotes_and_quotes_are_escaped() {
        for (word, expected) in [
            ("", "''"),
            ("squeue", "'squeue'"),
            ("a b", "'a b'"),
            ("$(id)`id`\\", "'$(id)`id`\\'"),
            ("it's", r"'it'\''s'"),
            ("'", r"''\'''"),
            ("two\nlines", "'two\nlines'"),
        ] {
            assert_eq!(quoted(word).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_word_with_a_nul_cannot_be_quoted() {
        assert_eq!(quoted("a\0b"), None);
    }

    #[test]
    fn runs_are_counted_by_the_name_of_the_program_without_its_folder() {
        let mut usage = Usage::default();
        usage.count("/opt/slurm/bin/squeue", SECOND, Went::Well);
        usage.count("squeue", 3 * SECOND, Went::TimedOut);
        usage.count("sbatch", 2 * SECOND, Went::Wrong);
        let squeue =
            ProgramUsage { runs: 2, failures: 1, time_outs: 1, spent: 4 * SECOND, longest: 3 * SECOND };
        let sbatch =
            ProgramUsage { runs: 1, failures: 1, time_outs: 0, spent: 2 * SECOND, longest: 2 * SECOND };
        assert_eq!(usage.programs, [("squeue".into(), squeue), ("sbatch".into(), sbatch)].into());
    }

    #[test]
    fn the_number_of_names_is_bounded_and_no_run_is_lost() {
        let mut usage = Usage::default();
        for number in 0..1_000 {
            usage.count(&format!("/bin/program-{number}"), Duration::MAX, Went::Well);
        }
        usage.count("/bin/program-0", SECOND, Went::Well);
        assert_eq!(usage.programs.len(), MOST_PROGRAMS + 1);
        assert_eq!(usage.programs["program-0"].runs, 2);
        assert_eq!(usage.programs[OTHER_PROGRAMS].runs, 1_000 - MOST_PROGRAMS as u64);
        assert_eq!(usage.programs.values().map(|program| program.runs).sum::<u64>(), 1_001);
    }
}
