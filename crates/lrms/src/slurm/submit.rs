//! Submitting a job. The script goes to `sbatch` as its input and arguments as a list: no shell interprets them on the way. What a
//! script asks for in its `#SBATCH` lines counts, but partition, reservation, project, name, time and size are ours.
//!
//! A job runs with `PATH`, `HOME`, `USER`, `LOGNAME`, `SHELL` and `LANG` of who submits, with what the job gives and with
//! Slurm's own variables; nothing else of our environment gets there. It writes to `NAME.out` in its folder.
//!
//! A job that claims polls its own comment with `squeue` and runs once that says so. Operators may change the comments of jobs.

use super::refusal;
use super::speech::{self, Speech};
use crate::batch::projects::is_project;
use crate::batch::{Submission, Unit};
use crate::command::{Command, Outcome, is_variable};
use crate::error::LrmsError;
use crate::text::script::{called, script, waiting};
use bookahead_party::Work;
use std::path::Path;

/// Sets the variables before `--` and becomes the program behind it.
const PROGRAM: &str = "#!/bin/sh
while [ \"$1\" != -- ]; do export \"$1\"; shift; done
shift
exec \"$@\"
";

/// A job may be described in so many bytes.
const MOST_BYTES: usize = 1 << 20;

/// How the comment of a job begins that was submitted into a reservation: Slurm forgets into which when that is over.
pub(super) const INSIDE: &str = "bookahead: inside ";

/// How the comment of a job ends that waits for its go, and what it is when it has got it: the job itself reads it.
const CLAIMS: &str = "(claims)";
const GO: &str = "bookahead: go";

/// What a job gets of our environment.
const EXPORTED: &str = "PATH,HOME,USER,LOGNAME,SHELL,LANG";

pub(super) fn submit(speech: &Speech, job: &Submission, jobs: &Path) -> Result<String, LrmsError> {
    let mut work = parts(&job.work)?;
    if let Some(within) = job.go_within {
        work.script = script(&job.work, Some("#SBATCH"), &waiting(within, &has_go(speech)))?;
        work.arguments.clear();
    }
    check(job, &work)?;
    let command = command(speech, job, jobs, &work)?;
    let outcome = speech.ask(&command)?;
    if !outcome.is_success() {
        return Err(refused(speech, job, &command, &outcome));
    }
    // `17`, or `17;cluster`.
    let id = outcome.out.trim().lines().last().and_then(|line| line.split(';').next()).unwrap_or_default();
    let unreadable = || LrmsError::Unreadable {
        command: speech::shown(&command),
        why: format!("{:?} is no job", outcome.out.trim()),
    };
    super::delete::named(id).map(str::to_owned).ok_or_else(unreadable)
}

/// What tells a job, in its shell, that it has got its go.
fn has_go(speech: &Speech) -> String {
    let squeue = called("squeue", speech.bin());
    format!("[ \"$({squeue} -h -j \"$SLURM_JOB_ID\" -o %k)\" = '{GO}' ]")
}

/// Whether a job with this comment waits for its go.
pub(super) fn claims(comment: &str) -> bool {
    comment.starts_with("bookahead: ") && comment.ends_with(CLAIMS)
}

/// Lets a job run that claims.
pub(super) fn go(speech: &Speech, native: &str) -> Result<(), LrmsError> {
    let what = format!("to let the job {native} run");
    let Some(native) = super::delete::named(native) else {
        return Err(LrmsError::Refused { what, said: "that is no job".into() });
    };
    let command = speech.scontrol(["update", &format!("JobId={native}"), &format!("Comment={GO}")]);
    let outcome = speech.ask(&command)?;
    let over = ["Invalid job id", "already completing or completed", "already finished"];
    match outcome.said() {
        _ if outcome.is_success() => Ok(()),
        said if over.iter().any(|words| said.contains(words)) => {
            Err(LrmsError::Refused { what, said: said.to_owned() })
        }
        _ => Err(speech::failed(&command, &outcome)),
    }
}

/// Why a job was not taken.
fn refused(speech: &Speech, job: &Submission, command: &Command, outcome: &Outcome) -> LrmsError {
    let what = format!("the job {}", job.name);
    if refusal::is_about_projects(outcome.said()) {
        let us = || refusal::who_we_are(speech).unwrap_or_else(|_| "the account of the service".into());
        let user = job.account.clone().unwrap_or_else(us);
        return refusal::invalid_project(what, &user, job.project.as_deref(), outcome);
    }
    match refusal::refused(what.as_str(), command, outcome) {
        LrmsError::Failed { .. } if outcome.said().contains("sbatch: error:") => {
            let lines = outcome.said().lines().map(|line| line.trim_start_matches("sbatch: error: "));
            LrmsError::Refused { what, said: lines.collect::<Vec<_>>().join(" ") }
        }
        other => other,
    }
}

/// The script, its arguments and where it runs.
struct Parts {
    script: String,
    arguments: Vec<String>,
    folder: Option<String>,
}

fn parts(work: &Work) -> Result<Parts, LrmsError> {
    match work {
        Work::Program { program, arguments, folder, environment } => {
            if let Some(name) = environment.keys().find(|name| !is_variable(name)) {
                return malformed(format!(
                    "{name:?} cannot be the name of a variable; use letters, digits and _"
                ));
            }
            if program.is_empty() || program.starts_with('-') {
                return malformed(format!("{program:?} is no program; name one"));
            }
            if folder.as_ref().is_some_and(|folder| !folder.is_absolute()) {
                return malformed("its folder is not an absolute path; write it as one".into());
            }
            let variables = environment.iter().map(|(name, value)| format!("{name}={value}"));
            let words = variables.chain(["--".into(), program.clone()]).chain(arguments.iter().cloned());
            let folder = folder.as_ref().map(|folder| folder.display().to_string());
            Ok(Parts { script: PROGRAM.into(), arguments: words.collect(), folder })
        }
        Work::Script { text, arguments } => {
            let script = if text.starts_with("#!") { text.clone() } else { format!("#!/bin/sh\n{text}") };
            Ok(Parts { script, arguments: arguments.clone(), folder: None })
        }
        Work::Pretended { run } => {
            let arguments = vec!["--".into(), "sleep".into(), run.0.max(0).to_string()];
            Ok(Parts { script: PROGRAM.into(), arguments, folder: None })
        }
    }
}

fn check(job: &Submission, work: &Parts) -> Result<(), LrmsError> {
    let Parts { script, arguments, folder } = work;
    let texts = || arguments.iter().chain(folder).chain([script]);
    if texts().any(|text| text.contains('\0')) {
        return malformed("a script, program, folder, argument or variable contains a NUL; remove it".into());
    }
    let bytes = texts().fold(0usize, |sum, text| sum.saturating_add(text.len()));
    if bytes > MOST_BYTES {
        return malformed(format!(
            "it is {bytes} bytes long, and {MOST_BYTES} are allowed; keep data in files"
        ));
    }
    if script.contains("\r\n") {
        return malformed("its lines end as in DOS; write it with Unix line breaks".into());
    }
    if let Some(line) = script.lines().find(|line| is_several_jobs(line)) {
        return malformed(format!("{line:?} asks for several jobs; submit each by itself"));
    }
    let words = [&job.name]
        .into_iter()
        .chain(&job.place.partition)
        .chain(job.reservations.iter().map(|handle| &handle.0));
    if let Some(word) =
        words.into_iter().find(|word| word.is_empty() || word.contains([',', ' ', '\0', '\n']))
    {
        return malformed(format!("{word:?} is no name"));
    }
    if let Some(project) = job.project.as_ref().filter(|project| !is_project(project)) {
        return malformed(format!("{project:?} is no project; use letters, digits, `.`, `_` and `-`"));
    }
    Ok(())
}

/// Whether a line of a script makes an array or a heterogeneous job of it.
fn is_several_jobs(line: &str) -> bool {
    let Some(options) = line.strip_prefix("#SBATCH") else { return false };
    let mut words = options.split_whitespace();
    words.any(|word| {
        let short = word.starts_with("-a") && !word.starts_with("--");
        short || word == "hetjob" || word == "packjob" || word == "--array" || word.starts_with("--array=")
    })
}

/// Whether a script has a comment of its own, which is left to it.
fn has_comment(script: &str) -> bool {
    script.lines().any(|line| line.starts_with("#SBATCH") && line.contains("--comment"))
}

fn command(speech: &Speech, job: &Submission, jobs: &Path, work: &Parts) -> Result<Command, LrmsError> {
    let default = || jobs.display().to_string();
    let folder = work.folder.clone().unwrap_or_else(default);
    // Slurm takes a `%` in the name of a file for a pattern.
    let output = format!("{}/{}.out", folder.trim_end_matches('/').replace('%', "%%"), job.name);
    let minutes = job.limit.0.max(1).saturating_add(59) / 60;
    let mut options = vec![
        "--parsable".to_owned(),
        format!("--job-name={}", job.name),
        format!("--time={minutes}"),
        format!("--chdir={folder}"),
        format!("--output={output}"),
        format!("--export={EXPORTED}"),
        "--no-requeue".to_owned(),
    ];
    options.extend(job.project.iter().map(|project| format!("--account={project}")));
    options.extend(job.place.partition.iter().map(|partition| format!("--partition={partition}")));
    if !job.place.features.is_empty() {
        options.push(format!("--constraint={}", job.place.features.join("&")));
    }
    options.extend(size(job));
    // Where there is none, a reservation that a script names must not count.
    let reservations: Vec<&str> = job.reservations.iter().map(|handle| handle.0.as_str()).collect();
    options.push(format!("--reservation={}", reservations.join(",")));
    let inside = match reservations.is_empty() {
        true => "bookahead: ".to_owned(),
        false => format!("{INSIDE}{} ", reservations.join(",")),
    };
    if job.go_within.is_some() {
        options.push(format!("--comment={inside}{CLAIMS}"));
    } else if !reservations.is_empty() && !has_comment(&work.script) {
        options.push(format!("--comment={}", inside.trim_end()));
    }
    let sbatch = speech.command("sbatch").args(options).arg("/dev/stdin").args(work.arguments.clone());
    let command = sbatch.input(work.script.clone());
    Ok(match &job.account {
        None => command,
        Some(account) => with_input_of_its_own(command).account(Some(account.clone())),
    })
}

/// Our pipe belongs to us, and no other account may open it by name, as `sbatch` does; one that is made there belongs to him.
fn with_input_of_its_own(command: Command) -> Command {
    let words = ["-c", "cat | \"$@\"", "sh", &command.program].map(str::to_owned);
    let arguments = words.into_iter().chain(command.arguments).collect();
    Command { program: "sh".into(), arguments, ..command }
}

/// One task for each core, on as few nodes as Slurm likes; or whole nodes with nobody else on them.
fn size(job: &Submission) -> Vec<String> {
    let amount = job.amount.max(1);
    match job.place.unit {
        Unit::Cores => vec![
            format!("--ntasks={amount}"),
            format!("--nodes=1-{amount}"),
            "--cpus-per-task=1".into(),
            "--ntasks-per-core=1".into(),
        ],
        Unit::Nodes => vec![format!("--nodes={amount}"), format!("--ntasks={amount}"), "--exclusive".into()],
    }
}

fn malformed<T>(why: String) -> Result<T, LrmsError> {
    Err(LrmsError::Malformed(why))
}
