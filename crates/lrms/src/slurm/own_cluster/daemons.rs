//! Daemons of the private cluster. They run in the foreground as our children, so their exit is noticed and they are
//! never adopted by another process. They are recognised by the variable `BOOKAHEAD_CLUSTER` (the folder of the
//! cluster) in their environment. They start a `slurmstepd` for each job step, which detaches and clears its
//! environment; it is recognised by its working folder, and the processes of jobs are its children. A small process,
//! the guard, waits until we finish or die, and then kills all that are left.

use super::{OwnClusterError, config};
use crate::command::{Command as OneCommand, Runner};
use crate::error::LrmsError;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(super) const FOLDER_VARIABLE: &str = "BOOKAHEAD_CLUSTER";

/// Daemons are often not in the `PATH` of ordinary users.
const MORE_FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];

/// How long a daemon may take to start or to exit before it is killed.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Paths of the daemons.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    munged: PathBuf,
    slurmctld: PathBuf,
    slurmd: PathBuf,
}

#[derive(Debug)]
pub(super) struct Daemon {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Programs {
    /// Those in `folder`, or else the installed ones.
    pub(super) fn find(folder: Option<&Path>) -> Result<Programs, OwnClusterError> {
        let slurm = |name: &str| match folder {
            Some(folder) => in_folders(name, [folder.join("sbin"), folder.join("bin")]),
            None => installed(name),
        };
        if folder.is_none() {
            installed("scontrol")?;
        }
        Ok(Programs {
            munged: installed("munged")?,
            slurmctld: slurm("slurmctld")?,
            slurmd: slurm("slurmd")?,
        })
    }

    /// Year and month of the version, such as 22 and 5.
    pub(super) fn version(&self, runner: &Runner) -> Result<(u32, u32), OwnClusterError> {
        let command = OneCommand::new(self.slurmctld.display().to_string()).arg("-V");
        let outcome = runner.run(&command)?;
        let version = crate::slurm::formats::version(&outcome.out);
        version.ok_or_else(|| {
            let why = format!("{:?} is not a version", outcome.out.trim());
            LrmsError::Unreadable { command: command.program, why }.into()
        })
    }

    pub(super) fn munged(&self, folder: &Path) -> Result<Daemon, OwnClusterError> {
        // `--force`, as munged otherwise rejects private folders.
        let mut command = Command::new(&self.munged);
        command.args(["--foreground", "--force"]);
        let file = |option: &str, path: PathBuf| format!("--{option}={}", path.display());
        command.arg(file("key-file", config::key(folder))).arg(file("socket", config::socket(folder)));
        command.arg(file("pid-file", folder.join("run/munged.pid")));
        command.arg(file("log-file", folder.join("log/munged.log")));
        command.arg(file("seed-file", folder.join("munged.seed")));
        let mut daemon = started("munged", command, folder, folder.join("log/munged.log"))?;
        let deadline = Instant::now() + END_WITHIN;
        while !config::socket(folder).exists() && Instant::now() < deadline {
            daemon.check()?;
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(daemon)
    }

    pub(super) fn controller(&self, folder: &Path) -> Result<Daemon, OwnClusterError> {
        let log = folder.join("log/slurmctld.log");
        // The log is polled for readiness later, so messages of an earlier start must go.
        let _ = fs::remove_file(&log);
        let mut command = Command::new(&self.slurmctld);
        command.args(["-D", "-f"]).arg(config::conf(folder));
        started("slurmctld", command, folder, log)
    }

    pub(super) fn node(&self, folder: &Path, name: &str) -> Result<Daemon, OwnClusterError> {
        let log = folder.join(format!("log/slurmd.{name}.log"));
        let _ = fs::remove_file(&log);
        let mut command = Command::new(&self.slurmd);
        command.args(["-D", "-N", name, "-f"]).arg(config::conf(folder));
        started(&format!("slurmd of {name}"), command, folder, log)
    }
}

fn installed(name: &str) -> Result<PathBuf, OwnClusterError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    in_folders(name, folders.chain(MORE_FOLDERS.map(PathBuf::from)))
}

fn in_folders(name: &str, folders: impl IntoIterator<Item = PathBuf>) -> Result<PathBuf, OwnClusterError> {
    let mut programs = folders.into_iter().map(|folder| folder.join(name));
    let missing = || OwnClusterError::NotInstalled { program: name.to_owned() };
    programs.find(|program| program.is_file()).ok_or_else(missing)
}

/// Output before the daemon opens its log goes to a file beside it.
fn started(name: &str, mut command: Command, folder: &Path, log: PathBuf) -> Result<Daemon, OwnClusterError> {
    let spoken = log.with_extension("out");
    let file = fs::File::create(&spoken).map_err(LrmsError::files("write", &spoken))?;
    let also = file.try_clone().map_err(LrmsError::files("write", &spoken))?;
    // In its own process group: Ctrl-C in a terminal ends only us, and we end the daemons in order.
    command.stdin(Stdio::null()).stdout(file).stderr(also).process_group(0).current_dir(folder);
    command.env("SLURM_CONF", config::conf(folder)).env(FOLDER_VARIABLE, folder);
    let program = command.get_program().to_string_lossy().into_owned();
    let child = command.spawn().map_err(|source| LrmsError::cannot_run(program, source))?;
    Ok(Daemon { name: name.to_owned(), child, log })
}

impl Daemon {
    /// Fails if it has exited.
    pub(super) fn check(&mut self) -> Result<(), OwnClusterError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(OwnClusterError::Daemon {
                daemon: self.name.clone(),
                what: format!("exited unexpectedly ({status})"),
                log: self.log_end(),
            }),
            Err(source) => Err(LrmsError::cannot_run(self.name.clone(), source).into()),
        }
    }

    pub(super) fn log(&self) -> String {
        let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        read(&self.log) + &read(&self.log.with_extension("out"))
    }

    /// The last lines of the log.
    pub(super) fn log_end(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    /// Terminates it, so that it saves its state, and kills it after a timeout.
    pub(super) fn end(&mut self) {
        self.tell(Signal::TERM);
        let deadline = Instant::now() + END_WITHIN;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.kill();
    }

    pub(super) fn kill(&mut self) {
        let _ended = self.child.kill();
        // Without a wait it would stay a zombie until we exit.
        let _waited = self.child.wait();
    }

    fn tell(&self, signal: Signal) {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let _gone = process.map(|process| kill_process(process, signal));
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Fixed text; the folder is an argument. Its standard input reaches end of file when we close it or die.
const SCRIPT: &str = include_str!("guard.sh");

#[derive(Debug)]
pub(super) struct Guard(Child);

impl Guard {
    pub(super) fn of(folder: &Path) -> Result<Guard, OwnClusterError> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "bookahead-cluster"]).arg(folder).arg(FOLDER_VARIABLE);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        // The guard kills all processes with this variable, so its own must not have it.
        command.env_remove(FOLDER_VARIABLE).current_dir("/");
        let failed = |source| LrmsError::cannot_run("/bin/sh".into(), source);
        Ok(Guard(command.spawn().map_err(failed)?))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The guard acts at the end of its input. Wait for it: afterwards no process uses the folder.
        drop(self.0.stdin.take());
        let _waited = self.0.wait();
    }
}
