//! The folder of one job: everything that must be known of it after a crash. It is there, whole and durable, before the
//! job counts as submitted.
//!
//! | file | written by | says |
//! | --- | --- | --- |
//! | `job.json` | us, at submission | what was submitted, when, as which in order |
//! | `script` | us, at submission | the text of a script |
//! | `progress.json` | us, before it starts and when it is over | when it started; when and how it ended |
//! | `output`, `error` | the program, unless it prints to a shared folder | |
//! | `started` | the wrapper, only if it is not there | its process id: whoever writes it runs the program |
//! | `exit` | the wrapper, at the end | the exit code of the program |
//!
//! Where programs run as another account, what they and their wrapper write is in a folder `run` of that account inside this one:
//! we never write there by name, since they could put a link in place of a file.
//!
//! A number counts only with the end of its line, so half of one is never taken for a whole. The output of a program is not
//! bounded; the file system is.

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

/// What was submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Record {
    pub(in super::super) job: Job,
    pub(in super::super) submitted: Time,
    /// Later jobs have higher numbers.
    pub(in super::super) order: u64,
}

/// How far it has come.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(in super::super) struct Progress {
    pub(in super::super) started: Option<Time>,
    pub(in super::super) over: Option<Over>,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Over {
    pub(in super::super) at: Time,
    pub(in super::super) state: JobState,
}

/// The folder of one job.
#[derive(Debug, Clone)]
pub(super) struct JobFolder(PathBuf);

/// Folders with this in front are being made; one that is left was never submitted.
const UNFINISHED: &str = "new-";

/// The folder of the account that runs the program, if that is another than ours.
const RUN: &str = "run";

impl JobFolder {
    /// That of a job, among the others.
    pub(super) fn of(id: JobId, all: &Path) -> JobFolder {
        JobFolder(all.join(id.to_string()))
    }

    /// Those of all jobs. What is left of ones that were never submitted is removed; what is not named like a job is
    /// not ours.
    pub(super) fn all(all: &Path) -> Result<Vec<(JobId, JobFolder)>, LrmsError> {
        let mut folders = Vec::new();
        for entry in fs::read_dir(all).map_err(LrmsError::files("read", all))? {
            let path = entry.map_err(LrmsError::files("read", all))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let job = |name: &str| name.parse::<JobId>().ok().filter(|id| id.to_string() == name);
            if name.strip_prefix(UNFINISHED).and_then(job).is_some() {
                fs::remove_dir_all(&path).map_err(LrmsError::files("remove", &path))?;
            } else if let Some(id) = job(name) {
                folders.push((id, JobFolder(path)));
            }
        }
        Ok(folders)
    }

    /// Makes the folder of a job that is submitted. When this returns it survives any crash; when it fails nothing
    /// is left of it, nor of one that was forgotten and could not be removed.
    pub(super) fn create(record: &Record, all: &Path, account: Option<&Account>) -> Result<(), LrmsError> {
        let folder = JobFolder::of(record.job.id, all);
        let unfinished = JobFolder(all.join(format!("{UNFINISHED}{}", record.job.id)));
        let made = unfinished.remove().and_then(|()| folder.remove()).and_then(|()| {
            unfinished.fill(record, account)?;
            fs::rename(&unfinished.0, &folder.0)?;
            sync(all)
        });
        made.map_err(|why| {
            let _ = unfinished.remove().and(folder.remove());
            LrmsError::files("write", &folder.0)(why)
        })
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
            system::let_through(&self.0)?;
        }
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

    /// Where its program and the wrapper run and write.
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

    /// Notes how far it has come, durably.
    pub(super) fn note(&self, progress: &Progress) -> io::Result<()> {
        let (path, part) = (self.0.join("progress.json"), self.0.join("progress.json.part"));
        write(&part, &serde_json::to_vec(progress)?)?;
        fs::rename(part, path)?;
        sync(&self.0)
    }

    /// The process that runs the program, if one ever did; zero where none may.
    pub(super) fn process(&self) -> Option<i32> {
        self.number("started")
    }

    /// Whether a process runs or ran the program, or none may.
    pub(super) fn is_claimed(&self) -> bool {
        self.run().join("started").exists()
    }

    /// The exit code of the program, if it has ended by itself.
    pub(super) fn exit(&self) -> Option<i32> {
        self.number("exit")
    }

    /// From now on no process will run the program, unless one does already.
    pub(super) fn forbid_start(&self) -> io::Result<()> {
        match OpenOptions::new().write(true).create_new(true).open(self.run().join("started")) {
            Ok(mut file) => file.write_all(b"0\n"),
            // One does, or the folder is gone and none can.
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
