//! The logic above the dialects, tested with a simulated batch system.

mod accounts;
mod backing;
mod busy;
mod examine;
mod faults;
mod faults_at_once;
mod held;
mod jobs;
mod names;
mod plain_view;
mod pretend;
mod projects;
mod side_by_side;
mod view;

use bookahead_lrms::batch::{Accounts, Place, Settings, Unit};
use bookahead_lrms::{Batch, LrmsError};
use bookahead_party::{JobChange, JobStatus, Seen};
use bookahead_plan::Capacity;
use bookahead_protocol::{Moment, Name};
use pretend::Pretend;
use std::sync::Arc;

/// Drives a batch system from one thread.
trait Drive {
    /// Reads the changes of jobs, if a look is due.
    fn pass(&self, now: Moment) -> Result<Vec<JobChange>, LrmsError>;
    fn jobs(&self) -> Vec<JobStatus>;
}

impl Drive for Batch {
    fn pass(&self, now: Moment) -> Result<Vec<JobChange>, LrmsError> {
        let is_due = self.next_look().is_some_and(|due| due <= now);
        let looked = if is_due { self.look(now).map(drop) } else { Ok(()) };
        let followed = looked.and_then(|()| self.follow(now, || false));
        let changes = self.changes();
        // Known changes are reported in any case.
        if changes.is_empty() {
            followed?;
        }
        Ok(changes)
    }

    fn jobs(&self) -> Vec<JobStatus> {
        self.seen().jobs
    }
}

fn place(unit: Unit) -> Place {
    Place { resource: crate::cpu(), unit, partition: None, features: Vec::new() }
}

fn settings(unit: Unit, capacity: u32) -> Settings {
    let places = vec![(place(unit), Capacity(capacity))];
    Settings::new(Name::from("uni-a"), places, Accounts::Service("service".into()))
}

/// A new adapter, as after a restart.
fn batch(pretend: &Pretend) -> Batch {
    let capacity = pretend.world().nodes.iter().map(|node| node.cores).sum();
    Batch::new(Box::new(pretend.clone()), settings(Unit::Cores, capacity)).unwrap()
}

/// One that counts whole nodes.
fn batch_of_nodes(pretend: &Pretend) -> Batch {
    let capacity = pretend.world().nodes.len() as u32;
    Batch::new(Box::new(pretend.clone()), settings(Unit::Nodes, capacity)).unwrap()
}

fn seen(batch: &Batch, second: i64) -> Arc<Seen> {
    batch.look(crate::at(second)).unwrap().resources.remove(&crate::cpu()).unwrap()
}
