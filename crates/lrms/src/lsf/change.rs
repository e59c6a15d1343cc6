//! Changes reservations in place with `brsvmod`: other times, or more or fewer slots or hosts. It makes one such
//! change at a time. Both together are left to the caller, as is a new begin of a reservation that has begun, which
//! LSF cannot do.

use super::create::{SHORTEST, check, compare, modify, what};
use super::reservations;
use super::room;
use super::times::{STEP, asked, widened};
use crate::batch::{FactState, Handle, JobFact, Picture, Reserved, Share, Unit, Wanted};
use crate::dialect::{Tools, refused, start};
use crate::error::LrmsError;
use bookahead_plan::{Interval, Time};
use std::cmp::Ordering;

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
