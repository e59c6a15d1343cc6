//! What every examination looks at, whatever the batch system: how much there is of a resource, jobs without a limit, and
//! whether a reservation can be made and deleted.

use super::tools::Tools;
use crate::batch::{FactState, Finding, JobFact, Node, Picture, Place, Wanted};
use crate::error::LrmsError;
use bookahead_plan::{Interval, Seconds, Time};

/// What was seen at a look, with what nodes are called there.
pub(crate) fn seen(what: &str, nodes_are: &str, picture: &Picture) -> Finding {
    let Picture { nodes, jobs, reservations, .. } = picture;
    let seen =
        format!("{} {nodes_are}, {} jobs, {} reservations", nodes.len(), jobs.len(), reservations.len());
    Finding::well(what, seen)
}

/// How much there is of a resource. `cores_are` and `nodes_are` are what the batch system calls them; `none` is the advice
/// where no node belongs to it, `unusable` where some cannot be used now.
pub(crate) fn resource(
    place: &Place,
    nodes: &[Node],
    [cores_are, nodes_are]: [&str; 2],
    none: &str,
    unusable: &str,
) -> Finding {
    let what = format!("the resource {}", place.resource);
    let mine = || nodes.iter().filter(|node| node.resources.contains(&place.resource));
    let (all, usable) = (mine().count(), mine().filter(|node| node.usable).count());
    let cores = mine().fold(0_u64, |sum, node| sum.saturating_add(node.cores.into()));
    let seen = format!("{cores} {cores_are} on {all} {nodes_are}, {usable} of them usable");
    if all == 0 {
        Finding::wrong(what, seen, none)
    } else if usable < all {
        Finding::doubtful(what, seen, unusable)
    } else {
        Finding::well(what, seen)
    }
}

/// Jobs without a limit are in the way of every reservation.
pub(crate) fn endless(picture: &Picture, advice: &str) -> Option<Finding> {
    let is_endless = |job: &&JobFact| job.state == FactState::Running && job.limit.is_none();
    let count = picture.jobs.iter().filter(is_endless).count();
    (count > 0).then(|| Finding::doubtful("limits of jobs", format!("{count} run without one"), advice))
}

/// A small reservation far ahead that is made and deleted again, to see whether that may be done.
pub(crate) struct Trial<'a> {
    /// What it is called.
    pub(crate) name: &'a str,
    /// Where.
    pub(crate) place: Place,
    /// When it begins.
    pub(crate) begin: Time,
    /// For how long.
    pub(crate) lasts: Seconds,
    /// What to do where it may not be done.
    pub(crate) advice: String,
}

impl Trial<'_> {
    /// Tries it with what makes a reservation and deletes it again.
    pub(crate) fn finding(
        self,
        tools: &Tools,
        make_and_delete: impl FnOnce(&Wanted) -> Result<(), LrmsError>,
    ) -> Finding {
        let what = "making and deleting reservations";
        let Some(account) = tools.account() else {
            let seen = "id -un does not say as whom the commands run";
            return Finding::doubtful(what, seen, "see whether it works there");
        };
        let wanted = Wanted {
            name: self.name.into(),
            place: self.place,
            interval: Interval::starting(self.begin, self.lasts),
            amount: 1,
            account: account.clone(),
            project: None,
            nodes: Vec::new(),
        };
        match make_and_delete(&wanted) {
            Ok(()) => Finding::well(what, format!("{account} may, as was tried with {}", self.name)),
            Err(why @ LrmsError::Refused { .. }) => Finding::wrong(what, why.to_string(), self.advice),
            Err(why) => {
                let advice = format!("see whether {} was left behind, and delete it by hand", self.name);
                Finding::wrong(what, why.to_string(), advice)
            }
        }
    }
}
