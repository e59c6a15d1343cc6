//! Ends a cluster of our own when we are killed: a small process that waits until we are gone, then ends all processes of the
//! cluster, as [`super::daemons`] knows them, with all that come from them. Where we end in good order there is nothing
//! left for it to do.

use super::OwnClusterError;
use super::daemons::FOLDER_VARIABLE;
use crate::error::LrmsError;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A fixed text; the folder comes to it as an argument. Its input ends when we close it or are gone.
const SCRIPT: &str = r#"
cat > /dev/null
family() {
    echo "$1"
    for child in $(cat "/proc/$1/task/"*/children 2> /dev/null); do family "$child"; done
}
for process in /proc/[0-9]*; do
    name=$(cat "$process/comm" 2> /dev/null)
    place=$(readlink "$process/cwd")
    if grep -qzxF -e "$2=$1" "$process/environ" 2> /dev/null ||
        { [ "$name" = slurmstepd ] && [ "${place% (deleted)}" = "$1" ]; }
    then
        for one in $(family "${process#/proc/}"); do
            [ "$one" -eq "$$" ] || kill -KILL "$one" 2> /dev/null
        done
    fi
done
"#;

#[derive(Debug)]
pub(super) struct Guard(Child);

impl Guard {
    pub(super) fn of(folder: &Path) -> Result<Guard, OwnClusterError> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "bookahead-cluster"]).arg(folder).arg(FOLDER_VARIABLE);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.env_remove(FOLDER_VARIABLE).current_dir("/");
        let failed = |source| LrmsError::cannot_run("/bin/sh".into(), source);
        Ok(Guard(command.spawn().map_err(failed)?))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _waited = self.0.wait();
    }
}
