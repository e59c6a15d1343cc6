//! What became of a job that is over: what `qstat -x` remembers of it (`job_history_enable`).

use super::commands::{number, object, text};
use super::{jobs, reservations};
use crate::batch::{FactState, Handle, JobFact};
use crate::dialect::{Tools, failed};
use crate::error::LrmsError;
use crate::text::calendar;
use bookahead_plan::{Seconds, Time};
use serde_json::Value;

/// The codes of jobs that a signal ended begin here, see *Job Exit Status Codes* in the PBS Professional guides.
const SIGNALLED: i64 = 256;
const TERMINATED: [i64; 2] = [SIGNALLED + 15, SIGNALLED + 9];
/// PBS ended it, since it ran longer than it may.
const OVER_WALLTIME: i64 = -29;

/// How a job stands that is shown no more.
pub(super) fn outcome(tools: &Tools, native: &str) -> Result<Option<JobFact>, LrmsError> {
    let command = tools.command("qstat").args(["-x", "-f", "-F", "json", native]);
    let outcome = tools.run(&command)?;
    if !outcome.is_success() {
        let nothing = ["Unknown Job Id", "not configured to maintain job history"];
        let known = nothing.iter().any(|words| outcome.said().contains(words));
        return if known { Ok(None) } else { Err(failed(&command, &outcome)) };
    }
    let document = object(&command, &outcome.out)?;
    let Some((id, job)) = document["Jobs"].as_object().and_then(|jobs| jobs.iter().next()) else {
        return Ok(None);
    };
    let mut fact = jobs::plain(id, job);
    fact.native = native.into();
    let queue = text(&job["queue"]).unwrap_or_default();
    if !matches!(text(&job["job_state"]).as_deref(), Some("F" | "X" | "M")) {
        return Ok(Some(fact));
    }
    fact.ended = ended(job, &fact);
    fact.state = state(tools, job, &fact, &queue)?;
    Ok(Some(fact))
}

/// The end is told since PBS 2020; before, it follows from how long it ran.
fn ended(job: &Value, fact: &JobFact) -> Option<Time> {
    let told = text(&job["obittime"]).and_then(|date| calendar::ctime(&date));
    let ran =
        text(&job["resources_used"]["walltime"]).and_then(|walltime| calendar::length_of_time(&walltime));
    told.or_else(|| Some(fact.started? + Seconds(ran?)))
}

fn state(tools: &Tools, job: &Value, fact: &JobFact, queue: &str) -> Result<FactState, LrmsError> {
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
