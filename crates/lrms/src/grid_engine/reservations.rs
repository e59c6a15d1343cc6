//! Advance reservations: what `qrstat` shows of them, and making and deleting them. What was granted is read back before
//! anybody relies on it.

use super::commands::{Tools, failed, unreadable};
use super::xml::{self, Element};
use crate::batch::{Handle, Picture, Reserved, Unit, Wanted};
use crate::calendar;
use crate::command::{Command, Outcome};
use crate::error::LrmsError;
use bookahead_plan::Interval;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// So long it is waited for the jobs of a deleted reservation to end. Killing takes a few seconds; on a host that does not
/// answer it takes for ever, and nobody can do anything about it.
const DELETED_WITHIN: Duration = Duration::from_secs(10);
const DELETED_POLL: Duration = Duration::from_millis(200);

/// Why whole hosts are refused.
pub(super) const NO_WHOLE_HOSTS: &str = "Grid Engine reserves slots of queues, and jobs of other queues may run on the same \
     host, so that whole hosts cannot be promised; count this resource in cores";

/// All reservations that are not over or being deleted.
pub(super) fn list(tools: &Tools) -> Result<Vec<Reserved>, LrmsError> {
    let command = tools.command("qrstat").args(["-u", "*", "-xml"]);
    let document = tools.ask_xml(&command)?;
    let live = document.all("ar_summary").filter(|summary| summary.text_of("state") != Some("d"));
    let ids: Vec<&str> = live.filter_map(|summary| summary.text_of("id")).collect();
    let all = if ids.is_empty() { Vec::new() } else { details(tools, &ids.join(","))? };
    Ok(all.into_iter().map(|granted| granted.reserved).collect())
}

/// One reservation; None where it is not there.
pub(super) fn one(tools: &Tools, handle: &Handle) -> Result<Option<Reserved>, LrmsError> {
    Ok(details(tools, &handle.0)?.pop().map(|granted| granted.reserved))
}

/// A reservation, and whether something is wrong with its queue instances: one is down, disabled or suspended.
struct Granted {
    reserved: Reserved,
    troubled: bool,
}

/// Reservations by their numbers; those that are gone, or being deleted, are left out.
fn details(tools: &Tools, ids: &str) -> Result<Vec<Granted>, LrmsError> {
    let command = tools.command("qrstat").args(["-ar", ids, "-xml"]);
    let outcome = tools.run(&command)?;
    // Its exit code is 1 where one of them is gone, and the document says which.
    let document = match xml::read(&outcome.out) {
        Ok(document) if document.name == "qrstat" => document,
        _ if !outcome.is_success() => return Err(failed(&command, &outcome)),
        Ok(document) => return Err(unreadable(&command, format!("it begins with <{}>", document.name))),
        Err(why) => return Err(unreadable(&command, why)),
    };
    let live = document.all("ar_summary").filter(|summary| summary.text_of("state") != Some("d"));
    live.map(|summary| read(summary).map_err(|why| unreadable(&command, why))).collect()
}

fn read(summary: &Element) -> Result<Granted, String> {
    let text = |name: &str| summary.text_of(name).ok_or(format!("a reservation has no {name}"));
    let time = |name: &str| {
        let shown = text(name)?;
        calendar::iso(shown).ok_or(format!("{shown:?} is no {name}"))
    };
    let id = text("id")?;
    let mut cores = BTreeMap::new();
    for granted in summary.all("granted_slots_list").flat_map(|list| list.all("granted_slots")) {
        let (instance, slots) = (granted.attribute("queue_instance"), granted.attribute("slots"));
        let slots = slots.and_then(|slots| slots.parse::<u32>().ok());
        let (Some(instance), Some(slots)) = (instance, slots) else {
            return Err(format!("the slots of reservation {id} cannot be read"));
        };
        let sum = cores.entry(instance.to_owned()).or_insert(0_u32);
        *sum = sum.saturating_add(slots);
    }
    let allowed = summary.all("acl_list").flat_map(|list| list.all("acl"));
    let mut accounts: Vec<String> = allowed.filter_map(|acl| Some(acl.attribute("user")?.into())).collect();
    if accounts.is_empty() {
        accounts.push(text("owner")?.into());
    }
    let reserved = Reserved {
        handle: Handle(id.into()),
        name: summary.text_of("name").unwrap_or("").into(),
        interval: Interval::new(time("start_time")?, time("end_time")?),
        cores,
        spread: true,
        accounts,
    };
    // See qrstat(1): W is waiting with an error, E running with one.
    Ok(Granted { reserved, troubled: matches!(summary.text_of("state"), Some("W" | "E")) })
}

/// Makes a reservation. One that is granted otherwise than wanted is deleted again.
pub(super) fn create(
    tools: &Tools,
    environment: &str,
    wanted: &Wanted,
    picture: &Picture,
) -> Result<Handle, LrmsError> {
    possible(wanted)?;
    let queues = queue_list(wanted, picture)?;
    let request = Request { tools, environment, wanted, queues };
    let at_once = picture.clock.is_some_and(|now| wanted.interval.begin <= now);
    let (handle, at_once) = request.grant(at_once)?;
    let checked = match details(tools, &handle.0).map(|mut all| all.pop()) {
        Ok(Some(granted)) => as_wanted(wanted, picture, &granted, at_once),
        Ok(None) => Err("it was granted, and is not there".into()),
        Err(error) => {
            delete(tools, &handle)?;
            return Err(error);
        }
    };
    match checked {
        Ok(()) => Ok(handle),
        Err(why) => {
            delete(tools, &handle)?;
            Err(refused(wanted, format!("{why}; it was deleted again")))
        }
    }
}

/// What can be told without asking.
fn possible(wanted: &Wanted) -> Result<(), LrmsError> {
    if wanted.place.unit == Unit::Nodes {
        return Err(refused(wanted, NO_WHOLE_HOSTS));
    }
    if wanted.amount == 0 || wanted.interval.is_empty() {
        return Err(refused(wanted, "it is empty; ask for some slots for some time"));
    }
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if !wanted.account.bytes().all(legal) || wanted.account.is_empty() || wanted.account.starts_with('-') {
        return Err(refused(wanted, format!("{:?} cannot be an account", wanted.account)));
    }
    Ok(())
}

/// The queue instances to be asked for. Grid Engine would also take those that are down; so where some are, all others are
/// named one by one.
fn queue_list(wanted: &Wanted, picture: &Picture) -> Result<Option<String>, LrmsError> {
    let place = &wanted.place;
    let (usable, unusable): (Vec<_>, Vec<_>) = picture
        .nodes
        .iter()
        .filter(|node| node.resources.contains(&place.resource))
        .partition(|node| node.usable);
    if usable.is_empty() {
        return Err(refused(wanted, "no queue instance is usable now; see qstat -f"));
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
    /// Asks for it, and once more without a begin if that turns out to be past. Answers its number, and whether it began at
    /// once.
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
        let date =
            |time| calendar::compact(time).ok_or_else(|| refused(wanted, "it lies outside of the calendar"));
        let mut command = self.tools.command("qrsub");
        if !at_once {
            command = command.arg("-a").arg(date(wanted.interval.begin)?);
        }
        command = command.arg("-e").arg(date(wanted.interval.end)?);
        command = command.arg("-pe").arg(self.environment).arg(wanted.amount.to_string());
        if let Some(queues) = &self.queues {
            command = command.arg("-q").arg(queues);
        }
        Ok(command.args(["-N", &wanted.name, "-u", &wanted.account]))
    }
}

/// The number in `Your advance reservation 3 has been granted`.
fn granted(out: &str) -> Option<Handle> {
    let (_, after) = out.split_once("advance reservation ")?;
    let (id, _) = after.split_once(" has been granted")?;
    let digits = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| Handle(id.into()))
}

/// What is wrong with what was granted.
fn as_wanted(wanted: &Wanted, picture: &Picture, granted: &Granted, at_once: bool) -> Result<(), String> {
    let Granted { reserved: granted, troubled } = granted;
    if *troubled {
        return Err("slots were granted where no job can run; see qrstat -explain".into());
    }
    if granted.name != wanted.name {
        return Err(format!("it is called {} instead of {}", granted.name, wanted.name));
    }
    let (asked, got) = (wanted.interval, granted.interval);
    let begins = if at_once { got.begin >= asked.begin } else { got.begin == asked.begin };
    if !begins || got.end != asked.end {
        return Err(format!(
            "{} to {} was granted instead of {} to {}",
            got.begin, got.end, asked.begin, asked.end
        ));
    }
    let slots = granted.cores.values().fold(0_u32, |sum, slots| sum.saturating_add(*slots));
    if slots != wanted.amount {
        return Err(format!("{slots} slots were granted instead of {}", wanted.amount));
    }
    let fits = |instance: &String| {
        let mut nodes = picture.nodes.iter().filter(|node| node.name == *instance && node.usable);
        nodes.any(|node| node.resources.contains(&wanted.place.resource))
    };
    if let Some(instance) = granted.cores.keys().find(|instance| !fits(instance)) {
        return Err(format!("slots were granted at {instance}, which is not usable, or elsewhere"));
    }
    if !granted.accounts.contains(&wanted.account) {
        return Err(format!("it is for {} instead of {}", granted.accounts.join(", "), wanted.account));
    }
    Ok(())
}

fn denied(wanted: &Wanted, command: &Command, outcome: &Outcome) -> LrmsError {
    let said = outcome.said();
    if outcome.code.is_none() || said.is_empty() {
        return failed(command, outcome);
    }
    let advice = if said.contains("no suitable queues") {
        "there is no room, or a job without h_rt runs there, or the parallel environment is not in the queue's pe_list"
    } else if said.contains("must be manager") {
        "let an administrator run: qconf -au ACCOUNT arusers"
    } else if said.contains("is not known as a user") {
        "the account must exist where the commands run"
    } else if said.contains("parallel environment") {
        "see qconf -spl"
    } else {
        return refused(wanted, said);
    };
    refused(wanted, format!("{said} ({advice})"))
}

fn refused(wanted: &Wanted, said: impl Into<String>) -> LrmsError {
    let what = format!("{} slots on {}", wanted.amount, wanted.place.resource);
    LrmsError::Refused { what, said: said.into() }
}

/// Deletes a reservation with its jobs, and waits until they are gone.
pub(super) fn delete(tools: &Tools, handle: &Handle) -> Result<(), LrmsError> {
    let command = tools.command("qrdel").arg(&handle.0);
    let outcome = tools.run(&command)?;
    let said = format!("{}{}", outcome.out, outcome.err);
    if !outcome.is_success() {
        if said.contains("does not exist") {
            return Ok(());
        }
        if said.contains("privileges") || said.contains("denied") {
            let what = format!("deleting reservation {handle}");
            return Err(LrmsError::Refused { what, said: outcome.said().into() });
        }
        return Err(failed(&command, &outcome));
    }
    if said.contains("registered") { wait_until_gone(tools, handle) } else { Ok(()) }
}

/// Until the jobs of a reservation have ended, it is shown as being deleted.
fn wait_until_gone(tools: &Tools, handle: &Handle) -> Result<(), LrmsError> {
    let command = tools.command("qrstat").args(["-ar", &handle.0, "-xml"]);
    let began = Instant::now();
    while began.elapsed() < DELETED_WITHIN {
        let document = xml::read(&tools.run(&command)?.out).unwrap_or_default();
        if document.child("ar_summary").is_none() {
            break;
        }
        std::thread::sleep(DELETED_POLL);
    }
    Ok(())
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
