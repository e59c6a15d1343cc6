//! Converts Slurm's jobs to the common form: CPUs become cores, arrays become their tasks, and waiting jobs are in
//! Slurm's scheduling order.

use super::formats;
use super::json::{Exit, SlurmJob, Words};
use super::nodes::SlurmNode;
use super::reservations::evenly;
use crate::batch::{self, FactState, Handle, JobFact, Place, total};
use crate::dialect::resources_in;
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::Name;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Most tasks of one array to show as waiting jobs; plans do not look further ahead.
const MOST_TASKS: usize = 10_000;

/// The same over all arrays. Beyond it, each array counts as one task.
const MOST_TASKS_OF_ALL: usize = 100_000;

/// Prefix of the comment of a job submitted into a reservation: Slurm forgets the reservation when it is over.
pub(super) const INSIDE: &str = "bookahead: inside ";

/// Comment of a job that left its reservation for the queue.
pub(super) const LEFT: &str = "bookahead: back in the queue";

/// Suffix of the comment of a job that waits for its go-ahead, and the comment that gives it; the job itself reads
/// it.
pub(super) const CLAIMS: &str = "(claims)";
pub(super) const GO: &str = "bookahead: go";

/// Context for the conversion of jobs.
pub(super) struct Surroundings<'a> {
    pub(super) places: &'a [Place],
    pub(super) nodes: &'a BTreeMap<&'a str, &'a SlurmNode>,
    pub(super) clock: Option<Time>,
}

/// All jobs that concern our resources; waiting ones by priority, then by submission.
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

/// A job, or the tasks of a waiting array.
fn tasks(job: &SlurmJob, around: &Surroundings, most: usize) -> Vec<JobFact> {
    let Some(fact) = fact(job, around) else { return Vec::new() };
    let waits = matches!(fact.state, FactState::Waiting | FactState::Held { .. });
    // `0-900%2`: at most two at the same time.
    let string = job.array_task_string.text().split('%').next().unwrap_or_default();
    let tasks = formats::numbers(string, most).filter(|_| waits && job.array_task_id.0.is_none());
    let (Some(tasks), Some(array)) = (tasks, job.array_job_id.0) else { return vec![fact] };
    tasks.into_iter().map(|task| JobFact { native: format!("{array}_{task}"), ..fact.clone() }).collect()
}

/// None for a job that concerns none of our resources.
fn fact(job: &SlurmJob, around: &Surroundings) -> Option<JobFact> {
    let held = job.priority.0 == Some(0) || job.hold.0;
    let (reason, description) = (reason(job, around.clock), job.state_description.text());
    let mut state = state(&job.job_state, reason, description, held, job.exit_code);
    if lost_its_reservation(job)
        && let FactState::Held { orphaned, .. } = &mut state
    {
        *orphaned = true;
    }
    let runs = state == FactState::Running;
    let placed = if runs { placed(job, around) } else { BTreeMap::new() };
    let resources =
        if runs { resources_of(&placed, around) } else { resources_in(job.partition.text(), around.places) };
    if resources.is_empty() {
        return None;
    }
    let time = |number: Option<i64>| number.filter(|time| *time > 0).map(Time);
    // For a job that never had nodes, the start time is only an expectation.
    let was_started = runs || (state.is_over() && !job.nodes.text().is_empty());
    let start = time(job.start_time.0);
    let (started, ended) = (start.filter(|_| was_started), time(job.end_time.0).filter(|_| state.is_over()));
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
        eligible: time(job.eligible_time.0),
        started,
        ended,
        limit: job.time_limit.0.map(|minutes| Seconds(minutes.saturating_mul(60))),
        reservations: reservations(job.resv_name.text()),
        expected_start: start.filter(|_| state == FactState::Waiting),
        awaits_go: claims(job.comment.text()),
        restarts: restarts(job.restart_cnt.0),
        state,
    })
}

/// The reason why a job waits. Before they first consider a job, later versions report that it waits for room.
fn reason(job: &SlurmJob, clock: Option<Time>) -> &str {
    match job.state_reason.text() {
        said if !["", "None", "Resources", "Priority"].contains(&said) => said,
        _ if job.dependency.text().contains("(unfulfilled)") => "Dependency",
        _ if job.eligible_time.0.zip(clock).is_some_and(|(begin, now)| begin > now.0) => "BeginTime",
        said => said,
    }
}

/// Whether a job with this comment waits for its go-ahead.
pub(super) fn claims(comment: &str) -> bool {
    comment.starts_with("bookahead: ") && comment.ends_with(CLAIMS)
}

/// Whether a job that was submitted into a reservation no longer names one. Slurm holds a job that is too big for its
/// reservation as if an administrator had done so, and keeps holding it when the reservation is gone.
fn lost_its_reservation(job: &SlurmJob) -> bool {
    job.comment.text().starts_with(INSIDE) && job.resv_name.text().is_empty()
}

/// How often a job went back to the queue.
pub(super) fn restarts(count: Option<i64>) -> u32 {
    count.and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
}

/// Splits `a,b`: the job may run in either.
pub(super) fn reservations(names: &str) -> Vec<Handle> {
    let names = names.split(',').filter(|name| !name.is_empty() && *name != "(null)");
    names.map(|name| Handle(name.to_owned())).collect()
}

fn resources_of(placed: &BTreeMap<String, u32>, around: &Surroundings) -> Vec<Name> {
    let nodes = placed.keys().filter_map(|node| around.nodes.get(node.as_str()));
    let mut resources: Vec<Name> =
        nodes.filter_map(|node| node.told(around.places)).flat_map(|node| node.resources).collect();
    resources.sort();
    resources.dedup();
    resources
}

/// Cores of a running job on each node.
fn placed(job: &SlurmJob, around: &Surroundings) -> BTreeMap<String, u32> {
    if !job.placed.0.is_empty() {
        return job.placed.0.clone();
    }
    // Not reported: spread its CPUs over its nodes.
    let nodes = formats::expand(job.nodes.text()).unwrap_or_default();
    let of = |name: &String| around.nodes.get(name.as_str()).map_or(1, |node| node.cpus_per_core);
    let cpus = evenly(count(job.cpus.0), &nodes);
    cpus.into_iter().map(|(node, cpus)| (node.clone(), cpus.div_ceil(of(&node).max(1)))).collect()
}

/// Cores and nodes that a job uses or requests.
fn size(job: &SlurmJob, placed: &BTreeMap<String, u32>, around: &Surroundings) -> (u32, u32) {
    if !placed.is_empty() {
        return (total(placed), batch::count(placed.len()));
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
        // It requests exclusive nodes.
        let whole = candidates().map(|node| node.cores).max().unwrap_or(1);
        cores = cores.max(nodes.saturating_mul(whole));
    }
    (cores.max(1), nodes)
}

fn count(number: Option<i64>) -> u32 {
    number.map_or(0, |number| u32::try_from(number.max(0)).unwrap_or(u32::MAX))
}

/// Reasons for which a job would wait even with free nodes.
const HELD_FOR: [&str; 19] = [
    "JobHeldUser",
    "JobHeldAdmin",
    "Dependency",
    "DependencyNeverSatisfied",
    "BeginTime",
    "JobHoldMaxRequeue",
    "JobArrayTaskLimit",
    "BadConstraints",
    "PartitionConfig",
    "PartitionDown",
    "PartitionInactive",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "AccountNotAllowed",
    "QOSNotAllowed",
    "InvalidAccount",
    "InvalidQOS",
    "DeadLine",
    "Cleaning",
];

/// Final states. Later versions add further words to them.
const OVER: [&str; 10] = [
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
    "REVOKED",
];

/// Reasons of finished jobs that Slurm could not launch.
const NOT_LAUNCHED: [&str; 2] = ["JobLaunchFailure", "SystemFailure"];

/// Exit code of jobs whose output file Slurm could not open: it reports signal 53.
const NO_OUTPUT: i32 = 128 + 53;

pub(super) fn state(states: &Words, reason: &str, description: &str, held: bool, exit: Exit) -> FactState {
    let is = |word: &str| states.has(word);
    let any = |words: &[&str]| words.iter().any(|word| is(word));
    // Later versions also report the final state of a job that is just ending; it still has its nodes.
    if any(&[
        "RUNNING",
        "COMPLETING",
        "CONFIGURING",
        "SUSPENDED",
        "STOPPED",
        "SIGNALING",
        "STAGE_OUT",
        "RESIZING",
    ]) {
        return FactState::Running;
    }
    if any(&OVER) {
        return over(states, reason, exit);
    }
    if is("RESV_DEL_HOLD") || reason == "ReservationDeleted" {
        let why = if description.is_empty() { "its reservation is gone" } else { description };
        return FactState::Held { why: why.into(), orphaned: true };
    }
    if any(&["REQUEUE_HOLD", "SPECIAL_EXIT"]) {
        return FactState::Held { why: "it is held after it was requeued".into(), orphaned: false };
    }
    if any(&["PENDING", "REQUEUED", "REQUEUE_FED"]) {
        let held = held || HELD_FOR.contains(&reason);
        let why = if reason.is_empty() || reason == "None" { "it is held" } else { reason };
        return if held { FactState::Held { why: why.into(), orphaned: false } } else { FactState::Waiting };
    }
    over(states, reason, exit)
}

fn over(states: &Words, reason: &str, exit: Exit) -> FactState {
    let any = |words: &[&str]| words.iter().any(|word| states.has(word));
    let failed = |why: &str| FactState::Failed { why: why.into() };
    match () {
        () if any(&["FAILED"]) && exit.0 == NO_OUTPUT => {
            let why =
                format!("Slurm could not launch it: its output file cannot be written there ({reason})");
            FactState::NotLaunched { why }
        }
        // A script that was killed by a signal has the same reason, but also an exit code.
        () if exit.0 == 0 && NOT_LAUNCHED.contains(&reason)
            || any(&["LAUNCH_FAILED", "RECONFIG_FAIL", "BOOT_FAIL"]) =>
        {
            let why = format!("Slurm could not launch it: {} ({reason})", states.0.join("+"));
            FactState::NotLaunched { why }
        }
        () if any(&["CANCELLED", "REVOKED"]) => FactState::Cancelled,
        () if any(&["TIMEOUT", "DEADLINE"]) => FactState::OutOfTime,
        () if any(&["COMPLETED"]) => FactState::Done { exit: 0 },
        () if any(&["NODE_FAIL"]) => FactState::NodeFailed { why: "its node failed".into() },
        () if any(&["PREEMPTED"]) => failed("another job took its place"),
        () if any(&["OUT_OF_MEMORY"]) => failed("it needed more memory than it had"),
        () if any(&["FAILED"]) && exit.0 != 0 => FactState::Done { exit: exit.0 },
        () => FactState::Failed { why: format!("{} ({reason})", states.0.join("+")) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str], reason: &str, exit: i32) -> FactState {
        let states = Words(words.iter().map(|word| (*word).to_owned()).collect());
        state(&states, reason, "", false, Exit(exit))
    }

    #[test]
    fn a_job_that_ends_just_now_still_has_its_nodes() {
        assert_eq!(of(&["COMPLETING"], "None", 0), FactState::Running);
        assert_eq!(of(&["CANCELLED", "COMPLETING"], "None", 0), FactState::Running);
    }

    #[test]
    fn a_job_that_was_cancelled_while_it_was_orphaned_is_over() {
        assert_eq!(of(&["CANCELLED", "RESV_DEL_HOLD"], "ReservationDeleted", 0), FactState::Cancelled);
    }

    #[test]
    fn only_what_room_would_help_waits() {
        for reason in
            ["Priority", "Resources", "None", "", "Reservation", "QOSMaxCpuPerUserLimit", "ReqNodeNotAvail"]
        {
            assert_eq!(of(&["PENDING"], reason, 0), FactState::Waiting, "{reason}");
        }
        for reason in HELD_FOR {
            assert_eq!(of(&["PENDING"], reason, 0), FactState::Held { why: reason.into(), orphaned: false });
        }
    }

    #[test]
    fn a_job_whose_reservation_is_gone_is_orphaned() {
        for (state, reason) in [("RESV_DEL_HOLD", "None"), ("PENDING", "ReservationDeleted")] {
            assert!(matches!(of(&[state], reason, 0), FactState::Held { orphaned: true, .. }));
        }
    }

    #[test]
    fn ends_are_told_apart() {
        assert_eq!(of(&["COMPLETED"], "None", 0), FactState::Done { exit: 0 });
        assert_eq!(of(&["FAILED"], "NonZeroExitCode", 3), FactState::Done { exit: 3 });
        assert_eq!(of(&["FAILED"], "RaisedSignal", 137), FactState::Done { exit: 137 });
        assert_eq!(of(&["FAILED"], "JobLaunchFailure", 137), FactState::Done { exit: 137 });
        let mute = of(&["FAILED"], "JobLaunchFailure", NO_OUTPUT);
        assert!(matches!(&mute, FactState::NotLaunched { why } if why.contains("output file")), "{mute:?}");
        assert_eq!(of(&["TIMEOUT"], "TimeLimit", 15), FactState::OutOfTime);
        assert_eq!(of(&["CANCELLED"], "None", 15), FactState::Cancelled);
        assert!(matches!(of(&["NODE_FAIL"], "None", 0), FactState::NodeFailed { .. }));
        for word in ["PREEMPTED", "OUT_OF_MEMORY", "SOMETHING_NEW", "FAILED"] {
            assert!(matches!(of(&[word], "None", 0), FactState::Failed { .. }), "{word}");
        }
        let not_launched = [
            (&["CANCELLED"][..], "JobLaunchFailure"),
            (&["FAILED"], "SystemFailure"),
            (&["BOOT_FAIL"], "None"),
            (&["FAILED", "LAUNCH_FAILED"], "None"),
        ];
        for (words, reason) in not_launched {
            let state = of(words, reason, 0);
            let told = |why: &str| why.contains(words[0]) && why.contains(reason);
            assert!(matches!(&state, FactState::NotLaunched { why } if told(why)), "{state:?}");
        }
    }
}
