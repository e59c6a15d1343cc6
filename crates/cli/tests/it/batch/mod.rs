//! The whole system on real batch systems: sites and brokers as processes, each site on a Slurm cluster that the test
//! starts in its own folder (`OwnCluster`), used over sockets and by the command line. The state of Slurm is always
//! read with Slurm's own commands.
//!
//! - [`cluster`]: a Slurm cluster; [`terminal`]: the command line; [`watcher`]: a client that watches events
//! - [`gate`]: commands of Slurm that wait; [`jobs`]: scripts that record their runs; [`sshd`]: a machine reached by ssh
//! - the rest: the tests
//!
//! It needs the Debian packages slurmctld, slurmd, slurm-client, munge and openssh-server, and fails with a message if
//! one is missing.

mod attract;
pub(crate) mod cluster;
mod co_reservation;
mod crashes;
mod doctor;
mod fenced;
mod flexible;
mod flooding;
mod foreign;
mod gate;
mod jobs;
mod life_cycle;
mod local_jobs;
mod lost_journal;
mod maintenance;
mod nodes;
mod nodes_away;
mod over_ssh;
mod pbs;
mod projects;
mod silence;
mod slow;
pub(crate) mod sshd;
pub(crate) mod terminal;
mod tres;
mod watcher;

use crate::services::asking::now;
use bookahead_plan::Time;
use std::time::{Duration, Instant};

/// Far longer than any step takes, unless stated otherwise.
const PATIENCE: Duration = Duration::from_secs(40);

/// Polls until a condition is true; panics with `what` after the timeout.
#[track_caller]
fn until<T>(mut look: impl FnMut() -> Result<T, String>) -> T {
    until_within(PATIENCE, &mut look)
}

/// The same with a short timeout.
#[track_caller]
fn until_within<T>(patience: Duration, mut look: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + patience;
    loop {
        match look() {
            Ok(found) => return found,
            Err(why) => assert!(Instant::now() < deadline, "never came to be: {why}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until a time.
fn wait_for(time: Time) {
    while now() < time {
        std::thread::sleep(Duration::from_millis(20));
    }
}
