//! Creates reservations. Whatever Maui answers, the result is read back and compared, since a promise depends on it:
//! one that falls short is released.

use super::Maui;
use super::{Commands, asked, can_be_asked, jobs, reservations, submit};
use crate::batch::{Handle, Picture, ReservationSystem, Reserved, Unit, Wanted};
use crate::command::Command;
use crate::dialect::{denied, differs, failed, is_plain, refused, the_reservation, undone, unreadable};
use crate::error::LrmsError;
use bookahead_plan::{Seconds, Time};

/// Maui has 63 characters for a name, a dot and the number that it appends.
pub(super) const LONGEST_NAME: usize = 48;
/// Reservations of 99 days and more are printed as endless, and could not be verified.
const LONGEST: Seconds = Seconds(98 * 86_400);
/// How late a reservation that should begin at once may begin, in seconds.
const AT_ONCE: Seconds = Seconds(10);

impl ReservationSystem for Maui {
    fn create(&self, wanted: &Wanted, picture: &Picture) -> Result<Reserved, LrmsError> {
        let commands = &self.commands;
        check(wanted)?;
        let before = reservations::all(commands, &picture.nodes)?;
        let clock = before.clock.or(picture.clock);
        // Maui accepts a name twice, so a reservation from an unanswered attempt must be found first.
        if let Some(there) =
            before.reservations.iter().find(|there| compare(there, wanted, clock, picture).is_ok())
        {
            return Ok(there.clone());
        }
        let command = setres(commands, wanted, clock);
        let outcome = commands.maui.run(&command)?;
        if !outcome.is_success() {
            return Err(denied(what(wanted), &command, &outcome));
        }
        let after = reservations::all(commands, &picture.nodes)?;
        let is_new = |there: &&Reserved| match created(&outcome.out) {
            Some(id) => there.handle.0 == id,
            None => {
                let known = before.reservations.iter().any(|before| before.handle == there.handle);
                there.name == wanted.name && !known
            }
        };
        let there = after.reservations.iter().find(is_new);
        let there = there
            .ok_or_else(|| unreadable(&command, "Maui accepted the reservation, but does not list it"))?;
        match compare(there, wanted, after.clock.or(clock), picture) {
            Ok(()) => Ok(there.clone()),
            Err(why) => Err(undone(what(wanted), &there.handle, &why, self.delete(&there.handle))),
        }
    }

    /// Releases a reservation and cancels its jobs, which would wait forever or continue.
    fn delete(&self, handle: &Handle) -> Result<(), LrmsError> {
        let commands = &self.commands;
        // Jobs first: if this stops halfway, the reservation is still there, and the deletion is repeated.
        for job in jobs::all(commands)?.0 {
            if job.fact.reservations.contains(handle) && !job.fact.state.is_over() {
                submit::cancel(commands, &job.fact.native)?;
            }
        }
        let command = commands.maui.command("releaseres").arg(&handle.0);
        let outcome = commands.maui.run(&command)?;
        let there =
            reservations::all(commands, &[])?.reservations.into_iter().any(|there| there.handle == *handle);
        if there { Err(failed(&command, &outcome)) } else { Ok(()) }
    }
}

/// `setres -u USER -s START -e END -n NAME -r PROCS=1 TASKS==n`; tasks are whole nodes by default.
fn setres(commands: &Commands, wanted: &Wanted, clock: Option<Time>) -> Command {
    let command =
        commands.maui.command("setres").args(["-u", &wanted.joined_accounts(":"), "-n", &wanted.name]);
    let mut command = command.args(["-e", &asked(wanted.interval.end)]);
    // Without `-s` it begins at once.
    if clock.is_none_or(|clock| wanted.interval.begin > clock) {
        command = command.args(["-s", &asked(wanted.interval.begin)]);
    }
    if wanted.place.unit == Unit::Cores {
        command = command.args(["-r", "PROCS=1"]);
    }
    if !wanted.place.features.is_empty() {
        command = command.args(["-f", &wanted.place.features.join(":")]);
    }
    command.arg(format!("TASKS=={}", wanted.amount))
}

/// Maui's id of the reservation: `reservation 'ba.7.0.0' created on 2 nodes (6 tasks)`.
fn created(text: &str) -> Option<&str> {
    let (_, behind) = text.split_once("reservation '")?;
    let (id, rest) = behind.split_once('\'')?;
    rest.trim_start().starts_with("created").then_some(id)
}

/// Validates a request. Maui's clients separate words by blanks, and lists by colons.
fn check(wanted: &Wanted) -> Result<(), LrmsError> {
    let why = if !is_plain(&wanted.name) || wanted.name.len() > LONGEST_NAME {
        "its name must have at most 48 characters, and only letters, digits, _, - and ."
    } else if !wanted.accounts().all(|account| is_plain(account)) {
        "its account is not valid in Maui; use another account"
    } else if let Some(odd) = wanted.place.features.iter().find(|feature| !is_plain(feature)) {
        return Err(refused(
            what(wanted),
            format!("{odd:?} is not a valid property of nodes; correct the features"),
        ));
    } else if wanted.amount == 0 || wanted.interval.is_empty() {
        "its size or duration is zero; request more"
    } else if wanted.interval.length() > LONGEST {
        "it lasts longer than 98 days, which Maui prints as endless; request less"
    } else if ![wanted.interval.begin, wanted.interval.end].into_iter().all(can_be_asked) {
        "its time is outside of 2000 to 2096, and Maui uses two digits for a year"
    } else {
        return Ok(());
    };
    Err(refused(what(wanted), why))
}

fn compare(there: &Reserved, wanted: &Wanted, clock: Option<Time>, picture: &Picture) -> Result<(), String> {
    if let Some(why) = differs(there, wanted, &picture.nodes) {
        return Err(why);
    }
    let at_once = clock.map_or(wanted.interval.begin, |clock| wanted.interval.begin.max(clock + AT_ONCE));
    if there.interval.begin > at_once || there.interval.end != wanted.interval.end {
        let (begin, end) = (asked(there.interval.begin), asked(there.interval.end));
        return Err(format!("it is from {begin} to {end}; check the clocks of Maui and of this machine"));
    }
    Ok(())
}

/// Describes the request in messages.
fn what(wanted: &Wanted) -> String {
    the_reservation(wanted, ["processors", "nodes"])
}
