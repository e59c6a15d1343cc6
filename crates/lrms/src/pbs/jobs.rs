//! Jobs as `qstat -f -F json` shows them: one object for each, subjobs of arrays one by one (`-t`).

use super::commands::{ask_json, count, number, text};
use super::nodes::Vnodes;
use super::reservations::Known;
use super::submit::{CLAIMS, GO};
use crate::batch::{FactState, Handle, JobFact, Place};
use crate::dialect::Tools;
use crate::error::LrmsError;
use crate::text::calendar;
use bookahead_plan::{Seconds, Time};
use serde_json::{Map, Value};
use std::cmp::Reverse;
use std::collections::BTreeMap;

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
        fact.cores =
            fact.placed.values().fold(0_u32, |sum, cores| sum.saturating_add(*cores)).max(fact.cores);
        fact.nodes = u32::try_from(fact.placed.len()).unwrap_or(u32::MAX).max(1);
        fact.resources = vnodes.resources(fact.placed.keys());
    } else {
        let open = places.iter().filter(|place| place.partition.as_ref().is_none_or(|own| *own == queue));
        fact.resources = match inside {
            Some(known) => vnodes.resources(known.reserved.cores.keys()),
            None => open.map(|place| place.resource.clone()).collect(),
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
        native: id.into(),
        name: text(&job["Job_Name"]).unwrap_or_default(),
        account: owner.split('@').next().unwrap_or("").into(),
        resources: Vec::new(),
        state: FactState::Running,
        cores: count(&asked["ncpus"]).max(1),
        nodes: count(&asked["nodect"]).max(1),
        placed: BTreeMap::new(),
        submitted: time("qtime").or_else(|| time("ctime")).unwrap_or(Time(0)),
        started: time("stime"),
        ended: None,
        limit: text(&asked["walltime"]).and_then(|walltime| calendar::length_of_time(&walltime)).map(Seconds),
        reservations: Vec::<Handle>::new(),
        expected_start: expected.filter(|time| time.0 > 0),
        awaits_go: !job["Variable_List"][CLAIMS].is_null()
            && !text(&job["comment"]).is_some_and(|comment| comment.starts_with(GO)),
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

#[cfg(test)]
mod tests {
    use super::sequence;

    #[test]
    fn ids_are_compared_as_numbers() {
        assert_eq!(["9.pbs1", "10.pbs1", "10[2].pbs1"].map(sequence), [(9, 0), (10, 0), (10, 2)]);
        assert_eq!(sequence("ü[x"), (u64::MAX, u64::MAX));
    }
}
