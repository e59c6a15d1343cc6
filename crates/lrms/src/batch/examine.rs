//! Checks for operators (the doctor), beyond those of the dialect: whether the batch system has the capacity that the
//! site offers, and whether both clocks agree.

use super::adapter::{Batch, State};
use super::system::{Finding, Node, Place, Unit, Unreadable};
use bookahead_plan::Capacity;
use bookahead_protocol::Moment;

/// Clock skew that is harmless, in seconds. Times of a batch system are in whole seconds, and commands take time.
const GOOD_SKEW: u64 = 2;

/// Clock skew from which on reservations begin and end noticeably at the wrong time, in seconds.
const BAD_SKEW: u64 = 10;

impl Batch {
    /// Checks whether the batch system can be used as configured; the findings of the dialect come first. It may
    /// create and delete a reservation in the far future.
    pub fn examine(&self, now: Moment) -> Vec<Finding> {
        let mut findings = self.system.examine();
        if let Err(why) = self.look_anew(now) {
            let advice = "check that the batch system is up and that its commands can be run";
            findings.push(Finding::wrong("a look at everything", why, advice));
            // Without a look every resource would seem to have no nodes, so the other checks are left out.
            return findings;
        }
        let state = self.state();
        let nodes = &state.looks.picture.nodes;
        for (place, capacity) in &self.settings.places {
            findings.extend(capacity_of(place, *capacity, nodes));
        }
        findings.extend(state.tres());
        findings.extend(shared(&self.settings.places, nodes));
        findings.push(state.skew());
        findings.extend(unreadable(&state.looks.picture.unreadable));
        findings
    }
}

impl State {
    fn skew(&self) -> Finding {
        let what = "clocks";
        let advice = "synchronise both machines with the same time server";
        let Some(clocks) = self.looks.clocks() else {
            return Finding::doubtful(what, "the batch system does not report its time", advice);
        };
        let skew = clocks.skew().0;
        let seen = match skew {
            0 => "both show the same time".to_owned(),
            1.. => format!("the batch system is {skew} s ahead"),
            _ => format!("the batch system is {} s behind", skew.unsigned_abs()),
        };
        // `abs` would overflow for the smallest number, which a damaged output may contain.
        match skew.unsigned_abs() {
            skew if skew <= GOOD_SKEW => Finding::well(what, seen),
            skew if skew <= BAD_SKEW => Finding::doubtful(what, seen, advice),
            _ => Finding::wrong(what, seen, advice),
        }
    }
}

impl State {
    /// Compares the offered amounts of things beside the capacity with the actual ones.
    fn tres(&self) -> Vec<Finding> {
        let (picture, all) = (&self.looks.picture, &self.settings.tres);
        let mut findings = Vec::new();
        for (resource, offered) in all {
            for (name, amount) in offered.iter() {
                let here = picture.nodes.iter().filter(|node| node.resources.contains(resource));
                let on_nodes = picture.tres.on_nodes(name, here.map(|node| node.name.as_str()));
                let there = picture.tres.totals.of(name).max(on_nodes);
                // What belongs to no node is shared by all resources.
                let is_shared = picture.tres.totals.of(name) > Capacity::ZERO;
                let in_all: u64 = all.values().map(|offered| u64::from(offered.of(name).0)).sum();
                let offered = if is_shared { in_all } else { u64::from(amount.0) };
                let what = format!("{name} of {resource}");
                let seen = format!("the batch system has {there}, and the site offers {offered}");
                findings.push(if offered > u64::from(there.0) {
                    Finding::wrong(what, seen, format!("offer at most {there} of {name}"))
                } else {
                    Finding::well(what, seen)
                });
            }
        }
        findings
    }
}

/// Compares the offered capacity with the actual one, and reports unusable nodes.
fn capacity_of(place: &Place, offered: Capacity, nodes: &[Node]) -> Vec<Finding> {
    let here = || nodes.iter().filter(|node| node.resources.contains(&place.resource));
    let what = format!("capacity of {}", place.resource);
    // Unusable nodes count as well: a node that is down is no reason to change the configured capacity.
    let there = place.unit.of_nodes(here());
    let unit = match place.unit {
        Unit::Cores => "cores",
        Unit::Nodes => "nodes",
    };
    let seen = format!("{there} {unit} on {} nodes", here().count());
    if there == 0 {
        let advice = "check the names of its partition or queue and of its features";
        return vec![Finding::wrong(what, "no node belongs to it", advice)];
    }
    // An offer below the real capacity is wrong too: the first failed nodes would then not count as lost.
    let mut findings = vec![if there == offered.0 {
        Finding::well(what, seen)
    } else {
        let seen = format!("{seen}, and the site offers {offered}");
        Finding::wrong(what, seen, format!("set capacity = {there}"))
    }];
    let unusable: Vec<&str> = here().filter(|node| !node.usable).map(|node| node.name.as_str()).collect();
    if !unusable.is_empty() {
        // A large cluster may have thousands; ten names are enough to recognise the cause.
        let shown = unusable.iter().take(10).copied().collect::<Vec<_>>().join(", ");
        let seen = format!("{} cannot be used: {shown}", unusable.len());
        findings.push(Finding::doubtful(
            format!("nodes of {}", place.resource),
            seen,
            "return them to service",
        ));
    }
    findings
}

/// Records that could not be parsed. The first few are enough to find the reason.
fn unreadable(records: &[Unreadable]) -> Option<Finding> {
    let first = records.iter().take(5).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let seen = format!("{} cannot be parsed and are ignored: {first}", records.len());
    let advice = "check the output of the batch system for them";
    (!records.is_empty()).then(|| Finding::doubtful("records", seen, advice))
}

/// Two resources must not share a node: each is promised as if it were alone.
fn shared(places: &[(Place, Capacity)], nodes: &[Node]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, (one, _)) in places.iter().enumerate() {
        for (other, _) in &places[at + 1..] {
            let both = |node: &&Node| {
                node.resources.contains(&one.resource) && node.resources.contains(&other.resource)
            };
            let both = nodes.iter().filter(both).count();
            if both > 0 {
                findings.push(Finding::wrong(
                    format!("{} and {}", one.resource, other.resource),
                    format!("they share {both} nodes, which would be promised twice"),
                    "merge them into one resource, or separate their nodes by partitions or features",
                ));
            }
        }
    }
    findings
}
