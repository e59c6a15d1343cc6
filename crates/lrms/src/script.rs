//! A job as one shell script, for batch systems that take nothing else, or that cannot be trusted with arguments (Grid Engine
//! writes them line by line into a file that a privileged program reads, so an argument with a line break would not
//! arrive whole). Each word that somebody else wrote stands between single quotes, where a shell reads nothing but the end of
//! the quotes. Nothing here runs anything.

use crate::error::LrmsError;
use crate::job::Work;

/// A script may be so many bytes long.
const MOST_BYTES: usize = 1 << 20;

/// The script that does a job's work, for `/bin/sh`.
pub(crate) fn script_of(work: &Work) -> Result<String, LrmsError> {
    let text = match work {
        Work::Pretended { run } => format!("#!/bin/sh\nexec sleep {}\n", run.0.max(0)),
        Work::Program { program, arguments, folder, environment } => {
            if program.is_empty() || program.starts_with('-') {
                return malformed("it names no program; name one by its path or name");
            }
            if !environment.keys().all(|name| is_variable(name)) {
                return malformed(
                    "a variable's name has other characters than letters, digits and _; rename it",
                );
            }
            let folder = folder.as_ref().map(|folder| folder.to_str().unwrap_or("\0"));
            if folder.is_some_and(|folder| !folder.starts_with('/')) {
                return malformed("its folder is not an absolute path; write it as one");
            }
            let mut text = String::from("#!/bin/sh\n");
            for (name, value) in environment {
                text.push_str(&format!("export {name}={}\n", quoted(value)));
            }
            if let Some(folder) = folder {
                text.push_str(&format!("cd {} || exit 126\n", quoted(folder)));
            }
            text + "exec " + &words(std::iter::once(program).chain(arguments)) + "\n"
        }
        Work::Script { text, arguments } => {
            let (interpreter, option) = interpreter(text)?;
            let before = words([interpreter].into_iter().chain(option));
            let after = words(arguments);
            let write = format!("script=$(mktemp) && printf %s {} > \"$script\" || exit 126", quoted(text));
            format!("#!/bin/sh\n{write}\nexec {before} \"$script\" {after}\n")
        }
    };
    if text.contains('\0') {
        return malformed("a program, script, folder, argument or variable contains a NUL; remove it");
    }
    if text.len() > MOST_BYTES {
        return malformed(&format!("it is longer than {MOST_BYTES} bytes; keep data in files"));
    }
    Ok(text)
}

/// The interpreter that a script names in its first line, and one argument for it.
fn interpreter(text: &str) -> Result<(&str, Option<&str>), LrmsError> {
    let Some(line) = text.strip_prefix("#!").and_then(|text| text.lines().next()) else {
        return Ok(("/bin/sh", None));
    };
    let line = line.trim();
    if !line.starts_with('/') {
        return malformed("its first line does not name an interpreter by an absolute path; correct it");
    }
    Ok(match line.split_once([' ', '\t']) {
        Some((program, option)) => (program, Some(option.trim_start())),
        None => (line, None),
    })
}

fn words<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> String {
    words.into_iter().map(|word| quoted(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// A word as a shell reads it back unchanged.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn is_variable(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(legal) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

fn malformed<T>(why: &str) -> Result<T, LrmsError> {
    Err(LrmsError::Malformed(why.into()))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::Write;
    use std::process::{Command, Stdio};

    const HOSTILE: [&str; 10] =
        ["a b", "it's", "\"q\"", "", "$(id)", "`id`", "*", "two\nlines", "-v", "grün; rm -rf /tmp/x\\"];

    fn run(script: &str) -> String {
        let mut shell = Command::new("/bin/sh").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        String::from_utf8(shell.wait_with_output().unwrap().stdout).unwrap()
    }

    fn hostile() -> Vec<String> {
        HOSTILE.map(String::from).to_vec()
    }

    fn bracketed() -> String {
        HOSTILE.map(|word| format!("[{word}]")).concat()
    }

    #[test]
    fn a_program_gets_its_words_as_they_were_given() {
        let environment = BTreeMap::from([("ODD".to_owned(), HOSTILE.concat())]);
        let arguments =
            [vec!["-c".into(), r#"printf '[%s]' "$@"; printf %s "$ODD$PWD""#.into(), "x".into()], hostile()];
        let work = Work::Program {
            program: "sh".into(),
            arguments: arguments.concat(),
            folder: Some("/".into()),
            environment,
        };
        assert_eq!(run(&script_of(&work).unwrap()), bracketed() + &HOSTILE.concat() + "/");
    }

    #[test]
    fn a_script_runs_in_its_interpreter_with_its_arguments() {
        let text = "#!/bin/sh -e\n#$ -sync y\nprintf '[%s]' \"$@\"\nfalse\necho 'never'\n".to_owned();
        let work = Work::Script { text, arguments: hostile() };
        assert_eq!(run(&script_of(&work).unwrap()), bracketed());
    }

    #[test]
    fn what_cannot_be_run_is_told() {
        let program = |program: &str, folder: Option<&str>, name: &str| Work::Program {
            program: program.into(),
            arguments: Vec::new(),
            folder: folder.map(Into::into),
            environment: BTreeMap::from([(name.into(), "x".into())]),
        };
        let script = |text: &str| Work::Script { text: text.into(), arguments: Vec::new() };
        let cases = [
            (program("", None, "A"), "names no program"),
            (program("-x", None, "A"), "names no program"),
            (program("x", Some("here"), "A"), "absolute"),
            (program("x", None, "A=B;"), "variable"),
            (program("x\0", None, "A"), "NUL"),
            (script("#!python\n"), "interpreter"),
            (script(&"x".repeat(MOST_BYTES)), "longer"),
        ];
        for (work, expected) in cases {
            let told = script_of(&work).unwrap_err().to_string();
            assert!(told.contains(expected), "{told}");
        }
    }
}
