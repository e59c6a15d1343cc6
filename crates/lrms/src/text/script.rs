//! A job as a script on the standard input of a submitting command. LSF and Torque hand what they read to a shell on the
//! node where the job runs, so nothing that a user wrote may be read by that shell: words are quoted, and the text of
//! a script is a here-document whose lines all begin with a mark that no end of one begins with.

use crate::error::LrmsError;
use crate::job::Work;
use bookahead_plan::Seconds;
use std::fmt::Write;
use std::path::Path;

/// A job may be described in so many bytes.
const MOST_BYTES: usize = 1 << 20;
const END: &str = "END_OF_BOOKAHEAD_SCRIPT";

/// The script for a job. The lines at the head of a user's script that begin with `directive` (`#BSUB`, `#PBS`) stay
/// visible to the batch system; what is said on its command line wins over them.
pub(crate) fn script(work: &Work, directive: &str) -> Result<String, LrmsError> {
    let text = match work {
        Work::Pretended { run } => format!("#!/bin/sh\nexec sleep {}\n", run.0.max(0)),
        Work::Program { program, arguments, folder, environment } => {
            let variables = environment.iter().map(|(name, value)| format!("{name}={value}"));
            if let Some(name) = environment.keys().find(|name| !is_variable(name)) {
                return malformed(format!(
                    "{name:?} cannot be the name of a variable; use letters, digits and _"
                ));
            }
            let words: Vec<String> =
                variables.chain([program.clone()]).chain(arguments.iter().cloned()).collect();
            of_program(&words, program, folder.as_deref())?
        }
        Work::Script { text, arguments } => of_script(text, arguments, directive)?,
    };
    if text.contains('\0') {
        return malformed("it contains a NUL; remove it".into());
    }
    if text.len() > MOST_BYTES {
        return malformed(format!("it is longer than {MOST_BYTES} bytes; keep data in files"));
    }
    Ok(text)
}

/// A limit in whole minutes, as it is said on a command line: never less than was asked for.
pub(crate) fn minutes(limit: Seconds) -> i64 {
    limit.0.max(1).saturating_add(59) / 60
}

fn of_program(words: &[String], program: &str, folder: Option<&Path>) -> Result<String, LrmsError> {
    if program.is_empty() || program.contains('=') {
        return malformed("it names no program that env(1) could run; name one without =".into());
    }
    let mut text = String::from("#!/bin/sh\n");
    if let Some(folder) = folder {
        let Some(folder) = folder.to_str().filter(|_| folder.is_absolute()) else {
            return malformed(format!(
                "the folder {} is not an absolute path; write it as one",
                folder.display()
            ));
        };
        let _ = writeln!(text, "cd {} || exit 126", quoted(folder));
    }
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let _ = writeln!(text, "exec env -- {}", words.join(" "));
    Ok(text)
}

fn of_script(script: &str, arguments: &[String], directive: &str) -> Result<String, LrmsError> {
    let interpreter =
        script.strip_prefix("#!").and_then(|rest| rest.lines().next()).map_or("/bin/sh", str::trim);
    if !interpreter.starts_with('/') {
        return malformed(
            "its first line does not name an interpreter by an absolute path; correct it".into(),
        );
    }
    let (program, option) = interpreter.split_once([' ', '\t']).unwrap_or((interpreter, ""));
    let mut call = vec![quoted(program)];
    call.extend(Some(option.trim()).filter(|option| !option.is_empty()).map(quoted));
    call.push("\"$bookahead_script\"".into());
    call.extend(arguments.iter().map(|argument| quoted(argument)));
    let mut text = String::from("#!/bin/sh\n");
    for line in directives(script, directive) {
        let _ = writeln!(text, "{line}");
    }
    text.push_str("bookahead_script=$(mktemp) || exit 126\ntrap 'rm -f \"$bookahead_script\"' EXIT\n");
    let _ = writeln!(text, "sed 's/^.//' > \"$bookahead_script\" <<'{END}'");
    for line in script.lines() {
        let _ = writeln!(text, ":{line}");
    }
    let _ = writeln!(text, "{END}\n{}", call.join(" "));
    Ok(text)
}

/// The lines for the batch system: those before the first line that is neither a comment nor empty.
fn directives<'a>(script: &'a str, directive: &'a str) -> impl Iterator<Item = &'a str> {
    let head = script.lines().take_while(|line| line.trim().is_empty() || line.starts_with('#'));
    head.filter(move |line| line.split_whitespace().next() == Some(directive))
}

/// A word as a POSIX shell reads it back.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn is_variable(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(legal) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

fn malformed<T>(why: String) -> Result<T, LrmsError> {
    Err(LrmsError::Malformed(why))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    fn run(script: &str) -> String {
        let mut shell = Command::new("/bin/sh").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        String::from_utf8(shell.wait_with_output().unwrap().stdout).unwrap()
    }

    fn hostile() -> Vec<String> {
        let words = [
            "",
            "a b",
            "$(id)",
            "`id`",
            "it's",
            "\"",
            "\\",
            "; exit 9",
            "-n",
            "*",
            "~",
            "two\nlines",
            "ä€",
            "x=1",
        ];
        words.map(String::from).to_vec()
    }

    #[test]
    fn a_program_sees_its_words_as_they_were_written() {
        let mut arguments = vec!["%s\\0".to_owned()];
        arguments.extend(hostile());
        let environment = BTreeMap::from([("A".to_owned(), "it's $HOME".to_owned())]);
        let work = Work::Program { program: "printf".into(), arguments, folder: None, environment };
        let seen = run(&script(&work, "#PBS").unwrap());
        assert_eq!(seen.split_terminator('\0').collect::<Vec<_>>(), hostile());
    }

    #[test]
    fn a_program_runs_in_its_folder_with_its_variables() {
        let work = Work::Program {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), "pwd; echo \"$A\"".into()],
            folder: Some("/".into()),
            environment: BTreeMap::from([("A".to_owned(), "it's $HOME".to_owned())]),
        };
        assert_eq!(run(&script(&work, "#PBS").unwrap()), "/\nit's $HOME\n");
    }

    #[test]
    fn a_script_sees_its_arguments_and_no_shell_reads_it_on_the_way() {
        let text =
            format!("#!/bin/sh\n#PBS -l mem=1gb\n{END}=$1\necho \"${END} '$2' $#\"\n:\n\n#PBS -q other\n");
        let work = Work::Script { text, arguments: vec!["a b".into(), "$(id)".into()] };
        let script = script(&work, "#PBS").unwrap();
        assert_eq!(run(&script), "a b '$(id)' 2\n");
        let visible: Vec<&str> = script.lines().filter(|line| line.starts_with("#PBS")).collect();
        assert_eq!(visible, ["#PBS -l mem=1gb"]);
    }

    #[test]
    fn a_script_names_its_interpreter_or_gets_a_shell() {
        let of = |text: &str| Work::Script { text: text.into(), arguments: Vec::new() };
        assert_eq!(run(&script(&of("echo yes"), "#PBS").unwrap()), "yes\n");
        assert_eq!(run(&script(&of("#!/bin/sed -n /^y/p"), "#PBS").unwrap()), "");
        assert!(script(&of("#!sh"), "#PBS").is_err());
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let program = |program: &str| Work::Program {
            program: program.into(),
            arguments: Vec::new(),
            folder: None,
            environment: BTreeMap::new(),
        };
        for work in [program(""), program("a=b"), program("a\0b")] {
            assert!(matches!(script(&work, "#PBS"), Err(LrmsError::Malformed(_))));
        }
        let huge = Work::Script { text: "x".repeat(MOST_BYTES + 1), arguments: Vec::new() };
        assert!(script(&huge, "#PBS").is_err());
    }

    #[test]
    fn limits_round_up_to_minutes() {
        let limits = [0, 1, 60, 61, i64::MAX].map(|limit| minutes(Seconds(limit)));
        assert_eq!(limits, [1, 1, 1, 2, i64::MAX / 60]);
    }
}
