//! Jobs as all batch systems tell them, from jobs as Slurm tells them: CPUs become cores, arrays become their tasks, and those
//! that wait stand in the order in which Slurm would look at them.

use super::json::SlurmJob;
use super::nodes::SlurmNode;
use super::reservations::evenly;
use super::submit::{INSIDE, claims};
use super::{hosts, ranges, states};
use crate::batch::{FactState, Handle, JobFact, Place};
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::Name;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// No array is told as more waiting jobs; nobody plans further ahead.
const MOST_TASKS: usize = 10_000;

/// Nor all arrays together: what is beyond that counts as one task each.
const MOST_TASKS_OF_ALL: usize = 100_000;

/// What jobs are compared with.
pub(super) struct Surroundings<'a> {
    pub(super) places: &'a [Place],
    pub(super) nodes: &'a BTreeMap<&'a str, &'a SlurmNode>,
    pub(super) clock: Option<Time>,
}

/// All jobs that have to do with our resources; those that wait by priority, then by when they came.
pub(super) fn told(mut jobs: Vec<SlurmJob>, around: &Surroundings) -> Vec<JobFact> {
    let number = |number: Option<i64>| number.unwrap_or(0);
    jobs.sort_by_key(|job| {
        (Reverse(number(job.priority.0)), number(job.submit_time.0), number(job.job_id.0))
    });
    let mut told = Vec::new();
    for job in &jobs {
        let left = MOST_TASKS_OF_ALL.saturating_sub(told.len()).clamp(1, MOST_TASKS);
        told.extend(tasks(job, around, left));
    }
    told
}

/// A job, or the tasks of one that waits as an array.
fn tasks(job: &SlurmJob, around: &Surroundings, most: usize) -> Vec<JobFact> {
    let Some(fact) = fact(job, around) else { return Vec::new() };
    let waits = matches!(fact.state, FactState::Waiting | FactState::Held { .. });
    // `0-900%2`: at most two at the same time.
    let string = job.array_task_string.text().split('%').next().unwrap_or_default();
    let tasks = ranges::numbers(string, most).filter(|_| waits && job.array_task_id.0.is_none());
    let (Some(tasks), Some(array)) = (tasks, job.array_job_id.0) else { return vec![fact] };
    tasks.into_iter().map(|task| JobFact { native: format!("{array}_{task}"), ..fact.clone() }).collect()
}

/// None for a job that has nothing to do with any resource of ours.
fn fact(job: &SlurmJob, around: &Surroundings) -> Option<JobFact> {
    let held = job.priority.0 == Some(0) || job.hold.0;
    let (reason, description) = (reason(job, around.clock), job.state_description.text());
    let mut state = states::state(&job.job_state, reason, description, held, job.exit_code);
    if lost_its_reservation(job)
        && let FactState::Held { orphaned, .. } = &mut state
    {
        *orphaned = true;
    }
    let runs = state == FactState::Running;
    let placed = if runs { placed(job, around) } else { BTreeMap::new() };
    let resources = if runs { resources_of(&placed, around) } else { resources_for(job, around) };
    if resources.is_empty() {
        return None;
    }
    let time = |number: Option<i64>| number.filter(|time| *time > 0).map(Time);
    let was_started = runs || (state.is_over() && !job.nodes.text().is_empty());
    let start = time(job.start_time.0);
    let (cores, nodes) = size(job, &placed, around);
    Some(JobFact {
        native: job.job_id.0?.to_string(),
        name: job.name.text().to_owned(),
        account: job.user_name.text().to_owned(),
        resources,
        cores,
        nodes,
        placed,
        submitted: time(job.submit_time.0).unwrap_or(Time(0)),
        started: start.filter(|_| was_started),
        ended: time(job.end_time.0).filter(|_| state.is_over()),
        limit: job.time_limit.0.map(|minutes| Seconds(minutes.saturating_mul(60))),
        reservations: reservations(job.resv_name.text()),
        expected_start: start.filter(|_| state == FactState::Waiting),
        awaits_go: claims(job.comment.text()),
        state,
    })
}

/// Why a job waits. Until they have looked at it for the first time, later versions say that it waits for room.
fn reason(job: &SlurmJob, clock: Option<Time>) -> &str {
    match job.state_reason.text() {
        said if !["", "None", "Resources", "Priority"].contains(&said) => said,
        _ if job.dependency.text().contains("(unfulfilled)") => "Dependency",
        _ if job.eligible_time.0.zip(clock).is_some_and(|(begin, now)| begin > now.0) => "BeginTime",
        said => said,
    }
}

/// Whether a job that we submitted into a reservation names none any more. One that is too big for its reservation is held as if
/// an administrator had said so, and stays so when the reservation is gone.
fn lost_its_reservation(job: &SlurmJob) -> bool {
    job.comment.text().starts_with(INSIDE) && job.resv_name.text().is_empty()
}

/// `a,b` where it may run inside of either.
pub(super) fn reservations(names: &str) -> Vec<Handle> {
    let names = names.split(',').filter(|name| !name.is_empty() && *name != "(null)");
    names.map(|name| Handle(name.to_owned())).collect()
}

/// The resources that nodes belong to.
fn resources_of(placed: &BTreeMap<String, u32>, around: &Surroundings) -> Vec<Name> {
    let nodes = placed.keys().filter_map(|node| around.nodes.get(node.as_str()));
    let mut resources: Vec<Name> =
        nodes.filter_map(|node| node.told(around.places)).flat_map(|node| node.resources).collect();
    resources.sort();
    resources.dedup();
    resources
}

/// The resources that a job may run on: those of its partitions.
fn resources_for(job: &SlurmJob, around: &Surroundings) -> Vec<Name> {
    let fits = |place: &&Place| match &place.partition {
        None => true,
        Some(partition) => job.partition.text().split(',').any(|one| one == partition),
    };
    around.places.iter().filter(fits).map(|place| place.resource.clone()).collect()
}

/// The cores that a running job has on each node.
fn placed(job: &SlurmJob, around: &Surroundings) -> BTreeMap<String, u32> {
    if !job.placed.0.is_empty() {
        return job.placed.0.clone();
    }
    // Not told: its CPUs are spread over its nodes.
    let nodes = hosts::expand(job.nodes.text()).unwrap_or_default();
    let of = |name: &String| around.nodes.get(name.as_str()).map_or(1, |node| node.cpus_per_core);
    let cpus = evenly(count(job.cpus.0), &nodes);
    cpus.into_iter().map(|(node, cpus)| (node.clone(), cpus.div_ceil(of(&node).max(1)))).collect()
}

/// The cores and nodes that a job has or wants.
fn size(job: &SlurmJob, placed: &BTreeMap<String, u32>, around: &Surroundings) -> (u32, u32) {
    if !placed.is_empty() {
        let cores = placed.values().fold(0u32, |sum, cores| sum.saturating_add(*cores));
        return (cores, u32::try_from(placed.len()).unwrap_or(u32::MAX));
    }
    let partitions: Vec<&str> = job.partition.text().split(',').collect();
    let may = |node: &&&SlurmNode| node.partitions.iter().any(|one| partitions.contains(&one.as_str()));
    let candidates = || around.nodes.values().filter(may);
    let cpus_per_core = candidates().map(|node| node.cpus_per_core).max().unwrap_or(1).max(1);
    let nodes = count(job.node_count.0).max(1);
    let mut cores = count(job.cpus.0).div_ceil(cpus_per_core);
    if job.threads_per_core.0 == Some(1) {
        cores = cores.max(count(job.cpus.0));
    }
    if job.tasks_per_core.0 == Some(1) {
        cores = cores.max(count(job.tasks.0));
    }
    if job.shared.has("none") {
        // It wants its nodes for itself.
        let whole = candidates().map(|node| node.cores).max().unwrap_or(1);
        cores = cores.max(nodes.saturating_mul(whole));
    }
    (cores.max(1), nodes)
}

fn count(number: Option<i64>) -> u32 {
    number.map_or(0, |number| u32::try_from(number.max(0)).unwrap_or(u32::MAX))
}
