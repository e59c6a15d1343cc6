//! Commands, their outcomes, and the words of their command lines.
//!
//! Words stay separate words; an unquoted word never reaches a shell. A command under another account loses our
//! environment, and only root could kill it. The prefix is therefore followed by `timeout` and `env`, which run as
//! that account. The same wrapper is used on the remote side of ssh.

use crate::error::LrmsError;
use std::collections::BTreeMap;
use std::time::Duration;

/// A command line with its environment and input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Path, or a name to look up in `PATH`.
    pub program: String,
    /// Passed on unchanged; no shell expands them.
    pub arguments: Vec<String>,
    /// Added to `LC_ALL=C` and `TZ=UTC`, which cannot be overridden.
    pub environment: BTreeMap<String, String>,
    /// Standard input; None for `/dev/null`.
    pub input: Option<String>,
    /// Account to run as; None for the account of the service. See [`super::Runner::becoming`].
    pub account: Option<String>,
}

/// Exit and output of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Exit code; None if a signal ended it. Over ssh, and under another account, a signal may show as 128 plus its
    /// number.
    pub code: Option<i32>,
    /// Standard output, at most [`super::MOST_OUTPUT`] bytes.
    pub out: String,
    /// Standard error, at most [`super::MOST_OUTPUT`] bytes.
    pub err: String,
}

impl Command {
    /// A program without arguments, with the account and the environment of the service.
    pub fn new(program: impl Into<String>) -> Command {
        let (arguments, environment) = (Vec::new(), BTreeMap::new());
        Command { program: program.into(), arguments, environment, input: None, account: None }
    }

    /// Appends one argument.
    pub fn arg(mut self, argument: impl Into<String>) -> Command {
        self.arguments.push(argument.into());
        self
    }

    /// Appends arguments.
    pub fn args<S: Into<String>>(mut self, arguments: impl IntoIterator<Item = S>) -> Command {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Command {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Sets the standard input.
    pub fn input(mut self, text: impl Into<String>) -> Command {
        self.input = Some(text.into());
        self
    }

    /// Sets the account to run as; None for the account of the service.
    pub fn account(mut self, account: Option<String>) -> Command {
        self.account = account;
        self
    }
}

impl Outcome {
    /// Whether the exit code is 0.
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// The message for users: standard error, or standard output if that is empty, trimmed.
    pub fn said(&self) -> &str {
        // Some commands report a failure on standard output only, such as DENIED of `pbs_rsub`.
        let err = self.err.trim();
        if err.is_empty() { self.out.trim() } else { err }
    }
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

/// Quotes a word for a POSIX shell (not csh or fish): nothing between single quotes has a special meaning (Shell
/// Command Language, 2.2.2). None if it contains a NUL byte, which no argument can.
pub fn quoted(word: &str) -> Option<String> {
    if word.contains('\0') {
        return None;
    }
    // A single quote closes the quoted part, is escaped, and opens the next part.
    Some(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
