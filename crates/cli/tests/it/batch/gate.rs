//! Commands of Slurm that wait until the test lets them go: a batch system that stands still for exactly as long as the
//! test needs. So the order of events shows who waits for a command, and no time is measured.

use super::cluster::Cluster;
use bookahead_tests::polling::until_async;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Wrappers of Slurm's commands in a folder.
pub(crate) struct Gate(PathBuf);

/// Commands that wait together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Submissions and new reservations.
    Orders,
    /// All other commands.
    Others,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Orders => "orders",
            Kind::Others => "others",
        }
    }
}

impl Gate {
    /// Open for all commands.
    pub(crate) fn of(cluster: &mut Cluster) -> Gate {
        let gate = Gate(cluster.folder().join("gate"));
        fs::create_dir(&gate.0).unwrap();
        let (commands, folder) = (cluster.daemons().commands(), gate.0.display());
        let commands = commands.unwrap_or_else(|| "/usr/bin".into());
        for name in ["sbatch", "scontrol", "squeue", "sinfo", "sacct", "scancel", "sacctmgr"] {
            let (script, real) = (gate.0.join(name), commands.join(name));
            let text = format!(
                "#!/bin/sh\ncase '{name} '\"$1\" in sbatch*|'scontrol create') kind=orders;; *) kind=others;; esac\n\
                 echo $$ >> '{folder}'/$kind.came\nflock -s '{folder}'/$kind true\n\
                 echo $$ >> '{folder}'/$kind.passed\nexec '{}' \"$@\"\n",
                real.display()
            );
            fs::write(&script, text).unwrap();
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        }
        gate
    }

    /// The folder of the wrappers.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// From now on these commands wait, until the file is dropped: each of them takes its lock for a moment.
    #[must_use]
    pub(crate) fn close(&self, kind: Kind) -> File {
        let closed = File::create(self.0.join(kind.word())).unwrap();
        closed.lock().unwrap();
        closed
    }

    /// Number of commands that have passed.
    pub(crate) fn passed(&self, kind: Kind) -> usize {
        self.noted(kind, "passed").len()
    }

    /// Process numbers of the commands that wait.
    pub(crate) fn waiting(&self, kind: Kind) -> Vec<String> {
        let (passed, mut waiting) = (self.noted(kind, "passed"), self.noted(kind, "came"));
        for process in passed {
            // Once each: the system may use a number again.
            if let Some(at) = waiting.iter().position(|one| *one == process) {
                waiting.remove(at);
            }
        }
        waiting
    }

    /// Waits until this many commands wait, and returns their process numbers.
    pub(crate) async fn has_waiting(&self, kind: Kind, count: usize) -> Vec<String> {
        until_async(async || {
            let waiting = self.waiting(kind);
            if waiting.len() >= count { Ok(waiting) } else { Err(format!("{count} wait: {waiting:?}")) }
        })
        .await
    }

    fn noted(&self, kind: Kind, what: &str) -> Vec<String> {
        let text = fs::read_to_string(self.0.join(format!("{}.{what}", kind.word()))).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}
