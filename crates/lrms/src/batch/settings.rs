//! The settings of a batch system: its resources, accounts, and limits.

use super::accounts::{Accounts, Projects};
use super::system::Place;
use crate::GO_WITHIN;
use crate::builtin::{MOST_JOBS, REMEMBERED};
use crate::maintenance::Window;
use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::{Millis, Name, Tres};
use std::collections::BTreeMap;

/// Oldest look by which to choose nodes for a reservation. Changes since then cost at worst one refusal, followed by
/// a new look. A site looks more often anyway.
const LOOK_AGAIN_AFTER: Millis = Millis::seconds(30);

/// Settings of a batch system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Name of the site. It is part of all names in the batch system, as several sites may share a cluster.
    pub site: Name,
    /// Resources with the offered capacity of each. They must not share nodes.
    pub places: Vec<(Place, Capacity)>,
    /// Totals of things beside the capacity, by resource.
    pub tres: BTreeMap<Name, Tres>,
    /// Accounts that own reservations and run jobs.
    pub accounts: Accounts,
    /// Projects to charge, for batch systems with accounting.
    pub projects: Projects,
    /// Slurm: QoS by priority class.
    pub qos: BTreeMap<String, String>,
    /// Oldest look by which to choose nodes.
    pub look_again_after: Millis,
    /// Interval between looks while there are jobs.
    pub follow_every: Millis,
    /// Limit of jobs that wait or run.
    pub most_jobs: usize,
    /// Limit of remembered finished jobs.
    pub remembered: usize,
    /// How long a claiming job may wait for its go-ahead. The job's own wrapper waits half as long again.
    pub go_within: Seconds,
    /// How long before the end of its reservation to end a job, if another reservation begins then.
    pub end_jobs_early: Seconds,
    /// Recurring maintenance that the site configures itself.
    pub maintenance: Vec<Window>,
}

impl Settings {
    /// What a resource offers beside its capacity.
    pub(super) fn tres_of(&self, resource: &Name) -> &Tres {
        const NONE: &Tres = &Tres(BTreeMap::new());
        self.tres.get(resource).unwrap_or(NONE)
    }

    /// Defaults: a look every second while there are jobs, and no projects.
    pub fn new(site: Name, places: Vec<(Place, Capacity)>, accounts: Accounts) -> Settings {
        Settings {
            site,
            places,
            tres: BTreeMap::new(),
            accounts,
            projects: Projects::default(),
            qos: BTreeMap::new(),
            look_again_after: LOOK_AGAIN_AFTER,
            follow_every: Millis::seconds(1),
            most_jobs: MOST_JOBS,
            remembered: REMEMBERED,
            go_within: GO_WITHIN,
            end_jobs_early: Seconds::ZERO,
            maintenance: Vec::new(),
        }
    }
}
