//! A job as a script on the standard input of a submitting command, for batch systems that take nothing else, or that cannot
//! be trusted with arguments (Grid Engine writes them line by line into a file that a privileged program reads, so that one
//! with a line break would not arrive whole). A shell reads the script on the node where the job runs, and nothing that a
//! user wrote may have a meaning there: words are quoted, and the text of a user's script is a here-document whose lines all
//! begin with a mark that neither its end nor an option for the batch system begins with.
//!
//! What a job is given arrives to the byte. Variables are set by env(1), since a shell has names of its own that it would
//! refuse or change. The shell becomes the job's program (`exec`), so that signals and exit codes are those of the program; a
//! user's script is an open file then, without a name. Nothing here runs anything.

use crate::batch::{NO_GO, Submission};
use crate::builtin::processes::command;
use crate::command::quoted;
use crate::error::LrmsError;
use bookahead_party::Work;
use bookahead_plan::Seconds;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const END: &str = "END_OF_BOOKAHEAD_SCRIPT";
const NUL: &str = "it contains a NUL; remove it";

/// How a job calls a command of its batch system, which may not be where the job looks for commands.
pub(crate) fn called(program: &str, bin: Option<&str>) -> String {
    let bin = bin.and_then(quoted).map(|bin| format!("PATH={bin}:\"$PATH\" "));
    bin.unwrap_or_default() + program
}

/// The script of a job for a submitting command. One that claims waits for its go first: until the shell command `has_go`
/// succeeds. For `directive` see [`script`].
pub(crate) fn job_script(
    job: &Submission,
    directive: Option<&str>,
    has_go: &str,
) -> Result<String, LrmsError> {
    let first = job.go_within.map(|within| waiting(within, has_go));
    script(&job.work, directive, &first.unwrap_or_default())
}

/// Lines that let a job wait for its go: until the shell command `has_go` succeeds, or the time is up and it exits with
/// [`NO_GO`].
fn waiting(within: Seconds, has_go: &str) -> String {
    let within = within.0.max(0);
    format!(
        "bookahead_end=$(($(date +%s) + {within}))\n\
         until {has_go}; do\n\
         [ \"$(date +%s)\" -lt \"$bookahead_end\" ] || exit {NO_GO}\n\
         sleep 1\n\
         done\n"
    )
}

/// The script that does a job's work, for `/bin/sh`, after `first`. The lines at the head of a user's script that begin with
/// `directive` (`#BSUB`, `#PBS`) stay visible to the batch system; none where it is told not to look for any.
fn script(work: &Work, directive: Option<&str>, first: &str) -> Result<String, LrmsError> {
    command::check(work)?;
    let (head, rest) = match work {
        Work::Pretended { run } => (String::new(), format!("exec sleep {}\n", run.0.max(0))),
        Work::Program { program, arguments, folder, environment } => {
            (String::new(), of_program(program, arguments, folder.as_deref(), environment)?)
        }
        Work::Script { text, arguments } => {
            let lines = directive.into_iter().flat_map(|directive| directives(text, directive));
            (lines.map(|line| format!("{line}\n")).collect(), of_script(text, arguments)?)
        }
    };
    Ok(format!("#!/bin/sh\n{head}{first}{rest}"))
}

fn of_program(
    program: &str,
    arguments: &[String],
    folder: Option<&Path>,
    environment: &BTreeMap<String, String>,
) -> Result<String, LrmsError> {
    // Behind variables env(1) takes a word with a = for one more.
    if program.starts_with('-') || program.contains('=') {
        let why = format!("{program:?} names no program; name one, without = and no - before it");
        return Err(LrmsError::Malformed(why));
    }
    let mut text = String::new();
    if let Some(folder) = folder {
        let _ = writeln!(text, "cd {} || exit 126", word(&folder.to_string_lossy())?);
    }
    let variables = environment.iter().map(|(name, value)| format!("{name}={value}"));
    let words = variables.chain([program.to_owned()]).chain(arguments.iter().cloned());
    let words: Vec<String> = words.map(|plain| word(&plain)).collect::<Result<_, _>>()?;
    let _ = writeln!(text, "exec env -- {}", words.join(" "));
    Ok(text)
}

fn of_script(script: &str, arguments: &[String]) -> Result<String, LrmsError> {
    if script.contains('\0') {
        return Err(LrmsError::Malformed(NUL.into()));
    }
    let (interpreter, option) = command::interpreter(script).unwrap_or(("/bin/sh", None));
    let mut call = vec![word(interpreter)?];
    call.extend(option.map(word).transpose()?);
    call.push("/dev/fd/9".into());
    for argument in arguments {
        call.push(word(argument)?);
    }
    let mut text = String::from("bookahead_script=$(mktemp) || exit 126\n");
    let _ = writeln!(text, "sed 's/^.//' > \"$bookahead_script\" <<'{END}' || exit 126");
    let (lines, rest) = script.rsplit_once('\n').map_or((None, script), |(lines, rest)| (Some(lines), rest));
    for line in lines.into_iter().flat_map(|lines| lines.split('\n')) {
        let _ = writeln!(text, ":{line}");
    }
    let _ = writeln!(text, "{END}");
    // What no line break ends cannot stand in a here-document.
    if !rest.is_empty() {
        let _ = writeln!(text, "printf %s {} >> \"$bookahead_script\" || exit 126", word(rest)?);
    }
    // Open, it can be read after it was removed: the job leaves nothing behind.
    text.push_str("exec 9< \"$bookahead_script\" && rm -f \"$bookahead_script\" || exit 126\n");
    let _ = writeln!(text, "exec {}", call.join(" "));
    Ok(text)
}

/// The lines for the batch system: those before the first line that is neither a comment nor empty.
fn directives<'a>(script: &'a str, directive: &'a str) -> impl Iterator<Item = &'a str> {
    let head = script.lines().take_while(|line| line.trim().is_empty() || line.starts_with('#'));
    head.filter(move |line| line.split_whitespace().next() == Some(directive))
}

/// A word as a shell reads it back. Carriage returns are printed by it, since `sbatch` takes no script that has some.
fn word(plain: &str) -> Result<String, LrmsError> {
    let word = quoted(plain).ok_or_else(|| LrmsError::Malformed(NUL.into()))?;
    Ok(word.replace('\r', r#"'"$(printf '\r')"'"#))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::{Command, Output, Stdio};

    const HOSTILE: [&str; 18] = [
        "",
        "a b",
        "$(id)",
        "`id`",
        "it's",
        "\"q\"",
        "\\",
        "; exit 9",
        "-n",
        "-v",
        "--",
        "*",
        "~",
        "two\nlines",
        "grün €",
        "x=1",
        END,
        "\r\n\t",
    ];

    fn hostile() -> Vec<String> {
        HOSTILE.map(String::from).to_vec()
    }

    fn bracketed() -> String {
        HOSTILE.map(|word| format!("[{word}]")).concat()
    }

    /// What comes of a shell that reads the script for this, with its file in a folder of the test's.
    fn outcome(work: &Work) -> Output {
        let folder = tempfile::tempdir().unwrap();
        let mut shell = Command::new("/bin/sh");
        shell.env("TMPDIR", folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let script = script(work, None, "").unwrap();
        shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        shell.wait_with_output().unwrap()
    }

    fn run(work: &Work) -> String {
        String::from_utf8(outcome(work).stdout).unwrap()
    }

    fn text(text: &str, arguments: Vec<String>) -> Work {
        Work::Script { text: text.into(), arguments }
    }

    fn program(program: &str, arguments: Vec<String>, environment: &[(&str, &str)]) -> Work {
        let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Work::Program { program: program.into(), arguments, folder: Some("/".into()), environment }
    }

    #[test]
    fn a_program_gets_its_words_and_its_folder_as_they_were_given() {
        let mut arguments = vec!["-c".into(), r#"printf '[%s]' "$@"; pwd"#.into(), "sh".into()];
        arguments.extend(hostile());
        assert_eq!(run(&program("sh", arguments, &[])), bracketed() + "/\n");
    }

    #[test]
    fn variables_are_set_as_they_were_given_whatever_they_are_to_a_shell() {
        let names = ["ODD", "UID", "PPID", "RANDOM", "OPTIND", "IFS", "PS4"];
        let value = HOSTILE.concat();
        let printed =
            run(&program("printenv", names.map(String::from).into(), &names.map(|name| (name, &*value))));
        assert_eq!(printed, (value + "\n").repeat(names.len()));
    }

    #[test]
    fn a_script_runs_in_its_interpreter_with_its_arguments() {
        let script = "#!/bin/sh -e\n#$ -sync y\nprintf '[%s]' \"$@\"\nfalse\necho 'never'\n";
        assert_eq!(run(&text(script, hostile())), bracketed());
        assert_eq!(run(&text("echo yes", Vec::new())), "yes\n");
        assert_eq!(run(&text("#!/bin/sed -n /^y/p", Vec::new())), "");
    }

    #[test]
    fn a_script_arrives_to_the_byte() {
        let endings = ["", "\n", "\n\n", "\r\n", "\nno line break: it's $HOME `id`", "\n#BSUB -n 9"];
        for ending in endings {
            let middle = format!("\n:\n\n \t\n{END}\n'{END}'\n\\\n$(id)\rgrün{ending}");
            let script = format!("#! /bin/cat\t{middle}");
            assert_eq!(run(&text(&script, Vec::new())), script, "{ending:?}");
        }
        assert_eq!(run(&text("", Vec::new())), "");
    }

    #[test]
    #[cfg(unix)]
    fn the_end_of_the_program_is_that_of_the_script() {
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(outcome(&text("exit 7\n", Vec::new())).status.code(), Some(7));
        assert_eq!(outcome(&text("kill -15 $$", Vec::new())).status.signal(), Some(15));
        let killed = program("sh", vec!["-c".into(), "kill -9 $$".into()], &[]);
        assert_eq!(outcome(&killed).status.signal(), Some(9));
    }

    #[test]
    fn options_for_the_batch_system_are_visible_at_the_head_alone_and_where_it_looks_for_them() {
        let of = "#!/bin/sh\n#PBS -l mem=1gb\n#PBSX\n\necho\n#PBS -q other\n#PBS -q last";
        let visible = |directive: Option<&str>| {
            let script = script(&text(of, Vec::new()), directive, "").unwrap();
            let lines = script.lines().filter(|line| line.starts_with("#PBS"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(visible(Some("#PBS")), ["#PBS -l mem=1gb"]);
        assert_eq!((visible(Some("#BSUB")), visible(None)), (vec![], vec![]));
    }

    #[test]
    fn what_cannot_be_run_is_told() {
        let odd = |program: &str, folder: Option<&str>, name: &str| Work::Program {
            program: program.into(),
            arguments: Vec::new(),
            folder: folder.map(Into::into),
            environment: BTreeMap::from([(name.into(), "x".into())]),
        };
        let cases = [
            (odd("", None, "A"), "names no program"),
            (odd("-x", None, "A"), "names no program"),
            (odd("a=b", None, "A"), "names no program"),
            (odd("x", Some("here"), "A"), "absolute"),
            (odd("x", None, "A=B;"), "variable"),
            (odd("x\0", None, "A"), "NUL"),
            (odd("x", Some("/\0"), "A"), "NUL"),
            (text("\0\n", Vec::new()), "NUL"),
            (text("", vec!["\0".into()]), "NUL"),
            (text("#!python\n", Vec::new()), "interpreter"),
            (text(&"x".repeat(1 << 20), Vec::new()), "bytes long"),
        ];
        for (work, expected) in cases {
            let told = script(&work, None, "").unwrap_err().to_string();
            assert!(told.contains(expected), "{told}");
        }
    }
}
