//! Real programs on the local machine, one folder for each job. What is in the folders is enough to know everything again
//! after a crash of ours at any point: programs run on without us, note how they ended, and none is started twice.
//!
//! A job's processes are ended together: those of its group, and those that left the group but still carry the job's
//! folder in their environment. They are asked first and ended after a grace. Whoever leaves the group *and* takes on another
//! environment escapes. Programs run as the user of the daemon, or as another account: whoever may submit jobs may do what that
//! account may. The jobs of one account can disturb each other.
//!
//! It relies on its caller for the time and on the file system to keep what was synced. It never decides when a job
//! starts or ends.

pub(crate) mod command;
pub(super) mod folder;
mod system;

use crate::error::LrmsError;
use bookahead_party::{Ended, Job, JobState, Work};
use bookahead_plan::Time;
use bookahead_protocol::{JobId, Millis, Moment};
use folder::{JobFolder, Over, Progress, Record};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Child;
use system::Signal;

/// From being asked to end to being ended.
pub const GRACE: Millis = Millis::seconds(5);

/// While processes are being ended they are looked for so often: to find them all of `/proc` is read.
const SEARCH_EVERY: Millis = Millis(100);

/// An account that programs run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Its number.
    pub user: u32,
    /// The number of its group; programs are in no other.
    pub group: u32,
    /// Its home folder.
    pub home: PathBuf,
}

/// The folder of the jobs and the programs that run.
pub struct Processes {
    /// Of all jobs.
    jobs: PathBuf,
    /// Where programs run and print to, if not in the folder of each job.
    shared: Option<PathBuf>,
    /// As whom programs run, if not as we do.
    account: Option<Account>,
    inherited: BTreeMap<String, OsString>,
    /// Those that should run. The wrapper, if it is a child of ours.
    watched: BTreeMap<JobId, Option<Child>>,
    /// Those that should be gone.
    ending: BTreeMap<JobId, Ending>,
    next_search: Moment,
    /// Held as long as this is open, so that no other process uses the folder.
    _lock: File,
}

struct Ending {
    child: Option<Child>,
    /// When asking is over.
    by: Moment,
}

/// What is known of a job from its folder.
pub(super) struct Stored {
    pub(super) record: Record,
    pub(super) progress: Progress,
    /// Of a program: how it stands with it. None where it never started.
    pub(super) found: Option<Found>,
}

/// How it stands with a program that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Running,
    Exited(i32),
    /// Neither does it run nor did it note how it ended.
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
    /// Opens a folder for jobs, and makes it where there is none. One process may have it open. Programs run as `account`, if
    /// there is one, which only root can have them do.
    pub fn open(folder: &Path, account: Option<Account>) -> Result<Processes, LrmsError> {
        let jobs = folder.join("jobs");
        system::create_private_all(&jobs).map_err(LrmsError::files("make", &jobs))?;
        if account.is_some() {
            system::let_through(&jobs).map_err(LrmsError::files("open", &jobs))?;
        }
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

    /// With a folder in which programs run that name none, and in which what they print goes to files called by the ids of
    /// the jobs: `job_7d2e.out`.
    pub fn with_output(self, shared: Option<PathBuf>) -> Processes {
        Processes { shared, ..self }
    }

    /// What is known of all jobs, in the order of submission. Programs that still run are watched; those that should not
    /// are ended.
    pub(super) fn load(&mut self, now: Moment) -> Result<Vec<Stored>, LrmsError> {
        let alive = system::processes(&self.jobs);
        let mut stored = Vec::new();
        for (id, folder) in JobFolder::all(&self.jobs)? {
            let (record, progress) = (folder.record()?, folder.progress()?);
            if record.job.id != id {
                let why = format!("it says that it is {}", record.job.id);
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
        stored.sort_by_key(|stored| stored.record.order);
        Ok(stored)
    }

    /// Writes down a job that is submitted. When this returns it survives any crash.
    pub(super) fn add(&self, record: &Record) -> Result<(), LrmsError> {
        JobFolder::create(record, &self.jobs, self.account.as_ref())
    }

    /// Writes down that a job starts; an error says why that cannot be done.
    pub(super) fn note_start(&self, id: JobId, at: Time) -> Result<(), String> {
        let progress = Progress { started: Some(at), over: None };
        self.folder(id).note(&progress).map_err(|why| format!("cannot write in its folder: {why}"))
    }

    /// Writes down how a job ended. Of one whose folder is gone nothing will be known anyway.
    pub(super) fn note_end(&self, id: JobId, started: Option<Time>, over: Over) -> Result<(), LrmsError> {
        let folder = self.folder(id);
        let progress = Progress { started, over: Some(over) };
        match folder.note(&progress) {
            Err(why) if folder.path().exists() => Err(LrmsError::files("write in", folder.path())(why)),
            _ => Ok(()),
        }
    }

    /// Starts the program of a job; an error says why that cannot be done.
    pub(super) fn start(&mut self, job: &Job, at: Time) -> Result<(), String> {
        let folder = self.folder(job.id);
        let mut command = command::wrapped(job, &folder, self)?;
        // Before it starts, so that afterwards it is known until when it may run.
        self.note_start(job.id, at)?;
        let child = command.spawn().map_err(|why| format!("cannot run /bin/sh: {why}"))?;
        self.watched.insert(job.id, Some(child));
        Ok(())
    }

    /// Ends all processes of a job; it will not be started any more.
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

    /// Which programs have ended since this was last asked.
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
            // Whatever it left behind has no room any more.
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

    /// Whether there are processes to look after.
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

/// How it stands with a program whose wrapper is no child of ours.
fn look(id: JobId, jobs: &Path) -> Found {
    let folder = JobFolder::of(id, jobs);
    let exited = || folder.exit().map(Found::Exited);
    let runs = || match folder.process() {
        Some(process) => system::job_of(process, jobs) == Some(id),
        // Its wrapper has yet to write, or was ended while it did.
        None => system::processes(jobs).contains_key(&id),
    };
    // It may note its end and be gone between two looks.
    exited().or_else(|| runs().then_some(Found::Running)).or_else(exited).unwrap_or(Found::Gone)
}

/// Tells all processes of a job, each once: its group, and those that left it.
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

/// The leader of a job's group, as long as nobody else can have its number.
fn leader(id: JobId, child: Option<&Child>, jobs: &Path) -> Option<i32> {
    match child {
        // A child that was not waited for keeps its number.
        Some(child) => i32::try_from(child.id()).ok(),
        None => {
            JobFolder::of(id, jobs).process().filter(|process| system::job_of(*process, jobs) == Some(id))
        }
    }
}
