//! The whole system on real batch systems: sites and brokers as processes, each site on a Slurm of its own that the test
//! starts in a folder of its own (`OwnCluster`), asked over sockets and by the command line. What Slurm has is always read
//! from Slurm itself, by its own commands.
//!
//! - [`cluster`]: a Slurm and what it says; [`terminal`]: somebody at a terminal; [`watcher`]: somebody who watches
//! - [`jobs`]: scripts that leave traces; [`sshd`]: a machine that is reached by ssh
//! - the rest: what a site, or several, do on it
//!
//! It relies on Debian's packages slurmctld, slurmd, slurm-client, munge and openssh-server, and says so where one is
//! missing.

mod cluster;
mod co_reservation;
mod crashes;
mod doctor;
mod flooding;
mod foreign;
mod jobs;
mod life_cycle;
mod local_jobs;
mod lost_journal;
mod nodes;
mod nodes_away;
mod over_ssh;
mod projects;
mod silence;
mod slow;
mod sshd;
pub(crate) mod terminal;
mod watcher;

use crate::services::asking::now;
use bookahead_plan::Time;
use std::time::{Duration, Instant};

/// A promise is kept where something happens within so many seconds of it.
const CLOSE: i64 = 2;

/// Far longer than anything here takes that is not said to take its time.
const PATIENCE: Duration = Duration::from_secs(40);

/// Looks until it is so, and says what was not if it never is.
#[track_caller]
fn until<T>(mut look: impl FnMut() -> Result<T, String>) -> T {
    until_within(PATIENCE, &mut look)
}

/// The same for what must be so soon.
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

/// Waits for a time of day.
fn wait_for(time: Time) {
    while now() < time {
        std::thread::sleep(Duration::from_millis(20));
    }
}
