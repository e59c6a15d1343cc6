//! Reservations as `pbs_rstat -F` shows them: for each a line `Resv ID: R5.server`, lines `name = value`, and an empty line.

use super::nodes::Vnodes;
use crate::batch::{Handle, Reserved};
use crate::command::Command;
use crate::dialect::calendar;
use crate::dialect::{Tools, failed, unreadable};
use crate::error::LrmsError;
use bookahead_plan::Interval;
use std::collections::BTreeMap;

/// A reservation, and what only PBS knows of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) reserved: Reserved,
    /// Its queue, into which its jobs are submitted.
    pub(super) queue: String,
    /// Whether the scheduler has promised it, and it is not in trouble.
    pub(super) confirmed: bool,
    /// Whether nobody else may use its vnodes.
    pub(super) exclusive: bool,
    /// What was asked for, such as `4:ncpus=1`.
    pub(super) select: String,
}

/// States in which a reservation is as good as gone.
const OVER: [&str; 4] = ["RESV_FINISHED", "RESV_BEING_DELETED", "RESV_DELETED", "RESV_DELETING_JOBS"];
/// States in which it holds what it was promised.
const HOLDS: [&str; 4] = ["RESV_CONFIRMED", "RESV_RUNNING", "RESV_WAIT", "RESV_TIME_TO_RUN"];

/// All reservations that are not over.
pub(super) fn list(tools: &Tools, vnodes: &Vnodes) -> Result<Vec<Known>, LrmsError> {
    shown(tools, &tools.command("pbs_rstat").arg("-F"), vnodes)
}

/// One reservation; None where it is not there.
pub(super) fn one(tools: &Tools, handle: &Handle, vnodes: &Vnodes) -> Result<Option<Known>, LrmsError> {
    let all = shown(tools, &tools.command("pbs_rstat").args(["-F", &handle.0]), vnodes)?;
    Ok(all.into_iter().find(|known| same(&known.reserved.handle, handle)))
}

/// Whether it is not there any more, not even as one that is being deleted.
pub(super) fn is_gone(tools: &Tools, handle: &Handle) -> Result<bool, LrmsError> {
    let outcome = tools.run(&tools.command("pbs_rstat").args(["-F", &handle.0]))?;
    Ok(!outcome.out.contains("Resv ID:"))
}

/// `R5` and `R5.server` are one.
fn same(one: &Handle, other: &Handle) -> bool {
    let (one, other) = (&one.0, &other.0);
    let short = |id: &str| id.split('.').next().map(str::to_owned);
    one == other || (short(one) == short(other) && !(one.contains('.') && other.contains('.')))
}

fn shown(tools: &Tools, command: &Command, vnodes: &Vnodes) -> Result<Vec<Known>, LrmsError> {
    let outcome = tools.run(command)?;
    // Its exit code is 0 also where there is no such reservation.
    if outcome.err.contains("Unknown Reservation") {
        return Ok(Vec::new());
    }
    if !outcome.is_success() {
        return Err(failed(command, &outcome));
    }
    read(&outcome.out, vnodes).map_err(|why| unreadable(command, why))
}

fn read(out: &str, vnodes: &Vnodes) -> Result<Vec<Known>, String> {
    let mut all = Vec::new();
    let mut blocks: Vec<(&str, BTreeMap<&str, &str>)> = Vec::new();
    for line in out.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(id) = line.strip_prefix("Resv ID:") {
            blocks.push((id.trim(), BTreeMap::new()));
        } else if let Some((name, value)) = line.split_once(" =") {
            let Some((_, values)) = blocks.last_mut() else {
                return Err(format!("{line:?} belongs to nothing"));
            };
            values.entry(name.trim()).or_insert(value.trim());
        } else {
            return Err(format!("{line:?} is no attribute of a reservation"));
        }
    }
    for (id, values) in blocks {
        if !values.get("reserve_state").is_some_and(|state| OVER.contains(state)) {
            all.push(known(id, &values, vnodes)?);
        }
    }
    Ok(all)
}

fn known(id: &str, values: &BTreeMap<&str, &str>, vnodes: &Vnodes) -> Result<Known, String> {
    let text = |name: &str| values.get(name).copied().unwrap_or("");
    let time =
        |name: &str| calendar::ctime(text(name)).ok_or(format!("{:?} is no {name} of {id}", text(name)));
    let place = text("Resource_List.place");
    let exclusive = place.split(':').any(|word| matches!(word, "excl" | "exclhost"));
    let users = text("Authorized_Users").split(',').map(str::trim).filter(|user| !user.starts_with('-'));
    let account = |user: &str| user.trim_start_matches('+').split('@').next().unwrap_or("").to_owned();
    let mut accounts: Vec<String> = users.map(account).filter(|account| !account.is_empty()).collect();
    if accounts.is_empty() {
        accounts.push(account(text("Reserve_Owner")));
    }
    let reserved = Reserved {
        handle: Handle(id.into()),
        name: text("Reserve_Name").into(),
        interval: Interval::new(time("reserve_start")?, time("reserve_end")?),
        cores: vnodes.taken(text("resv_nodes"), exclusive),
        spread: true,
        accounts,
    };
    let short = id.split('.').next().unwrap_or(id);
    let queue = if text("queue").is_empty() { short } else { text("queue") };
    let state = text("reserve_state");
    let select = text("Resource_List.select").to_owned();
    Ok(Known { reserved, queue: queue.into(), confirmed: HOLDS.contains(&state), exclusive, select })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_and_long_ids_are_the_same_unless_servers_differ() {
        let same = |one: &str, other: &str| same(&Handle(one.into()), &Handle(other.into()));
        assert!(same("R5", "R5.pbs1") && same("R5.pbs1", "R5.pbs1") && same("R5.pbs1", "R5"));
        assert!(!same("R5.pbs1", "R5.pbs2") && !same("R5", "R55.pbs1"));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: proptest::test_runner::RngSeed::Fixed(2000),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn no_text_makes_it_panic(text in "(Resv ID:|reserve_state|resv_nodes|reserve_start| = |\n|[ -~\u{e4}]{0,6}){0,20}") {
            let _ = read(&text, &Vnodes::default());
        }
    }
}
