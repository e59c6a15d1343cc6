//! Changing reservations in place with `brsvmod`: other times, or more or fewer slots or hosts. It takes one of them at a time,
//! so both together are left to the caller, as is moving the begin of one that has begun, which LSF cannot.

use super::create::{SHORTEST, check, compare, modify, what};
use super::reservations;
use super::room;
use super::times::{STEP, asked, widened};
use crate::batch::{FactState, Handle, Picture, Reserved, Share, Unit, Wanted};
use crate::dialect::{Tools, refused, start};
use crate::error::LrmsError;
use bookahead_plan::{Interval, Time};
use std::cmp::Ordering;

/// Hosts that are added or taken away by one command.
struct Step {
    how: &'static str,
    shares: Vec<Share>,
}

/// Gives a reservation other terms. None where nothing was done.
pub(super) fn change(
    tools: &Tools,
    handle: &Handle,
    wanted: &Wanted,
    picture: &Picture,
) -> Result<Option<Reserved>, LrmsError> {
    check(wanted)?;
    let clock = tools.clock()?;
    let old = reservations::one(tools, &handle.0, clock)?.filter(|_| wanted.name == handle.0);
    let Some(old) = old.filter(|old| is_alike(old, wanted, picture)) else { return Ok(None) };
    let Some(interval) = reachable(old.interval, wanted.interval, clock) else { return Ok(None) };
    let more_or_less = wanted.amount.cmp(&wanted.place.unit.reserved(&old));
    let steps = match (interval == old.interval, more_or_less) {
        (true, Ordering::Equal) => return Ok(Some(old)),
        (false, Ordering::Equal) => return move_it(tools, &old, wanted, interval, picture, clock),
        (false, _) => None,
        (true, Ordering::Greater) => growing(&old, wanted, picture),
        (true, Ordering::Less) => Some(shrinking(&old, wanted, picture)),
    };
    let Some(steps) = steps else { return Ok(None) };
    resize(tools, wanted, &steps, interval, picture, clock)
}

/// Of the same user, and on hosts of the same resource.
fn is_alike(old: &Reserved, wanted: &Wanted, picture: &Picture) -> bool {
    let belongs = |host: &String| {
        let node = picture.nodes.iter().find(|node| node.name == *host);
        node.is_some_and(|node| node.resources.contains(&wanted.place.resource))
    };
    old.accounts.contains(&wanted.account) && old.cores.keys().all(belongs)
}

/// When it would be; None where LSF cannot get there from the old times.
fn reachable(old: Interval, wanted: Interval, clock: Time) -> Option<Interval> {
    let new = widened(wanted, STEP);
    let begin = if old.begin <= clock { old.begin } else { new.begin };
    let begun = old.begin <= clock && new.begin > clock;
    let too_late = old.begin > clock && new.begin <= clock;
    let new = Interval::new(begin, new.end);
    (!begun && !too_late && new.end > clock && new.length().0 >= SHORTEST).then_some(new)
}

fn move_it(
    tools: &Tools,
    old: &Reserved,
    wanted: &Wanted,
    interval: Interval,
    picture: &Picture,
    clock: Time,
) -> Result<Option<Reserved>, LrmsError> {
    let free = room::choose(&wanted.place, wanted.amount, interval, picture, Some(&old.handle));
    if old.interval.begin > clock && free.is_err() {
        return Ok(None);
    }
    let times = |to: Interval| {
        let command = tools.command("brsvmod");
        let command =
            if old.interval.begin > clock { command.args(["-b", &asked(to.begin)]) } else { command };
        command.args(["-e", &asked(to.end)]).arg(&old.handle.0)
    };
    let outcome = tools.run(&times(interval))?;
    let said = outcome.said().to_owned();
    let why = match verdict(tools, wanted, interval, picture, clock)? {
        Ok(there) => return Ok(Some(there)),
        Err(why) if outcome.is_success() => why,
        Err(_) => said,
    };
    let now = reservations::one(tools, &old.name, clock)?;
    if now.as_ref() != Some(old) {
        tools.run(&times(old.interval))?;
    }
    put_back(tools, old, wanted, &why, clock)
}

/// Hosts to be added: None where there is no room beside it.
fn growing(old: &Reserved, wanted: &Wanted, picture: &Picture) -> Option<Vec<Step>> {
    let extra = wanted.amount.saturating_sub(wanted.place.unit.reserved(old));
    let choice = room::choose(&wanted.place, extra, old.interval, picture, None).ok()?;
    // Added one by one, so that taking them away again is certain to take the same.
    let shares = choice.clear.into_iter().chain(choice.partly);
    Some(shares.map(|share| Step { how: "addhost", shares: vec![share] }).collect())
}

/// Hosts to be taken away: first those where no job of it runs.
fn shrinking(old: &Reserved, wanted: &Wanted, picture: &Picture) -> Vec<Step> {
    let runs_on = |host: &str| {
        let inside = |job: &&crate::batch::JobFact| {
            job.state == FactState::Running && job.reservations.contains(&old.handle)
        };
        picture.jobs.iter().filter(inside).any(|job| job.placed.contains_key(host))
    };
    let mut hosts: Vec<(&String, u32)> = old.cores.iter().map(|(host, cores)| (host, *cores)).collect();
    hosts.sort_by_key(|(host, cores)| (runs_on(host), *cores));
    let mut surplus = wanted.place.unit.reserved(old).saturating_sub(wanted.amount);
    let mut steps = Vec::new();
    for (host, cores) in hosts {
        let (slots, units) = match wanted.place.unit {
            Unit::Cores => (cores.min(surplus), cores.min(surplus)),
            Unit::Nodes => (cores, surplus.min(1)),
        };
        if units > 0 {
            surplus -= units;
            steps.push(Step { how: "rmhost", shares: vec![(host.clone(), slots)] });
        }
    }
    steps
}

fn resize(
    tools: &Tools,
    wanted: &Wanted,
    steps: &[Step],
    interval: Interval,
    picture: &Picture,
    clock: Time,
) -> Result<Option<Reserved>, LrmsError> {
    let handle = Handle(wanted.name.clone());
    let old = reservations::one(tools, &wanted.name, clock)?;
    let mut done: Vec<&Step> = Vec::new();
    let mut refusal = None;
    for step in steps {
        let command = modify(tools, step.how, wanted.place.unit, &step.shares, &handle);
        let outcome = tools.run(&command)?;
        if !outcome.is_success() {
            refusal = Some(outcome.said().to_owned());
            break;
        }
        done.push(step);
    }
    let why = match verdict(tools, wanted, interval, picture, clock)? {
        Ok(there) => return Ok(Some(there)),
        Err(why) => refusal.unwrap_or(why),
    };
    for step in done.into_iter().rev() {
        let back = if step.how == "addhost" { "rmhost" } else { "addhost" };
        tools.run(&modify(tools, back, wanted.place.unit, &step.shares, &handle))?;
    }
    match old {
        Some(old) => put_back(tools, &old, wanted, &why, clock),
        None => Ok(None),
    }
}

/// Whether it is now as it should be.
fn verdict(
    tools: &Tools,
    wanted: &Wanted,
    interval: Interval,
    picture: &Picture,
    clock: Time,
) -> Result<Result<Reserved, String>, LrmsError> {
    let there = reservations::one(tools, &wanted.name, clock)?;
    let Some(there) = there else { return Ok(Err("it is not there any more".into())) };
    let exact = there.interval == interval;
    let compared = compare(&there, wanted, interval, picture);
    Ok(compared.and_then(|()| exact.then_some(there).ok_or_else(|| "its times are still others".into())))
}

/// Refused, if the old terms are there again; what is true otherwise.
fn put_back(
    tools: &Tools,
    old: &Reserved,
    wanted: &Wanted,
    why: &str,
    clock: Time,
) -> Result<Option<Reserved>, LrmsError> {
    let why = start(why);
    if reservations::one(tools, &old.name, clock)?.as_ref() == Some(old) {
        return Err(refused(what(wanted), format!("{why}; it is as it was before")));
    }
    let said =
        format!("{} was to be changed ({why}), and its old terms could not be put back; see brsvs", old.name);
    Err(LrmsError::Failed { command: "brsvmod".into(), code: None, said })
}
