//! Ending jobs, and deleting a reservation with all jobs in it. Slurm deletes none that a job waits for or runs in, and says that
//! it is in use.

use super::json::{self, SlurmJob};
use super::look::squeue;
use super::speech::{self, Speech};
use super::{jobs, refusal, states};
use crate::batch::Handle;
use crate::command::Outcome;
use crate::error::LrmsError;
use std::time::{Duration, Instant};

/// So many jobs are named in one command.
const AT_ONCE: usize = 500;

pub(super) fn delete(speech: &Speech, handle: &Handle, let_go_within: Duration) -> Result<(), LrmsError> {
    let deadline = Instant::now() + let_go_within;
    let mut pause = Duration::from_millis(20);
    let mut outcome = try_to_delete(speech, handle)?;
    if is_in_use(&outcome) {
        cancel_in(speech, handle)?;
        outcome = try_to_delete(speech, handle)?;
    }
    while is_in_use(&outcome) && Instant::now() < deadline {
        // Jobs that name several reservations are still there, and some may have come meanwhile.
        release(speech, handle)?;
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(500));
        outcome = try_to_delete(speech, handle)?;
    }
    let command = speech.scontrol(["delete", "reservation", &handle.0]);
    let gone = outcome.is_success() || outcome.said().contains("reservation is invalid");
    if gone { Ok(()) } else { Err(refusal::refused(format!("deleting {handle}"), &command, &outcome)) }
}

fn try_to_delete(speech: &Speech, handle: &Handle) -> Result<Outcome, LrmsError> {
    speech.ask(&speech.scontrol(["delete", "reservation", &handle.0]))
}

fn is_in_use(outcome: &Outcome) -> bool {
    !outcome.is_success() && outcome.said().contains("reservation is in use")
}

/// Ends all jobs that name this reservation alone.
fn cancel_in(speech: &Speech, handle: &Handle) -> Result<(), LrmsError> {
    let command = speech.command("scancel").arg(format!("--reservation={handle}"));
    // That it had nothing to end, or that one was just over, shows when the reservation is deleted.
    speech.ask(&command).map(drop)
}

/// Frees a reservation from the jobs that name it: those that name others too may go on in those, all else are ended.
fn release(speech: &Speech, handle: &Handle) -> Result<(), LrmsError> {
    let all = json::read(&speech.tell(&squeue(speech))?)?;
    let mut to_end = Vec::new();
    for job in all.iter().filter(|job| !is_over(job)) {
        let named = jobs::reservations(job.resv_name.text());
        let Some(id) = job.job_id.0.filter(|_| named.contains(handle)) else { continue };
        let others: Vec<&str> = named.iter().filter(|one| *one != handle).map(|one| one.0.as_str()).collect();
        if others.is_empty() || !rebind(speech, id, &others)? {
            to_end.push(id.to_string());
        }
    }
    for some in to_end.chunks(AT_ONCE) {
        speech.ask(&speech.command("scancel").args(some.to_vec()))?;
    }
    Ok(())
}

/// Gives a job other reservations; whether that went well.
fn rebind(speech: &Speech, id: i64, others: &[&str]) -> Result<bool, LrmsError> {
    let words = ["update".to_owned(), format!("JobId={id}"), format!("ReservationName={}", others.join(","))];
    speech.ask(&speech.scontrol(words)).map(|outcome| outcome.is_success())
}

pub(super) fn is_over(job: &SlurmJob) -> bool {
    states::state(&job.job_state, job.state_reason.text(), "", false, job.exit_code).is_over()
}

/// Ends a job, whether it waits or runs.
pub(super) fn cancel(speech: &Speech, native: &str) -> Result<(), LrmsError> {
    let Some(command) = named(native).map(|native| speech.command("scancel").arg(native)) else {
        return Ok(());
    };
    let outcome = speech.ask(&command)?;
    let over = ["Invalid job id", "already completing or completed", "already finished"];
    if outcome.is_success() || over.iter().any(|words| outcome.said().contains(words)) {
        return Ok(());
    }
    Err(speech::failed(&command, &outcome))
}

/// A job's id, as `17`, `17_3` or `17+1`; None for what Slurm never called a job.
pub(super) fn named(native: &str) -> Option<&str> {
    let legal = |byte: u8| byte.is_ascii_digit() || byte == b'_' || byte == b'+';
    Some(native).filter(|native| {
        native.bytes().all(legal) && native.starts_with(|first: char| first.is_ascii_digit())
    })
}
