//! The folder of one job: all data needed after a crash. It is complete and durable before the job counts as
//! submitted.
//!
//! | file | written by | content |
//! | --- | --- | --- |
//! | `job.json` | daemon, at submission and when it goes back to the queue | the job, its submit time, sequence number and restarts |
//! | `script` | daemon, at submission | the text of a script |
//! | `progress.json` | daemon, before the start and at the end | start time; time and kind of the end |
//! | `output`, `error` | the program, unless it prints to a shared folder | |
//! | `started` | the wrapper, only if it does not exist | its process id; its writer runs the program |
//! | `exit` | the wrapper, at the end | the exit code of the program |
//!
//! If programs run as another account, they and their wrapper write into a folder `run` of that account inside this
//! one. The daemon never writes there by name, since they could replace a file by a link.
//!
//! A number counts only with its line feed, so a partial write is never taken for a number. The output of a program
//! is not limited, except by the file system.

use super::{Account, system};
use crate::error::LrmsError;
use bookahead_party::{Job, JobState, Work};
use bookahead_plan::Time;
use bookahead_protocol::JobId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A submitted job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Record {
    pub(in super::super) job: Job,
    pub(in super::super) submitted: Time,
    /// Later jobs have higher numbers.
    pub(in super::super) order: u64,
    /// How often it went back to the queue.
    #[serde(default)]
    pub(in super::super) restarts: u32,
}

impl Record {
    /// A job that was never in the queue before.
    pub(in super::super) fn new(job: Job, submitted: Time, order: u64) -> Record {
        Record { job, submitted, order, restarts: 0 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(in super::super) struct Progress {
    pub(in super::super) started: Option<Time>,
    pub(in super::super) over: Option<Over>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Over {
    pub(in super::super) at: Time,
    pub(in super::super) state: JobState,
}

#[derive(Debug, Clone)]
pub(super) struct JobFolder(PathBuf);

/// Prefix of folders that are being created; one that is left over was never submitted.
const UNFINISHED: &str = "new-";

/// Subfolder of the account that runs the program, if it is not ours.
const RUN: &str = "run";

impl JobFolder {
    pub(super) fn of(id: JobId, all: &Path) -> JobFolder {
        JobFolder(all.join(id.to_string()))
    }

    /// The folders of all jobs. Leftovers of jobs that were never submitted are removed. Other names are ignored, as
    /// they are not ours.
    pub(super) fn all(all: &Path) -> Result<Vec<(JobId, JobFolder)>, LrmsError> {
        let mut folders = Vec::new();
        for entry in fs::read_dir(all).map_err(LrmsError::files("read", all))? {
            let path = entry.map_err(LrmsError::files("read", all))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // An id has other spellings, too; a folder with such a name is not ours to remove.
            let job = |name: &str| name.parse::<JobId>().ok().filter(|id| id.to_string() == name);
            if name.strip_prefix(UNFINISHED).and_then(job).is_some() {
                fs::remove_dir_all(&path).map_err(LrmsError::files("remove", &path))?;
            } else if let Some(id) = job(name) {
                folders.push((id, JobFolder(path)));
            }
        }
        Ok(folders)
    }

    /// Creates the folder of a submitted job. After success it survives any crash. After a failure nothing is left of
    /// it, nor of an old folder with this id that could not be removed before.
    pub(super) fn create(record: &Record, all: &Path, account: Option<&Account>) -> Result<(), LrmsError> {
        let folder = JobFolder::of(record.job.id, all);
        let unfinished = JobFolder(all.join(format!("{UNFINISHED}{}", record.job.id)));
        // Old folders go first: a rename cannot replace a folder that is not empty.
        let made = unfinished.remove().and_then(|()| folder.remove()).and_then(|()| {
            unfinished.fill(record, account)?;
            // The rename makes the complete folder visible in one step.
            fs::rename(&unfinished.0, &folder.0)?;
            sync(all)
        });
        made.map_err(|why| {
            // The first error is the one to report. `and` tries both removals, even if one fails.
            let _ = unfinished.remove().and(folder.remove());
            LrmsError::files("write", &folder.0)(why)
        })
    }

    /// Prepares the folder for another run. The end of the last run goes last: until then the job counts as over,
    /// and this can be repeated.
    pub(super) fn requeue(&self, record: &Record) -> Result<(), LrmsError> {
        let prepared = || {
            self.replace("job.json", &serde_json::to_vec(record)?)?;
            for name in ["exit", "started"] {
                match fs::remove_file(self.run().join(name)) {
                    Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
                    _ => {}
                }
            }
            self.note(&Progress::default())
        };
        prepared().map_err(LrmsError::files("write in", &self.0))
    }

    fn fill(&self, record: &Record, account: Option<&Account>) -> io::Result<()> {
        system::create_private(&self.0)?;
        if let Work::Script { text, .. } = &record.job.work {
            write(&self.script(), text.as_bytes())?;
        }
        if let Some(Account { user, group, .. }) = account {
            let run = self.0.join(RUN);
            system::create_private(&run)?;
            system::give_to(&run, *user, *group)?;
            if let Work::Script { .. } = &record.job.work {
                system::give_to(&self.script(), *user, *group)?;
            }
            // Only now: no other account can reach these files before their owners are set.
            system::let_through(&self.0)?;
        }
        // Contents and names must be durable before the rename makes the job count as submitted.
        write(&self.0.join("job.json"), &serde_json::to_vec(record)?)?;
        sync(&self.0)
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.0) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
            _ => Ok(()),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Working folder of the program and its wrapper.
    pub(super) fn run(&self) -> PathBuf {
        let run = self.0.join(RUN);
        if run.is_dir() { run } else { self.0.clone() }
    }

    pub(super) fn script(&self) -> PathBuf {
        self.0.join("script")
    }

    pub(super) fn record(&self) -> Result<Record, LrmsError> {
        let path = self.0.join("job.json");
        read_json(&path)?.ok_or_else(|| LrmsError::Damaged { path, why: "it is missing".into() })
    }

    pub(super) fn progress(&self) -> Result<Progress, LrmsError> {
        Ok(read_json(&self.0.join("progress.json"))?.unwrap_or_default())
    }

    /// Writes the progress, durably.
    pub(super) fn note(&self, progress: &Progress) -> io::Result<()> {
        self.replace("progress.json", &serde_json::to_vec(progress)?)
    }

    /// Replaces a file, durably. With a rename, a crash leaves the old or the new content, never a part of it.
    fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let part = self.0.join(format!("{name}.part"));
        write(&part, content)?;
        fs::rename(part, self.0.join(name))?;
        sync(&self.0)
    }

    /// Process id of the wrapper that ran the program; zero if it must not start.
    pub(super) fn process(&self) -> Option<i32> {
        self.number("started")
    }

    /// Whether a wrapper runs or ran the program, or it must not start.
    pub(super) fn is_claimed(&self) -> bool {
        self.run().join("started").exists()
    }

    /// Exit code of the program, if it ended by itself.
    pub(super) fn exit(&self) -> Option<i32> {
        self.number("exit")
    }

    /// Prevents the start of the program, unless it already runs.
    pub(super) fn forbid_start(&self) -> io::Result<()> {
        // Created in one step, as by `set -C` in the wrapper: only one of both gets the file.
        match OpenOptions::new().write(true).create_new(true).open(self.run().join("started")) {
            Ok(mut file) => file.write_all(b"0\n"),
            // It runs, or the folder is gone and it cannot.
            Err(why) if matches!(why.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {
                Ok(())
            }
            Err(why) => Err(why),
        }
    }

    fn number(&self, name: &str) -> Option<i32> {
        let text = fs::read_to_string(self.run().join(name)).ok()?;
        text.strip_suffix('\n')?.parse().ok()
    }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, LrmsError> {
    let text = match fs::read(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(LrmsError::files("read", path))?,
    };
    let damaged = |why: serde_json::Error| LrmsError::Damaged { path: path.into(), why: why.to_string() };
    serde_json::from_slice(&text).map(Some).map_err(damaged)
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = system::create_private_file(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Makes names in a folder durable.
fn sync(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
