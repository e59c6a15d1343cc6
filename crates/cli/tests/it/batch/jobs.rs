//! Scripts that leave traces: when they began, and that they still run.

use super::until;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What a job leaves: the second at which it began, and a mark that is made anew for as long as it lives.
pub(crate) struct Traces {
    began: PathBuf,
    lives: PathBuf,
}

/// A job renews its mark so often.
const RENEWED: Duration = Duration::from_millis(300);

impl Traces {
    /// In a folder, by a name.
    pub(crate) fn new(folder: &Path, name: &str) -> Traces {
        Traces { began: folder.join(format!("{name}.began")), lives: folder.join(format!("{name}.lives")) }
    }

    /// A script that leaves them, and runs until it is ended.
    pub(crate) fn endless(&self) -> String {
        let (began, lives) = (self.began.display(), self.lives.display());
        format!("#!/bin/sh\ndate +%s >> '{began}'\nwhile touch '{lives}'; do sleep 0.{}; done\n", 3)
    }

    /// A script that leaves the first and ends.
    pub(crate) fn short(&self) -> String {
        format!("#!/bin/sh\ndate +%s >> '{}'\n", self.began.display())
    }

    /// When runs of it began.
    pub(crate) fn begins(&self) -> Vec<i64> {
        let text = std::fs::read_to_string(&self.began).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// Waits until it has begun, once; says when.
    #[track_caller]
    pub(crate) fn began(&self) -> i64 {
        until(|| match self.begins()[..] {
            [second] => Ok(second),
            [] => Err(format!("{} was not written", self.began.display())),
            ref more => panic!("it ran {} times", more.len()),
        })
    }

    /// Waits until it is gone; says when it last lived.
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
