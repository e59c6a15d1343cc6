//! Priorities of the jobs of a trace: a file that maps users, groups and queues to numbers.

use anyhow::{Context, Result, bail};
use bookahead_sim::Job;
use bookahead_workload::swf::Record;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Numbers by the numbers of the trace. A job's user counts first, then its group, then its queue; a job with none of
/// them has `default`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Priorities {
    users: BTreeMap<String, i32>,
    groups: BTreeMap<String, i32>,
    queues: BTreeMap<String, i32>,
    default: i32,
}

pub(super) fn read(path: &Path) -> Result<Priorities> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    let read: Priorities = toml::from_str(&text).with_context(|| {
        format!("{name}: not a file of priorities; write tables such as [queues] with lines such as 1 = 100")
    })?;
    let keys = [&read.users, &read.groups, &read.queues].into_iter().flat_map(BTreeMap::keys);
    if let Some(key) = keys.into_iter().find(|key| key.parse::<i64>().is_err()) {
        bail!(
            "{name}: {key:?} is no number; a trace in Standard Workload Format numbers users, groups and queues"
        );
    }
    Ok(read)
}

impl Priorities {
    /// Sets the priority of each job from its record.
    pub(super) fn apply(&self, records: &[Record], jobs: &mut [Job]) {
        for (record, job) in records.iter().zip(jobs) {
            let by = |map: &BTreeMap<String, i32>, number: i64| map.get(&number.to_string()).copied();
            let user = by(&self.users, record.user).or_else(|| by(&self.groups, record.group));
            job.asked.priority = user.or_else(|| by(&self.queues, record.queue)).unwrap_or(self.default);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_sim::Job;

    #[test]
    fn a_user_counts_before_a_group_and_a_group_before_a_queue() {
        let text = "default = -1\n[users]\n7 = 30\n[groups]\n2 = 20\n[queues]\n1 = 10\n";
        let priorities: Priorities = toml::from_str(text).unwrap();
        let record = |user, group, queue| Record { user, group, queue, ..Record::BLANK };
        let records = [record(7, 2, 1), record(8, 2, 1), record(8, 3, 1), record(8, 3, 2), Record::BLANK];
        let trace = bookahead_workload::Job {
            number: 1,
            submit: bookahead_plan::Time(0),
            run: bookahead_plan::Seconds(1),
            request: bookahead_plan::Seconds(1),
            processors: bookahead_plan::Capacity(1),
            user: 0,
        };
        let mut jobs = [Job::from(&trace); 5];
        priorities.apply(&records, &mut jobs);
        assert_eq!(jobs.map(|job| job.asked.priority), [30, 20, 10, -1, -1]);
    }
}
