//! The layer between a site and every batch system, over one that is only pretended.

mod accounts;
mod backing;
mod busy;
mod examine;
mod faults;
mod jobs;
mod names;
mod plain_view;
mod pretend;
mod projects;
mod view;

use bookahead_lrms::batch::{Accounts, Place, Settings, Unit};
use bookahead_lrms::{Batch, Lrms, Seen};
use bookahead_plan::Capacity;
use bookahead_protocol::Name;
use pretend::Pretend;

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

fn seen(batch: &mut Batch, second: i64) -> Seen {
    batch.snapshot(crate::at(second)).unwrap().resources.remove(&crate::cpu()).unwrap()
}
