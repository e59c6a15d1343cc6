//! Reservations from `pbs_rstat -F`: for each a line `Resv ID: R5.server`, lines `name = value`, and an empty line. A
//! reservation that lost its vnodes may lack `resv_nodes`, or have bytes of freed memory there, including line feeds:
//! its readable part counts, and it exists. An unreadable reservation is never taken for a deleted one.

use super::nodes::Vnodes;
use super::tres;
use crate::batch::{Handle, Reserved, Unreadable, total};
use crate::command::Command;
use crate::dialect::calendar;
use crate::dialect::{Tools, failed, unreadable};
use crate::error::LrmsError;
use bookahead_plan::{Interval, Seconds, Time};
use bookahead_protocol::Tres;
use std::collections::BTreeMap;

/// A reservation with the data that only PBS has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) reserved: Reserved,
    /// Its queue, into which its jobs are submitted.
    pub(super) queue: String,
    pub(super) state: State,
    /// The request, such as `4:ncpus=1`.
    pub(super) select: String,
    /// Its placement, such as `scatter:excl`.
    pub(super) place: String,
    /// Resources beside cores.
    pub(super) tres: Tres,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Confirmed by the scheduler and without problems.
    Holds,
    /// Confirmed, but it lost vnodes or is being altered.
    Doubtful,
    /// Not decided yet.
    Asked,
    /// Deleted or over, with jobs that are still ending.
    Leaving,
    Gone,
}

/// How long PBS occupies the cores of a deleted reservation in which a job runs. It checks after 30 seconds whether
/// the jobs are gone (observed with OpenPBS 23.06) and takes a moment more. After its own end it occupies none,
/// though it is listed.
pub(super) const FREED_WITHIN: Seconds = Seconds(32);

/// All reservations: existing ones, leaving ones (with an empty name, until their cores are free), and unreadable
/// ones.
pub(super) fn list(
    tools: &Tools,
    vnodes: &Vnodes,
    clock: Time,
) -> Result<(Vec<Known>, Vec<Unreadable>), LrmsError> {
    let (mut all, odd) = shown(tools, &tools.command("pbs_rstat").arg("-F"), vnodes)?;
    for known in all.iter_mut().filter(|known| known.state == State::Leaving) {
        let Reserved { name, interval, accounts, .. } = &mut known.reserved;
        interval.end = interval.end.min(clock + FREED_WITHIN);
        interval.begin = interval.begin.min(interval.end);
        name.clear();
        accounts.clear();
    }
    Ok((all, odd))
}

/// One reservation; None if it does not exist or is leaving.
pub(super) fn one(tools: &Tools, handle: &Handle, vnodes: &Vnodes) -> Result<Option<Known>, LrmsError> {
    let command = tools.command("pbs_rstat").args(["-F", &handle.0]);
    let (all, odd) = shown(tools, &command, vnodes)?;
    if odd
        .iter()
        .any(|odd| matches!(odd, Unreadable::Reservation { handle: other, .. } if same(other, handle)))
    {
        return Err(unreadable(&command, format!("the times or the state of {handle} cannot be parsed")));
    }
    let is_there = |known: &Known| known.state != State::Leaving && same(&known.reserved.handle, handle);
    Ok(all.into_iter().find(is_there))
}

/// Reservations that are leaving and may occupy cores in this interval. One that is over is listed while its jobs are
/// ending.
pub(super) fn leaving(tools: &Tools, vnodes: &Vnodes, during: Interval) -> Result<Vec<Handle>, LrmsError> {
    let (all, _) = shown(tools, &tools.command("pbs_rstat").arg("-F"), vnodes)?;
    let meets = |other: Interval| other.begin < during.end && during.begin < other.end + FREED_WITHIN;
    let leaving = all.into_iter().filter(|known| known.state == State::Leaving);
    Ok(leaving.map(|known| known.reserved).filter(|one| meets(one.interval)).map(|one| one.handle).collect())
}

/// `R5` and `R5.server` are the same.
fn same(one: &Handle, other: &Handle) -> bool {
    let (one, other) = (&one.0, &other.0);
    let short = |id: &str| id.split('.').next().map(str::to_owned);
    one == other || (short(one) == short(other) && !(one.contains('.') && other.contains('.')))
}

fn shown(
    tools: &Tools,
    command: &Command,
    vnodes: &Vnodes,
) -> Result<(Vec<Known>, Vec<Unreadable>), LrmsError> {
    let outcome = tools.run(command)?;
    // The exit code is 0 even if there is no such reservation.
    if outcome.err.contains("Unknown Reservation") {
        return Ok((Vec::new(), Vec::new()));
    }
    if !outcome.is_success() {
        return Err(failed(command, &outcome));
    }
    read(&outcome.out, vnodes).ok_or_else(|| unreadable(command, "it lists no reservations"))
}

/// None if there is output without any reservation.
fn read(out: &str, vnodes: &Vnodes) -> Option<(Vec<Known>, Vec<Unreadable>)> {
    let mut blocks: Vec<(&str, BTreeMap<&str, &str>)> = Vec::new();
    for line in out.lines() {
        if let Some(id) = line.strip_prefix("Resv ID:") {
            blocks.push((id.trim(), BTreeMap::new()));
        } else if let (Some((name, value)), Some((_, values))) = (line.split_once(" ="), blocks.last_mut()) {
            values.entry(name.trim()).or_insert(value.trim());
        }
        // Other lines continue a value that contains a line feed.
    }
    if blocks.is_empty() && !out.trim().is_empty() {
        return None;
    }
    let (mut all, mut odd) = (Vec::new(), Vec::new());
    for (id, values) in blocks {
        match known(id, &values, vnodes) {
            Some(Known { state: State::Gone, .. }) => {}
            Some(known) => all.push(known),
            None => {
                let name = values.get("Reserve_Name").copied().unwrap_or_default().into();
                odd.push(Unreadable::Reservation { handle: Handle(id.into()), name });
            }
        }
    }
    Some((all, odd))
}

fn state(text: &str) -> Option<State> {
    Some(match text.strip_prefix("RESV_")? {
        "CONFIRMED" | "RUNNING" | "WAIT" | "TIME_TO_RUN" => State::Holds,
        "UNCONFIRMED" | "NONE" => State::Asked,
        "BEING_DELETED" | "DELETING_JOBS" => State::Leaving,
        "FINISHED" | "DELETED" => State::Gone,
        _ => State::Doubtful,
    })
}

/// None if its state or times cannot be parsed.
fn known(id: &str, values: &BTreeMap<&str, &str>, vnodes: &Vnodes) -> Option<Known> {
    let text = |name: &str| values.get(name).copied().unwrap_or("");
    let time = |name: &str| calendar::ctime(text(name));
    let state = state(text("reserve_state"))?;
    let (place, select) = (text("Resource_List.place").to_owned(), text("Resource_List.select").to_owned());
    let users = text("Authorized_Users").split(',').map(str::trim).filter(|user| !user.starts_with('-'));
    let account = |user: &str| user.trim_start_matches('+').split('@').next().unwrap_or("").to_owned();
    let mut accounts: Vec<String> = users.map(account).filter(|account| !account.is_empty()).collect();
    if accounts.is_empty() {
        accounts.push(account(text("Reserve_Owner")));
    }
    let told = vnodes.taken(text("resv_nodes"), &place).filter(|cores| !cores.is_empty());
    let (is_told, mut cores) = (told.is_some(), told.unwrap_or_default());
    let known = cores.len();
    if state == State::Doubtful || (state == State::Holds && !is_told) {
        add_untold(&mut cores, &select, &place);
    }
    let reserved = Reserved {
        handle: Handle(id.into()),
        name: text("Reserve_Name").into(),
        interval: Interval::new(time("reserve_start")?, time("reserve_end")?),
        spread: cores.len() == known,
        cores,
        accounts,
        // R is an advance reservation, S a standing one, M one for maintenance.
        maintenance: id.starts_with('M'),
    };
    let short = id.split('.').next().unwrap_or(id);
    let queue = if text("queue").is_empty() { short } else { text("queue") };
    let tres = tres::of_chunks(text("resv_nodes"));
    Some(Known { reserved, queue: queue.into(), state, select, place, tres })
}

/// Promised capacity without a readable vnode counts as being on an unavailable one: PBS provides it as soon as it
/// finds another. `select` tells how much was promised.
fn add_untold(cores: &mut BTreeMap<String, u32>, select: &str, place: &str) {
    // No select has more chunks, and a damaged number must not exhaust the memory.
    const MOST_CHUNKS: u32 = 100_000;
    let Some((chunks, each)) = asked(select) else { return };
    let each = each.max(1);
    let is_exclusive = place.contains("excl");
    let there = if is_exclusive { crate::batch::count(cores.len()) } else { total(cores) / each };
    for number in there..chunks.min(MOST_CHUNKS) {
        cores.insert(format!("?{number}"), each);
    }
}

/// Number of chunks and cores of each in `4:ncpus=1:fast=True`.
pub(super) fn asked(select: &str) -> Option<(u32, u32)> {
    let mut words = select.split(':');
    let chunks = words.next()?.parse().ok()?;
    Some((chunks, words.find_map(|word| word.strip_prefix("ncpus=")?.parse().ok()).unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::damage::{loses_only_one, survives};
    use proptest::prelude::*;

    #[test]
    fn short_and_long_ids_are_the_same_unless_servers_differ() {
        let same = |one: &str, other: &str| same(&Handle(one.into()), &Handle(other.into()));
        assert!(same("R5", "R5.pbs1") && same("R5.pbs1", "R5.pbs1") && same("R5.pbs1", "R5"));
        assert!(!same("R5.pbs1", "R5.pbs2") && !same("R5", "R55.pbs1"));
    }

    #[test]
    fn what_is_on_no_readable_vnode_counts_as_away() {
        let filled = |told: &[(&str, u32)], select: &str, place: &str| {
            let mut cores = told.iter().map(|(name, cores)| ((*name).to_owned(), *cores)).collect();
            add_untold(&mut cores, select, place);
            (cores.len(), total(&cores))
        };
        assert_eq!(filled(&[], "4:ncpus=1", "free"), (4, 4));
        assert_eq!(filled(&[("n1", 3)], "4:ncpus=1", "free"), (2, 4));
        assert_eq!(filled(&[("n1", 16)], "2:ncpus=8:fast=True", "scatter:excl"), (2, 24));
        assert_eq!(filled(&[], "odd", "free"), (0, 0));
    }

    #[test]
    fn damage_to_one_line_loses_no_other_reservation() {
        let text = include_str!("../../tests/it/pbs/fixtures/pbs_rstat.txt");
        survives(text, |text| drop(read(text, &Vnodes::default())));
        loses_only_one(text, |text| {
            let (all, odd) = read(text, &Vnodes::default()).unwrap_or_default();
            let odd = odd.into_iter().filter_map(|odd| match odd {
                Unreadable::Reservation { handle, .. } => Some(handle.0),
                _ => None,
            });
            all.into_iter().map(|known| known.reserved.handle.0).chain(odd).collect()
        });
    }

    proptest! {
        #![proptest_config(bookahead_tests::cases::cases(256))]

        #[test]
        fn no_text_makes_it_panic(text in "(Resv ID:|reserve_state|resv_nodes|reserve_start| = |\n|[ -~\u{e4}]{0,6}){0,20}") {
            let _ = read(&text, &Vnodes::default());
        }
    }
}
