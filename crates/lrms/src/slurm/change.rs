//! Giving a reservation other times. Slurm can change nothing else of a reservation in cores, and checks next to nothing when
//! it does this: cores of two reservations may overlap then, and it refuses because of jobs that have other cores of a
//! node. So both are seen to here.
//!
//! Where the new time lies inside the old one, nothing can get in the way. Time that is added is safe where no other
//! reservation has the same cores in it. Jobs that run now are in the way only of a begin that becomes earlier.

use super::choice::overlap;
use super::create::{self, begin, differs, differs_in_amount, has_come};
use super::look::show_reservations;
use super::reservations::{self, Booked};
use super::speech::Speech;
use super::{refusal, times};
use crate::batch::{Handle, Picture, Reserved, Wanted};
use crate::command::{Command, Outcome};
use crate::error::LrmsError;
use bookahead_plan::Interval;

pub(super) fn change(
    speech: &Speech,
    handle: &Handle,
    wanted: &Wanted,
    picture: &Picture,
) -> Result<Option<Reserved>, LrmsError> {
    if wanted.interval.is_empty() {
        return Err(create::refused(wanted, "it is for no time; delete it instead"));
    }
    let all = show(speech)?;
    let Some(old) = all.iter().find(|booked| booked.name == handle.0) else { return Ok(None) };
    if differs(old, wanted, picture).is_none() {
        return Ok(Some(old.ours(picture, None)));
    }
    if !is_possible(old, wanted, picture) || collides(old, wanted.interval, &all) {
        return Ok(None);
    }
    let command = update(speech, old, wanted, picture);
    let outcome = apply(speech, command.clone(), begins_no_earlier(old, wanted))?;
    if !outcome.is_success() {
        let refused = refusal::refused(create::what(wanted), &command, &outcome);
        return if matches!(refused, LrmsError::Refused { .. }) { Ok(None) } else { Err(refused) };
    }
    verify(speech, old, wanted, picture).map(Some)
}

fn show(speech: &Speech) -> Result<Vec<Booked>, LrmsError> {
    reservations::read(&speech.tell(&show_reservations(speech))?)
}

/// Whether only times differ, and Slurm can change them: one that has begun cannot begin again.
fn is_possible(old: &Booked, wanted: &Wanted, picture: &Picture) -> bool {
    let same = old.differs_in_whom(wanted).is_none() && differs_in_amount(old, wanted, picture).is_none();
    let keeps_begin =
        old.interval.begin == wanted.interval.begin || has_come(wanted.interval.begin, picture.clock);
    same && old.name == wanted.name && (!old.active || keeps_begin)
}

fn begins_no_earlier(old: &Booked, wanted: &Wanted) -> bool {
    old.active || wanted.interval.begin >= old.interval.begin
}

/// Whether another reservation has, or may have, one of its cores in the time that is added.
fn collides(ours: &Booked, new: Interval, all: &[Booked]) -> bool {
    let added = [
        Interval::new(new.begin, new.end.min(ours.interval.begin)),
        Interval::new(new.begin.max(ours.interval.end), new.end),
    ];
    let is_added = |time: &Interval| added.iter().any(|added| !added.is_empty() && overlap(*added, *time));
    let others =
        all.iter().filter(|other| other.name != ours.name && other.occurrences().iter().any(is_added));
    let mut with_same_cores = others.filter(|other| {
        let mut shared = ours.nodes.iter().filter(|node| other.nodes.contains(node));
        shared.any(|node| match (ours.core_ids.get(node), other.core_ids.get(node)) {
            (Some(one), Some(two)) => !one.is_disjoint(two),
            // A whole node, or it is not told yet which cores.
            _ => true,
        })
    });
    with_same_cores.next().is_some()
}

fn update(speech: &Speech, old: &Booked, wanted: &Wanted, picture: &Picture) -> Command {
    let mut words = vec!["update".to_owned(), format!("ReservationName={}", old.name)];
    if !old.active && old.interval.begin != wanted.interval.begin {
        words.push(format!("StartTime={}", begin(wanted.interval.begin, picture.clock)));
    }
    words.push(format!("EndTime={}", times::written(wanted.interval.end)));
    speech.scontrol(words)
}

/// Runs a change. Slurm calls nodes busy on which anybody has any core; where that cannot be in the way it is told to
/// overlook it.
fn apply(speech: &Speech, command: Command, overlook_jobs: bool) -> Result<Outcome, LrmsError> {
    let outcome = speech.ask(&command)?;
    if outcome.is_success() || !overlook_jobs || !outcome.said().contains("Requested nodes are busy") {
        return Ok(outcome);
    }
    speech.ask(&command.arg("Flags+=IGNORE_JOBS"))
}

/// Reads back what came of a change. Where that is not what was wanted, or somebody came in between, the old terms are put back.
fn verify(speech: &Speech, old: &Booked, wanted: &Wanted, picture: &Picture) -> Result<Reserved, LrmsError> {
    let all = show(speech)?;
    let new = all.iter().find(|booked| booked.name == old.name);
    let wrong = match new {
        None => "it is gone".to_owned(),
        Some(new) => match differs(new, wanted, picture) {
            Some(wrong) => wrong,
            None if collides(old, wanted.interval, &all) => {
                "another reservation took the same cores meanwhile".to_owned()
            }
            None => return Ok(new.ours(picture, None)),
        },
    };
    if new.is_some_and(|new| new.interval != old.interval) {
        let mut words = vec!["update".to_owned(), format!("ReservationName={}", old.name)];
        if new.is_some_and(|new| !new.active) {
            words.push(format!("StartTime={}", times::written(old.interval.begin)));
        }
        words.push(format!("EndTime={}", times::written(old.interval.end)));
        let command = speech.scontrol(words);
        let outcome = apply(speech, command.clone(), true)?;
        if !outcome.is_success() {
            return Err(super::speech::failed(&command, &outcome));
        }
    }
    Err(create::refused(wanted, format!("{wrong}; the old terms were put back")))
}
