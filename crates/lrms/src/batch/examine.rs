//! What an operator should know before a batch system is used, besides what it finds out about itself: whether it has what
//! the site offers, and whether both clocks agree.

use super::system::{Node, Place, Unit, Unreadable};
use super::{Batch, State};
use bookahead_plan::Capacity;
use bookahead_protocol::Moment;
use std::fmt::Display;

/// Clocks that differ by no more are as good as equal.
const GOOD_SKEW: u64 = 2;

/// Where clocks differ by more, reservations begin and end at wrong times.
const BAD_SKEW: u64 = 10;

impl Batch {
    /// Checks that it can be used as it is configured, for an operator to read: the findings of the batch system first. A
    /// reservation may be made far ahead, and deleted again.
    pub fn examine(&self, now: Moment) -> Vec<Finding> {
        let mut findings = self.system.examine();
        if let Err(why) = self.look_anew(now) {
            let advice = "see whether the batch system is up, and whether its commands can be run";
            findings.push(Finding::wrong("a look at everything", why, advice));
            return findings;
        }
        let state = self.state();
        let nodes = &state.looks.picture.nodes;
        for (place, capacity) in &self.settings.places {
            findings.extend(capacity_of(place, *capacity, nodes));
        }
        findings.extend(shared(&self.settings.places, nodes));
        findings.push(state.skew());
        findings.extend(unreadable(&state.looks.picture.unreadable));
        findings
    }
}

impl State {
    fn skew(&self) -> Finding {
        let what = "clocks";
        let advice = "let both machines follow the same time server";
        let Some(clocks) = self.looks.clocks() else {
            return Finding::doubtful(what, "the batch system does not tell its time", advice);
        };
        let skew = clocks.skew().0;
        let seen = match skew {
            0 => "both tell the same time".to_owned(),
            1.. => format!("the batch system is {skew} s ahead"),
            _ => format!("the batch system is {} s behind", skew.unsigned_abs()),
        };
        match skew.unsigned_abs() {
            skew if skew <= GOOD_SKEW => Finding::well(what, seen),
            skew if skew <= BAD_SKEW => Finding::doubtful(what, seen, advice),
            _ => Finding::wrong(what, seen, advice),
        }
    }
}

/// Whether a resource has the capacity that the site offers, and how much of it can be used.
fn capacity_of(place: &Place, offered: Capacity, nodes: &[Node]) -> Vec<Finding> {
    let here = || nodes.iter().filter(|node| node.resources.contains(&place.resource));
    let what = format!("capacity of {}", place.resource);
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
    let mut findings = vec![if there == offered.0 {
        Finding::well(what, seen)
    } else {
        let seen = format!("{seen}, and the site offers {offered}");
        Finding::wrong(what, seen, format!("write capacity = {there}"))
    }];
    let unusable: Vec<&str> = here().filter(|node| !node.usable).map(|node| node.name.as_str()).collect();
    if !unusable.is_empty() {
        let shown = unusable.iter().take(10).copied().collect::<Vec<_>>().join(", ");
        let seen = format!("{} cannot be used: {shown}", unusable.len());
        findings.push(Finding::doubtful(format!("nodes of {}", place.resource), seen, "bring them back"));
    }
    findings
}

/// What a look leaves out. The first few are enough to find the reason.
fn unreadable(records: &[Unreadable]) -> Option<Finding> {
    let first = records.iter().take(5).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let seen = format!("{} cannot be read and are left out: {first}", records.len());
    let advice = "see what the commands of the batch system print of them";
    (!records.is_empty()).then(|| Finding::doubtful("records", seen, advice))
}

/// Two resources must not have a node in common: each is promised as if there were no other.
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
                    format!("they have {both} nodes in common, which would be promised twice"),
                    "make one resource of them, or tell their nodes apart by partitions or features",
                ));
            }
        }
    }
    findings
}

/// What an examination found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at, in a few words.
    pub what: String,
    /// How well that is.
    pub grade: Grade,
    /// What was seen.
    pub seen: String,
    /// What to do about it, where there is something to do.
    pub advice: Option<String>,
}

/// How well something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grade {
    /// As it should be.
    Well,
    /// It works, with a drawback.
    Doubtful,
    /// It does not work.
    Wrong,
}

impl Finding {
    /// As it should be.
    pub fn well(what: impl Into<String>, seen: impl Display) -> Finding {
        Finding { what: what.into(), grade: Grade::Well, seen: seen.to_string(), advice: None }
    }

    /// It works, with a drawback.
    pub fn doubtful(what: impl Into<String>, seen: impl Display, advice: impl Into<String>) -> Finding {
        Finding {
            what: what.into(),
            grade: Grade::Doubtful,
            seen: seen.to_string(),
            advice: Some(advice.into()),
        }
    }

    /// It does not work.
    pub fn wrong(what: impl Into<String>, seen: impl Display, advice: impl Into<String>) -> Finding {
        Finding {
            what: what.into(),
            grade: Grade::Wrong,
            seen: seen.to_string(),
            advice: Some(advice.into()),
        }
    }
}
