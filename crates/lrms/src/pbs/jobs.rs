//! Jobs from `qstat -f -F dsv`: one record for each, with the subjobs of arrays separately (`-t`). An unreadable job
//! is skipped and reported, and all others count: any user can submit one with odd bytes in it.

use super::nodes::Vnodes;
use super::records::{self, JOB, Record};
use super::reservations::{self, Known};
use super::tres;
use crate::batch::{self, FactState, Handle, JobFact, Place, TresJob, Unreadable, total};
use crate::dialect::calendar;
use crate::dialect::{Tools, resources_in, unreadable};
use crate::error::LrmsError;
use bookahead_plan::{Seconds, Time};
use std::cmp::Reverse;

/// A variable of claiming jobs, and the beginning of a job's comment after its go-ahead: PBS appends the job's end to
/// it.
pub(super) const CLAIMS: &str = "BOOKAHEAD_CLAIMS";
pub(super) const GO: &str = "bookahead_go";

/// Jobs of a server.
pub(super) struct Listed {
    /// Those that concern a resource.
    pub(super) jobs: Vec<JobFact>,
    /// What running ones use beside cores and nodes.
    pub(super) tres: Vec<TresJob>,
    pub(super) unreadable: Vec<Unreadable>,
}

/// All jobs that concern a resource, running ones first, and the unreadable ones. Waiting jobs are sorted by their
/// own priority, then by queue time: other criteria of the scheduler (formulas, fair shares, priorities of queues)
/// are not reported.
pub(super) fn list(
    tools: &Tools,
    places: &[Place],
    vnodes: &Vnodes,
    reservations: &[Known],
) -> Result<Listed, LrmsError> {
    let command = tools.command("qstat").args(["-t", "-f", "-F", "dsv"]);
    let listed = records::read(&tools.ask(&command)?, &JOB);
    let listed = listed.ok_or_else(|| unreadable(&command, "it lists no jobs"))?;
    let (mut ranked, mut tres, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
    for job in listed.iter().filter(|job| !is_left_out(job)) {
        let Some(fact) = fact(job, places, vnodes, reservations) else {
            unreadable.push(Unreadable::Job(job.id.clone()));
            continue;
        };
        let waits = fact.state != FactState::Running;
        let used = tres::of_chunks(job.text("exec_vnode").unwrap_or_default());
        if !waits && !used.is_empty() {
            let ends = fact.started.zip(fact.limit).map(|(start, limit)| start + limit);
            tres.push(TresJob { tres: used, ends, reservations: fact.reservations.clone() });
        }
        let priority = job.number("Priority").unwrap_or(0);
        ranked.push(((waits, Reverse(priority), fact.submitted, sequence(&job.id)), fact));
    }
    ranked.retain(|(_, fact)| !fact.resources.is_empty());
    // The id is the last key, so that jobs of equal rank have the same order in every look.
    ranked.sort_by_key(|(rank, _)| *rank);
    Ok(Listed { jobs: ranked.into_iter().map(|(_, fact)| fact).collect(), tres, unreadable })
}

/// An array itself, as its subjobs are listed; and finished jobs, or those at another server.
fn is_left_out(job: &Record) -> bool {
    job.is_true("array") || matches!(job.text("job_state"), Some("B" | "X" | "F" | "M"))
}

/// 12 and 3 of `12[3].server`; 12 and 0 of `12.server`.
fn sequence(id: &str) -> (u64, u64) {
    let digits = |text: &str| {
        let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse().unwrap_or(u64::MAX)
    };
    (digits(id), id.split_once('[').map_or(0, |(_, index)| digits(index)))
}

/// None if its state, owner or queue, or the vnodes of a running job, cannot be parsed.
fn fact(job: &Record, places: &[Place], vnodes: &Vnodes, reservations: &[Known]) -> Option<JobFact> {
    let mut fact = plain(job)?;
    let queue = job.text("queue")?;
    let inside = reservations.iter().find(|known| known.queue == queue);
    fact.reservations = inside.map(|known| known.reserved.handle.clone()).into_iter().collect();
    fact.state = state(job)?;
    if fact.state == FactState::Running {
        let place = job.text("Resource_List.place").unwrap_or_default();
        fact.placed = vnodes.taken(job.text("exec_vnode")?, place)?;
        // On an exclusive vnode a job occupies more cores than it requested.
        fact.cores = total(&fact.placed).max(fact.cores);
        fact.nodes = batch::count(fact.placed.len()).max(1);
        fact.resources = vnodes.resources(fact.placed.keys());
    } else {
        fact.resources = match inside {
            Some(known) => vnodes.resources(known.reserved.cores.keys()),
            None => resources_in(queue, places),
        };
        if inside.is_some() && fact.resources.is_empty() {
            // Its reservation lost its vnodes, but the job still exists.
            fact.resources = places.iter().map(|place| place.resource.clone()).collect();
        }
    }
    Some(fact)
}

/// The part that needs no other data; None if the owner cannot be parsed.
fn plain(job: &Record) -> Option<JobFact> {
    let time = |name: &str| job.text(name).and_then(calendar::ctime);
    let expected = "estimated.start_time";
    let expected = job.number(expected).map(Time).or_else(|| time(expected));
    let mut variables = job.text("Variable_List").unwrap_or_default().split(',');
    let claims = variables.any(|variable| variable.split('=').next() == Some(CLAIMS));
    Some(JobFact {
        name: job.text("Job_Name").unwrap_or_default().into(),
        account: job.text("Job_Owner")?.split('@').next().unwrap_or("").into(),
        cores: job.count("Resource_List.ncpus").max(1),
        nodes: job.count("Resource_List.nodect").max(1),
        submitted: time("qtime").or_else(|| time("ctime")).unwrap_or(Time(0)),
        eligible: time("etime"),
        started: time("stime"),
        limit: job.text("Resource_List.walltime").and_then(calendar::length_of_time).map(Seconds),
        expected_start: expected.filter(|time| time.0 > 0),
        awaits_go: claims && !job.text("comment").is_some_and(|comment| comment.starts_with(GO)),
        ..JobFact::new(&job.id)
    })
}

/// State letters: see qstat(1B).
fn state(job: &Record) -> Option<FactState> {
    let why = match job.text("job_state")? {
        // A suspended job may resume at any time, and one that ends still has its cores.
        "R" | "E" | "S" | "U" => return Some(FactState::Running),
        "Q" => return Some(FactState::Waiting),
        "H" if job.text("depend").is_some() => "it waits for another job",
        "H" => "it is held",
        "W" => "its time has not come",
        "T" => "it is moving to another queue",
        _ => return None,
    };
    Some(FactState::Held { why: why.to_owned(), orphaned: false })
}

/// Exit codes from here on mean a signal, see *Job Exit Status Codes* in the PBS Professional guides.
const SIGNALLED: i64 = 256;
const TERMINATED: [i64; 2] = [SIGNALLED + 15, SIGNALLED + 9];
/// PBS killed it at its walltime.
const OVER_WALLTIME: i64 = -29;

pub(super) fn outcome(tools: &Tools, native: &str) -> Result<Option<JobFact>, LrmsError> {
    let command = tools.command("qstat").args(["-x", "-f", "-F", "dsv", native]);
    let nothing = ["Unknown Job Id", "not configured to maintain job history"];
    let Some(printed) = tools.ask_for(&command, &nothing)? else { return Ok(None) };
    let odd = || unreadable(&command, format!("the state or owner of {native} cannot be parsed"));
    let listed = records::read(&printed, &JOB).ok_or_else(odd)?;
    let Some(job) = listed.first() else { return Ok(None) };
    let mut fact = plain(job).ok_or_else(odd)?;
    fact.native = native.into();
    match job.text("job_state").ok_or_else(odd)? {
        "F" | "X" | "M" => {
            fact.ended = ended(job, &fact);
            fact.state = final_state(tools, job, &fact)?;
        }
        _ => fact.state = state(job).ok_or_else(odd)?,
    }
    Ok(Some(fact))
}

/// PBS reports the end since 2020; before, it is the start plus the walltime used.
fn ended(job: &Record, fact: &JobFact) -> Option<Time> {
    let told = job.text("obittime").and_then(calendar::ctime);
    let ran = job.text("resources_used.walltime").and_then(calendar::length_of_time);
    told.or_else(|| Some(fact.started? + Seconds(ran?)))
}

fn final_state(tools: &Tools, job: &Record, fact: &JobFact) -> Result<FactState, LrmsError> {
    let (queue, comment) = (job.text("queue").unwrap_or_default(), job.text("comment").unwrap_or_default());
    let ended_with_reservation = || -> Result<bool, LrmsError> {
        let handle = Handle(queue.into());
        Ok(is_of_reservation(queue) && reservations::one(tools, &handle, &Vnodes::default())?.is_none())
    };
    let Some(exit) = job.number("Exit_status") else {
        // It never ran.
        return Ok(if ended_with_reservation()? { FactState::OutOfTime } else { FactState::Cancelled });
    };
    let ran = fact.started.zip(fact.ended).map(|(started, ended)| ended - started);
    let limit_reached = ran.zip(fact.limit).is_some_and(|(ran, limit)| ran >= limit);
    Ok(match exit {
        OVER_WALLTIME => FactState::OutOfTime,
        exit if exit < 0 => FactState::Failed { why: format!("it could not be run ({exit}): {comment}") },
        exit if TERMINATED.contains(&exit) => {
            let out_of_time = limit_reached || ended_with_reservation()?;
            if out_of_time { FactState::OutOfTime } else { FactState::Cancelled }
        }
        exit => FactState::Done { exit: i32::try_from(exit).unwrap_or(i32::MAX) },
    })
}

/// `R5`, `S7` and `M9` are queues of reservations.
fn is_of_reservation(queue: &str) -> bool {
    let number = queue.strip_prefix(['R', 'S', 'M']).unwrap_or("");
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::sequence;

    #[test]
    fn ids_are_compared_as_numbers() {
        assert_eq!(["9.pbs1", "10.pbs1", "10[2].pbs1"].map(sequence), [(9, 0), (10, 0), (10, 2)]);
        assert_eq!(sequence("ü[x"), (u64::MAX, u64::MAX));
    }
}
