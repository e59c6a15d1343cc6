//! Vnodes as `pbsnodes -av -F json` shows them, which place they belong to, and what is taken of them.

use super::{ask_json, count, number, text};
use crate::batch::{Node, Place};
use crate::dialect::{Tools, unreadable};
use crate::error::LrmsError;
use bookahead_plan::Time;
use bookahead_protocol::Name;
use serde_json::Value;
use std::collections::BTreeMap;

/// States of a vnode in which jobs run or can run on it, see pbs_node_attributes(7B); all others are trouble.
const USABLE: [&str; 8] = [
    "free",
    "busy",
    "job-busy",
    "job-exclusive",
    "job-sharing",
    "resv-exclusive",
    "resv_exclusive",
    "<various>",
];

/// All vnodes that belong to a place.
#[derive(Debug, Clone, Default)]
pub(super) struct Vnodes(BTreeMap<String, Node>);

impl Vnodes {
    /// The server's time, and its vnodes.
    pub(super) fn ask(tools: &Tools, places: &[Place]) -> Result<(Option<Time>, Vnodes), LrmsError> {
        let command = tools.command("pbsnodes").args(["-av", "-F", "json"]);
        let document = ask_json(tools, &command)?;
        let clock = number(&document["timestamp"]).map(Time);
        let Some(listed) = document["nodes"].as_object() else {
            return Err(unreadable(&command, "it has no nodes"));
        };
        let nodes = listed.iter().filter_map(|(name, vnode)| {
            let resources: Vec<Name> = places
                .iter()
                .filter(|place| belongs(place, vnode, listed.values()))
                .map(|place| place.resource.clone())
                .collect();
            let cores = count(&vnode["resources_available"]["ncpus"]);
            let usable = usable(text(&vnode["state"]).as_deref().unwrap_or(""));
            let node = Node { name: name.clone(), cores, usable, resources };
            (cores > 0 && !node.resources.is_empty()).then(|| (name.clone(), node))
        });
        Ok((clock, Vnodes(nodes.collect())))
    }

    /// Those that a picture shows.
    pub(super) fn of(nodes: &[Node]) -> Vnodes {
        Vnodes(nodes.iter().map(|node| (node.name.clone(), node.clone())).collect())
    }

    pub(super) fn into_nodes(self) -> Vec<Node> {
        self.0.into_values().collect()
    }

    pub(super) fn resources<'a>(&self, names: impl IntoIterator<Item = &'a String>) -> Vec<Name> {
        let mut all: Vec<Name> = names
            .into_iter()
            .filter_map(|name| self.0.get(name))
            .flat_map(|node| node.resources.clone())
            .collect();
        all.sort();
        all.dedup();
        all
    }

    /// What `(n1:ncpus=4:mem=1gb)+(n2:ncpus=2+n3:ncpus=1)` takes of each vnode. Whoever has a vnode for himself takes all
    /// of it.
    pub(super) fn taken(&self, chunks: &str, exclusive: bool) -> BTreeMap<String, u32> {
        let mut taken: BTreeMap<String, u32> = BTreeMap::new();
        for part in chunks.split('+') {
            let mut words = part.trim_matches(['(', ')', ' ']).split(':');
            let Some(name) = words.next().filter(|name| !name.is_empty()) else { continue };
            let cores = words.find_map(|word| word.strip_prefix("ncpus=")?.parse().ok()).unwrap_or(0);
            let sum = taken.entry(name.to_owned()).or_default();
            *sum = sum.saturating_add(cores);
            if let Some(node) = self.0.get(name).filter(|_| exclusive) {
                *sum = node.cores;
            }
        }
        taken
    }
}

/// Whether all words of a vnode's state are such that jobs run there.
fn usable(state: &str) -> bool {
    state.split(',').all(|word| USABLE.contains(&word.trim()))
}

/// Vnodes that cannot be reserved belong to no place. A queue that has vnodes of its own has those alone; all other queues
/// share the vnodes that belong to none.
fn belongs<'a>(place: &Place, vnode: &Value, all: impl Iterator<Item = &'a Value>) -> bool {
    let of = |vnode: &Value| text(&vnode["queue"]);
    let owner = place.partition.clone().filter(|queue| {
        let mut all = all;
        all.any(|vnode| of(vnode).as_ref() == Some(queue))
    });
    let reservable = text(&vnode["resv_enable"]).is_none_or(|enabled| !enabled.eq_ignore_ascii_case("false"));
    reservable && of(vnode) == owner && place.features.iter().all(|feature| has(vnode, feature))
}

/// Whether a vnode has `gpu=a100` (one of a list is enough), or `fast` as something that is true.
fn has(vnode: &Value, feature: &str) -> bool {
    let (name, wanted) = feature.split_once('=').unwrap_or((feature, "True"));
    let value = text(&vnode["resources_available"][name]).unwrap_or_default();
    value.split(',').any(|value| value.trim().eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vnodes() -> Vnodes {
        let node =
            |name: &str| Node { name: name.into(), cores: 8, usable: true, resources: vec!["cpu".into()] };
        Vnodes(["n1", "n2"].map(|name| (name.to_owned(), node(name))).into())
    }

    #[test]
    fn chunks_are_added_up_for_each_vnode() {
        let taken = |chunks, exclusive| vnodes().taken(chunks, exclusive).into_iter().collect::<Vec<_>>();
        let pairs =
            |pairs: &[(&str, u32)]| pairs.iter().map(|(name, n)| (name.to_string(), *n)).collect::<Vec<_>>();
        assert_eq!(taken("(n1:ncpus=4)+(n2:mem=1gb:ncpus=2)", false), pairs(&[("n1", 4), ("n2", 2)]));
        assert_eq!(taken("(n1:ncpus=1)+(n1:ncpus=1+n2:ncpus=3)", false), pairs(&[("n1", 2), ("n2", 3)]));
        assert_eq!(taken("(n1:ncpus=1)+(n2)", true), pairs(&[("n1", 8), ("n2", 8)]));
        assert_eq!(taken("", false), []);
        assert_eq!(taken("(n1:ncpus=4294967295)+(n1:ncpus=9)+(:)+()", false), pairs(&[("n1", u32::MAX)]));
    }

    #[test]
    fn only_states_without_trouble_are_usable() {
        assert!(usable("free") && usable("job-busy") && usable("job-exclusive,resv-exclusive"));
        for state in
            ["down", "offline", "job-busy,offline", "state-unknown,down", "", "stale", "provisioning"]
        {
            assert!(!usable(state), "{state}");
        }
    }
}
