//! Operating system functions beyond the standard library: process groups, signals, and the mapping from processes to
//! jobs. A process is recognised by the variable `BOOKAHEAD_FOLDER` (the folder of its job), which it passes on to
//! its children. A reused pid is thus never mistaken for the old process, nor a job of another site for one of ours.
//!
//! Programs run on Unix only. Without `/proc`, jobs that survive a crash of the daemon cannot be found again.

use bookahead_protocol::JobId;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

pub(super) const FOLDER_VARIABLE: &str = "BOOKAHEAD_FOLDER";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// The time of a job ends soon.
    Warn,
    Terminate,
    Kill,
}

/// The processes of all jobs whose folders are in `jobs`.
pub(super) fn processes(jobs: &Path) -> BTreeMap<JobId, Vec<i32>> {
    let mut found: BTreeMap<JobId, Vec<i32>> = BTreeMap::new();
    let Ok(entries) = fs::read_dir("/proc") else { return found };
    // A process may end while the folder is read; its missing entry is not an error.
    for entry in entries.flatten() {
        let process = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some((process, id)) = process.and_then(|process| Some((process, job_of(process, jobs)?))) {
            found.entry(id).or_default().push(process);
        }
    }
    found
}

/// The job of a process, if it is alive and the folder of the job is in `jobs`.
pub(super) fn job_of(process: i32, jobs: &Path) -> Option<JobId> {
    // This fails for processes of other accounts unless we are root; they are not our jobs then.
    let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
    // The environment of a zombie is empty, so a process that has ended belongs to no job.
    let mut variables = environment.split(|byte| *byte == 0);
    variables.find_map(|variable| {
        let folder = variable.strip_prefix(FOLDER_VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        // The slash keeps a folder `jobs2` of another site from matching `jobs`.
        let name = folder.strip_prefix(jobs.as_os_str().as_encoded_bytes())?.strip_prefix(b"/")?;
        std::str::from_utf8(name).ok()?.parse().ok()
    })
}

/// The parent of a process.
pub(super) fn parent_of(process: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // `17 (name) S 16 …`; the name may contain spaces and brackets.
    status.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Creates a folder that only its owner can list and enter.
pub(super) fn create_private(path: &Path) -> io::Result<()> {
    private().create(path)
}

/// The same, with missing parents.
pub(super) fn create_private_all(path: &Path) -> io::Result<()> {
    private().recursive(true).create(path)
}

/// Creates or empties a file that only its owner can read.
pub(super) fn create_private_file(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    // The mode is set at the creation: a later change would leave a moment in which others can open it.
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Lets other accounts pass through a folder, but not list it.
#[cfg(unix)]
pub(super) fn let_through(path: &Path) -> io::Result<()> {
    let passable = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    fs::set_permissions(path, passable)
}

#[cfg(unix)]
pub(super) fn give_to(path: &Path, user: u32, group: u32) -> io::Result<()> {
    std::os::unix::fs::chown(path, Some(user), Some(group))
}

/// Makes the process run as an account, with its primary group and no others.
#[cfg(unix)]
pub(super) fn run_as(command: &mut Command, user: u32, group: u32) {
    use std::os::unix::process::CommandExt as _;
    // If we are root, `uid` also drops our supplementary groups, whose rights the job must not get.
    command.gid(group).uid(user);
}

fn private() -> fs::DirBuilder {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

pub(super) fn is_program(path: &Path) -> bool {
    let Ok(about) = fs::metadata(path) else { return false };
    #[cfg(unix)]
    let may_be_run = std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let may_be_run = true;
    about.is_file() && may_be_run
}

/// Makes the process lead its own process group.
#[cfg(unix)]
pub(super) fn lead_a_group(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

/// Signals the group of `leader`. Missing processes are no error.
#[cfg(unix)]
pub(super) fn tell_group(leader: i32, signal: Signal) {
    if let Some(leader) = one_process(leader) {
        let _gone = rustix::process::kill_process_group(leader, signal.number());
    }
}

/// Signals one process. A missing process is not an error.
#[cfg(unix)]
pub(super) fn tell(process: i32, signal: Signal) {
    if let Some(process) = one_process(process) {
        let _gone = rustix::process::kill_process(process, signal.number());
    }
}

/// The process group of a process.
#[cfg(unix)]
pub(super) fn group_of(process: i32) -> Option<i32> {
    let group = rustix::process::getpgid(one_process(process)).ok()?;
    Some(group.as_raw_nonzero().get())
}

/// Excludes 0 and negative numbers, which address groups, and 1 (init).
#[cfg(unix)]
fn one_process(process: i32) -> Option<rustix::process::Pid> {
    Some(process).filter(|process| *process > 1).and_then(rustix::process::Pid::from_raw)
}

#[cfg(unix)]
impl Signal {
    fn number(self) -> rustix::process::Signal {
        match self {
            Signal::Warn => rustix::process::Signal::USR1,
            Signal::Terminate => rustix::process::Signal::TERM,
            Signal::Kill => rustix::process::Signal::KILL,
        }
    }
}

#[cfg(not(unix))]
pub(super) fn lead_a_group(_: &mut Command) {}

#[cfg(not(unix))]
pub(super) fn let_through(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
pub(super) fn give_to(_: &Path, _: u32, _: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(unix))]
pub(super) fn run_as(_: &mut Command, _: u32, _: u32) {}

#[cfg(not(unix))]
pub(super) fn tell_group(_: i32, _: Signal) {}

#[cfg(not(unix))]
pub(super) fn group_of(_: i32) -> Option<i32> {
    None
}

#[cfg(not(unix))]
pub(super) fn tell(_: i32, _: Signal) {}
