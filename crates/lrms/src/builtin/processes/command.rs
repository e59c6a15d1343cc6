//! How a job's program is run: by a small wrapper that records its start and its exit, so that both are known even if
//! the daemon is not running. The wrapper is a fixed text and gets the data of users as arguments: no shell ever
//! parses them.
//!
//! A program runs as the user of the daemon or as another account, without input. Its environment consists of `PATH`,
//! `HOME` and `LANG` of the daemon or the account, the job's own variables, and `BOOKAHEAD_JOB`, `BOOKAHEAD_FOLDER`,
//! `BOOKAHEAD_CAPACITY` and, inside a reservation, `BOOKAHEAD_RESERVATION`, `BOOKAHEAD_BEGIN` and `BOOKAHEAD_END`.

use super::folder::JobFolder;
use super::system::{self, FOLDER_VARIABLE};
use super::{Account, Processes};
use crate::command::is_variable;
use crate::environment::{self, Within};
use crate::error::LrmsError;
use bookahead_party::{Job, Work};
use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::JobId;
use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs in the folder of the job. Arguments: the working folder of the program, its output files, its path and its
/// arguments. The wrapper opens the files, not the daemon, as it may have fewer rights.
///
/// `set -C` makes the first line fail if the file exists: of two wrappers, only one runs the program. It uses only
/// shell built-ins, and sets no variable, since the program would inherit it. It survives the signal that terminates
/// the program, to record its exit. A signal before the program has begun is lost, but the SIGKILL that follows is
/// not. The program's path contains a slash, so it is never taken for a built-in.
const WRAPPER: &str = r#"
set -C
{ echo "$$" > started; } 2> /dev/null || exit 0
trap : HUP INT TERM
(exec >> "$2" 2>> "$3" && cd "$1" && shift 3 && exec "$@")
echo "$?" > exit
"#;

/// Limit of the size of a job's description as JSON, in bytes (1 MiB). It is kept in memory and on disk.
const MOST_BYTES: usize = 1 << 20;

/// Whether a job requests a positive capacity and time, and can be run as described.
pub(crate) fn check_job(job: &Job) -> Result<(), LrmsError> {
    if job.limit < Seconds(1) {
        return Err(LrmsError::Malformed("its time limit is less than a second; increase it".into()));
    }
    if job.capacity == Capacity::ZERO {
        return Err(LrmsError::Malformed("its capacity is zero; request at least 1".into()));
    }
    check(&job.work)
}

/// Whether a job's work can be run as described.
pub(crate) fn check(work: &Work) -> Result<(), LrmsError> {
    let malformed = |why: String| Err(LrmsError::Malformed(why));
    let texts: Vec<&str> = match work {
        Work::Pretended { .. } => return Ok(()),
        Work::Script { text, arguments } => {
            if interpreter(text).is_some_and(|(program, _)| !program.starts_with('/')) {
                return malformed(
                    "its first line does not name an interpreter by an absolute path; correct it".into(),
                );
            }
            // The text of a script may contain any character.
            arguments.iter().map(String::as_str).collect()
        }
        Work::Program { program, arguments, folder, environment } => {
            if program.is_empty() {
                return malformed("it names no program; name one".into());
            }
            if let Some(folder) = folder.as_ref().filter(|folder| !folder.is_absolute()) {
                return malformed(format!(
                    "the folder {} is not an absolute path; make it absolute",
                    folder.display()
                ));
            }
            if let Some(name) = environment.keys().find(|name| !is_variable(name)) {
                return malformed(format!(
                    "{name:?} is not a valid name of a variable; use letters, digits and _"
                ));
            }
            // A path that is not UTF-8 could not be stored as JSON; a NUL makes the next check refuse it.
            let folder = folder.as_ref().map(|folder| folder.to_str().unwrap_or("\0"));
            let texts = arguments.iter().chain(environment.values()).chain([program]);
            texts.map(String::as_str).chain(folder).collect()
        }
    };
    if texts.iter().any(|text| text.contains('\0')) {
        return malformed("a program, folder, argument or variable contains a NUL byte; remove it".into());
    }
    // Work that cannot be written as JSON cannot be stored, so it counts as too long.
    let bytes = serde_json::to_vec(work).map_or(usize::MAX, |bytes| bytes.len());
    if bytes > MOST_BYTES {
        return malformed(format!(
            "it is {bytes} bytes long, at most {MOST_BYTES} are allowed; keep data in files"
        ));
    }
    Ok(())
}

/// Variables that a job inherits from the daemon or gets for its account.
pub(super) fn inherited(account: Option<&Account>) -> BTreeMap<String, OsString> {
    let defaults = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/"), ("LANG", "C.UTF-8")];
    let value = |(name, default): (&str, &str)| {
        (name.to_owned(), env::var_os(name).unwrap_or_else(|| OsString::from(default)))
    };
    let mut all: BTreeMap<String, OsString> = defaults.map(value).into();
    if let Some(Account { name, home, .. }) = account {
        all.insert("HOME".into(), home.into());
        all.extend(["USER", "LOGNAME"].map(|variable| (variable.to_owned(), name.into())));
    }
    all
}

/// The wrapper command for a job's program, or the reason why it cannot be run. Output goes to the job's folder, or
/// to a file named after its id in the `shared` folder, which is also the working folder of jobs without one.
pub(super) fn wrapped(
    job: &Job,
    within: Option<&Within>,
    folder: &JobFolder,
    Processes { inherited, shared, account, .. }: &Processes,
) -> Result<Command, String> {
    let (environment, shared) = (environment(job, within, folder, inherited), shared.as_deref());
    let path = environment.get("PATH").map_or(OsStr::new(""), OsString::as_os_str);
    let (place, program, arguments) = parts(&job.work, folder, shared, path)?;
    let (output, error) = output_files(job.id, folder, shared);
    // Only then is the wrapper's right to write the same as ours.
    if account.is_none() {
        can_append_to(&output)?;
    }
    let mut command = Command::new("/bin/sh");
    command.args(["-c", WRAPPER, "bookahead-job"]).arg(place).args([output, error]);
    command.arg(program).args(arguments);
    command.current_dir(folder.run()).env_clear().envs(&environment);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(Account { user, group, .. }) = account {
        system::run_as(&mut command, *user, *group);
    }
    system::lead_a_group(&mut command);
    Ok(command)
}

/// Standard output and standard error of a job.
pub(super) fn output_files(id: JobId, folder: &JobFolder, shared: Option<&Path>) -> (PathBuf, PathBuf) {
    match shared {
        Some(shared) => {
            let file = shared.join(format!("{id}.out"));
            (file.clone(), file)
        }
        None => (folder.run().join("output"), folder.run().join("error")),
    }
}

/// Existing content is kept.
fn can_append_to(file: &Path) -> Result<(), String> {
    let opened = OpenOptions::new().create(true).append(true).open(file);
    opened.map(drop).map_err(|why| format!("cannot write {}: {why}", file.display()))
}

fn environment(
    job: &Job,
    within: Option<&Within>,
    folder: &JobFolder,
    inherited: &BTreeMap<String, OsString>,
) -> BTreeMap<String, OsString> {
    let mut all = inherited.clone();
    if let Work::Program { environment, .. } = &job.work {
        let others = environment.iter().filter(|(name, _)| !environment::is_own(name));
        all.extend(others.map(|(name, value)| (name.clone(), value.into())));
    }
    // After the variables of the job: with this one it could pass for another job.
    all.insert(FOLDER_VARIABLE.into(), folder.path().into());
    let own = environment::variables(Some(job.id), job.capacity.0, within);
    all.extend(own.into_iter().map(|(name, value)| (name.to_owned(), value.into())));
    all
}

/// Working folder, program and arguments; both paths are absolute.
fn parts(
    work: &Work,
    folder: &JobFolder,
    shared: Option<&Path>,
    path: &OsStr,
) -> Result<(PathBuf, PathBuf, Vec<OsString>), String> {
    let usual = shared.map_or_else(|| folder.run(), Path::to_owned);
    let usual = usual.as_path();
    match work {
        Work::Program { program, arguments, folder: place, .. } => {
            let place = place.as_deref().unwrap_or(usual);
            if !place.is_dir() {
                return Err(format!("there is no folder {}", place.display()));
            }
            let program = find(program, place, path)?;
            Ok((place.into(), program, arguments.iter().map(OsString::from).collect()))
        }
        Work::Script { text, arguments } => {
            let (interpreter, option) = interpreter(text).unwrap_or(("/bin/sh", None));
            let script = [folder.script().into_os_string()];
            let arguments = arguments.iter().map(OsString::from);
            let arguments = option.map(OsString::from).into_iter().chain(script).chain(arguments);
            Ok((usual.into(), find(interpreter, usual, path)?, arguments.collect()))
        }
        Work::Pretended { .. } => Err("it is only simulated".into()),
    }
}

/// Parses the first line of a script: the interpreter, and one argument for it.
pub(crate) fn interpreter(text: &str) -> Option<(&str, Option<&str>)> {
    let line = text.strip_prefix("#!")?.lines().next()?.trim();
    // Linux passes the rest of the line as one argument, and so do we.
    match line.split_once([' ', '\t']) {
        Some((program, option)) => Some((program, Some(option.trim_start()))),
        None => Some((line, None)),
    }
}

/// A program by its path, or by its name in one of the folders of `path`.
fn find(program: &str, place: &Path, path: &OsStr) -> Result<PathBuf, String> {
    if program.contains('/') {
        let program = place.join(program);
        return if system::is_program(&program) {
            Ok(program)
        } else {
            Err(format!("{} is not an executable file", program.display()))
        };
    }
    // A relative folder would depend on the working folder of the daemon.
    let folders = env::split_paths(path).filter(|folder| folder.is_absolute());
    let found = folders.map(|folder| folder.join(program)).find(|candidate| system::is_program(candidate));
    found.ok_or_else(|| format!("the program {program:?} is not in the PATH"))
}
