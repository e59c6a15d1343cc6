//! Advance reservations from `qrstat`.

use crate::batch::{Handle, Reserved, add_cores};
use crate::command::Command;
use crate::dialect::calendar;
use crate::dialect::xml::{self, Element};
use crate::dialect::{Tools, failed, unreadable};
use crate::error::LrmsError;
use bookahead_plan::Interval;
use std::collections::BTreeMap;

/// Lists all reservations; parsed by [`list`].
pub(super) fn listing(tools: &Tools) -> Command {
    tools.command("qrstat").args(["-u", "*", "-xml"])
}

/// All reservations of a listing that are not over or being deleted. Their slots are only in the details.
pub(super) fn list(tools: &Tools, listed: &Element) -> Result<Vec<Reserved>, LrmsError> {
    let ids: Vec<&str> = live(listed).filter_map(|summary| summary.text_of("id")).collect();
    let all = if ids.is_empty() { Vec::new() } else { details(tools, &ids.join(","))? };
    Ok(all.into_iter().map(|granted| granted.reserved).collect())
}

fn live(document: &Element) -> impl Iterator<Item = &Element> {
    document.all("ar_summary").filter(|summary| summary.text_of("state") != Some("d"))
}

/// One reservation; None if it does not exist.
pub(super) fn one(tools: &Tools, handle: &Handle) -> Result<Option<Reserved>, LrmsError> {
    Ok(details(tools, &handle.0)?.pop().map(|granted| granted.reserved))
}

/// A reservation, and whether one of its queue instances is down, disabled or suspended.
pub(super) struct Granted {
    pub(super) reserved: Reserved,
    pub(super) troubled: bool,
}

/// Reservations by their numbers, except for those that are gone or being deleted.
pub(super) fn details(tools: &Tools, ids: &str) -> Result<Vec<Granted>, LrmsError> {
    let command = tools.command("qrstat").args(["-ar", ids, "-xml"]);
    let outcome = tools.run(&command)?;
    // The exit code is 1 if one of them is gone, and the document says which.
    let document = match xml::read(&outcome.out) {
        Ok(document) if document.name == "qrstat" => document,
        _ if !outcome.is_success() => return Err(failed(&command, &outcome)),
        Ok(document) => return Err(unreadable(&command, format!("it begins with <{}>", document.name))),
        Err(why) => return Err(unreadable(&command, why)),
    };
    live(&document).map(|summary| read(summary).map_err(|why| unreadable(&command, why))).collect()
}

fn read(summary: &Element) -> Result<Granted, String> {
    let text = |name: &str| summary.text_of(name).ok_or(format!("a reservation has no {name}"));
    let time = |name: &str| {
        let shown = text(name)?;
        calendar::iso(shown).ok_or(format!("{shown:?} is not a valid {name}"))
    };
    let id = text("id")?;
    let mut cores = BTreeMap::new();
    for granted in summary.all("granted_slots_list").flat_map(|list| list.all("granted_slots")) {
        let (instance, slots) = (granted.attribute("queue_instance"), granted.attribute("slots"));
        let slots = slots.and_then(|slots| slots.parse::<u32>().ok());
        let (Some(instance), Some(slots)) = (instance, slots) else {
            // It must not be left out: a missing reservation would count as deleted.
            return Err(format!("the slots of reservation {id} cannot be parsed"));
        };
        add_cores(&mut cores, instance, slots);
    }
    let allowed = summary.all("acl_list").flat_map(|list| list.all("acl"));
    let mut accounts: Vec<String> = allowed.filter_map(|acl| Some(acl.attribute("user")?.into())).collect();
    // Without a list of users, only the owner may use it.
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
        maintenance: false,
    };
    // See qrstat(1): W is waiting with an error, E running with one.
    Ok(Granted { reserved, troubled: matches!(summary.text_of("state"), Some("W" | "E")) })
}
