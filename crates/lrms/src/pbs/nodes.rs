//! Vnodes from `pbsnodes -av -F dsv`, the places they belong to, and how much of them is in use. On some vnodes, one
//! core occupies the whole vnode or its whole host (`sharing`, see pbs_node_attributes(7B)).

use super::records::{self, Record, VNODE};
use super::tres;
use crate::batch::{Node, Place, Unreadable};
use crate::dialect::{Tools, unreadable};
use crate::error::LrmsError;
use bookahead_protocol::{Name, Tres};
use std::collections::BTreeMap;

/// States in which jobs run or can run on a vnode, see pbs_node_attributes(7B); all others count as unusable.
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

#[derive(Debug, Clone, Default)]
pub(super) struct Vnodes(BTreeMap<String, Vnode>);

#[derive(Debug, Clone)]
struct Vnode {
    node: Node,
    host: String,
    /// As PBS writes it; empty for `default_shared`.
    sharing: String,
    /// Resources beside cores.
    tres: Tres,
}

/// How much of a vnode its first core occupies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Takes {
    ItsCores,
    TheVnode,
    TheHost,
}

impl Vnodes {
    /// The vnodes, and the unreadable ones, which cannot be used for jobs.
    pub(super) fn ask(tools: &Tools, places: &[Place]) -> Result<(Vnodes, Vec<Unreadable>), LrmsError> {
        let command = tools.command("pbsnodes").args(["-av", "-F", "dsv"]);
        let listed = records::read(&tools.ask(&command)?, &VNODE).filter(|listed| !listed.is_empty());
        // An empty list would count as the failure of all nodes, and every promise would seem broken.
        let listed = listed.ok_or_else(|| unreadable(&command, "it lists no vnodes"))?;
        let odd = listed.iter().filter(|vnode| vnode.text("state").is_none());
        let odd = odd.map(|vnode| Unreadable::Node(vnode.id.clone())).collect();
        let nodes = listed.iter().filter_map(|vnode| {
            let resources: Vec<Name> = places
                .iter()
                .filter(|place| belongs(place, vnode, &listed))
                .map(|place| place.resource.clone())
                .collect();
            let cores = vnode.count("resources_available.ncpus");
            let usable = usable(vnode.text("state").unwrap_or_default());
            let node = Node { name: vnode.id.clone(), cores, usable, resources };
            let host = vnode.text("resources_available.host").unwrap_or(&vnode.id).to_owned();
            let sharing = vnode.text("sharing").unwrap_or_default().to_owned();
            // On a host with several vnodes, the natural vnode often has no cores of its own.
            let there = cores > 0 && !node.resources.is_empty();
            there.then(|| (vnode.id.clone(), Vnode { node, host, sharing, tres: tres::of_vnode(vnode) }))
        });
        Ok((Vnodes(nodes.collect()), odd))
    }

    /// The nodes of a picture, each as its own host.
    pub(super) fn of(nodes: &[Node]) -> Vnodes {
        let plain = |node: &Node| Vnode {
            node: node.clone(),
            host: node.name.clone(),
            sharing: String::new(),
            tres: Tres::default(),
        };
        Vnodes(nodes.iter().map(|node| (node.name.clone(), plain(node))).collect())
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.0.values().map(|vnode| &vnode.node)
    }

    /// Resources beside cores of each vnode.
    pub(super) fn tres(&self) -> BTreeMap<String, Tres> {
        self.0.iter().map(|(name, vnode)| (name.clone(), vnode.tres.clone())).collect()
    }

    pub(super) fn resources<'a>(&self, names: impl IntoIterator<Item = &'a String>) -> Vec<Name> {
        let mut all: Vec<Name> = names
            .into_iter()
            .filter_map(|name| self.0.get(name))
            .flat_map(|vnode| vnode.node.resources.clone())
            .collect();
        all.sort();
        all.dedup();
        all
    }

    pub(super) fn share_hosts(&self, resource: &Name) -> bool {
        let mine = || self.0.values().filter(|vnode| vnode.node.resources.contains(resource));
        let hosts: std::collections::BTreeSet<&str> = mine().map(|vnode| vnode.host.as_str()).collect();
        hosts.len() < mine().count()
    }

    /// The vnodes of a resource on which one core occupies more than itself by default.
    pub(super) fn exclusive(&self, resource: &Name) -> Vec<(&str, Takes)> {
        let mine = self.0.values().filter(|vnode| vnode.node.resources.contains(resource));
        let taken = mine.map(|vnode| (vnode.node.name.as_str(), takes(&vnode.sharing, "free")));
        taken.filter(|(_, takes)| *takes > Takes::ItsCores).collect()
    }

    /// Cores that `(n1:ncpus=4:mem=1gb)+(n2:ncpus=2+n3:ncpus=1)` occupies on each vnode with this `place`; None if it
    /// is not a list of chunks.
    pub(super) fn taken(&self, chunks: &str, place: &str) -> Option<BTreeMap<String, u32>> {
        let mut taken: BTreeMap<String, u32> = BTreeMap::new();
        for part in chunks.split('+').filter(|part| !part.trim().is_empty()) {
            let mut words = part.trim_matches(['(', ')', ' ']).split(':');
            let name = words.next().filter(|name| is_vnode(name))?;
            let mut cores: u32 = 0;
            for (resource, amount) in words.map(|word| word.split_once('=')).collect::<Option<Vec<_>>>()? {
                if resource == "ncpus" {
                    cores = amount.parse().ok()?;
                }
            }
            let sum = taken.entry(name.to_owned()).or_default();
            *sum = sum.saturating_add(cores);
            // A vnode outside of our places: its sharing is unknown, but does not matter here.
            let Some(vnode) = self.0.get(name) else { continue };
            match takes(&vnode.sharing, place) {
                Takes::ItsCores => {}
                Takes::TheVnode => *sum = vnode.node.cores,
                Takes::TheHost => {
                    let there = self.0.values().filter(|other| other.host == vnode.host);
                    taken.extend(there.map(|other| (other.node.name.clone(), other.node.cores)));
                }
            }
        }
        Some(taken)
    }
}

/// Names of vnodes contain neither blanks nor list separators. PBS may print freed memory here, which hardly passes
/// this test.
fn is_vnode(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-[]@/#".contains(&byte))
}

/// From the vnode's `sharing` and the `place` of a job or reservation.
fn takes(sharing: &str, place: &str) -> Takes {
    let asked = place.split(':').find_map(|word| match word {
        "shared" => Some(Takes::ItsCores),
        "excl" => Some(Takes::TheVnode),
        "exclhost" => Some(Takes::TheHost),
        _ => None,
    });
    match sharing {
        "ignore_excl" => Takes::ItsCores,
        // The vnode overrides a request to share it, but not a request for the whole host.
        "force_excl" => asked.map_or(Takes::TheVnode, |asked| asked.max(Takes::TheVnode)),
        "force_exclhost" => Takes::TheHost,
        "default_excl" => asked.unwrap_or(Takes::TheVnode),
        "default_exclhost" => asked.unwrap_or(Takes::TheHost),
        _ => asked.unwrap_or(Takes::ItsCores),
    }
}

/// Whether jobs can run in all states of a vnode.
fn usable(state: &str) -> bool {
    state.split(',').all(|word| USABLE.contains(&word.trim()))
}

/// Vnodes that cannot be reserved belong to no place. A queue with its own vnodes has only those; all other queues
/// share the vnodes without a queue.
fn belongs(place: &Place, vnode: &Record, all: &[Record]) -> bool {
    let is_owner = |queue: &&str| all.iter().any(|vnode| vnode.text("queue") == Some(queue));
    let owner = place.partition.as_deref().filter(is_owner);
    let reservable = vnode.text("resv_enable").is_none_or(|enabled| !enabled.eq_ignore_ascii_case("false"));
    reservable && vnode.text("queue") == owner && place.features.iter().all(|feature| has(vnode, feature))
}

/// Whether a vnode has `gpu=a100` (one of a list is enough), or `fast` as a boolean.
fn has(vnode: &Record, feature: &str) -> bool {
    let (name, wanted) = feature.split_once('=').unwrap_or((feature, "True"));
    let value = vnode.text(&format!("resources_available.{name}")).unwrap_or_default();
    value.split(',').any(|value| value.trim().eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vnodes() -> Vnodes {
        let vnode = |name: &str, host: &str, sharing: &str| {
            let node = Node { name: name.into(), cores: 8, usable: true, resources: vec!["cpu".into()] };
            (
                name.to_owned(),
                Vnode { node, host: host.into(), sharing: sharing.into(), tres: Tres::default() },
            )
        };
        let of = [
            vnode("n1", "n1", ""),
            vnode("n2", "n2", "default_shared"),
            vnode("x", "x", "default_excl"),
            vnode("h[0]", "h", "force_exclhost"),
            vnode("h[1]", "h", "force_exclhost"),
        ];
        Vnodes(of.into())
    }

    fn taken(chunks: &str, place: &str) -> Vec<(String, u32)> {
        vnodes().taken(chunks, place).unwrap().into_iter().collect()
    }

    fn pairs(pairs: &[(&str, u32)]) -> Vec<(String, u32)> {
        pairs.iter().map(|(name, n)| (name.to_string(), *n)).collect()
    }

    #[test]
    fn chunks_are_added_up_for_each_vnode() {
        assert_eq!(taken("(n1:ncpus=4)+(n2:mem=1gb:ncpus=2)", "free"), pairs(&[("n1", 4), ("n2", 2)]));
        assert_eq!(taken("(n1:ncpus=1)+(n1:ncpus=1+n2:ncpus=3)", ""), pairs(&[("n1", 2), ("n2", 3)]));
        assert_eq!(taken("(n1:ncpus=1)+(n2)", "scatter:excl"), pairs(&[("n1", 8), ("n2", 8)]));
        assert_eq!(taken("", ""), []);
        assert_eq!(taken("(n1:ncpus=4294967295)+(n1:ncpus=9)", ""), pairs(&[("n1", u32::MAX)]));
        for odd in ["^Gw^Y^(^\"U", "(:)", "()", "(n1:ncpus=x)", "(n1:ncpus=1)+(\u{fffd}:ncpus=1)"] {
            assert_eq!(vnodes().taken(odd, ""), None, "{odd}");
        }
    }

    #[test]
    fn one_core_of_an_exclusive_vnode_takes_the_vnode_or_its_host() {
        assert_eq!(taken("(x:ncpus=1)", "free"), pairs(&[("x", 8)]));
        assert_eq!(taken("(x:ncpus=1)", "free:shared"), pairs(&[("x", 1)]));
        assert_eq!(taken("(h[0]:ncpus=1)", "pack:shared"), pairs(&[("h[0]", 8), ("h[1]", 8)]));
        assert_eq!(taken("(n1:ncpus=1)", "exclhost"), pairs(&[("n1", 8)]));
        let exclusive = vnodes();
        let exclusive: Vec<_> =
            exclusive.exclusive(&"cpu".into()).into_iter().map(|(name, _)| name).collect();
        assert_eq!(exclusive, ["h[0]", "h[1]", "x"]);
        assert!(vnodes().share_hosts(&"cpu".into()) && !vnodes().share_hosts(&"gpu".into()));
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
