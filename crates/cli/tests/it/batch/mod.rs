//! The whole system on real batch systems: sites and brokers as processes, each site on a Slurm cluster that the test
//! starts in its own folder (`OwnCluster`), used over sockets and by the command line. The state of Slurm is always
//! read with Slurm's own commands.
//!
//! - [`cluster`]: a Slurm cluster; [`terminal`]: the command line; [`watcher`]: a client that watches events
//! - [`gate`]: commands of Slurm that wait; [`jobs`]: scripts that record their runs
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
pub(crate) mod terminal;
mod tres;
mod watcher;

use crate::services::asking::now;
use bookahead_plan::Time;
use std::time::Duration;

/// Waits until a time.
fn wait_for(time: Time) {
    while now() < time {
        std::thread::sleep(Duration::from_millis(20));
    }
}
