//! Jobs from `qstat -x -f -t` (qstat(1B), pbs_job_attributes(7B)): times are seconds since the epoch, the attribute
//! `x` is for Maui. Finished jobs are shown for the time set in Torque's `keep_completed`.

use super::reservations::{Seen, number};
use super::{Commands, document};
use crate::batch::{FactState, Handle, JobFact, Node, Place, Unreadable, add_cores, count, total};
use crate::command::Command;
use crate::dialect::calendar::length_of_time;
use crate::dialect::xml::Element;
use crate::dialect::{resources_in, unreadable};
use crate::error::LrmsError;
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::Name;
use std::collections::{BTreeMap, BTreeSet};

/// The variable by which our jobs are recognised: names of jobs are limited to 15 characters (qsub -N).
pub(super) const NAME_VARIABLE: &str = "BOOKAHEAD_JOB";

pub(super) struct Job {
    queue: String,
    pub(super) fact: JobFact,
}

pub(super) fn all(commands: &Commands) -> Result<(Vec<Job>, Vec<Unreadable>), LrmsError> {
    let command = commands.torque.command("qstat").args(["-x", "-f", "-t"]);
    Ok(read(&document(&command, &commands.torque.ask(&command)?)?))
}

/// One job, if it is still known.
pub(super) fn one(commands: &Commands, native: &str) -> Result<Option<JobFact>, LrmsError> {
    let command = commands.torque.command("qstat").args(["-x", "-f", native]);
    let Some(printed) = commands.torque.ask_for(&command, &["Unknown Job"])? else { return Ok(None) };
    let (mut jobs, odd) = read(&document(&command, &printed)?);
    match (jobs.pop(), odd.first()) {
        (None, Some(odd)) => Err(unreadable(&command, format!("{odd} cannot be parsed"))),
        (job, _) => Ok(job.map(|job| job.fact)),
    }
}

/// The jobs, and the unreadable ones.
fn read(data: &Element) -> (Vec<Job>, Vec<Unreadable>) {
    // An array as a whole (`12[]`) is listed beside its elements.
    let is_element = |job: &&Element| !job.text_of("Job_Id").unwrap_or_default().contains("[]");
    let (mut jobs, mut odd) = (Vec::new(), Vec::new());
    for element in data.all("Job").filter(is_element) {
        match job(element) {
            Some(job) => jobs.push(job),
            None => {
                odd.push(Unreadable::Job(element.text_of("Job_Id").unwrap_or("with an unknown id").into()));
            }
        }
    }
    (jobs, odd)
}

/// None if it has no number, state or submission time.
fn job(element: &Element) -> Option<Job> {
    let id = element.text_of("Job_Id")?;
    let time = |name: &str| element.text_of(name).and_then(|text| text.parse().ok()).map(Time);
    let letter = element.text_of("job_state")?;
    let limit = asked(element, "walltime").and_then(length_of_time).map(Seconds);
    let (placed, (nodes, cores)) = (placed(element.text_of("exec_host").unwrap_or_default()), size(element));
    let on_nodes = total(&placed);
    let started = time("start_time");
    let ended = time("comp_time").filter(|_| letter == "C");
    let ran = started.zip(ended).map(|(started, ended)| ended - started);
    let variable = variable(element.text_of("Variable_List").unwrap_or_default());
    let owner = element.text_of("Job_Owner").unwrap_or_default();
    let status = element.text_of("exit_status").and_then(|status| status.parse().ok());
    let fact = JobFact {
        name: variable.or(element.text_of("Job_Name")).unwrap_or_default().into(),
        account: owner.split('@').next().unwrap_or_default().into(),
        state: state(letter, status, ran.zip(limit).is_some_and(|(ran, limit)| ran >= limit)),
        cores: if on_nodes > 0 { on_nodes } else { cores },
        nodes: count(placed.len()).max(nodes),
        // Finished jobs still show their hosts, but no longer use them.
        placed: if ["R", "E", "S"].contains(&letter) { placed } else { BTreeMap::new() },
        submitted: time("ctime").or_else(|| time("qtime"))?,
        eligible: time("etime"),
        started,
        ended,
        limit,
        reservations: bound_to(element.text_of("x").unwrap_or_default()).into_iter().collect(),
        ..JobFact::new(id)
    };
    Some(Job { queue: element.text_of("queue").unwrap_or_default().into(), fact })
}

/// The requested amount of a resource.
fn asked<'a>(element: &'a Element, resource: &str) -> Option<&'a str> {
    element.all("Resource_List").find_map(|list| list.text_of(resource))
}

/// Nodes and processors: `nodes=2:ppn=4+n7:big`, or `ncpus=4`.
fn size(element: &Element) -> (u32, u32) {
    let Some(text) = asked(element, "nodes") else {
        let cores =
            asked(element, "procs").or_else(|| asked(element, "ncpus")).and_then(|text| text.parse().ok());
        return (1, cores.unwrap_or(1).max(1));
    };
    let sizes = text.split('#').next().unwrap_or_default().split('+').map(|part| {
        let count: u32 = part.split(':').next().and_then(|count| count.parse().ok()).unwrap_or(1);
        let per_node = part.split(':').find_map(|word| word.strip_prefix("ppn="));
        (count, count.saturating_mul(per_node.and_then(|ppn| ppn.parse().ok()).unwrap_or(1)))
    });
    sizes.fold((0, 0), |sum: (u32, u32), size| (sum.0.saturating_add(size.0), sum.1.saturating_add(size.1)))
}

/// Processors on each node: `n1/0+n1/1`, or `n1/0-3,6+n2/0` since Torque 5.
fn placed(text: &str) -> BTreeMap<String, u32> {
    let mut placed = BTreeMap::new();
    for part in text.split('+').filter(|part| !part.is_empty()) {
        let (node, indices) = part.split_once('/').unwrap_or((part, "0"));
        let count = indices.split(',').map(|range| {
            let bounds =
                range.split_once('-').and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
            let (low, high): (u32, u32) = bounds.unwrap_or((0, 0));
            high.saturating_sub(low).saturating_add(1)
        });
        add_cores(&mut placed, node, count.fold(0, u32::saturating_add));
    }
    placed
}

/// The reservation that a job is bound to: `FLAGS:ADVRES:name` or `ADVRES:name` (guide, 13.3).
fn bound_to(extension: &str) -> Option<Handle> {
    let (_, behind) = extension.split_once("ADVRES:")?;
    let name = behind.split([',', ';', ' ']).next().filter(|name| !name.is_empty())?;
    Some(Handle(name.into()))
}

fn variable(list: &str) -> Option<&str> {
    list.split(',').find_map(|pair| pair.trim().strip_prefix(NAME_VARIABLE)?.strip_prefix('='))
}

fn state(letter: &str, status: Option<i32>, out_of_time: bool) -> FactState {
    let held = |why: &str| FactState::Held { why: why.into(), orphaned: false };
    match letter {
        "Q" => FactState::Waiting,
        "R" | "E" | "S" => FactState::Running,
        "H" => held("it is held, or depends on another job"),
        "W" => held("its time has not come"),
        "T" => held("it is moving to another server"),
        "C" => ended(status, out_of_time),
        other => held(&format!("its state in Torque is {other}")),
    }
}

/// Torque adds 256 to the number of a signal, and has its own negative numbers (pbs_job.h: -11 is a time limit).
fn ended(status: Option<i32>, out_of_time: bool) -> FactState {
    match status {
        None => FactState::Cancelled,
        Some(-11) => FactState::OutOfTime,
        Some(status) if status < 0 => {
            FactState::Failed { why: format!("Torque ended it with status {status}") }
        }
        Some(status) if status >= 256 && out_of_time => FactState::OutOfTime,
        // SIGKILL and SIGTERM, as sent by `qdel`.
        Some(265 | 271) => FactState::Cancelled,
        // Converted to the convention of shells, 128 plus the signal.
        Some(status) if status >= 256 => FactState::Done { exit: status.saturating_sub(128) },
        Some(exit) => FactState::Done { exit },
    }
}

/// Adds the resources and the expected start of each job, and sorts waiting jobs in Maui's order.
pub(super) fn facts(
    jobs: Vec<Job>,
    places: &[Place],
    nodes: &[Node],
    queue: &Queue,
    seen: &Seen,
) -> Vec<JobFact> {
    let rank: BTreeMap<&str, usize> =
        queue.idle.iter().enumerate().map(|(rank, id)| (id.as_str(), rank)).collect();
    let there: BTreeSet<&Handle> = seen.reservations.iter().map(|reserved| &reserved.handle).collect();
    let fact = |Job { queue: name, mut fact }: Job| {
        let id = number(&fact.native).to_owned();
        fact.resources = resources(&fact, &name, places, nodes);
        fact.expected_start = seen.starts.get(&id).copied().filter(|_| fact.state == FactState::Waiting);
        if let Some(state) = queue.blocked.get(&id).filter(|_| fact.state == FactState::Waiting) {
            fact.state = FactState::Held { why: format!("Maui blocks it: {state}"), orphaned: false };
        }
        let waits = matches!(fact.state, FactState::Waiting | FactState::Held { .. });
        if waits && !fact.reservations.iter().all(|handle| there.contains(handle)) {
            let why = "its reservation is over or was released".into();
            fact.state = FactState::Held { why, orphaned: true };
        }
        fact
    };
    let mut facts: Vec<JobFact> =
        jobs.into_iter().map(fact).filter(|fact| !fact.resources.is_empty()).collect();
    // Jobs that Maui has not seen yet come last, in Torque's order, which is that of submission.
    facts.sort_by_key(|fact| rank.get(number(&fact.native)).copied().unwrap_or(usize::MAX));
    facts
}

fn resources(fact: &JobFact, queue: &str, places: &[Place], nodes: &[Node]) -> Vec<Name> {
    if fact.placed.is_empty() {
        return resources_in(queue, places);
    }
    let on = nodes.iter().filter(|node| fact.placed.contains_key(&node.name));
    let on: BTreeSet<&Name> = on.flat_map(|node| &node.resources).collect();
    on.into_iter().cloned().collect()
}

/// Waiting jobs, by Maui's ids.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Queue {
    /// Eligible jobs in scheduling order.
    pub(super) idle: Vec<String>,
    /// Blocked jobs, with their states.
    pub(super) blocked: BTreeMap<String, String>,
}

pub(super) fn queue(commands: &Commands) -> Result<Queue, LrmsError> {
    let command = commands.maui.command("showq");
    parse(&commands.maui.ask(&command)?).map_err(|why| unreadable(&command, why))
}

fn parse(text: &str) -> Result<Queue, String> {
    let mut queue = Queue::default();
    let mut section = "";
    let mut seen = 0;
    for line in text.lines() {
        if let Some(heading) = heading(line) {
            (section, seen) = (heading, seen + 1);
        } else if let Some((name, state)) = row(line) {
            match section {
                "idle" => queue.idle.push(name),
                "blocked" => drop(queue.blocked.insert(name, state)),
                _ => {}
            }
        }
    }
    if seen < 3 { Err("it does not list active, idle and blocked jobs".into()) } else { Ok(queue) }
}

/// Maui prints `IDLE JOBS---`, the guide has `eligible jobs---`.
fn heading(line: &str) -> Option<&'static str> {
    let line = line.trim_start().to_ascii_lowercase();
    let headings = [
        ("active jobs-", "active"),
        ("idle jobs-", "idle"),
        ("eligible jobs-", "idle"),
        ("blocked jobs-", "blocked"),
    ];
    headings.into_iter().find(|(begin, _)| line.starts_with(begin)).map(|(_, section)| section)
}

/// `JOBNAME USERNAME STATE PROC WCLIMIT QUEUETIME`; the totals at the end of a section have no duration there.
fn row(line: &str) -> Option<(String, String)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, _, state, procs, limit, ..] = words[..] else { return None };
    let is_job = procs.parse::<u64>().is_ok() && (limit.contains(':') || limit.contains("INFINITY"));
    (is_job && !number(name).is_empty()).then(|| (number(name).to_owned(), state.to_owned()))
}

/// States in which no job starts. A node has several states at once.
const UNUSABLE: [&str; 4] = ["down", "offline", "state-unknown", "unknown"];

/// All nodes that belong to a resource: those with all of its features. Torque does not show which nodes a queue
/// uses, so the queue is ignored here.
pub(super) fn nodes(commands: &Commands, places: &[Place]) -> Result<Vec<Node>, LrmsError> {
    let command = commands.torque.command("pbsnodes").arg("-x");
    let data = document(&command, &commands.torque.ask(&command)?)?;
    let nodes = data.all("Node").map(|element| node(element, places, &command));
    let nodes: Vec<Node> = nodes.collect::<Result<_, _>>()?;
    Ok(nodes.into_iter().filter(|node| !node.resources.is_empty()).collect())
}

fn node(element: &Element, places: &[Place], command: &Command) -> Result<Node, LrmsError> {
    let name = element.text_of("name").ok_or_else(|| unreadable(command, "a node has no name"))?;
    let state = element.text_of("state");
    let state = state.ok_or_else(|| unreadable(command, format!("node {name} has no state")))?;
    let properties: Vec<&str> = list(element.text_of("properties").unwrap_or_default()).collect();
    let has = |feature: &String| properties.contains(&feature.as_str());
    let belongs = |place: &&Place| place.features.iter().all(has);
    let asleep = element.text_of("power_state").is_some_and(|power| power != "Running");
    Ok(Node {
        name: name.into(),
        cores: element.text_of("np").and_then(|np| np.parse().ok()).unwrap_or(1),
        usable: !asleep && !list(state).any(|state| UNUSABLE.contains(&state)),
        resources: places.iter().filter(belongs).map(|place| place.resource.clone()).collect(),
    })
}

fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::damage::survives;
    use crate::dialect::xml;

    #[test]
    fn damaged_lists_are_read_or_refused() {
        survives(include_str!("../../tests/it/maui/fixtures/showq.txt"), |text| drop(parse(text)));
        survives(include_str!("../../tests/it/maui/fixtures/qstat.xml"), |text| {
            let _jobs = xml::read(text).map(|data| read(&data));
        });
    }

    #[test]
    fn a_job_that_cannot_be_read_hides_no_other() {
        let text = include_str!("../../tests/it/maui/fixtures/qstat.xml");
        let all = read(&xml::read(text).unwrap()).0.len();
        let damaged = text.replacen("<job_state>", "<odd>", 1).replacen("</job_state>", "</odd>", 1);
        let (jobs, odd) = read(&xml::read(&damaged).unwrap());
        assert_eq!((jobs.len(), odd.len()), (all - 1, 1));
    }

    #[test]
    fn places_of_jobs_are_read_in_both_forms() {
        let expected = BTreeMap::from([("n1".to_owned(), 3), ("n2".to_owned(), 1)]);
        assert_eq!(placed("n1/0+n1/1+n1/5+n2/0"), expected);
        assert_eq!(placed("n1/0-1,5+n2/0"), expected);
        assert_eq!(placed(""), BTreeMap::new());
        placed("n1/4294967295-0+n1/0-4294967295+n1/0-4294967295+/+n//");
    }

    #[test]
    fn sizes_of_jobs_are_read() {
        let with = |resource: &str, text: &str| {
            let list = format!("<Job><Resource_List><{resource}>{text}</{resource}></Resource_List></Job>");
            size(&xml::read(&list).unwrap())
        };
        assert_eq!(with("nodes", "2:ppn=4+n7:big"), (3, 9));
        assert_eq!(with("nodes", "4"), (4, 4));
        assert_eq!(with("nodes", "2:ppn=2#shared"), (2, 4));
        assert_eq!(with("ncpus", "6"), (1, 6));
        assert_eq!(with("mem", "1gb"), (1, 1));
        assert_eq!(with("nodes", "4294967295:ppn=4294967295+9"), (u32::MAX, u32::MAX));
    }

    #[test]
    fn the_reservation_of_a_job_is_read() {
        let bound = |text| bound_to(text).map(|handle| handle.0);
        assert_eq!(bound("FLAGS:ADVRES:john.1"), Some("john.1".into()));
        assert_eq!(
            bound("NACCESSPOLICY:SINGLETASK;FLAGS:ADVRES:ba.x.0,RESTARTABLE;QOS:hi"),
            Some("ba.x.0".into())
        );
        assert_eq!((bound("FLAGS:ADVRES"), bound("ADVRES:"), bound("")), (None, None, None));
    }

    #[test]
    fn ends_are_told_apart_by_their_status() {
        assert_eq!(ended(Some(0), false), FactState::Done { exit: 0 });
        assert_eq!(ended(Some(7), true), FactState::Done { exit: 7 });
        assert_eq!(
            (ended(Some(271), false), ended(Some(271), true)),
            (FactState::Cancelled, FactState::OutOfTime)
        );
        assert_eq!(
            (ended(Some(-11), false), ended(None, false)),
            (FactState::OutOfTime, FactState::Cancelled)
        );
        assert_eq!(ended(Some(267), false), FactState::Done { exit: 139 });
        assert!(matches!(ended(Some(-3), false), FactState::Failed { .. }));
    }

    #[test]
    fn the_queue_of_maui_is_read() {
        let text = "\
ACTIVE JOBS--------------------
JOBNAME            USERNAME      STATE  PROC   REMAINING            STARTTIME

401                     ann    Running    25     2:44:11  Sat Nov 14 21:00:02

     1 Active Job      25 of   48 Processors Active (52.08%)

IDLE JOBS----------------------
JOBNAME            USERNAME      STATE  PROC     WCLIMIT            QUEUETIME

402              bob       Idle    32     6:40:00  Sat Nov 14 21:00:02
403                 eve       Idle    16    INFINITY  Sat Nov 14 21:00:02

2 Idle Jobs

BLOCKED JOBS----------------
JOBNAME            USERNAME      STATE  PROC     WCLIMIT            QUEUETIME

404[3]              eve  BatchHold     1     3:00:00  Sat Nov 14 21:00:02

Total Jobs: 4   Active Jobs: 1   Idle Jobs: 2   Blocked Jobs: 1
";
        let queue = parse(text).unwrap();
        assert_eq!(queue.idle, ["402", "403"]);
        assert_eq!(queue.blocked, BTreeMap::from([("404[3]".into(), "BatchHold".into())]));
    }

    #[test]
    fn the_queue_of_the_guide_is_read() {
        let text = "active jobs------------------------\n\n0 active jobs\n\neligible jobs----------------------\n\
            JOBID              USERNAME      STATE  PROC     WCLIMIT            QUEUETIME\n\n\
            402*             bob       Idle    32     6:40:00  Sat Nov 14 21:00:02\n\n1 eligible jobs\n\n\
            blocked jobs-----------------------\n\n0 blocked jobs\n\nTotal jobs:  1\n";
        assert_eq!(parse(text).unwrap().idle, ["402"]);
    }

    #[test]
    fn what_is_no_queue_is_an_error() {
        assert!(parse("").is_err());
        assert!(parse("IDLE JOBS---\nsomething else\n").is_err());
    }
}
