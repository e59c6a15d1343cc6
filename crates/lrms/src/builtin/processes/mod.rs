//! Real programs on the local machine, with a folder for each job. The folders are enough to restore everything after
//! a crash of the daemon at any point: programs continue without it, record their exits, and none is started twice.
//!
//! A job's processes are ended together: those of its process group, and those that left the group but still have the
//! job's folder in their environment. They get SIGTERM first and SIGKILL after [`GRACE`]. A process that leaves the
//! group *and* changes its environment escapes. Programs run as the user of the daemon, or as another account: a user
//! who may submit jobs has all rights of that account. Jobs of one account can disturb each other.
//!
//! The caller passes in the time, and the file system must keep synced data. This module never decides when a job
//! starts or ends.

pub(crate) mod command;
pub(super) mod folder;
mod system;

use crate::command::{Command, Outcome, run_process};
use crate::environment::Within;
use crate::error::LrmsError;
use bookahead_party::{Ended, Job, JobState, Work};
use bookahead_plan::Time;
use bookahead_protocol::{JobId, Millis, Moment};
use folder::{JobFolder, Over, Progress, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process};
use std::time::Duration;
use system::Signal;

/// Time between SIGTERM and SIGKILL, for programs to save their state.
pub const GRACE: Millis = Millis::seconds(5);

/// Interval between searches for processes that are being ended. Each search reads all of `/proc`.
const SEARCH_EVERY: Millis = Millis(100);

/// An account that programs run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Login name.
    pub name: String,
    /// User id.
    pub user: u32,
    /// Primary group id; programs have no other groups.
    pub group: u32,
    /// Home folder.
    pub home: PathBuf,
}

/// The folder of the jobs and the programs that run.
pub struct Processes {
    /// Folder of all jobs.
    pub(crate) jobs: PathBuf,
    /// Working folder and output folder of programs, if not the folder of each job.
    pub(crate) shared: Option<PathBuf>,
    /// Account of programs, if not ours.
    pub(crate) account: Option<Account>,
    inherited: BTreeMap<String, OsString>,
    /// Programs that should run, each with its wrapper if that is our child.
    watched: BTreeMap<JobId, Option<Child>>,
    /// Programs that should be gone.
    ending: BTreeMap<JobId, Ending>,
    next_search: Moment,
    /// Locks the folder while open, so that no other process uses it.
    _lock: File,
}

struct Ending {
    child: Option<Child>,
    /// Time of SIGKILL.
    by: Moment,
}

/// The contents of a job's folder.
pub(super) struct Stored {
    pub(super) record: Record,
    pub(super) progress: Progress,
    /// State of a program; None if it never started.
    pub(super) found: Option<Found>,
}

/// State of a program that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Running,
    Exited(i32),
    /// Neither running nor with a recorded exit.
    Gone,
}

impl From<Found> for JobState {
    fn from(found: Found) -> JobState {
        match found {
            Found::Running => JobState::Running,
            Found::Exited(exit) => JobState::Done { exit },
            Found::Gone => JobState::Killed(Ended::Lost),
        }
    }
}

impl Processes {
    /// Opens the folder for jobs, and creates it if missing. Only one process can have it open. Programs run as
    /// `account`, if given, which requires root.
    pub fn open(folder: &Path, account: Option<Account>) -> Result<Processes, LrmsError> {
        let jobs = folder.join("jobs");
        system::create_private_all(&jobs).map_err(LrmsError::files("make", &jobs))?;
        // The account must reach its own folder, but need not list the others.
        if account.is_some() {
            system::let_through(&jobs).map_err(LrmsError::files("open", &jobs))?;
        }
        // Processes are recognised by this path, so it must not depend on symbolic links.
        let jobs = jobs.canonicalize().map_err(LrmsError::files("open", &jobs))?;
        let path = folder.join("lock");
        let lock = File::create(&path).map_err(LrmsError::files("open", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LrmsError::InUse { folder: folder.into() }),
            Err(TryLockError::Error(why)) => return Err(LrmsError::files("lock", &path)(why)),
        }
        Ok(Processes {
            jobs,
            shared: None,
            inherited: command::inherited(account.as_ref()),
            account,
            watched: BTreeMap::new(),
            ending: BTreeMap::new(),
            next_search: Moment(i64::MIN),
            _lock: lock,
        })
    }

    /// Sets a folder that is the working folder of programs without one, and that gets their output in files named
    /// after the jobs: `job_7d2e.out`.
    pub fn with_output(self, shared: Option<PathBuf>) -> Processes {
        Processes { shared, ..self }
    }

    /// All stored jobs in order of submission. Running programs are watched; those that should not run are ended.
    pub(super) fn load(&mut self, now: Moment) -> Result<Vec<Stored>, LrmsError> {
        let alive = system::processes(&self.jobs);
        let mut stored = Vec::new();
        for (id, folder) in JobFolder::all(&self.jobs)? {
            let (record, progress) = (folder.record()?, folder.progress()?);
            if record.job.id != id {
                let why = format!("it contains the job {}", record.job.id);
                return Err(LrmsError::Damaged { path: folder.path().join("job.json"), why });
            }
            let is_real = !matches!(record.job.work, Work::Pretended { .. });
            let runs = alive.contains_key(&id);
            let found = (is_real && (runs || folder.is_claimed())).then(|| look(id, &self.jobs));
            if progress.over.is_some() && runs {
                self.ending.insert(id, Ending { child: None, by: now });
            } else if found == Some(Found::Running) {
                self.watched.insert(id, None);
            }
            stored.push(Stored { record, progress, found });
        }
        // Processes of jobs whose folders were lost: nobody would ever end them, and their broker may run them again.
        let known: BTreeSet<JobId> = stored.iter().map(|stored| stored.record.job.id).collect();
        for id in alive.into_keys().filter(|id| !known.contains(id)) {
            self.ending.insert(id, Ending { child: None, by: now });
        }
        stored.sort_by_key(|stored| stored.record.order);
        Ok(stored)
    }

    /// Stores a submitted job. After success it survives any crash.
    pub(super) fn add(&self, record: &Record) -> Result<(), LrmsError> {
        JobFolder::create(record, &self.jobs, self.account.as_ref())
    }

    /// Prepares the folder of a job without processes for another run.
    pub(super) fn requeue(&self, record: &Record) -> Result<(), LrmsError> {
        self.folder(record.job.id).requeue(record)
    }

    /// Whether a job that is over still has processes.
    pub(super) fn is_ending(&self, id: JobId) -> bool {
        self.ending.contains_key(&id)
    }

    /// Sends the warning signal to the program of a job, not to its children: the default action would end them.
    pub(super) fn warn(&self, id: JobId) {
        let wrapper = self.watched.get(&id).and_then(|child| leader(id, child.as_ref(), &self.jobs));
        let Some(wrapper) = wrapper else { return };
        let alive = system::processes(&self.jobs);
        let mut all = alive.get(&id).into_iter().flatten().copied();
        if let Some(program) = all.find(|process| system::parent_of(*process) == Some(wrapper)) {
            system::tell(program, Signal::Warn);
        }
    }

    /// Records the start of a job; the error is a reason for the user.
    pub(super) fn note_start(&self, id: JobId, at: Time) -> Result<(), String> {
        let progress = Progress { started: Some(at), over: None };
        self.folder(id).note(&progress).map_err(|why| format!("cannot write in its folder: {why}"))
    }

    /// Records the end of a job. If its folder is gone, there is nothing to record it in.
    pub(super) fn note_end(&self, id: JobId, started: Option<Time>, over: Over) -> Result<(), LrmsError> {
        let folder = self.folder(id);
        let progress = Progress { started, over: Some(over) };
        match folder.note(&progress) {
            Err(why) if folder.path().exists() => Err(LrmsError::files("write in", folder.path())(why)),
            _ => Ok(()),
        }
    }

    /// Starts the program of a job; the error is a reason for the user.
    pub(super) fn start(&mut self, job: &Job, within: Option<&Within>, at: Time) -> Result<(), String> {
        let folder = self.folder(job.id);
        let mut command = command::wrapped(job, within, &folder, self)?;
        // Before the start, so that its limit is known after a crash.
        self.note_start(job.id, at)?;
        let child = command.spawn().map_err(|why| format!("cannot run /bin/sh: {why}"))?;
        self.watched.insert(job.id, Some(child));
        Ok(())
    }

    /// Ends all processes of a job, and prevents its start.
    pub(super) fn end(&mut self, id: JobId, now: Moment) -> Result<(), LrmsError> {
        let folder = self.folder(id);
        let forbidden = folder.forbid_start().map_err(LrmsError::files("write in", folder.path()));
        if let Some(child) = self.watched.remove(&id) {
            let (leader, alive) = (leader(id, child.as_ref(), &self.jobs), system::processes(&self.jobs));
            tell(id, leader, &alive, Signal::Terminate);
            self.ending.insert(id, Ending { child, by: now + GRACE });
        }
        forbidden
    }

    /// Programs that ended since the last call.
    pub(super) fn look(&mut self, now: Moment) -> Vec<(JobId, JobState)> {
        let mut ended = Vec::new();
        for (id, child) in &mut self.watched {
            let found = match child.as_mut().map(Child::try_wait) {
                Some(Ok(None)) => Found::Running,
                Some(_) => {
                    *child = None;
                    look(*id, &self.jobs)
                }
                None => look(*id, &self.jobs),
            };
            if found != Found::Running {
                ended.push((*id, found.into()));
            }
        }
        for (id, _) in &ended {
            self.watched.remove(id);
            // Remaining processes of the job have no capacity any more.
            self.ending.insert(*id, Ending { child: None, by: now });
            self.next_search = now;
        }
        self.look_after_ending(now);
        ended
    }

    fn look_after_ending(&mut self, now: Moment) {
        let due = now >= self.next_search || self.ending.values().any(|ending| ending.by <= now);
        if self.ending.is_empty() || !due {
            return;
        }
        self.next_search = now + SEARCH_EVERY;
        let alive = system::processes(&self.jobs);
        self.ending.retain(|id, ending| {
            if !matches!(ending.child.as_mut().map(Child::try_wait), Some(Ok(None))) {
                ending.child = None;
            }
            if ending.by <= now {
                let leader = leader(*id, ending.child.as_ref(), &self.jobs);
                tell(*id, leader, &alive, Signal::Kill);
            }
            ending.child.is_some() || alive.contains_key(id)
        });
    }

    /// Whether there are processes to watch.
    pub(super) fn is_busy(&self) -> bool {
        !self.watched.is_empty() || !self.ending.is_empty()
    }

    pub(super) fn forget(&self, id: JobId) -> Result<(), LrmsError> {
        let folder = self.folder(id);
        folder.remove().map_err(LrmsError::files("remove", folder.path()))
    }

    fn folder(&self, id: JobId) -> JobFolder {
        JobFolder::of(id, &self.jobs)
    }
}

/// Standard output and standard error of a program.
pub(crate) fn output_files(id: JobId, jobs: &Path, shared: Option<&Path>) -> (PathBuf, PathBuf) {
    command::output_files(id, &JobFolder::of(id, jobs), shared)
}

/// Runs a command with the rights of the account of the programs, if it is not ours.
pub(crate) fn run_as_account(
    wanted: &Command,
    account: Option<&Account>,
    within: Duration,
) -> Result<Outcome, LrmsError> {
    let mut process = Process::new(&wanted.program);
    process.args(&wanted.arguments).current_dir("/").env_clear();
    process.envs(command::inherited(account)).env("LC_ALL", "C");
    if let Some(Account { user, group, .. }) = account {
        system::run_as(&mut process, *user, *group);
    }
    run_process(process, within)
}

/// State of a program whose wrapper is not our child.
fn look(id: JobId, jobs: &Path) -> Found {
    let folder = JobFolder::of(id, jobs);
    let exited = || folder.exit().map(Found::Exited);
    let runs = || match folder.process() {
        Some(process) => system::job_of(process, jobs) == Some(id),
        // Its wrapper has not written yet, or was killed while writing.
        None => system::processes(jobs).contains_key(&id),
    };
    // Check the exit again last: the program may record it and be gone between both checks.
    exited().or_else(|| runs().then_some(Found::Running)).or_else(exited).unwrap_or(Found::Gone)
}

/// Signals all processes of a job, each once: its group, and those that left it.
fn tell(id: JobId, leader: Option<i32>, alive: &BTreeMap<JobId, Vec<i32>>, signal: Signal) {
    if let Some(leader) = leader {
        system::tell_group(leader, signal);
    }
    for &process in alive.get(&id).into_iter().flatten() {
        if leader.is_none() || system::group_of(process) != leader {
            system::tell(process, signal);
        }
    }
}

/// The leader of a job's group, only while its pid cannot have been reused.
fn leader(id: JobId, child: Option<&Child>, jobs: &Path) -> Option<i32> {
    match child {
        // A child that was not waited for keeps its pid.
        Some(child) => i32::try_from(child.id()).ok(),
        None => {
            JobFolder::of(id, jobs).process().filter(|process| system::job_of(*process, jobs) == Some(id))
        }
    }
}
