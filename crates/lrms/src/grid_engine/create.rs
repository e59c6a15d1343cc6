//! Creates advance reservations with `qrsub`. Each grant is read back and verified.

use super::reservations::{Granted, details};
use super::{GridEngine, NO_WHOLE_HOSTS};
use crate::batch::{Handle, Picture, ReservationSystem, Reserved, Unit, Wanted};
use crate::command::{Command, Outcome};
use crate::dialect::{
    self, Tools, differs, ended, failed, is_plain, refused, the_reservation, undone, unreadable,
    wait_until_gone,
};
use crate::dialect::{calendar, xml};
use crate::error::LrmsError;

impl ReservationSystem for GridEngine {
    fn create(&self, wanted: &Wanted, picture: &Picture) -> Result<Reserved, LrmsError> {
        let tools = &self.tools;
        possible(wanted)?;
        let queues = queue_list(wanted, picture)?;
        let request = Request { tools, environment: &self.settings.parallel_environment, wanted, queues };
        let at_once = picture.clock.is_some_and(|now| wanted.interval.begin <= now);
        let (handle, at_once) = request.grant(at_once)?;
        let checked = match details(tools, &handle.0).map(|mut all| all.pop()) {
            Ok(Some(granted)) => as_wanted(wanted, picture, &granted, at_once).map(|()| granted.reserved),
            Ok(None) => Err("it was granted, but does not exist".into()),
            Err(error) => {
                // It was granted but cannot be verified, so it must not stay.
                self.delete(&handle)?;
                return Err(error);
            }
        };
        match checked {
            Ok(reserved) => Ok(reserved),
            Err(why) => Err(undone(what(wanted), &handle, &why, self.delete(&handle))),
        }
    }

    /// Deletes a reservation with its jobs, and waits until they are gone: until then it is shown as being deleted.
    fn delete(&self, handle: &Handle) -> Result<(), LrmsError> {
        let tools = &self.tools;
        let command = tools.command("qrdel").arg(&handle.0);
        let outcome = tools.run(&command)?;
        let what = format!("deleting reservation {handle}");
        ended(&command, &outcome, what, &["does not exist"], &["privileges", "denied"])?;
        // Otherwise it had no jobs, or did not exist.
        if !outcome.out.contains("registered") && !outcome.err.contains("registered") {
            return Ok(());
        }
        let shown = tools.command("qrstat").args(["-ar", &handle.0, "-xml"]);
        wait_until_gone(|| {
            let document = xml::read(&tools.run(&shown)?.out).unwrap_or_default();
            Ok(document.child("ar_summary").is_none())
        })
    }
}

/// Validates a request without running commands.
fn possible(wanted: &Wanted) -> Result<(), LrmsError> {
    if wanted.place.unit == Unit::Nodes {
        return Err(refused(what(wanted), NO_WHOLE_HOSTS));
    }
    if wanted.amount == 0 || wanted.interval.is_empty() {
        return Err(refused(what(wanted), "its size or duration is zero; request more"));
    }
    if let Some(account) = wanted.accounts().find(|account| !is_plain(account)) {
        return Err(refused(what(wanted), format!("{account:?} is not a valid account")));
    }
    Ok(())
}

/// The queue instances to request. Grid Engine would also grant unavailable ones; if there are any, the usable ones
/// are named explicitly.
fn queue_list(wanted: &Wanted, picture: &Picture) -> Result<Option<String>, LrmsError> {
    let place = &wanted.place;
    let (usable, unusable): (Vec<_>, Vec<_>) = picture
        .nodes
        .iter()
        .filter(|node| node.resources.contains(&place.resource))
        .partition(|node| node.usable);
    if usable.is_empty() {
        return Err(refused(what(wanted), "no queue instance is usable now; check qstat -f"));
    }
    if unusable.is_empty() && place.features.is_empty() {
        return Ok(place.partition.clone());
    }
    Ok(Some(usable.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(",")))
}

struct Request<'a> {
    tools: &'a Tools,
    environment: &'a str,
    wanted: &'a Wanted,
    queues: Option<String>,
}

impl Request<'_> {
    /// Submits the request, and again without a begin if that turns out to be past. Returns its number, and whether
    /// it began at once.
    fn grant(&self, at_once: bool) -> Result<(Handle, bool), LrmsError> {
        let command = self.command(at_once)?;
        let outcome = self.tools.run(&command)?;
        if outcome.is_success() {
            let granted = granted(&outcome.out).ok_or_else(|| unreadable(&command, outcome.said()))?;
            return Ok((granted, at_once));
        }
        if !at_once && outcome.said().contains("start time is in the past") {
            return self.grant(true);
        }
        Err(denied(self.wanted, &command, &outcome))
    }

    fn command(&self, at_once: bool) -> Result<Command, LrmsError> {
        let wanted = self.wanted;
        let date = |time| {
            calendar::compact(time)
                .ok_or_else(|| refused(what(wanted), "its time is outside of the calendar"))
        };
        let mut command = self.tools.command("qrsub");
        if !at_once {
            command = command.arg("-a").arg(date(wanted.interval.begin)?);
        }
        command = command.arg("-e").arg(date(wanted.interval.end)?);
        command = command.arg("-pe").arg(self.environment).arg(wanted.amount.to_string());
        if let Some(queues) = &self.queues {
            command = command.arg("-q").arg(queues);
        }
        Ok(command.args(["-N", &wanted.name, "-u", &wanted.joined_accounts(",")]))
    }
}

/// Parses `Your advance reservation 3 has been granted`.
fn granted(out: &str) -> Option<Handle> {
    let (_, after) = out.split_once("advance reservation ")?;
    let (id, _) = after.split_once(" has been granted")?;
    let digits = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| Handle(id.into()))
}

/// Verifies a grant; the error is the first difference.
fn as_wanted(wanted: &Wanted, picture: &Picture, granted: &Granted, at_once: bool) -> Result<(), String> {
    if granted.troubled {
        return Err("slots were granted where no job can run; check qrstat -explain".into());
    }
    let (asked, got) = (wanted.interval, granted.reserved.interval);
    // Without a begin, Grid Engine takes its own present time.
    let begins = if at_once { got.begin >= asked.begin } else { got.begin == asked.begin };
    if !begins || got.end != asked.end {
        let (begin, end) = (asked.begin, asked.end);
        return Err(format!("{} to {} was granted instead of {begin} to {end}", got.begin, got.end));
    }
    let usable = picture.nodes.iter().filter(|node| node.usable);
    differs(&granted.reserved, wanted, usable).map_or(Ok(()), Err)
}

fn denied(wanted: &Wanted, command: &Command, outcome: &Outcome) -> LrmsError {
    let LrmsError::Refused { what, said } = dialect::denied(what(wanted), command, outcome) else {
        return failed(command, outcome);
    };
    let advice = if said.contains("no suitable queues") {
        "there is no room, or a job without h_rt runs there, or the parallel environment is not in the queue's pe_list"
    } else if said.contains("must be manager") {
        "have an administrator run: qconf -au ACCOUNT arusers"
    } else if said.contains("is not known as a user") {
        "the account must exist where the commands run"
    } else if said.contains("parallel environment") {
        "check qconf -spl"
    } else {
        return refused(what, said);
    };
    refused(what, format!("{said} ({advice})"))
}

/// Describes the request in messages.
fn what(wanted: &Wanted) -> String {
    the_reservation(wanted, ["slots", "hosts"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_grant_is_read_and_nothing_else() {
        assert_eq!(granted("Your advance reservation 3 has been granted\n"), Some(Handle("3".into())));
        for text in
            ["", "Your advance reservation has been granted", "advance reservation 3; rm has been granted"]
        {
            assert_eq!(granted(text), None);
        }
    }
}
