//! Scripts that record their start and that they are still running.

use bookahead_tests::polling::until;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The files of a job: the second of its start, and its process number, in a file that it touches while it runs.
pub(crate) struct Traces {
    began: PathBuf,
    lives: PathBuf,
}

impl Traces {
    /// Files in a folder, by name.
    pub(crate) fn new(folder: &Path, name: &str) -> Traces {
        Traces { began: folder.join(format!("{name}.began")), lives: folder.join(format!("{name}.lives")) }
    }

    /// A script that writes both files and runs until it is killed.
    pub(crate) fn endless(&self) -> String {
        let (began, lives) = (self.began.display(), self.lives.display());
        format!(
            "#!/bin/sh\ndate +%s >> '{began}'\necho $$ > '{lives}'\nwhile touch '{lives}'; do sleep 0.3; done\n"
        )
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

    /// Waits until it has ended; returns the time when it last ran.
    #[track_caller]
    pub(crate) fn ended(&self) -> i64 {
        until(|| {
            let process = std::fs::read_to_string(&self.lives).map_err(|why| why.to_string())?;
            if Path::new("/proc").join(process.trim()).exists() {
                return Err("it lives".to_owned());
            }
            let last = std::fs::metadata(&self.lives).and_then(|file| file.modified()).unwrap();
            let second = last.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
            Ok(i64::try_from(second).unwrap())
        })
    }
}
