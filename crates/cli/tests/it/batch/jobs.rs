//! Scripts that record their start and that they are still running.

use super::until;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The files of a job: the second of its start, and a mark that it renews while it runs.
pub(crate) struct Traces {
    began: PathBuf,
    lives: PathBuf,
}

/// Interval at which a job renews its mark.
const RENEWED: Duration = Duration::from_millis(300);

impl Traces {
    /// Files in a folder, by name.
    pub(crate) fn new(folder: &Path, name: &str) -> Traces {
        Traces { began: folder.join(format!("{name}.began")), lives: folder.join(format!("{name}.lives")) }
    }

    /// A script that writes both files and runs until it is killed.
    pub(crate) fn endless(&self) -> String {
        let (began, lives) = (self.began.display(), self.lives.display());
        format!("#!/bin/sh\ndate +%s >> '{began}'\nwhile touch '{lives}'; do sleep 0.{}; done\n", 3)
    }

    /// A script that writes the first file and ends.
    pub(crate) fn short(&self) -> String {
        format!("#!/bin/sh\ndate +%s >> '{}'\n", self.began.display())
    }

    /// Start times of its runs.
    pub(crate) fn begins(&self) -> Vec<i64> {
        let text = std::fs::read_to_string(&self.began).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// Waits until it has started, once; returns the time.
    #[track_caller]
    pub(crate) fn began(&self) -> i64 {
        until(|| match self.begins()[..] {
            [second] => Ok(second),
            [] => Err(format!("{} was not written", self.began.display())),
            ref more => panic!("it ran {} times", more.len()),
        })
    }

    /// Waits until it has ended; returns the time of its last mark.
    #[track_caller]
    pub(crate) fn ended(&self) -> i64 {
        until(|| {
            let last = std::fs::metadata(&self.lives).and_then(|file| file.modified()).unwrap();
            let quiet = SystemTime::now().duration_since(last).unwrap_or_default();
            let second = last.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
            let gone = quiet > 5 * RENEWED;
            if gone { Ok(i64::try_from(second).unwrap()) } else { Err("it lives".into()) }
        })
    }
}
