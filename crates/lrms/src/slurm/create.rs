//! Creates reservations and changes their times. They are requested in cores: Slurm then checks them core by core
//! against jobs and other reservations, and never grants less. The grant is read back anyway.
//!
//! In a partition, Slurm chooses the cores. Whole nodes, and cores anywhere in the cluster, are requested by name:
//! `Nodes=n1,n2 CoreCnt=8,8`, from 23.11 on `Nodes=n1,n2 CoreCnt=16`. Slurm does not replace named nodes when one
//! fails.
//!
//! Slurm can change nothing but the times of a reservation in cores, and it hardly checks this change: afterwards,
//! cores of two reservations may overlap. It also refuses because of jobs on other cores of the same node. Both
//! problems are handled here. A new interval inside the old one is always safe. Added time is safe if no other
//! reservation has the same cores in it. Running jobs matter only if the begin becomes earlier.

use super::commands::{self, invalid_project, invalid_user, is_about_projects, is_about_users, scontrol};
use super::formats::{NO_CORE_LISTS, written};
use super::reservations::{self, Booked};
use super::{Slurm, delete, tres};
use crate::batch::{
    FactState, Handle, JobFact, Node, Picture, ReservationSystem, Reserved, Share, Unit, Wanted,
};
use crate::command::{Command, Outcome};
use crate::dialect::{self, Tools, failed, is_plain, refused, the_reservation, undone};
use crate::error::LrmsError;
use bookahead_plan::{Interval, Time};

impl ReservationSystem for Slurm {
    fn choose(&self, wanted: &Wanted, picture: &Picture) -> Result<Vec<Share>, LrmsError> {
        choose(wanted, picture)
    }

    fn create(&self, wanted: &Wanted, picture: &Picture) -> Result<Reserved, LrmsError> {
        check(wanted, picture)?;
        let tools = &self.tools;
        // The caller has chosen nodes under its lock, except for the test reservation of `examine`.
        let nodes = if wanted.nodes.is_empty() { choose(wanted, picture)? } else { wanted.nodes.clone() };
        let command = command(self, wanted, picture.clock, &nodes)?;
        let outcome = tools.run(&command)?;
        if !outcome.is_success() {
            return already_there(tools, wanted, picture, &command, &outcome);
        }
        let Some(booked) = read_back(tools, &wanted.name)? else {
            let said = "it does not exist after it was created".into();
            return Err(failed(&command, &Outcome { err: said, ..outcome }));
        };
        if let Some(difference) = differs(&booked, wanted, picture) {
            // No jobs can be in it yet, so a plain deletion is enough.
            let deleted = tools.ask(&scontrol(tools, ["delete", "reservation", &wanted.name]));
            return Err(undone(what(wanted), &Handle(wanted.name.clone()), &difference, deleted.map(drop)));
        }
        let spread = (!nodes.is_empty()).then(|| nodes.into_iter().collect());
        let reserved = booked.ours(picture, spread.as_ref());
        spread.into_iter().for_each(|spread| self.granted.note(&wanted.name, spread));
        Ok(reserved)
    }

    fn change(
        &self,
        handle: &Handle,
        wanted: &Wanted,
        picture: &Picture,
    ) -> Result<Option<Reserved>, LrmsError> {
        change(&self.tools, handle, wanted, picture)
    }

    fn delete(&self, handle: &Handle) -> Result<(), LrmsError> {
        delete::delete(&self.tools, handle, self.settings.let_go_within)
    }

    fn share(&self, handle: &Handle, accounts: &[String]) -> Result<(), LrmsError> {
        share(&self.tools, handle, accounts)
    }

    fn move_jobs(&self, from: &Handle, to: &Handle) -> Result<(), LrmsError> {
        delete::move_jobs(&self.tools, from, to)
    }
}

/// Handles a refused creation. The reservation may already exist: then its name is taken, or it conflicts with
/// itself.
fn already_there(
    tools: &Tools,
    wanted: &Wanted,
    picture: &Picture,
    command: &Command,
    outcome: &Outcome,
) -> Result<Reserved, LrmsError> {
    let what = what(wanted);
    if is_about_users(outcome) {
        return Err(invalid_user(tools, what, &wanted.joined_accounts(", "), outcome));
    }
    if is_about_projects(outcome.said()) {
        return Err(invalid_project(what, &wanted.account, wanted.project.as_deref(), outcome));
    }
    let found = read_back(tools, &wanted.name)?.map(|booked| (differs(&booked, wanted, picture), booked));
    match found {
        Some((None, booked)) => Ok(booked.ours(picture, None)),
        Some((Some(difference), _)) => {
            let said = format!(
                "a reservation of that name exists with other terms ({difference}); change it, or delete it"
            );
            Err(refused(what, said))
        }
        None => Err(commands::refused(what, command, outcome)),
    }
}

/// Validates a request before any command: no word of it may be misread as another option or value.
fn check(wanted: &Wanted, picture: &Picture) -> Result<(), LrmsError> {
    // Machine accounts end with a `$`.
    let plain = |word: &str| is_plain(word.strip_suffix('$').unwrap_or(word));
    if wanted.amount == 0 || wanted.interval.is_empty() {
        return Err(refused(what(wanted), "its size or duration is zero; request more"));
    }
    if has_come(wanted.interval.end, picture.clock) {
        return Err(refused(
            what(wanted),
            "that time is in the past for the controller; compare its clock with the one here",
        ));
    }
    if let Some(why) = tres::impossible(wanted) {
        return Err(refused(what(wanted), why));
    }
    let words = std::iter::once(&wanted.name).chain(wanted.accounts()).chain(&wanted.project);
    match words.chain(&wanted.place.features).chain(&wanted.place.partition).find(|word| !plain(word)) {
        Some(word) => Err(refused(
            what(wanted),
            format!("{word:?} is not a valid name; use letters, digits, `.`, `_` and `-`"),
        )),
        None => Ok(()),
    }
}

/// The nodes to request by name, with the cores of each; empty if Slurm chooses.
fn choose(wanted: &Wanted, picture: &Picture) -> Result<Vec<Share>, LrmsError> {
    let chosen = match (wanted.place.unit, &wanted.place.partition) {
        (Unit::Cores, Some(_)) => return Ok(Vec::new()),
        (Unit::Cores, None) => cores(wanted, picture),
        (Unit::Nodes, _) => whole_nodes(wanted, picture),
    };
    chosen.map_err(|why| refused(what(wanted), why))
}

fn command(
    slurm: &Slurm,
    wanted: &Wanted,
    clock: Option<Time>,
    nodes: &[Share],
) -> Result<Command, LrmsError> {
    let mut words =
        vec!["create".to_owned(), "reservation".to_owned(), format!("ReservationName={}", wanted.name)];
    words.push(format!("StartTime={}", begin(wanted.interval.begin, clock)));
    words.push(format!("EndTime={}", written(wanted.interval.end)));
    words.push(format!("Users={}", wanted.joined_accounts(",")));
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
        words.push(format!("CoreCnt={}", core_count(nodes, slurm.version()?)));
    }
    if !tres::licenses_of(&wanted.tres).is_empty() {
        words.push(tres::word(&wanted.tres));
    }
    words.extend(wanted.terms.attract.then(|| "Flags=MAGNETIC".to_owned()));
    Ok(scontrol(&slurm.tools, words))
}

/// One number for each node, or the sum in versions that accept no list.
fn core_count(shares: &[Share], version: (u32, u32)) -> String {
    if version < NO_CORE_LISTS {
        return shares.iter().map(|(_, cores)| cores.to_string()).collect::<Vec<_>>().join(",");
    }
    shares.iter().fold(0u32, |sum, (_, cores)| sum.saturating_add(*cores)).to_string()
}

/// Slurm refuses times in the past.
fn begin(begin: Time, clock: Option<Time>) -> String {
    if has_come(begin, clock) { "now".into() } else { written(begin) }
}

fn has_come(time: Time, clock: Option<Time>) -> bool {
    clock.is_some_and(|now| time <= now)
}

/// A reservation by its name; None if it does not exist.
fn read_back(tools: &Tools, name: &str) -> Result<Option<Booked>, LrmsError> {
    let shown = tools.ask_for(&scontrol(tools, ["show", "res", name]), &["not found"])?;
    let all = shown.map(|shown| reservations::read(&shown)).transpose()?.unwrap_or_default();
    Ok(all.into_iter().find(|booked| booked.name == name))
}

/// The first difference from the wanted reservation; None if there is none.
fn differs(booked: &Booked, wanted: &Wanted, picture: &Picture) -> Option<String> {
    let begins = booked.interval.begin == wanted.interval.begin
        || (booked.active && has_come(wanted.interval.begin, picture.clock));
    if !begins || booked.interval.end != wanted.interval.end {
        let (is, should) = (booked.interval, wanted.interval);
        return Some(format!(
            "it is from {} to {}, and should be from {} to {}",
            written(is.begin),
            written(is.end),
            written(should.begin),
            written(should.end)
        ));
    }
    differs_but_in_time(booked, wanted, picture)
}

fn differs_but_in_time(booked: &Booked, wanted: &Wanted, picture: &Picture) -> Option<String> {
    let there = booked.ours(picture, None);
    let differs = booked.differs_in_whom(wanted).or_else(|| dialect::differs(&there, wanted, &picture.nodes));
    differs.or_else(|| booked.differs_in_tres(wanted, picture))
}

/// Describes the request in messages.
fn what(wanted: &Wanted) -> String {
    the_reservation(wanted, ["cores", "nodes"])
}

/// Whole nodes that are free in that interval, in Slurm's order; the error says how many there are.
pub(super) fn whole_nodes(wanted: &Wanted, picture: &Picture) -> Result<Vec<Share>, String> {
    let free = room(wanted, picture).filter(|(node, free)| *free == node.cores && node.cores > 0);
    let free: Vec<(&Node, u32)> = free.collect();
    let amount = wanted.amount as usize;
    if free.len() < amount {
        return Err(format!(
            "only {} nodes of {} are usable and free at that time; choose another time, or fewer nodes",
            free.len(),
            wanted.place.resource
        ));
    }
    tres::pick(free, wanted, picture)
}

/// Cores on as few nodes as possible, in Slurm's order; the error says how many there are.
pub(super) fn cores(wanted: &Wanted, picture: &Picture) -> Result<Vec<Share>, String> {
    let mut free: Vec<(usize, Share)> =
        room(wanted, picture).map(|(node, free)| (node.name.clone(), free)).enumerate().collect();
    // Largest first, to use few nodes. Slurm's order is restored below.
    free.sort_by_key(|(_, (_, free))| std::cmp::Reverse(*free));
    let mut left = wanted.amount;
    let mut chosen = Vec::new();
    for (at, (node, free)) in free {
        let share = free.min(left);
        left -= share;
        if share > 0 {
            chosen.push((at, (node, share)));
        }
    }
    if left > 0 {
        return Err(format!(
            "only {} cores of {} are usable and free at that time; choose another time, or fewer cores",
            wanted.amount - left,
            wanted.place.resource
        ));
    }
    chosen.sort();
    Ok(chosen.into_iter().map(|(_, share)| share).collect())
}

/// The usable nodes of the place, each with its free cores in that interval.
fn room<'a>(wanted: &'a Wanted, picture: &'a Picture) -> impl Iterator<Item = (&'a Node, u32)> {
    let ours = |node: &&Node| node.usable && node.resources.contains(&wanted.place.resource);
    picture
        .nodes
        .iter()
        .filter(ours)
        .map(|node| (node, node.cores.saturating_sub(taken(node, wanted, picture))))
}

/// Cores of a node that are used by others in that interval. The wanted reservation may already exist and must not
/// conflict with itself.
fn taken(node: &Node, wanted: &Wanted, picture: &Picture) -> u32 {
    let interval = wanted.interval;
    let others = picture.reservations.iter().filter(|one| one.name != wanted.name);
    let overlapping = others.filter(|one| overlap(one.interval, interval));
    let reserved = overlapping.filter_map(|one| one.cores.get(&node.name));
    let outside = |job: &&JobFact| !is_inside(job, node, interval, picture);
    let jobs = picture.jobs.iter().filter(|job| reaches(job, interval.begin)).filter(outside);
    let running = jobs.filter_map(|job| job.placed.get(&node.name));
    reserved.chain(running).fold(0, |sum, cores| sum.saturating_add(*cores))
}

/// Whether a running job may still run at that time.
fn reaches(job: &JobFact, time: Time) -> bool {
    let end = job.started.zip(job.limit).map(|(started, limit)| started + limit);
    job.state == FactState::Running && end.is_none_or(|end| end > time)
}

/// Whether the cores of a job on a node are already counted with its reservation. A job that was moved to another
/// reservation may run on nodes outside of it.
fn is_inside(job: &JobFact, node: &Node, interval: Interval, picture: &Picture) -> bool {
    let mut counted = picture.reservations.iter().filter(|one| overlap(one.interval, interval));
    counted.any(|one| job.reservations.contains(&one.handle) && one.cores.contains_key(&node.name))
}

fn overlap(one: Interval, other: Interval) -> bool {
    one.begin < other.end && other.begin < one.end
}

fn change(
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
fn share(tools: &Tools, handle: &Handle, accounts: &[String]) -> Result<(), LrmsError> {
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
    // Licences can be changed in place.
    let licensed = Booked { licenses: tres::licenses_of(&wanted.tres), ..old.clone() };
    let same = differs_but_in_time(&licensed, wanted, picture).is_none();
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
    if old.differs_in_licenses(wanted) {
        words.push(tres::word(&wanted.tres));
    }
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
    if new.is_some_and(|new| new.interval != old.interval || new.licenses != old.licenses) {
        let mut words = vec!["update".to_owned(), format!("ReservationName={}", old.name)];
        if new.is_some_and(|new| !new.active) {
            words.push(format!("StartTime={}", written(old.interval.begin)));
        }
        words.push(format!("EndTime={}", written(old.interval.end)));
        if new.is_some_and(|new| new.licenses != old.licenses) {
            words.push(tres::word(&old.licenses));
        }
        let command = scontrol(tools, words);
        // No job can be in the way: the reservation had these times a moment ago.
        let outcome = apply(tools, command.clone(), true)?;
        if !outcome.is_success() {
            return Err(failed(&command, &outcome));
        }
    }
    Err(refused(what(wanted), format!("{wrong}; the old times were restored")))
}
