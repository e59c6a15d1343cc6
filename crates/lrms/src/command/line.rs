//! The words that are really run for a command: who becomes another account first, what sets the environment where ours
//! does not reach, and what ends it where we cannot. Words stay words; nothing here is read by a shell.
//!
//! Whoever becomes another account leaves our environment behind, and cannot be ended by us unless we are root. So behind
//! the prefix stand `timeout` and `env`, which run as that account. The same stands on the other side of ssh.

use super::Command;
use crate::error::LrmsError;
use std::time::Duration;

/// What holds for every command, whatever it asks for.
pub(super) const ALWAYS: [(&str, &str); 2] = [("LC_ALL", "C"), ("TZ", "UTC")];

/// From being asked to end to being ended, by `timeout`, in seconds.
const GRACE: &str = "2";

/// Stands for the account in the words of a prefix.
const USER: &str = "{user}";

/// Whether a command can be run at all, wherever.
pub(super) fn check(command: &Command) -> Result<(), LrmsError> {
    let refused = |why: &str| {
        let what = command.program.replace('\0', "\u{fffd}");
        Err(LrmsError::NotRunnable { what: format!("{what:?}"), why: why.into() })
    };
    // Between variables and arguments `env` takes a word with a = for a variable.
    if command.program.is_empty() || command.program.contains('=') {
        return refused("this is not the name of a program; name one, without =");
    }
    let variables = &command.environment;
    let words = command.arguments.iter().chain(variables.values()).chain([&command.program]);
    if words.into_iter().any(|word| word.contains('\0')) {
        return refused("a word of it contains a NUL; remove it");
    }
    if let Some(name) = variables.keys().find(|name| !is_variable(name)) {
        return refused(&format!("{name:?} cannot be the name of a variable; use letters, digits and _"));
    }
    Ok(())
}

/// What its environment gets beside [`ALWAYS`].
pub(super) fn own_environment(command: &Command) -> impl Iterator<Item = (&str, &str)> {
    let own = command.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    own.filter(|(name, _)| ALWAYS.iter().all(|(always, _)| always != name))
}

/// All words of a command for a place where neither our environment nor our time-out counts.
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

/// What stands before a command that runs as `account`.
fn becoming(program: &str, prefix: &[String], account: &str) -> Result<Vec<String>, LrmsError> {
    let refused = |why: String| {
        Err(LrmsError::NotRunnable { what: format!("{program} as the account {account:?}"), why })
    };
    if !is_account(account) {
        return refused(
            "this cannot be the name of an account; map the user to an account of the cluster".into(),
        );
    }
    if prefix.is_empty() {
        return refused(format!(
            "it is not configured how to become another account; configure a prefix, such as sudo -n -u {USER} --"
        ));
    }
    Ok(prefix.iter().map(|word| word.replace(USER, account)).collect())
}

/// `[A-Za-z_][A-Za-z0-9_.-]*\$?`: never an option, a number, or something that a program would take apart.
pub(super) fn is_account(name: &str) -> bool {
    let name = name.strip_suffix('$').unwrap_or(name).as_bytes();
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
    name.first().is_some_and(|first| first.is_ascii_alphabetic() || *first == b'_') && name.iter().all(legal)
}

/// Shells and `env` pass on no others.
pub(crate) fn is_variable(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(legal) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

/// Never less than was meant: the side that waits gives up first and knows that it did.
pub(super) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).max(1)
}

/// Whether `env` says that there is no such program: then nothing was done. It exits with 127, or 126 where the file is there
/// and may not be run (coreutils manual, "env invocation", exit status).
pub(super) fn says_no_such_program(program: &str, code: Option<i32>, err: &str) -> bool {
    let complaint = |line: &str| line.starts_with("env: ") && line.contains(program);
    matches!(code, Some(126 | 127)) && err.lines().last().is_some_and(complaint)
}

#[cfg(test)]
mod tests {
    use super::{Command, check, is_account, says_no_such_program, whole_seconds, words};
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
}
