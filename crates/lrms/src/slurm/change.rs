//! Changes the times of a reservation. Slurm can change nothing else of a reservation in cores, and it hardly checks
//! this change: afterwards, cores of two reservations may overlap. It also refuses because of jobs on other cores of
//! the same node. Both problems are handled here.
//!
//! A new interval inside the old one is always safe. Added time is safe if no other reservation has the same cores in
//! it. Running jobs matter only if the begin becomes earlier.

use super::commands::{self, scontrol};
use super::create::{begin, differs, differs_but_in_time, has_come, overlap, what};
use super::formats::written;
use super::reservations::{self, Booked};
use crate::batch::{Handle, Picture, Reserved, Wanted};
use crate::command::{Command, Outcome};
use crate::dialect::{Tools, failed, is_plain, refused};
use crate::error::LrmsError;
use bookahead_plan::Interval;

pub(super) fn change(
    tools: &Tools,
    handle: &Handle,
    wanted: &Wanted,
    picture: &Picture,
) -> Result<Option<Reserved>, LrmsError> {
    if wanted.interval.is_empty() {
        return Err(refused(what(wanted), "its duration is zero; delete it instead"));
    }
    let mut all = show(tools)?;
    if all.iter().any(|booked| booked.name == handle.0 && !booked.is_for(wanted.accounts())) {
        share(tools, handle, &wanted.accounts().cloned().collect::<Vec<_>>())?;
        all = show(tools)?;
    }
    let Some(old) = all.iter().find(|booked| booked.name == handle.0) else { return Ok(None) };
    // An earlier attempt without an answer may have made the change already.
    if differs(old, wanted, picture).is_none() {
        return Ok(Some(old.ours(picture, None)));
    }
    if !is_possible(old, wanted, picture) || collides(old, wanted.interval, &all) {
        return Ok(None);
    }
    let command = update(tools, old, wanted, picture);
    let outcome = apply(tools, command.clone(), begins_no_earlier(old, wanted))?;
    if !outcome.is_success() {
        let refused = commands::refused(what(wanted), &command, &outcome);
        // A refused change did nothing; the caller then creates a new reservation and moves the jobs there.
        return if matches!(refused, LrmsError::Refused { .. }) { Ok(None) } else { Err(refused) };
    }
    verify(tools, old, wanted, picture).map(Some)
}

/// Sets the users of a reservation.
pub(super) fn share(tools: &Tools, handle: &Handle, accounts: &[String]) -> Result<(), LrmsError> {
    let what = || format!("to let {} use the reservation {handle}", accounts.join(", "));
    let plain = |word: &String| is_plain(word.strip_suffix('$').unwrap_or(word));
    if let Some(odd) = accounts.iter().find(|account| !plain(account)) {
        return Err(refused(
            what(),
            format!("{odd:?} is not a valid name; use letters, digits, `.`, `_` and `-`"),
        ));
    }
    let users = format!("Users={}", accounts.join(","));
    let command = scontrol(tools, ["update".to_owned(), format!("ReservationName={handle}"), users]);
    let outcome = tools.run(&command)?;
    if !outcome.is_success() {
        return Err(commands::refused(what(), &command, &outcome));
    }
    let shown = show(tools)?;
    match shown.iter().find(|booked| booked.name == handle.0) {
        Some(booked) if booked.is_for(accounts) => Ok(()),
        Some(booked) => Err(refused(what(), format!("it is for {}", booked.users.join(", ")))),
        None => Err(refused(what(), "it is gone")),
    }
}

fn show(tools: &Tools) -> Result<Vec<Booked>, LrmsError> {
    reservations::read(&tools.ask(&scontrol(tools, ["show", "res"]))?)
}

/// Whether only times differ, and Slurm can change them: the begin of an active reservation is fixed.
fn is_possible(old: &Booked, wanted: &Wanted, picture: &Picture) -> bool {
    let same = differs_but_in_time(old, wanted, picture).is_none();
    let keeps_begin =
        old.interval.begin == wanted.interval.begin || has_come(wanted.interval.begin, picture.clock);
    same && (!old.active || keeps_begin)
}

fn begins_no_earlier(old: &Booked, wanted: &Wanted) -> bool {
    old.active || wanted.interval.begin >= old.interval.begin
}

/// Whether another reservation may have one of its cores in the added time.
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
            // A whole node, or the core ids are not reported yet.
            _ => true,
        })
    });
    with_same_cores.next().is_some()
}

fn update(tools: &Tools, old: &Booked, wanted: &Wanted, picture: &Picture) -> Command {
    let mut words = vec!["update".to_owned(), format!("ReservationName={}", old.name)];
    if !old.active && old.interval.begin != wanted.interval.begin {
        words.push(format!("StartTime={}", begin(wanted.interval.begin, picture.clock)));
    }
    words.push(format!("EndTime={}", written(wanted.interval.end)));
    scontrol(tools, words)
}

/// Runs a change. Slurm calls a node busy if a job has any core of it. If such jobs cannot conflict, the change is
/// repeated with a flag to ignore them.
fn apply(tools: &Tools, command: Command, overlook_jobs: bool) -> Result<Outcome, LrmsError> {
    let outcome = tools.run(&command)?;
    if outcome.is_success() || !overlook_jobs || !outcome.said().contains("Requested nodes are busy") {
        return Ok(outcome);
    }
    tools.run(&command.arg("Flags+=IGNORE_JOBS"))
}

/// Reads the result of a change. If it is not as wanted, or another reservation took the cores meanwhile, restores
/// the old times.
fn verify(tools: &Tools, old: &Booked, wanted: &Wanted, picture: &Picture) -> Result<Reserved, LrmsError> {
    let all = show(tools)?;
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
            words.push(format!("StartTime={}", written(old.interval.begin)));
        }
        words.push(format!("EndTime={}", written(old.interval.end)));
        let command = scontrol(tools, words);
        // No job can be in the way: the reservation had these times a moment ago.
        let outcome = apply(tools, command.clone(), true)?;
        if !outcome.is_success() {
            return Err(failed(&command, &outcome));
        }
    }
    Err(refused(what(wanted), format!("{wrong}; the old times were restored")))
}
