//! A job as a script on the standard input of a submit command, for batch systems that accept nothing else or that
//! damage arguments (Grid Engine writes them line by line into a file for a privileged program, so an argument with a
//! line break would be cut). A shell runs the script on the node of the job, and no text of a user may have a meaning
//! there. Words are quoted, and a user's script is a here-document. Each of its lines begins with a mark, so that
//! none can be the end of the document or a directive for the batch system.
//!
//! All data of a job arrives unchanged. Variables are set with env(1), since a shell would refuse or change some
//! names. The shell is replaced by the job's program (`exec`), so signals and exit codes are those of the program; a
//! user's script is then an open file without a name. Nothing here runs anything.

use super::directives::Directives;
use crate::batch::{NO_GO, Submission};
use crate::builtin::processes::command;
use crate::command::{Command, quoted};
use crate::environment::{is_own, variables};
use crate::error::LrmsError;
use bookahead_party::Work;
use bookahead_plan::Seconds;
use bookahead_protocol::JobId;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const END: &str = "END_OF_BOOKAHEAD_SCRIPT";
const NUL: &str = "it contains a NUL byte; remove it";

/// How a job calls a command of its batch system, which may not be in the `PATH` of the job.
pub(crate) fn called(program: &str, bin: Option<&str>) -> String {
    let bin = bin.and_then(quoted).map(|bin| format!("PATH={bin}:\"$PATH\" "));
    bin.unwrap_or_default() + program
}

/// The script of a job for a submit command. A claiming job first waits until the shell command `has_go` succeeds. A
/// job without a folder runs in `folder`, or where the batch system starts it. For `directives` see [`head`].
pub(crate) fn job_script(
    job: &Submission,
    folder: Option<&Path>,
    directives: Option<&Directives>,
    has_go: &str,
) -> Result<String, LrmsError> {
    let mut first = job.go_within.map(|within| waiting(within, has_go)).unwrap_or_default();
    let names_none = matches!(job.work, Work::Script { .. } | Work::Program { folder: None, .. });
    if let Some(folder) = folder.filter(|_| names_none) {
        first.push_str(&enter(folder)?);
    }
    if !matches!(job.work, Work::Pretended { .. }) {
        first.push_str(&exports(job));
        first.push_str(THREADS);
    }
    let head = match (&job.work, directives) {
        (Work::Script { text, .. }, Some(directives)) => head(text, directives, job.account.is_some())?,
        _ => String::new(),
    };
    script(&job.work, &head, &first)
}

/// The file for standard output and standard error of a job, named after its id: in `folder`, or else relative to the
/// home folder.
pub(crate) fn output_file(job: &Submission, folder: Option<&Path>) -> String {
    match id_of(job) {
        Some(id) => file_of(id, folder),
        None => within(folder, format!("{}.out", job.name)),
    }
}

/// The same for a job of ours.
pub(crate) fn file_of(id: JobId, folder: Option<&Path>) -> String {
    within(folder, format!("{id}.out"))
}

fn within(folder: Option<&Path>, file: String) -> String {
    folder.map_or(file.clone(), |folder| folder.join(file).to_string_lossy().into_owned())
}

/// The id in the name of a job.
fn id_of(job: &Submission) -> Option<JobId> {
    job.name.rsplit_once('_').and_then(|(id, _)| id.parse().ok())
}

/// Shell lines that set the variables of the job.
fn exports(job: &Submission) -> String {
    let all = variables(id_of(job), job.amount, job.within.as_ref());
    all.into_iter().map(|(name, value)| format!("export {name}={value}\n")).collect()
}

/// Makes a submit command run in the home folder of its account, as relative paths are relative to its working
/// folder. `HOME` may still be that of the account that ran sudo.
pub(crate) fn from_home(command: Command) -> Command {
    by_shell(
        command,
        "home=$(getent passwd \"$(id -un)\" | cut -d: -f6); cd \"${home:-$HOME}\" && exec \"$@\"",
    )
}

/// Runs a command through a shell as `"$@"`, so no part of the command has a meaning to the shell.
pub(crate) fn by_shell(command: Command, text: &str) -> Command {
    let words = ["-c", text, "sh", &command.program].map(str::to_owned);
    let arguments = words.into_iter().chain(command.arguments).collect();
    Command { program: "sh".into(), arguments, ..command }
}

/// PBS sets both variables to the cores of one chunk, and our chunks have one core each: a program with threads would
/// use only one of its cores. This sets both to the cores of the job on its first host; its list of hosts has a line
/// for each chunk.
const THREADS: &str = r#"if [ -n "$OMP_NUM_THREADS" ] && [ "$OMP_NUM_THREADS" = "$NCPUS" ] && [ -r "$PBS_NODEFILE" ]; then
NCPUS=$((NCPUS * $(grep -cxF -e "$(head -n 1 "$PBS_NODEFILE")" "$PBS_NODEFILE")))
OMP_NUM_THREADS=$NCPUS
fi
"#;

fn enter(folder: &Path) -> Result<String, LrmsError> {
    Ok(format!("cd {} || exit 126\n", word(&folder.to_string_lossy())?))
}

/// Shell lines in which a job waits for its go-ahead: until the shell command `has_go` succeeds, or until the time is
/// up and it exits with [`NO_GO`].
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

/// The script for `/bin/sh` that runs a job's work after `first`, with `head` visible to the batch system.
fn script(work: &Work, head: &str, first: &str) -> Result<String, LrmsError> {
    command::check(work)?;
    let rest = match work {
        Work::Pretended { run } => format!("exec sleep {}\n", run.0.max(0)),
        Work::Program { program, arguments, folder, environment } => {
            of_program(program, arguments, folder.as_deref(), environment)?
        }
        Work::Script { text, arguments } => of_script(text, arguments)?,
    };
    Ok(format!("#!/bin/sh\n{head}{first}{rest}"))
}

/// Lines of a user's script that stay visible to the batch system: as they are if the job runs under the user's own
/// account, otherwise only what is [harmless](Directives).
fn head(text: &str, directives: &Directives, has_account: bool) -> Result<String, LrmsError> {
    let lines = lines(text, directives.prefix);
    let lines = match has_account {
        true => lines.map(str::to_owned).collect(),
        false => directives.checked(lines)?,
    };
    Ok(lines.iter().map(|line| format!("{line}\n")).collect())
}

fn of_program(
    program: &str,
    arguments: &[String],
    folder: Option<&Path>,
    environment: &BTreeMap<String, String>,
) -> Result<String, LrmsError> {
    // env(1) takes a word with a = before the program for a variable.
    if program.starts_with('-') || program.contains('=') {
        let why = format!("{program:?} names no program; name one that does not begin with - or contain =");
        return Err(LrmsError::Malformed(why));
    }
    let mut text = String::new();
    if let Some(folder) = folder {
        text.push_str(&enter(folder)?);
    }
    let given = environment.iter().filter(|(name, _)| !is_own(name));
    let variables = given.map(|(name, value)| format!("{name}={value}"));
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
    // Text without a final line break cannot be part of a here-document.
    if !rest.is_empty() {
        let _ = writeln!(text, "printf %s {} >> \"$bookahead_script\" || exit 126", word(rest)?);
    }
    // An open file can be read after it was removed, so the job leaves nothing behind.
    text.push_str("exec 9< \"$bookahead_script\" && rm -f \"$bookahead_script\" || exit 126\n");
    let _ = writeln!(text, "exec {}", call.join(" "));
    Ok(text)
}

/// The directives: lines before the first line that is neither a comment nor empty.
pub(crate) fn lines<'a>(script: &'a str, directive: &'a str) -> impl Iterator<Item = &'a str> {
    let head = script.lines().take_while(|line| line.trim().is_empty() || line.starts_with('#'));
    head.filter(move |line| line.split_whitespace().next() == Some(directive))
}

/// Quotes a word for the shell. Carriage returns are printed by the shell itself, since `sbatch` rejects scripts that
/// contain any.
fn word(plain: &str) -> Result<String, LrmsError> {
    let word = quoted(plain).ok_or_else(|| LrmsError::Malformed(NUL.into()))?;
    Ok(word.replace('\r', r#"'"$(printf '\r')"'"#))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Place, Unit};
    use crate::dialect::directives::Style;
    use crate::environment::Within;
    use bookahead_plan::{Interval, Time};
    use bookahead_protocol::ReservationId;
    use std::io::Write as _;
    use std::process::{Command as Process, Output, Stdio};

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

    /// Runs the script in a shell, with its temporary file in a folder of the test.
    fn outcome(work: &Work) -> Output {
        let folder = tempfile::tempdir().unwrap();
        let mut shell = Process::new("/bin/sh");
        shell.env("TMPDIR", folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let script = script(work, "", "").unwrap();
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

    fn submission(work: Work) -> Submission {
        let place =
            Place { resource: "cpu".into(), unit: Unit::Cores, partition: None, features: Vec::new() };
        Submission {
            restartable: false,
            name: "job".into(),
            place,
            amount: 4,
            limit: Seconds(60),
            reservations: Vec::new(),
            within: None,
            account: None,
            project: None,
            qos: None,
            work,
            go_within: None,
            held: false,
        }
    }

    fn printed_with(work: Work, variables: &[(&str, &str)], hosts: &str) -> String {
        printed(&submission(work), variables, hosts)
    }

    /// The output of a job whose batch system sets these variables and this list of hosts.
    fn printed(job: &Submission, variables: &[(&str, &str)], hosts: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("hosts");
        std::fs::write(&list, hosts).unwrap();
        let mut shell = Process::new("/bin/sh");
        shell.env_remove("OMP_NUM_THREADS").env_remove("NCPUS").envs(variables.iter().copied());
        shell.args(["-c", &job_script(job, None, None, "").unwrap()]).env("PBS_NODEFILE", &list);
        String::from_utf8(shell.output().unwrap().stdout).unwrap()
    }

    #[test]
    fn a_job_of_several_one_core_chunks_has_as_many_threads_as_cores_on_its_host() {
        let shows = || text("echo \"$OMP_NUM_THREADS,$NCPUS\"", Vec::new());
        let of_pbs = [("OMP_NUM_THREADS", "1"), ("NCPUS", "1")];
        assert_eq!(printed_with(shows(), &of_pbs, "n1\nn1\nn1\nn10\n"), "3,3\n");
        let whole = [("OMP_NUM_THREADS", "8"), ("NCPUS", "8")];
        assert_eq!(printed_with(shows(), &whole, "n1\nn2\n"), "8,8\n");
        assert_eq!(printed_with(shows(), &[], "n1\nn1\n"), ",\n", "it was not set");
        assert_eq!(printed_with(shows(), &[("OMP_NUM_THREADS", "2"), ("NCPUS", "1")], "n1\nn1\n"), "2,1\n");
        let owns = program("printenv", vec!["OMP_NUM_THREADS".into()], &[("OMP_NUM_THREADS", "1")]);
        assert_eq!(printed_with(owns, &of_pbs, "n1\nn1\n"), "1\n", "what the user says counts");
    }

    #[test]
    fn a_job_knows_its_reservation_and_cannot_choose_another() {
        let interval = Interval::new(Time(0), Time(3600));
        let within = Some(Within { id: ReservationId(0x4f), interval });
        let names = ["BOOKAHEAD_JOB", "BOOKAHEAD_CAPACITY", "BOOKAHEAD_RESERVATION", "BOOKAHEAD_END"];
        let work = program("printenv", names.map(String::from).into(), &names.map(|name| (name, "own")));
        let job = Submission { name: "job_7_north".into(), within, ..submission(work) };
        assert_eq!(printed(&job, &[], ""), "job_7\n4\nrsv_4f\n1970-01-01T01:00:00Z\n");
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
        let directives = |prefix| Directives { prefix, style: Style::Letters, passed: &[], own: &[] };
        let visible = |prefix, has_account| head(of, &directives(prefix), has_account);
        assert_eq!(visible("#PBS", true).unwrap(), "#PBS -l mem=1gb\n");
        assert_eq!(visible("#BSUB", true).unwrap(), "");
        assert_eq!(visible("#BSUB", false).unwrap(), "");
        let refused = visible("#PBS", false).unwrap_err().to_string();
        assert!(refused.contains("-l is not allowed"), "{refused}");
        let shown = script(&text(of, Vec::new()), "", "").unwrap();
        assert!(!shown.lines().any(|line| line.starts_with("#PBS")), "{shown}");
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
            let told = script(&work, "", "").unwrap_err().to_string();
            assert!(told.contains(expected), "{told}");
        }
    }
}
