//! What peers offer, as the ranking of sites wants it.

use super::{Around, JobRules};
use crate::register::Known;
use bookahead_protocol::broker::name_here;
use bookahead_protocol::jobs::{JobRequest, Ranked, Site, Task, rank};
use bookahead_protocol::{Millis, Name, Resource, Value};

/// What a job needs, and the machines that suit it, the shortest expected delay first.
pub(super) fn ranked(job: &JobRequest, around: Around<'_>, rules: &JobRules) -> (Task, Vec<Ranked>) {
    let task = Task {
        cores: job.capacity,
        run: Millis::seconds(job.limit.0),
        rate: job.reference_mhz.unwrap_or(1),
        files: job.input_bytes.into_iter().collect(),
        kind: job.kind.clone(),
        requirements: job.requirements.clone(),
    };
    let sites = around.register.up().flat_map(|known| sites_of(known, job, around, rules));
    let ranked = rank(&task, &sites.collect::<Vec<_>>());
    (task, ranked)
}

/// The machines of a peer: where the job names one, that one only. A peer that is itself a broker is ranked as one site.
fn sites_of<'a>(
    known: &'a Known,
    job: &'a JobRequest,
    around: Around<'_>,
    rules: &JobRules,
) -> impl Iterator<Item = Site> + use<'a> {
    let said = &known.said;
    let hold_time = around.head.hold_time(&said.name);
    let notice = around.head.told_hold_time(&said.name).unwrap_or(rules.notice);
    let offered = said.resources.iter().map(|offered| &offered.resource);
    let named = |resource: &&Resource| {
        job.resource.as_ref().is_none_or(|wanted| *wanted == name_here(&said.name, &resource.name))
    };
    offered.filter(named).map(move |resource| {
        let load = said.loads.iter().find(|load| load.resource == resource.name);
        let mhz = number(resource, "mhz").and_then(|mhz| u32::try_from(mhz).ok());
        // Without a reference, or without a rate, the job takes as long there as its owner says.
        let rate = job.reference_mhz.map_or(1, |reference| mhz.unwrap_or(reference));
        Site {
            resource: Resource { site: said.name.clone(), ..resource.clone() },
            rates: vec![rate],
            requested: load.map_or(0, |load| load.requested),
            longest_wall_time: Millis::seconds(load.map_or(0, |load| load.longest_wall_time_seconds)),
            bandwidth: number(resource, "bytes-per-second"),
            hold_time,
            notice,
        }
    })
}

fn number(resource: &Resource, attribute: &str) -> Option<u64> {
    match resource.attributes.get(&Name::from(attribute)) {
        Some(Value::Number(number)) => u64::try_from(*number).ok(),
        _ => None,
    }
}
