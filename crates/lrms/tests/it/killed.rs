//! A daemon that is really killed: this test binary is started again as the daemon.

use crate::processes::{file, open, read, script, until_gone, until_state};
use crate::{Drive, at};
use bookahead_party::{Ended, JobState};
use bookahead_tests::polling::until_true;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const WHERE: &str = "BOOKAHEAD_LRMS_FOLDER";

/// Does nothing unless started by another test.
#[test]
fn what_the_daemon_does() {
    let Some(folder) = std::env::var_os(WHERE).map(PathBuf::from) else { return };
    let mut builtin = open(&folder, 0);
    builtin
        .submit(at(0), &script(0x301, "echo there; while [ ! -e go ]; do sleep 0.01; done; exit 7", &[]))
        .unwrap();
    builtin.submit(at(0), &script(0x302, "echo there; sleep 600 & wait", &[])).unwrap();
    loop {
        builtin.pass(at(1));
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn programs_outlive_a_daemon_that_was_killed_and_the_next_one_finds_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = Command::new(std::env::current_exe().unwrap());
    daemon.args(["killed::what_the_daemon_does", "--exact"]).env(WHERE, folder.path());
    let mut daemon = daemon.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until_true("both are there", || {
        [0x301, 0x302].iter().all(|id| read(folder.path(), *id, "output") == "there\n")
    });
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let mut builtin = open(folder.path(), 5);
    assert!(builtin.jobs().iter().all(|status| status.state == JobState::Running), "{:?}", builtin.jobs());
    std::fs::write(file(folder.path(), 0x301, "go"), "").unwrap();
    until_state(&mut builtin, 6, 0x301, &JobState::Done { exit: 7 });
    builtin.pass(at(101));
    until_state(&mut builtin, 101, 0x302, &JobState::Killed(Ended::Limit));
    until_gone(&mut builtin, folder.path(), 101, 0x302);
    assert_eq!(read(folder.path(), 0x302, "output"), "there\n");
}
