//! Jobs as `qstat -f -F json` shows them: one object for each, subjobs of arrays one by one (`-t`).

use super::nodes::Vnodes;
use super::reservations::Known;
use super::submit::{CLAIMS, GO};
use super::{ask_json, count, number, object, reservations, text};
use crate::batch::{self, FactState, Handle, JobFact, Place, total};
use crate::dialect::calendar;
use crate::dialect::{Tools, resources_in};
use crate::error::LrmsError;
use bookahead_plan::{Seconds, Time};
use serde_json::{Map, Value};
use std::cmp::Reverse;

/// All jobs that concern a resource: those that run, then those that wait. Those that wait come by their own priority, then
/// as they were queued: what else a site's scheduler goes by (formulas, shares, priorities of queues) is not told.
pub(super) fn list(
    tools: &Tools,
    places: &[Place],
    vnodes: &Vnodes,
    reservations: &[Known],
) -> Result<Vec<JobFact>, LrmsError> {
    let document = ask_json(tools, &tools.command("qstat").args(["-t", "-f", "-F", "json"]))?;
    // Without any job there is no such member.
    let none = Map::new();
    let listed = document["Jobs"].as_object().unwrap_or(&none);
    let mut ranked: Vec<_> = listed
        .iter()
        .filter(|(_, job)| !is_left_out(job))
        .map(|(id, job)| {
            let fact = fact(id, job, places, vnodes, reservations);
            let waits = fact.state != FactState::Running;
            let priority = number(&job["Priority"]).unwrap_or(0);
            ((waits, Reverse(priority), fact.submitted, sequence(id)), fact)
        })
        .filter(|(_, fact)| !fact.resources.is_empty())
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    Ok(ranked.into_iter().map(|(_, fact)| fact).collect())
}

/// An array itself, beside its subjobs; and what is over or at another server.
fn is_left_out(job: &Value) -> bool {
    let array = text(&job["array"]).is_some_and(|array| array.eq_ignore_ascii_case("true"));
    array || matches!(text(&job["job_state"]).as_deref(), Some("B" | "X" | "F" | "M"))
}

/// `12` of `12.server`, and 3 of `12[3].server`.
fn sequence(id: &str) -> (u64, u64) {
    let digits = |text: &str| {
        let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse().unwrap_or(u64::MAX)
    };
    (digits(id), id.split_once('[').map_or(0, |(_, index)| digits(index)))
}

fn fact(id: &str, job: &Value, places: &[Place], vnodes: &Vnodes, reservations: &[Known]) -> JobFact {
    let mut fact = plain(id, job);
    let queue = text(&job["queue"]).unwrap_or_default();
    let inside = reservations.iter().find(|known| known.queue == queue);
    fact.reservations = inside.map(|known| known.reserved.handle.clone()).into_iter().collect();
    fact.state = state(job);
    if fact.state == FactState::Running {
        let exclusive = text(&job["Resource_List"]["place"]).is_some_and(|place| place.contains("excl"));
        fact.placed = vnodes.taken(&text(&job["exec_vnode"]).unwrap_or_default(), exclusive);
        fact.cores = total(&fact.placed).max(fact.cores);
        fact.nodes = batch::count(fact.placed.len()).max(1);
        fact.resources = vnodes.resources(fact.placed.keys());
    } else {
        fact.resources = match inside {
            Some(known) => vnodes.resources(known.reserved.cores.keys()),
            None => resources_in(&queue, places),
        };
    }
    fact
}

/// What does not depend on anything else.
pub(super) fn plain(id: &str, job: &Value) -> JobFact {
    let time = |name: &str| text(&job[name]).and_then(|date| calendar::ctime(&date));
    let owner = text(&job["Job_Owner"]).unwrap_or_default();
    let asked = &job["Resource_List"];
    let expected = &job["estimated"]["start_time"];
    let expected = number(expected).map(Time).or_else(|| calendar::ctime(expected.as_str()?));
    JobFact {
        name: text(&job["Job_Name"]).unwrap_or_default(),
        account: owner.split('@').next().unwrap_or("").into(),
        cores: count(&asked["ncpus"]).max(1),
        nodes: count(&asked["nodect"]).max(1),
        submitted: time("qtime").or_else(|| time("ctime")).unwrap_or(Time(0)),
        started: time("stime"),
        limit: text(&asked["walltime"]).and_then(|walltime| calendar::length_of_time(&walltime)).map(Seconds),
        expected_start: expected.filter(|time| time.0 > 0),
        awaits_go: !job["Variable_List"][CLAIMS].is_null()
            && !text(&job["comment"]).is_some_and(|comment| comment.starts_with(GO)),
        ..JobFact::new(id)
    }
}

/// By the letters of qstat(1B).
fn state(job: &Value) -> FactState {
    let why = match text(&job["job_state"]).as_deref().unwrap_or("") {
        "R" | "E" | "S" | "U" => return FactState::Running,
        "Q" => return FactState::Waiting,
        "H" if job["depend"].is_string() => "it waits for another job".to_owned(),
        "H" => "it is held".to_owned(),
        "W" => "its time has not come".to_owned(),
        other => format!("its state is {other:?}"),
    };
    FactState::Held { why, orphaned: false }
}

/// The codes of jobs that a signal ended begin here, see *Job Exit Status Codes* in the PBS Professional guides.
const SIGNALLED: i64 = 256;
const TERMINATED: [i64; 2] = [SIGNALLED + 15, SIGNALLED + 9];
/// PBS ended it, since it ran longer than it may.
const OVER_WALLTIME: i64 = -29;

pub(super) fn outcome(tools: &Tools, native: &str) -> Result<Option<JobFact>, LrmsError> {
    let command = tools.command("qstat").args(["-x", "-f", "-F", "json", native]);
    let nothing = ["Unknown Job Id", "not configured to maintain job history"];
    let Some(printed) = tools.ask_for(&command, &nothing)? else { return Ok(None) };
    let document = object(&command, &printed)?;
    let Some((id, job)) = document["Jobs"].as_object().and_then(|jobs| jobs.iter().next()) else {
        return Ok(None);
    };
    let mut fact = plain(id, job);
    fact.native = native.into();
    let queue = text(&job["queue"]).unwrap_or_default();
    if !matches!(text(&job["job_state"]).as_deref(), Some("F" | "X" | "M")) {
        return Ok(Some(fact));
    }
    fact.ended = ended(job, &fact);
    fact.state = final_state(tools, job, &fact, &queue)?;
    Ok(Some(fact))
}

/// The end is told since PBS 2020; before, it follows from how long it ran.
fn ended(job: &Value, fact: &JobFact) -> Option<Time> {
    let told = text(&job["obittime"]).and_then(|date| calendar::ctime(&date));
    let ran =
        text(&job["resources_used"]["walltime"]).and_then(|walltime| calendar::length_of_time(&walltime));
    told.or_else(|| Some(fact.started? + Seconds(ran?)))
}

fn final_state(tools: &Tools, job: &Value, fact: &JobFact, queue: &str) -> Result<FactState, LrmsError> {
    let comment = text(&job["comment"]).unwrap_or_default();
    let ended_with_reservation = || -> Result<bool, LrmsError> {
        Ok(is_of_reservation(queue) && reservations::is_gone(tools, &Handle(queue.into()))?)
    };
    let Some(exit) = number(&job["Exit_status"]) else {
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
