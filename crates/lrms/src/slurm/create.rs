//! Making a reservation. It is asked for in cores, which Slurm checks against jobs, cores and whole nodes of others, core by
//! core, and never grants short; what is granted is read back all the same.
//!
//! Cores in a partition are left to Slurm to choose. Whole nodes, and cores anywhere in the cluster, are named: as
//! `Nodes=n1,n2 CoreCnt=8,8`, from 23.11 on as `Nodes=n1,n2 CoreCnt=16`. Named nodes stay what they are when one fails.

use super::choice;
use super::look::Granted;
use super::refusal;
use super::reservations::{self, Booked};
use super::speech::{self, Speech};
use super::{times, version};
use crate::batch::{Picture, Reserved, Share, Unit, Wanted};
use crate::command::{Command, Outcome};
use crate::error::LrmsError;
use bookahead_plan::Time;

pub(super) fn create(
    speech: &Speech,
    wanted: &Wanted,
    picture: &Picture,
    granted: &Granted,
) -> Result<Reserved, LrmsError> {
    check(wanted, picture)?;
    let nodes = if wanted.nodes.is_empty() { choose(wanted, picture)? } else { wanted.nodes.clone() };
    let command = command(speech, wanted, picture.clock, &nodes)?;
    let outcome = speech.ask(&command)?;
    if !outcome.is_success() {
        return already_there(speech, wanted, picture, &command, &outcome);
    }
    let Some(booked) = read_back(speech, &wanted.name)? else {
        let said = "it is not there after it was made".into();
        return Err(LrmsError::Failed { command: speech::shown(&command), code: outcome.code, said });
    };
    if let Some(difference) = differs(&booked, wanted, picture) {
        undo(speech, &wanted.name)?;
        let said =
            format!("it granted something else ({difference}), which was undone; take another time, or less");
        return Err(refused(wanted, said));
    }
    let spread = (!nodes.is_empty()).then(|| nodes.into_iter().collect());
    let reserved = booked.ours(picture, spread.as_ref());
    spread.into_iter().for_each(|spread| granted.note(&wanted.name, spread));
    Ok(reserved)
}

/// What was refused may be there already: then its name is taken, or it is in its own way.
fn already_there(
    speech: &Speech,
    wanted: &Wanted,
    picture: &Picture,
    command: &Command,
    outcome: &Outcome,
) -> Result<Reserved, LrmsError> {
    let what = what(wanted);
    if refusal::is_about_users(outcome) {
        return Err(refusal::invalid_user(speech, what, &wanted.account, outcome));
    }
    if refusal::is_about_projects(outcome.said()) {
        return Err(refusal::invalid_project(what, &wanted.account, wanted.project.as_deref(), outcome));
    }
    let found = read_back(speech, &wanted.name)?.map(|booked| (differs(&booked, wanted, picture), booked));
    match found {
        Some((None, booked)) => Ok(booked.ours(picture, None)),
        Some((Some(difference), _)) => {
            let said = format!(
                "there is one of that name with other terms ({difference}); change that one, or delete it"
            );
            Err(refused(wanted, said))
        }
        None => Err(refusal::refused(what, command, outcome)),
    }
}

/// What must be right before anything is asked for: no word of it may be taken for another.
fn check(wanted: &Wanted, picture: &Picture) -> Result<(), LrmsError> {
    let plain = |word: &str| {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-$".contains(&byte);
        !word.is_empty() && !word.starts_with('-') && word.bytes().all(legal)
    };
    if wanted.amount == 0 || wanted.interval.is_empty() {
        return Err(refused(wanted, "it is for nothing; ask for something"));
    }
    if has_come(wanted.interval.end, picture.clock) {
        return Err(refused(wanted, "that time is over at the controller; compare its clock with this one"));
    }
    let words = [&wanted.name, &wanted.account].into_iter().chain(&wanted.project);
    match words.chain(&wanted.place.features).chain(&wanted.place.partition).find(|word| !plain(word)) {
        Some(word) => {
            Err(refused(wanted, format!("{word:?} is no name; use letters, digits, `.`, `_` and `-`")))
        }
        None => Ok(()),
    }
}

/// The nodes that are to be named, with how much of each; none where Slurm chooses.
pub(super) fn choose(wanted: &Wanted, picture: &Picture) -> Result<Vec<Share>, LrmsError> {
    let chosen = match (wanted.place.unit, &wanted.place.partition) {
        (Unit::Cores, Some(_)) => return Ok(Vec::new()),
        (Unit::Cores, None) => choice::cores(wanted, picture),
        (Unit::Nodes, _) => choice::whole_nodes(wanted, picture),
    };
    chosen.map_err(|why| refused(wanted, why))
}

fn command(
    speech: &Speech,
    wanted: &Wanted,
    clock: Option<Time>,
    nodes: &[Share],
) -> Result<Command, LrmsError> {
    let mut words =
        vec!["create".to_owned(), "reservation".to_owned(), format!("ReservationName={}", wanted.name)];
    words.push(format!("StartTime={}", begin(wanted.interval.begin, clock)));
    words.push(format!("EndTime={}", times::written(wanted.interval.end)));
    words.push(format!("Users={}", wanted.account));
    words.extend(wanted.project.iter().map(|project| format!("Accounts={project}")));
    words.extend(wanted.place.partition.iter().map(|partition| format!("PartitionName={partition}")));
    if nodes.is_empty() {
        if !wanted.place.features.is_empty() {
            words.push(format!("Features={}", wanted.place.features.join("&")));
        }
        words.push(format!("CoreCnt={}", wanted.amount));
    } else {
        let names: Vec<&str> = nodes.iter().map(|(node, _)| node.as_str()).collect();
        words.push(format!("Nodes={}", names.join(",")));
        words.push(format!("CoreCnt={}", core_count(nodes, speech.version()?)));
    }
    Ok(speech.scontrol(words))
}

/// One number for each node, or one for all in versions that take no list.
fn core_count(shares: &[Share], version: (u32, u32)) -> String {
    if version < version::NO_CORE_LISTS {
        return shares.iter().map(|(_, cores)| cores.to_string()).collect::<Vec<_>>().join(",");
    }
    shares.iter().fold(0u32, |sum, (_, cores)| sum.saturating_add(*cores)).to_string()
}

/// Slurm refuses times that are over.
pub(super) fn begin(begin: Time, clock: Option<Time>) -> String {
    if has_come(begin, clock) { "now".into() } else { times::written(begin) }
}

pub(super) fn has_come(time: Time, clock: Option<Time>) -> bool {
    clock.is_some_and(|now| time <= now)
}

/// A reservation by its name; None where there is none.
fn read_back(speech: &Speech, name: &str) -> Result<Option<Booked>, LrmsError> {
    let command = speech.scontrol(["show", "res", name]);
    let outcome = speech.ask(&command)?;
    if !outcome.is_success() {
        let gone = outcome.said().contains("not found");
        return if gone { Ok(None) } else { Err(speech::failed(&command, &outcome)) };
    }
    Ok(reservations::read(&outcome.out)?.into_iter().find(|booked| booked.name == name))
}

/// In what a reservation is not what is wanted; None where it is.
pub(super) fn differs(booked: &Booked, wanted: &Wanted, picture: &Picture) -> Option<String> {
    let begins = booked.interval.begin == wanted.interval.begin
        || (booked.active && has_come(wanted.interval.begin, picture.clock));
    if !begins || booked.interval.end != wanted.interval.end {
        let (is, should) = (booked.interval, wanted.interval);
        return Some(format!(
            "it is from {} to {}, and should be from {} to {}",
            times::written(is.begin),
            times::written(is.end),
            times::written(should.begin),
            times::written(should.end)
        ));
    }
    booked.differs_in_whom(wanted).or_else(|| differs_in_amount(booked, wanted, picture))
}

/// In what the amount of a reservation, or where that is, is not what is wanted.
pub(super) fn differs_in_amount(booked: &Booked, wanted: &Wanted, picture: &Picture) -> Option<String> {
    let node = |name: &String| picture.nodes.iter().find(|node| node.name == *name);
    let belongs =
        |name: &&String| node(name).is_some_and(|node| node.resources.contains(&wanted.place.resource));
    if let Some(stranger) = booked.nodes.iter().find(|name| !belongs(name)) {
        return Some(format!("{stranger} is not in {}", wanted.place.resource));
    }
    let (has, needs, of) = match wanted.place.unit {
        Unit::Cores => (booked.cores, wanted.amount, "cores"),
        Unit::Nodes => {
            let all =
                booked.nodes.iter().filter_map(node).fold(0u32, |sum, node| sum.saturating_add(node.cores));
            if all != booked.cores {
                return Some(format!("it has {} of the {all} cores of its nodes", booked.cores));
            }
            (u32::try_from(booked.nodes.len()).unwrap_or(u32::MAX), wanted.amount, "nodes")
        }
    };
    (has != needs).then(|| format!("it has {has} {of}, and should have {needs}"))
}

/// Deletes what was just made, in which there are no jobs yet.
fn undo(speech: &Speech, name: &str) -> Result<(), LrmsError> {
    speech.tell(&speech.scontrol(["delete", "reservation", name])).map(drop)
}

pub(super) fn refused(wanted: &Wanted, said: impl Into<String>) -> LrmsError {
    LrmsError::Refused { what: what(wanted), said: said.into() }
}

pub(super) fn what(wanted: &Wanted) -> String {
    let of = match wanted.place.unit {
        Unit::Cores => "cores",
        Unit::Nodes => "nodes",
    };
    let (begin, end) = (times::written(wanted.interval.begin), times::written(wanted.interval.end));
    format!("{} {of} of {} from {begin} to {end}", wanted.amount, wanted.place.resource)
}
