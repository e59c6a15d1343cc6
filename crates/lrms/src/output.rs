//! Reads what jobs print, in pieces. The file is read by a child process with the rights of the account that ran the
//! job, on the machine where commands run, so that nobody reads a file through us that they could not read
//! themselves. A symbolic link is not followed, and only a regular file is read.
//!
//! The child is a fixed script that gets the path as an argument. It writes the content in base64, since the output
//! of commands is text. It uses `stat`, `dd` and `base64` of coreutils.

use crate::batch::{Accounts, BatchSystem, Files};
use crate::builtin::{Account, Processes, processes};
use crate::command::{Command, Outcome, Runner};
use crate::dialect::script::{by_shell, from_home};
use crate::error::LrmsError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bookahead_protocol::JobId;
use bookahead_protocol::jobs::JobView;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use thiserror::Error;

/// Most bytes of one piece (256 KiB): a few screens of text, and memory for many readers at once.
pub const MOST_BYTES: u64 = 256 << 10;

/// Timeout of a read on this machine. A local disk answers at once; a network file system may hang.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// Paths that are remembered, so that a reader who follows a job does not query the batch system each second.
const MOST_REMEMBERED: usize = 1_000;

/// What to read of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// Part of what a job printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// At most [`MOST_BYTES`]; empty at the end of the file.
    pub bytes: Vec<u8>,
    /// Size of the whole file at the time of the read.
    pub size: u64,
}

/// Why the output of a job cannot be read.
#[derive(Debug, Error)]
pub enum OutputError {
    /// The job has not printed anything yet, or its file was moved or removed.
    #[error("there is no file {path}")]
    Missing {
        /// Path of the file.
        path: String,
    },
    /// The file is a link, a folder or a device.
    #[error("{path} is a {kind}; only a regular file is read, and no link is followed")]
    NotAFile {
        /// Path of the file.
        path: String,
        /// Its kind, such as `symbolic link`.
        kind: String,
    },
    /// Both streams of the job go to one file.
    #[error("standard error of this job goes to the same file as its standard output; read that")]
    OneFile,
    /// The account of the job cannot read the file.
    #[error("cannot read {path}: {why}")]
    Unreadable {
        /// Path of the file.
        path: String,
        /// Reason in the words of the system.
        why: String,
    },
    /// The command could not be run, or not in time.
    #[error(transparent)]
    Command(#[from] LrmsError),
}

/// Reads the output of the jobs of a site. A call may take as long as a command.
pub trait Outputs: Send + Sync {
    /// At most [`MOST_BYTES`] from a byte on, counted from zero.
    fn read(&self, job: &JobView, stream: Stream, from: u64) -> Result<Piece, OutputError>;
}

impl Files {
    fn of(&self, stream: Stream) -> Result<&str, OutputError> {
        match stream {
            Stream::Output => Ok(&self.output),
            Stream::Error if self.error == self.output => Err(OutputError::OneFile),
            Stream::Error => Ok(&self.error),
        }
    }
}

/// The output of jobs in a batch system.
pub struct BatchOutputs {
    system: Box<dyn BatchSystem>,
    runner: Runner,
    accounts: Accounts,
    /// Folder of output files, if it is not the home folder of the account.
    folder: Option<PathBuf>,
    files: Mutex<BTreeMap<JobId, Files>>,
}

impl BatchOutputs {
    /// Reads with the commands of `runner`, which should not be that of the batch system: a file system that hangs is
    /// no outage of it.
    pub fn new(
        system: Box<dyn BatchSystem>,
        runner: Runner,
        accounts: Accounts,
        folder: Option<PathBuf>,
    ) -> BatchOutputs {
        BatchOutputs { system, runner, accounts, folder, files: Mutex::default() }
    }

    /// As the batch system tells it, or else as it was said at the submission.
    fn files(&self, job: &JobView) -> Result<Files, LrmsError> {
        if let Some(known) = self.remembered().get(&job.id) {
            return Ok(known.clone());
        }
        // The lock is not held here: the query is a command, which may take seconds.
        let told = job.native_id.as_deref().map(|native| self.system.output(native)).transpose()?.flatten();
        let Some(files) = told else {
            // Not remembered: the job may get its native id later, and other files with it.
            return Ok(Files::one(crate::dialect::script::file_of(job.id, self.folder.as_deref())));
        };
        let mut remembered = self.remembered();
        if remembered.len() >= MOST_REMEMBERED {
            // Dropping all needs no order of use, and costs one query for each job that is still read.
            remembered.clear();
        }
        remembered.insert(job.id, files.clone());
        Ok(files)
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, BTreeMap<JobId, Files>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outputs for BatchOutputs {
    fn read(&self, job: &JobView, stream: Stream, from: u64) -> Result<Piece, OutputError> {
        let account = self.accounts.runs_as(&job.owner)?;
        let files = self.files(job)?;
        let path = files.of(stream)?;
        let command = reading(path, from).account(account);
        let command = if path.starts_with('/') { command } else { from_home(command) };
        parse(path, &self.runner.run(&command)?)
    }
}

/// The output of programs of the built-in scheduler.
pub struct ProcessOutputs {
    jobs: PathBuf,
    shared: Option<PathBuf>,
    account: Option<Account>,
}

impl Processes {
    /// Reads what the programs print.
    pub fn outputs(&self) -> ProcessOutputs {
        let (jobs, shared, account) = (self.jobs.clone(), self.shared.clone(), self.account.clone());
        ProcessOutputs { jobs, shared, account }
    }
}

impl Outputs for ProcessOutputs {
    fn read(&self, job: &JobView, stream: Stream, from: u64) -> Result<Piece, OutputError> {
        let (output, error) = processes::output_files(job.id, &self.jobs, self.shared.as_deref());
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let files = Files { output: text(output), error: text(error) };
        let path = files.of(stream)?;
        let outcome = processes::run_as_account(&reading(path, from), self.account.as_ref(), READ_WITHIN)?;
        parse(path, &outcome)
    }
}

/// Arguments: the path, the first byte, and the number of bytes. Prints the kind and the size of the file, then its
/// content. A file that becomes a link after the check is not followed either.
const SCRIPT: &str = r#"
what=$(stat -c '%F:%s' -- "$1") || exit 1
printf '%s\n' "$what"
case $what in
regular*) [ "$2" -lt "${what##*:}" ] || exit 0 ;;
*) exit 0 ;;
esac
{ dd if="$1" bs=64K iflag=nofollow,nonblock,skip_bytes,count_bytes skip="$2" count="$3" status=none ||
    echo 'bookahead: not read' >&2; } | base64 -w 0
"#;

/// Printed by the script if `dd` fails.
const NOT_READ: &str = "bookahead: not read";

fn reading(path: &str, from: u64) -> Command {
    by_shell(Command::new(path).args([from.to_string(), MOST_BYTES.to_string()]), SCRIPT)
}

fn parse(path: &str, outcome: &Outcome) -> Result<Piece, OutputError> {
    let path = || path.to_owned();
    let unreadable = |why: &str| Err(OutputError::Unreadable { path: path(), why: why.trim().to_owned() });
    let (what, content) = outcome.out.split_once('\n').unwrap_or_default();
    let Some((kind, size)) = what.rsplit_once(':').filter(|_| outcome.is_success()) else {
        // All commands run with `LC_ALL=C`, so the message is always in English.
        if outcome.err.contains("No such file or directory") {
            return Err(OutputError::Missing { path: path() });
        }
        return unreadable(outcome.said());
    };
    // `stat` calls an empty file a `regular empty file`.
    if !kind.starts_with("regular") {
        return Err(OutputError::NotAFile { path: path(), kind: kind.to_owned() });
    }
    // The exit code is that of `base64`, the last command of the pipe, so it does not show that `dd` failed.
    if outcome.err.contains(NOT_READ) {
        return unreadable(&outcome.err.replace(NOT_READ, ""));
    }
    match (size.parse(), STANDARD.decode(content.trim())) {
        (Ok(size), Ok(bytes)) => Ok(Piece { bytes, size }),
        _ => unreadable("the answer of the command cannot be parsed"),
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use bookahead_plan::{Capacity, Seconds, Time};
    use bookahead_protocol::jobs::JobWord;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn job(id: u128) -> JobView {
        JobView {
            rerun: Default::default(),
            runs: Default::default(),
            id: JobId(id),
            owner: "ada".into(),
            site: None,
            resource: None,
            reservation: None,
            capacity: Capacity(1),
            limit: Seconds(60),
            state: JobWord::Running,
            submitted: Time(0),
            started: None,
            ended: None,
            expected_start: None,
            exit: None,
            native_id: None,
            detail: None,
            description: Default::default(),
        }
    }

    /// The folder of the job 7, and its output.
    fn program(jobs: &Path) -> (PathBuf, ProcessOutputs) {
        let folder = jobs.join("job_7");
        fs::create_dir(&folder).unwrap();
        (folder, ProcessOutputs { jobs: jobs.into(), shared: None, account: None })
    }

    fn read(outputs: &ProcessOutputs, stream: Stream, from: u64) -> (Vec<u8>, u64) {
        let Piece { bytes, size } = outputs.read(&job(7), stream, from).unwrap();
        (bytes, size)
    }

    #[test]
    fn a_file_is_read_from_any_byte_in_pieces() {
        let jobs = tempfile::tempdir().unwrap();
        let (folder, outputs) = program(jobs.path());
        let content: Vec<u8> = (0..MOST_BYTES + 1000).map(|at| (at % 251) as u8).collect();
        let size = content.len() as u64;
        fs::write(folder.join("output"), &content).unwrap();
        fs::write(folder.join("error"), "oh\n").unwrap();
        let (first, whole) = read(&outputs, Stream::Output, 0);
        assert_eq!((first.len() as u64, whole), (MOST_BYTES, size));
        assert_eq!(read(&outputs, Stream::Output, MOST_BYTES), (content[first.len()..].to_vec(), size));
        assert_eq!([&first[..], &content[first.len()..]].concat(), content);
        assert_eq!(read(&outputs, Stream::Output, 999).0, content[999..][..first.len()]);
        for after in [size, size + 1, u64::MAX] {
            assert_eq!(read(&outputs, Stream::Output, after), (Vec::new(), size));
        }
        assert_eq!(read(&outputs, Stream::Error, 1), (b"h\n".to_vec(), 3));
        fs::write(folder.join("output"), "").unwrap();
        assert_eq!(read(&outputs, Stream::Output, 0), (Vec::new(), 0));
    }

    #[test]
    fn only_a_regular_file_is_read_and_no_link_is_followed() {
        let jobs = tempfile::tempdir().unwrap();
        let (folder, outputs) = program(jobs.path());
        let missing = outputs.read(&job(7), Stream::Output, 0).unwrap_err();
        assert!(matches!(&missing, OutputError::Missing { .. }), "{missing}");
        let secret = jobs.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        symlink(&secret, folder.join("output")).unwrap();
        let told = outputs.read(&job(7), Stream::Output, 0).unwrap_err().to_string();
        assert!(told.contains("is a symbolic link"), "{told}");
        fs::create_dir(folder.join("error")).unwrap();
        let told = outputs.read(&job(7), Stream::Error, 0).unwrap_err().to_string();
        assert!(told.contains("is a directory"), "{told}");
        // A link that appears after the check is refused by `dd` itself.
        let script = SCRIPT.replace("stat -c", "stat -L -c");
        let path = folder.join("output").display().to_string();
        let command = by_shell(Command::new(&path).args(["0", "10"]), &script);
        let outcome = processes::run_as_account(&command, None, READ_WITHIN).unwrap();
        let told = parse(&path, &outcome).unwrap_err().to_string();
        assert!(told.contains("cannot read") && told.contains("symbolic links"), "{told}");
    }

    #[test]
    fn paths_have_no_meaning_to_the_shell() {
        let jobs = tempfile::tempdir().unwrap();
        for name in ["a b", "$(id)", "-c", "it's", "two\nlines", "*", "x:y", "grün"] {
            let path = jobs.path().join(name).display().to_string();
            fs::write(&path, name).unwrap();
            let outcome = processes::run_as_account(&reading(&path, 0), None, READ_WITHIN).unwrap();
            assert_eq!(parse(&path, &outcome).unwrap().bytes, name.as_bytes());
        }
    }

    #[test]
    fn a_shared_file_has_both_streams() {
        let (jobs, shared) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (_, outputs) = program(jobs.path());
        let outputs = ProcessOutputs { shared: Some(shared.path().into()), ..outputs };
        fs::write(shared.path().join("job_7.out"), "both").unwrap();
        assert_eq!(read(&outputs, Stream::Output, 0).0, b"both");
        assert!(matches!(outputs.read(&job(7), Stream::Error, 0), Err(OutputError::OneFile)));
    }

    #[test]
    fn the_file_is_read_with_the_rights_of_the_account() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let jobs = tempfile::tempdir().unwrap();
        let (folder, outputs) = program(jobs.path());
        for path in [jobs.path(), &folder] {
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
        }
        fs::write(folder.join("output"), "of root").unwrap();
        fs::set_permissions(folder.join("output"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        let nobody = Account { name: "nobody".into(), user: 65_534, group: 65_534, home: "/".into() };
        let outputs = ProcessOutputs { account: Some(nobody), ..outputs };
        let told = outputs.read(&job(7), Stream::Output, 0).unwrap_err().to_string();
        assert!(told.contains("Permission denied"), "{told}");
        std::os::unix::fs::chown(folder.join("output"), Some(65_534), Some(65_534)).unwrap();
        assert_eq!(read(&outputs, Stream::Output, 0).0, b"of root");
    }
}
