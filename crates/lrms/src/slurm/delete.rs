//! Cancels jobs, and deletes a reservation with all its jobs. Slurm refuses to delete a reservation with waiting or
//! running jobs ("in use").
//!
//! Waiting and running jobs can be moved to another reservation with `scontrol update JobId=… ReservationName=…`.
//! Slurm does not compare nodes: a running job stays on its nodes and ends with the new reservation.

use super::commands::{self, scontrol, squeue};
use super::jobs;
use super::json::{self, SlurmJob};
use crate::batch::Handle;
use crate::command::{Command, Outcome};
use crate::dialect::{Tools, ended};
use crate::error::LrmsError;
use std::time::{Duration, Instant};

/// Jobs named in one command, which keeps the command line short.
const AT_ONCE: usize = 500;

/// Messages about a job that is over.
pub(super) const JOB_OVER: [&str; 3] =
    ["Invalid job id", "already completing or completed", "already finished"];

pub(super) fn delete(tools: &Tools, handle: &Handle, let_go_within: Duration) -> Result<(), LrmsError> {
    let deadline = Instant::now() + let_go_within;
    // Waiting jobs are gone at once. A running one may take `KillWait`, 30 s by default, so the pause grows.
    let mut pause = Duration::from_millis(20);
    // Most reservations have no jobs left; then one command is enough.
    let mut outcome = try_to_delete(tools, handle)?;
    if is_in_use(&outcome) {
        cancel_in(tools, handle)?;
        outcome = try_to_delete(tools, handle)?;
    }
    while is_in_use(&outcome) && Instant::now() < deadline {
        // Jobs that name several reservations are still there, and new ones may have come meanwhile.
        release(tools, handle)?;
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(500));
        outcome = try_to_delete(tools, handle)?;
    }
    let command = scontrol(tools, ["delete", "reservation", &handle.0]);
    let gone = outcome.is_success() || outcome.said().contains("reservation is invalid");
    if gone { Ok(()) } else { Err(commands::refused(format!("deleting {handle}"), &command, &outcome)) }
}

fn try_to_delete(tools: &Tools, handle: &Handle) -> Result<Outcome, LrmsError> {
    tools.run(&scontrol(tools, ["delete", "reservation", &handle.0]))
}

fn is_in_use(outcome: &Outcome) -> bool {
    !outcome.is_success() && outcome.said().contains("reservation is in use")
}

/// Cancels all jobs that name only this reservation.
fn cancel_in(tools: &Tools, handle: &Handle) -> Result<(), LrmsError> {
    let command = tools.command("scancel").arg(format!("--reservation={handle}"));
    // The exit code says little here (no jobs, or one just ended); the deletion will show the result.
    tools.run(&command).map(drop)
}

/// Removes a reservation from the jobs that name it: those that name others as well continue in those, all others are
/// cancelled.
fn release(tools: &Tools, handle: &Handle) -> Result<(), LrmsError> {
    let mut to_end = Vec::new();
    for (id, named) in jobs_in(tools, handle)? {
        let others: Vec<&str> = named.iter().filter(|one| *one != handle).map(|one| one.0.as_str()).collect();
        // A job that cannot be moved away would keep the reservation in use.
        if others.is_empty() || !rebind(tools, id, &others)?.1.is_success() {
            to_end.push(id.to_string());
        }
    }
    for some in to_end.chunks(AT_ONCE) {
        // The exit code says little; the next attempt to delete shows whether jobs are left.
        tools.run(&tools.command("scancel").args(some.to_vec()))?;
    }
    Ok(())
}

/// The unfinished jobs that name a reservation, each with all its reservations.
fn jobs_in(tools: &Tools, handle: &Handle) -> Result<Vec<(i64, Vec<Handle>)>, LrmsError> {
    let (all, _) = json::read(&tools.ask(&squeue(tools))?)?;
    let live = all.iter().filter(|job| !is_over(job));
    let named = live.filter_map(|job| Some((job.job_id.0?, jobs::reservations(job.resv_name.text()))));
    Ok(named.filter(|(_, named)| named.contains(handle)).collect())
}

fn rebind(tools: &Tools, id: i64, names: &[&str]) -> Result<(Command, Outcome), LrmsError> {
    let words = ["update".to_owned(), format!("JobId={id}"), format!("ReservationName={}", names.join(","))];
    let command = scontrol(tools, words);
    let outcome = tools.run(&command)?;
    Ok((command, outcome))
}

/// Moves all jobs of a reservation to another, including those submitted after the last look. A job that ended
/// meanwhile is not an error. In a job with several reservations only this one is replaced.
pub(super) fn move_jobs(tools: &Tools, from: &Handle, to: &Handle) -> Result<(), LrmsError> {
    for (id, named) in jobs_in(tools, from)? {
        let (command, outcome) = rebind(tools, id, &instead(&named, from, to))?;
        let what = format!("to move job {id} out of {from}");
        let over = ["Invalid job id", "already completing or completed", "no longer pending"];
        ended(&command, &outcome, what, &over, &["reservation"])?;
    }
    Ok(())
}

pub(super) fn is_over(job: &SlurmJob) -> bool {
    jobs::state(&job.job_state, job.state_reason.text(), "", false, job.exit_code).is_over()
}

pub(super) fn cancel(tools: &Tools, native: &str) -> Result<(), LrmsError> {
    // Text that is no id names no job of Slurm, so there is nothing to cancel.
    let Some(native) = named(native) else { return Ok(()) };
    let command = tools.command("scancel").arg(native);
    ended(&command, &tools.run(&command)?, format!("cancelling the job {native}"), &JOB_OVER, &[])
}

/// A job id such as `17`, `17_3` or `17+1`; None for other text, which must not reach a command line.
pub(super) fn named(native: &str) -> Option<&str> {
    let legal = |byte: u8| byte.is_ascii_digit() || byte == b'_' || byte == b'+';
    Some(native).filter(|native| {
        native.bytes().all(legal) && native.starts_with(|first: char| first.is_ascii_digit())
    })
}

/// The reservations of a job, with `from` replaced by `to` and without duplicates.
fn instead<'a>(named: &'a [Handle], from: &Handle, to: &'a Handle) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for one in named.iter().map(|one| if one == from { to } else { one }) {
        if !names.contains(&one.0.as_str()) {
            names.push(&one.0);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_is_replaced_and_none_stands_twice() {
        let handles = |names: &[&str]| names.iter().map(|name| Handle((*name).into())).collect::<Vec<_>>();
        let (old, new) = (Handle("old".into()), Handle("new".into()));
        assert_eq!(instead(&handles(&["old"]), &old, &new), ["new"]);
        assert_eq!(instead(&handles(&["a", "old", "b"]), &old, &new), ["a", "new", "b"]);
        assert_eq!(instead(&handles(&["new", "old"]), &old, &new), ["new"]);
    }
}
