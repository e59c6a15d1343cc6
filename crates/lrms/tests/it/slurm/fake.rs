//! Modified Slurm commands: small scripts in front of the real ones that print, refuse or damage something.

use bookahead_lrms::slurm::OwnCluster;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// All commands that the dialect uses.
pub(crate) const COMMANDS: [&str; 6] = ["scontrol", "squeue", "sbatch", "scancel", "sacct", "sacctmgr"];

pub(crate) struct Fakes {
    folder: TempDir,
    real: PathBuf,
}

impl Fakes {
    /// In front of those of a cluster.
    pub(crate) fn of(cluster: &OwnCluster) -> Fakes {
        Fakes::before(&cluster.commands().unwrap_or_else(|| "/usr/bin".into()))
    }

    pub(crate) fn before(real: &Path) -> Fakes {
        let fakes = Fakes { folder: tempfile::tempdir().unwrap(), real: real.into() };
        COMMANDS.iter().for_each(|name| fakes.put(name, ""));
        fakes
    }

    /// Sets what a command does before the real one, in `$REAL`, takes over.
    pub(crate) fn put(&self, name: &str, script: &str) {
        let text =
            format!("#!/bin/sh\nREAL={}\n{script}\nexec \"$REAL/{name}\" \"$@\"\n", self.real.display());
        let (path, fresh) = (self.bin().join(name), self.bin().join("fresh"));
        fs::write(&fresh, text).unwrap();
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(fresh, path).unwrap();
    }

    pub(crate) fn bin(&self) -> &Path {
        self.folder.path()
    }
}
