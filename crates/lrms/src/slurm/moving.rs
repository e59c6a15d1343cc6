//! Giving jobs another reservation, by `scontrol update JobId=… ReservationName=…`. Slurm does it for jobs that wait and for
//! jobs that run, and asks nothing of where they run: those go on on the nodes that they have, and end with the new one.
//!
//! All jobs of a reservation are given the other, also those that came after the last look; one that is over meanwhile is
//! no error. Of those that name several reservations only this one is replaced.

use super::json;
use super::look::squeue;
use super::speech::{self, Speech};
use super::{delete, jobs};
use crate::batch::Handle;
use crate::error::LrmsError;

/// What is said of a job that is over.
const OVER: [&str; 3] = ["Invalid job id", "already completing or completed", "no longer pending"];

pub(super) fn move_jobs(speech: &Speech, from: &Handle, to: &Handle) -> Result<(), LrmsError> {
    let all = json::read(&speech.tell(&squeue(speech))?)?;
    for job in all.iter().filter(|job| !delete::is_over(job)) {
        let named = jobs::reservations(job.resv_name.text());
        if let Some(id) = job.job_id.0.filter(|_| named.contains(from)) {
            give(speech, id, &instead(&named, from, to), from)?;
        }
    }
    Ok(())
}

/// The reservations of a job, with one instead of another.
fn instead<'a>(named: &'a [Handle], from: &Handle, to: &'a Handle) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for one in named.iter().map(|one| if one == from { to } else { one }) {
        if !names.contains(&one.0.as_str()) {
            names.push(&one.0);
        }
    }
    names
}

fn give(speech: &Speech, id: i64, names: &[&str], from: &Handle) -> Result<(), LrmsError> {
    let words = ["update".to_owned(), format!("JobId={id}"), format!("ReservationName={}", names.join(","))];
    let command = speech.scontrol(words);
    let outcome = speech.ask(&command)?;
    let said = outcome.said();
    if outcome.is_success() || OVER.iter().any(|words| said.contains(words)) {
        return Ok(());
    }
    match said.lines().next().filter(|first| first.contains("reservation")) {
        Some(first) => {
            let what = format!("to move job {id} out of {from}");
            Err(LrmsError::Refused { what, said: first.to_owned() })
        }
        None => Err(speech::failed(&command, &outcome)),
    }
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
