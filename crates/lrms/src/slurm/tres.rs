//! Slurm's trackable resources (TRES) beside cores and nodes, by Slurm's own names: `gres/gpu:a100`, `mem` in MiB,
//! `license/qpu`; and features of nodes as `feature/NAME`.
//!
//! A reservation has licences by number (`Licenses=qpu:1`), in all versions; Slurm checks them against other
//! reservations, not against running jobs. It has GPUs and memory only with whole nodes: 22.05 refuses
//! `TRES=gres/gpu=2` ("couldn't identify configured TRES") and `TRES=mem=100` ("not supported with reservations").
//! Nodes are therefore chosen so that they have enough of everything together.

use super::formats::{field, list, number};
use super::json::SlurmJob;
use super::reservations::Booked;
use crate::batch::{Handle, Node, Picture, Share, TresJob, Unit, Wanted};
use crate::dialect::is_plain;
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::{Name, Tres};
use std::cmp::Reverse;
use std::collections::BTreeMap;

const LICENSE: &str = "license/";

/// Name of a licence in Slurm, if it is one.
fn license(name: &Name) -> Option<&str> {
    name.as_str().strip_prefix(LICENSE)
}

/// The things of a node, from its line: its memory, its GRES both by name and by name and type, and one of each
/// feature, so that `feature/ib=2` on two nodes is what a constraint is to a job.
pub(super) fn of_node(line: &str) -> Tres {
    let mut tres: BTreeMap<Name, Capacity> = BTreeMap::new();
    let mut add = |name: String, count: u32| {
        let sum = tres.entry(name.into()).or_default();
        *sum = Capacity(sum.0.saturating_add(count));
    };
    for (name, kind, count) in field(line, "Gres").map(gres).unwrap_or_default() {
        if let Some(kind) = kind {
            add(format!("gres/{name}:{kind}"), count);
        }
        add(format!("gres/{name}"), count);
    }
    number(line, "RealMemory").into_iter().for_each(|mebibytes| add("mem".into(), mebibytes));
    list(line, "ActiveFeatures").into_iter().for_each(|feature| add(format!("feature/{feature}"), 1));
    Tres(tres.into_iter().filter(|(_, amount)| *amount > Capacity::ZERO).collect())
}

/// `gpu:a100:4(S:0-1),shard:8`: name, type and count. Unreadable ones are left out: what is not seen is not promised.
fn gres(text: &str) -> Vec<(&str, Option<&str>, u32)> {
    // Sockets in parentheses may contain commas.
    let mut depth = 0_u32;
    let parts = text.split(|letter: char| {
        depth = match letter {
            '(' => depth + 1,
            ')' => depth.saturating_sub(1),
            _ => depth,
        };
        letter == ',' && depth == 0
    });
    let read = |part: &'_ str| -> Option<(usize, usize, u32)> {
        let plain = part.split('(').next()?;
        let (before, count) = plain.rsplit_once(':')?;
        Some((before.len(), before.find(':').unwrap_or(before.len()), count.parse().ok()?))
    };
    let found = parts.filter_map(|part| {
        let (before, name, count) = read(part)?;
        Some((part.get(..name)?, part.get(name + 1..before), count))
    });
    found.collect()
}

/// `qpu:2,matlab`: licences with their counts.
pub(super) fn licenses(text: &str) -> Tres {
    let read = |part: &str| {
        let (name, count) = part.split_once(':').unwrap_or((part, "1"));
        Some((format!("{LICENSE}{name}"), count.parse().ok().filter(|count: &u32| *count > 0)?))
    };
    text.split(',').filter(|part| !part.is_empty()).filter_map(read).collect()
}

/// The licences of running jobs, on any node.
pub(super) fn of_jobs(jobs: &[SlurmJob]) -> Vec<TresJob> {
    let used = jobs.iter().filter(|job| job.job_state.has("RUNNING") && !job.licenses.text().is_empty());
    let used = used.map(|job| {
        let limit = job.time_limit.0.map(|minutes| Seconds(minutes.saturating_mul(60)));
        let reserved = job.resv_name.text().split(',').filter(|name| !name.is_empty());
        TresJob {
            tres: licenses(job.licenses.text()),
            ends: job.start_time.0.map(Time).zip(limit).map(|(start, limit)| start + limit),
            reservations: reserved.map(|name| Handle(name.to_owned())).collect(),
        }
    });
    used.collect()
}

/// The licences among things.
pub(super) fn licenses_of(tres: &Tres) -> Tres {
    let all = tres.iter().filter(|(name, _)| license(name).is_some());
    Tres(all.map(|(name, amount)| (name.clone(), amount)).collect())
}

/// The word for licences in a command that creates or changes a reservation. Without any it removes them.
pub(super) fn word(tres: &Tres) -> String {
    let licenses = tres.iter().filter_map(|(name, amount)| Some((license(name)?, amount.0)));
    let words: Vec<String> = licenses.map(|(name, amount)| format!("{name}:{amount}")).collect();
    format!("Licenses={}", words.join(","))
}

/// Why Slurm cannot reserve what is wanted on any nodes; None if it can.
pub(super) fn impossible(wanted: &Wanted) -> Option<String> {
    let odd = |(name, _): &(&Name, Capacity)| license(name).is_some_and(|name| !is_plain(name));
    if let Some((name, _)) = wanted.tres.iter().find(odd) {
        return Some(format!("{name} is not the name of a licence; use letters, digits, `.`, `_` and `-`"));
    }
    let (name, _) = on_nodes(&wanted.tres).find(|_| wanted.place.unit == Unit::Cores)?;
    Some(format!("Slurm reserves {name} only with whole nodes; count {} in nodes", wanted.place.resource))
}

/// The things that come with nodes.
fn on_nodes(tres: &Tres) -> impl Iterator<Item = (&Name, Capacity)> {
    tres.iter().filter(|(name, _)| license(name).is_none())
}

/// This many of the free nodes that have all wanted things together, in Slurm's order; the error names what is short.
/// Nodes with GRES that are not wanted are taken last.
pub(super) fn pick(
    free: Vec<(&Node, u32)>,
    wanted: &Wanted,
    picture: &Picture,
) -> Result<Vec<Share>, String> {
    let mut short: BTreeMap<&Name, u32> =
        on_nodes(&wanted.tres).map(|(name, amount)| (name, amount.0)).collect();
    let none = Tres::default();
    let of = |node: &Node| picture.tres.nodes.get(&node.name).unwrap_or(&none);
    let mut left: Vec<(usize, (&Node, u32))> = free.into_iter().enumerate().collect();
    let mut chosen = Vec::new();
    let amount = wanted.amount as usize;
    let wasted = |node: &Node| -> u64 {
        let gres = of(node).iter().filter(|(name, _)| name.as_str().starts_with("gres/"));
        gres.filter(|(name, _)| wanted.tres.of(name) == Capacity::ZERO).map(|(_, all)| u64::from(all.0)).sum()
    };
    while chosen.len() < amount && short.values().any(|short| *short > 0) {
        // In thousandths of each wanted amount, so that things with large and small numbers count alike.
        let helps = |node: &Node| -> u64 {
            let share = |(name, short): (&&Name, &u32)| {
                let (has, all) = (of(node).of(name).0, wanted.tres.of(name).0.max(1));
                u64::from(has.min(*short)) * 1_000 / u64::from(all)
            };
            short.iter().map(share).sum()
        };
        let rank = |(order, (node, _)): &(usize, (&Node, u32))| (Reverse(helps(node)), wasted(node), *order);
        let Some((at, _)) = left.iter().enumerate().min_by_key(|(_, one)| rank(one)) else { break };
        let (order, (node, cores)) = left.remove(at);
        for (name, short) in &mut short {
            *short = short.saturating_sub(of(node).of(name).0);
        }
        chosen.push((order, (node, cores)));
    }
    // Nothing is short any more: the rest by what they would waste.
    left.sort_by_key(|(order, (node, _))| (wasted(node), *order));
    chosen.extend(left.into_iter().take(amount - chosen.len()));
    if let Some((name, short)) = short.into_iter().find(|(_, short)| *short > 0) {
        let all = wanted.tres.of(name).0;
        return Err(format!(
            "the free nodes of {} have only {} of {name} on {amount} nodes at that time, and {all} are wanted; choose \
             another time, more nodes, or less of {name}",
            wanted.place.resource,
            all - short
        ));
    }
    chosen.sort_by_key(|(order, _)| *order);
    Ok(chosen.into_iter().map(|(_, (node, cores))| (node.name.clone(), cores)).collect())
}

impl Booked {
    /// The first difference in licences and things of nodes; None if there is none.
    pub(super) fn differs_in_tres(&self, wanted: &Wanted, picture: &Picture) -> Option<String> {
        if self.differs_in_licenses(wanted) {
            let told = |tres: &Tres| if tres.is_empty() { "no licences".into() } else { tres.to_string() };
            let should = licenses_of(&wanted.tres);
            return Some(format!("it has {}, and should have {}", told(&self.licenses), told(&should)));
        }
        let has = |name: &Name| picture.tres.on_nodes(name, self.nodes.iter().map(String::as_str));
        let (name, all) = on_nodes(&wanted.tres).find(|(name, all)| has(name) < *all)?;
        Some(format!("its nodes have {} of {name} instead of {all}", has(name)))
    }

    pub(super) fn differs_in_licenses(&self, wanted: &Wanted) -> bool {
        self.licenses != licenses_of(&wanted.tres)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gres_memory_and_features_of_a_node_are_read() {
        let line =
            "NodeName=n1 ActiveFeatures=ib,fast Gres=gpu:a100:4(S:0,1),gpu:v100:2,shard:8 RealMemory=16000";
        let gres = [("gres/gpu", 6), ("gres/gpu:a100", 4), ("gres/gpu:v100", 2), ("gres/shard", 8)];
        let others = [("feature/fast", 1), ("feature/ib", 1), ("mem", 16_000)];
        assert_eq!(of_node(line), gres.into_iter().chain(others).collect());
        assert_eq!(of_node("NodeName=n1 Gres=(null) RealMemory=1"), [("mem", 1)].into_iter().collect());
        for odd in ["Gres=gpu", "Gres=gpu:a100", "Gres=:::", "Gres=gpu:(", "Gres=gpu:-1", "Gres=,,", ""] {
            assert!(of_node(&format!("NodeName=n1 {odd} x=1")).is_empty(), "{odd}");
        }
    }

    #[test]
    fn licences_are_read_with_and_without_counts() {
        let read = [("license/matlab", 1), ("license/qpu", 2)].into_iter().collect::<Tres>();
        assert_eq!(licenses("qpu:2,matlab"), read);
        assert!(licenses("").is_empty() && licenses("qpu:x,qpu:0").is_empty());
    }
}
