//! Creates and changes reservations. Whatever LSF answers, the result is read back and compared, since a promise
//! depends on it: one that falls short is deleted.
//!
//! `brsvmod` changes a reservation in place: other times, or more or fewer slots or hosts. It makes one such change at
//! a time. Both together are left to the caller, as is a new begin of a reservation that has begun, which LSF cannot
//! do.

use super::room::{self, Choice};
use super::times::{STEP, asked, widened};
use super::{Lsf, jobs, reservations, submit};
use crate::batch::{FactState, Handle, JobFact, Picture, ReservationSystem, Reserved, Share, Unit, Wanted};
use crate::command::Command;
use crate::dialect::{Tools, denied, differs, failed, refused, start, the_reservation, undone, unreadable};
use crate::error::LrmsError;
use bookahead_plan::{Interval, Seconds, Time};
use std::cmp::Ordering;

/// Longest name of a reservation, in characters (brsvadd -N).
pub(super) const LONGEST_NAME: usize = 39;
/// Shortest reservation, in seconds (brsvadd).
const SHORTEST: i64 = 600;
/// How far ahead reservations may begin, in seconds: some versions print no year, so it must stay well below a year.
const FARTHEST: i64 = 330 * 86_400;
/// Smallest lead time of a reservation that should begin at once, in seconds; it begins with the next full minute
/// after that.
const LEAD: i64 = 5;

impl ReservationSystem for Lsf {
    /// The hosts for a reservation, first those on which LSF itself takes the right number of slots.
    fn choose(&self, wanted: &Wanted, picture: &Picture) -> Result<Vec<Share>, LrmsError> {
        let choice = chosen(wanted, picture.clock.unwrap_or(Time(0)), picture)?.1;
        Ok(choice.clear.into_iter().chain(choice.partly).collect())
    }

    fn create(&self, wanted: &Wanted, picture: &Picture) -> Result<Reserved, LrmsError> {
        let tools = &self.tools;
        check(wanted)?;
        let clock = tools.clock()?;
        let (interval, choice) = chosen(wanted, clock, picture)?;
        let handle = Handle(wanted.name.clone());
        let mut steps = steps(choice).into_iter();
        let first = add(tools, wanted, interval, &steps.next().unwrap_or_default());
        let outcome = tools.run(&first)?;
        if !outcome.is_success() {
            return already_there(tools, wanted, interval, picture, denied(what(wanted), &first, &outcome));
        }
        for step in steps {
            let command = modify(tools, "addhost", wanted.place.unit, &step, &handle);
            let outcome = tools.run(&command)?;
            if !outcome.is_success() {
                return Err(undone(what(wanted), &handle, outcome.said(), self.delete(&handle)));
            }
        }
        let there = reservations::one(tools, &wanted.name, clock)?;
        let there =
            there.ok_or_else(|| unreadable(&first, "LSF accepted the reservation, but does not list it"))?;
        match compare(&there, wanted, interval, picture) {
            Ok(()) => Ok(there),
            Err(why) => Err(undone(what(wanted), &handle, &why, self.delete(&handle))),
        }
    }

    fn change(
        &self,
        handle: &Handle,
        wanted: &Wanted,
        picture: &Picture,
    ) -> Result<Option<Reserved>, LrmsError> {
        change(&self.tools, handle, wanted, picture)
    }

    /// Deletes a reservation and cancels its jobs, which LSF would let continue.
    fn delete(&self, handle: &Handle) -> Result<(), LrmsError> {
        let tools = &self.tools;
        let clock = tools.clock()?;
        for job in jobs::all(tools, clock)?.0 {
            if job.fact.reservations.contains(handle) && !job.fact.state.is_over() {
                submit::cancel(tools, &job.fact.native)?;
            }
        }
        let command = tools.command("brsvdel").arg(&handle.0);
        let outcome = tools.run(&command)?;
        // The list decides, not the exit code: the reservation may have been gone before.
        match reservations::one(tools, &handle.0, clock)? {
            None => Ok(()),
            Some(_) => Err(failed(&command, &outcome)),
        }
    }
}

/// The possible interval and hosts.
fn chosen(wanted: &Wanted, clock: Time, picture: &Picture) -> Result<(Interval, Choice), LrmsError> {
    check(wanted)?;
    let interval = possible(wanted.interval, clock).map_err(|why| refused(what(wanted), why))?;
    if !wanted.nodes.is_empty() {
        return Ok((interval, room::apart(&wanted.nodes, interval, picture)));
    }
    let choice = room::choose(&wanted.place, wanted.amount, interval, picture, None);
    Ok((interval, choice.map_err(|there| refused(what(wanted), short(there)))?))
}

/// Validates a request.
fn check(wanted: &Wanted) -> Result<(), LrmsError> {
    let plain = |text: &str| {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        text.bytes().all(legal) && text.bytes().next().is_some_and(|first| first.is_ascii_alphabetic())
    };
    let odd = |byte: u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || byte == b'"';
    let why = if !plain(&wanted.name) {
        "its name must begin with a letter and contain only letters, digits and _; LSF does not allow . and -"
    } else if wanted.name.len() > LONGEST_NAME {
        "its name has more than 39 characters; use a shorter one"
    } else if wanted.account.is_empty() || wanted.account.bytes().any(odd) || wanted.account.starts_with('-')
    {
        "its account is not valid in LSF; use another account"
    } else if wanted.amount == 0 {
        "its size is zero; request at least 1"
    } else {
        return Ok(());
    };
    Err(refused(what(wanted), why))
}

/// The possible interval: whole minutes around the wanted one, not before now, and not too short for LSF.
fn possible(interval: Interval, clock: Time) -> Result<Interval, String> {
    let Interval { begin, end } = widened(interval, STEP);
    let next = widened(Interval::new(clock, clock + Seconds(LEAD)), STEP).end;
    let begin = if begin <= clock { next } else { begin };
    if interval.length().0 < SHORTEST || end <= begin {
        return Err(
            "it is shorter than ten minutes, LSF's minimum, or already over; request more time".into()
        );
    }
    if (begin - clock).0 > FARTHEST {
        return Err(
            "it begins in more than 330 days, and LSF does not always print years; request it later".into()
        );
    }
    // A reservation that should have begun already loses up to a minute.
    Ok(Interval::new(begin, end.max(begin + Seconds(SHORTEST))))
}

/// First all hosts on which LSF itself takes the right number, then each of the others.
fn steps(choice: Choice) -> Vec<Vec<Share>> {
    let clear = Some(choice.clear).filter(|clear| !clear.is_empty());
    clear.into_iter().chain(choice.partly.into_iter().map(|share| vec![share])).collect()
}

fn add(tools: &Tools, wanted: &Wanted, interval: Interval, step: &[Share]) -> Command {
    let command = tools.command("brsvadd").args(["-N", &wanted.name, "-u", &wanted.account]);
    let command = units(command, wanted.place.unit, step);
    command.args(["-b", &asked(interval.begin), "-e", &asked(interval.end)])
}

/// `brsvmod addhost` or `rmhost`.
fn modify(tools: &Tools, how: &str, unit: Unit, step: &[Share], handle: &Handle) -> Command {
    let number = number(unit, step);
    let command = tools.command("brsvmod").args([how, "-n", &number, "-m", &names(step)]);
    command.arg(&handle.0)
}

fn units(command: Command, unit: Unit, step: &[Share]) -> Command {
    // Slots need no unit, and LSF before 9.1 does not know the option.
    let command = if unit == Unit::Nodes { command.args(["-unit", "host"]) } else { command };
    command.args(["-n", &number(unit, step), "-m", &names(step)])
}

fn number(unit: Unit, step: &[Share]) -> String {
    match unit {
        Unit::Cores => step.iter().fold(0, |sum: u32, (_, slots)| sum.saturating_add(*slots)).to_string(),
        Unit::Nodes => step.len().to_string(),
    }
}

fn names(step: &[Share]) -> String {
    step.iter().map(|(host, _)| host.as_str()).collect::<Vec<_>>().join(" ")
}

/// Handles a refusal: the reservation may exist from an earlier attempt.
fn already_there(
    tools: &Tools,
    wanted: &Wanted,
    interval: Interval,
    picture: &Picture,
    denial: LrmsError,
) -> Result<Reserved, LrmsError> {
    let there = reservations::one(tools, &wanted.name, tools.clock()?)?;
    match there.map(|there| compare(&there, wanted, interval, picture).map(|()| there)) {
        Some(Ok(there)) => Ok(there),
        Some(Err(why)) => Err(refused(what(wanted), format!("a reservation of this name exists, but {why}"))),
        None => Err(denial),
    }
}

fn compare(there: &Reserved, wanted: &Wanted, interval: Interval, picture: &Picture) -> Result<(), String> {
    if there.interval.begin > interval.begin || there.interval.end < interval.end {
        let Interval { begin, end } = there.interval;
        return Err(format!(
            "it is only from {} to {}; choose a time that is free",
            asked(begin),
            asked(end)
        ));
    }
    differs(there, wanted, &picture.nodes).map_or(Ok(()), Err)
}

fn short(there: u32) -> String {
    format!(
        "only {there} are free at that time, besides other reservations and jobs that may still run; request \
         less, or later"
    )
}

/// Describes the request in messages.
fn what(wanted: &Wanted) -> String {
    the_reservation(wanted, ["slots", "hosts"])
}

/// A change that LSF may be able to make.
struct Change<'a> {
    tools: &'a Tools,
    wanted: &'a Wanted,
    picture: &'a Picture,
    clock: Time,
    old: Reserved,
    /// The wanted interval.
    interval: Interval,
}

/// Changes the terms of a reservation. None if nothing was done.
fn change(
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
    let change = Change { tools, wanted, picture, clock, old, interval };
    let more_or_less = wanted.amount.cmp(&wanted.place.unit.reserved(&change.old));
    match (interval == change.old.interval, more_or_less) {
        (true, Ordering::Equal) => Ok(Some(change.old)),
        (false, Ordering::Equal) => change.move_it(),
        // LSF cannot change times and size at once; the caller replaces the reservation.
        (false, _) => Ok(None),
        (true, Ordering::Greater) => match change.growing() {
            Some(shares) => change.resize(["addhost", "rmhost"], shares),
            None => Ok(None),
        },
        (true, Ordering::Less) => change.resize(["rmhost", "addhost"], change.shrinking()),
    }
}

/// Whether it has the same user, and hosts of the same resource.
fn is_alike(old: &Reserved, wanted: &Wanted, picture: &Picture) -> bool {
    let belongs = |host: &String| {
        let node = picture.nodes.iter().find(|node| node.name == *host);
        node.is_some_and(|node| node.resources.contains(&wanted.place.resource))
    };
    old.accounts.contains(&wanted.account) && old.cores.keys().all(belongs)
}

/// The interval after the change; None if LSF cannot change the old times to it.
fn reachable(old: Interval, wanted: Interval, clock: Time) -> Option<Interval> {
    let new = widened(wanted, STEP);
    let begin = if old.begin <= clock { old.begin } else { new.begin };
    let begun = old.begin <= clock && new.begin > clock;
    let too_late = old.begin > clock && new.begin <= clock;
    let new = Interval::new(begin, new.end);
    (!begun && !too_late && new.end > clock && new.length().0 >= SHORTEST).then_some(new)
}

impl Change<'_> {
    fn move_it(&self) -> Result<Option<Reserved>, LrmsError> {
        let Change { tools, wanted, picture, clock, old, interval } = self;
        let free = room::choose(&wanted.place, wanted.amount, *interval, picture, Some(&old.handle));
        let is_ahead = old.interval.begin > *clock;
        // LSF ignores running jobs, so check here whether the new interval is free. An active reservation keeps its
        // hosts.
        if is_ahead && free.is_err() {
            return Ok(None);
        }
        let times = |to: Interval| {
            let command = tools.command("brsvmod");
            let command = if is_ahead { command.args(["-b", &asked(to.begin)]) } else { command };
            command.args(["-e", &asked(to.end)]).arg(&old.handle.0)
        };
        let outcome = tools.run(&times(*interval))?;
        let why = match self.verdict()? {
            Ok(there) => return Ok(Some(there)),
            Err(why) if outcome.is_success() => why,
            Err(_) => outcome.said().to_owned(),
        };
        // A refused command changed nothing and needs no undo.
        if self.there()?.as_ref() != Some(old) {
            tools.run(&times(old.interval))?;
        }
        self.put_back(&why)
    }

    /// Hosts to add; None if there is no room.
    fn growing(&self) -> Option<Vec<Share>> {
        let Change { wanted, picture, old, .. } = self;
        let extra = wanted.amount.saturating_sub(wanted.place.unit.reserved(old));
        let choice = room::choose(&wanted.place, extra, old.interval, picture, None).ok()?;
        Some(choice.clear.into_iter().chain(choice.partly).collect())
    }

    /// Hosts to remove, first those without running jobs of the reservation.
    fn shrinking(&self) -> Vec<Share> {
        let Change { wanted, picture, old, .. } = self;
        let inside =
            |job: &&JobFact| job.state == FactState::Running && job.reservations.contains(&old.handle);
        let runs_on =
            |host: &str| picture.jobs.iter().filter(inside).any(|job| job.placed.contains_key(host));
        let mut hosts: Vec<(&String, u32)> = old.cores.iter().map(|(host, cores)| (host, *cores)).collect();
        hosts.sort_by_key(|(host, cores)| (runs_on(host), *cores));
        let mut surplus = wanted.place.unit.reserved(old).saturating_sub(wanted.amount);
        let mut shares = Vec::new();
        for (host, cores) in hosts {
            let (slots, units) = match wanted.place.unit {
                Unit::Cores => (cores.min(surplus), cores.min(surplus)),
                Unit::Nodes => (cores, surplus.min(1)),
            };
            if units > 0 {
                surplus -= units;
                shares.push((host.clone(), slots));
            }
        }
        shares
    }

    /// One host at a time, so that undoing restores exactly the same.
    fn resize(&self, [how, back]: [&str; 2], shares: Vec<Share>) -> Result<Option<Reserved>, LrmsError> {
        let run = |how: &str, share: &Share| {
            let command = modify(
                self.tools,
                how,
                self.wanted.place.unit,
                std::slice::from_ref(share),
                &self.old.handle,
            );
            self.tools.run(&command)
        };
        let mut done = Vec::new();
        let mut refusal = None;
        for share in shares {
            let outcome = run(how, &share)?;
            if !outcome.is_success() {
                refusal = Some(outcome.said().to_owned());
                break;
            }
            done.push(share);
        }
        let why = match self.verdict()? {
            Ok(there) => return Ok(Some(there)),
            Err(why) => refusal.unwrap_or(why),
        };
        for share in done.iter().rev() {
            run(back, share)?;
        }
        self.put_back(&why)
    }

    fn there(&self) -> Result<Option<Reserved>, LrmsError> {
        reservations::one(self.tools, &self.old.name, self.clock)
    }

    /// Compares the present state with the wanted one.
    fn verdict(&self) -> Result<Result<Reserved, String>, LrmsError> {
        let Some(there) = self.there()? else { return Ok(Err("it no longer exists".into())) };
        let compared = compare(&there, self.wanted, self.interval, self.picture);
        let exact = there.interval == self.interval;
        Ok(compared.and_then(|()| exact.then_some(there).ok_or_else(|| "its times did not change".into())))
    }

    /// A refusal if the old terms are restored, otherwise a failure.
    fn put_back(&self, why: &str) -> Result<Option<Reserved>, LrmsError> {
        let (why, name) = (start(why), &self.old.name);
        if self.there()?.as_ref() == Some(&self.old) {
            return Err(refused(what(self.wanted), format!("{why}; the old terms were restored")));
        }
        let said = format!(
            "the change of {name} failed ({why}), and its old terms could not be restored; check brsvs"
        );
        Err(LrmsError::Failed { command: "brsvmod".into(), code: None, said })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn possible_at(begin: i64, end: i64, clock: i64) -> Option<(i64, i64)> {
        let found = possible(Interval::new(Time(begin), Time(end)), Time(clock));
        found.ok().map(|found| (found.begin.0, found.end.0))
    }

    #[test]
    fn a_reservation_begins_on_a_whole_minute_that_is_not_over() {
        assert_eq!(possible_at(6030, 9001, 0), Some((6000, 9060)));
        assert_eq!(possible_at(6000, 9000, 6000), Some((6060, 9000)));
        assert_eq!(possible_at(0, 9000, 6057), Some((6120, 9000)));
        assert_eq!(possible_at(6000, 6600, 6010), Some((6060, 6660)));
    }

    #[test]
    fn what_is_too_short_or_too_far_cannot_be() {
        assert_eq!(possible_at(6000, 6500, 0), None);
        assert_eq!(possible_at(0, 6000, 6000), None);
        assert_eq!(possible_at(FARTHEST + 120, FARTHEST + 9000, 0), None);
        assert_eq!(possible_at(i64::MIN, i64::MAX, 0).map(|found| found.0), Some(60));
    }
}
