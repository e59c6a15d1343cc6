//! Compares a granted reservation with the wanted one, and handles a grant that differs. Each dialect compares times
//! itself, since they differ in precision.

use super::{Tools, refused, start};
use crate::batch::{FactState, Finding, Handle, JobFact, Node, Picture, Place, Reserved, Unit, Wanted};
use crate::error::LrmsError;
use bookahead_plan::{Interval, Seconds, Time};
use bookahead_protocol::Tres;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long to wait for the jobs of a deleted reservation to end. Killing takes a few seconds. On a host that does
/// not answer it may never finish, and waiting longer does not help.
const GONE_WITHIN: Duration = Duration::from_secs(10);
const GONE_POLL: Duration = Duration::from_millis(200);

/// Whether a word consists of letters, digits, `_`, `-` and `.` and cannot be an option. Such a word is safe in a
/// list and on a command line.
pub(crate) fn is_plain(word: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let begins = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    word.bytes().all(legal) && word.bytes().next().is_some_and(begins)
}

/// The first difference from the wanted reservation, apart from its times; None if there is none. `nodes` are the
/// possible nodes; only those of the wanted resource count.
pub(crate) fn differs<'a>(
    there: &Reserved,
    wanted: &Wanted,
    nodes: impl IntoIterator<Item = &'a Node>,
) -> Option<String> {
    let resource = &wanted.place.resource;
    let nodes = nodes.into_iter().filter(|node| node.resources.contains(resource));
    let nodes: BTreeMap<&str, u32> = nodes.map(|node| (node.name.as_str(), node.cores)).collect();
    let elsewhere = there.cores.keys().find(|name| !nodes.contains_key(name.as_str()));
    let is_part = |(name, cores): (&String, &u32)| nodes.get(name.as_str()).is_some_and(|all| cores < all);
    // It must be equal: a surplus would be taken from others and promised to no owner.
    let has = wanted.place.unit.reserved(there);
    // Further accounts are no difference: PBS adds the one that created the reservation.
    if there.name != wanted.name {
        Some(format!("it is called {} instead of {}", there.name, wanted.name))
    } else if !wanted.accounts().all(|account| there.accounts.contains(account)) {
        let should = wanted.joined_accounts(", ");
        Some(format!("it is for {} instead of {should}", there.accounts.join(", ")))
    } else if let Some(name) = elsewhere {
        Some(format!("it is on {name}, which is not usable, or does not belong to {resource}"))
    } else if wanted.place.unit == Unit::Nodes && there.cores.iter().any(is_part) {
        Some("it has only parts of some nodes".into())
    } else if has != wanted.amount {
        Some(format!("it has {has} instead of {}", wanted.amount))
    } else {
        None
    }
}

/// The error for a grant that differs from the wanted reservation and was to be deleted again.
pub(crate) fn undone(what: String, handle: &Handle, why: &str, deleted: Result<(), LrmsError>) -> LrmsError {
    let why = start(why);
    match deleted {
        Ok(()) => refused(what, format!("{why}; it was deleted again")),
        // Whether the deletion took effect is unknown, so this must not become a refusal.
        Err(silent @ (LrmsError::Silent { .. } | LrmsError::Unreachable { .. })) => silent,
        Err(also) => {
            let said = format!("it is not as requested ({why}) and could not be deleted: {also}");
            LrmsError::Failed { command: format!("creating {handle}"), code: None, said }
        }
    }
}

/// Waits some seconds until a deleted item is gone.
pub(crate) fn wait_until_gone(mut is_gone: impl FnMut() -> Result<bool, LrmsError>) -> Result<(), LrmsError> {
    let began = Instant::now();
    // Still there after the timeout is not an error: the deletion was accepted, and the next look shows the rest.
    while !is_gone()? && began.elapsed() < GONE_WITHIN {
        std::thread::sleep(GONE_POLL);
    }
    Ok(())
}

/// Summary of a look; `nodes_are` is the batch system's word for nodes.
pub(crate) fn seen(what: &str, nodes_are: &str, picture: &Picture) -> Finding {
    let Picture { nodes, jobs, reservations, .. } = picture;
    let seen =
        format!("{} {nodes_are}, {} jobs, {} reservations", nodes.len(), jobs.len(), reservations.len());
    Finding::well(what, seen)
}

/// Size of a resource. `cores_are` and `nodes_are` are the batch system's words; `none` is the advice if no node
/// belongs to it, `unusable` if some cannot be used now.
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

/// Running jobs without a time limit block every reservation.
pub(crate) fn endless(picture: &Picture, advice: &str) -> Option<Finding> {
    let is_endless = |job: &&JobFact| job.state == FactState::Running && job.limit.is_none();
    let count = picture.jobs.iter().filter(is_endless).count();
    (count > 0).then(|| Finding::doubtful("limits of jobs", format!("{count} jobs run without one"), advice))
}

/// A small reservation in the far future that is created and deleted again, to test the permissions.
pub(crate) struct Trial<'a> {
    pub(crate) name: &'a str,
    pub(crate) place: Place,
    pub(crate) begin: Time,
    pub(crate) lasts: Seconds,
    /// Advice if it is refused.
    pub(crate) advice: String,
}

impl Trial<'_> {
    /// Runs the test; `make_and_delete` creates the reservation and deletes it.
    pub(crate) fn finding(
        self,
        tools: &Tools,
        make_and_delete: impl FnOnce(&Wanted) -> Result<(), LrmsError>,
    ) -> Finding {
        let what = "making and deleting reservations";
        let Some(account) = tools.account() else {
            let seen = "the account of the commands is unknown (id -un failed)";
            return Finding::doubtful(what, seen, "check that id -un works where the commands run");
        };
        let wanted = Wanted {
            name: self.name.into(),
            place: self.place,
            interval: Interval::starting(self.begin, self.lasts),
            amount: 1,
            account: account.clone(),
            others: Vec::new(),
            terms: Arc::default(),
            project: None,
            nodes: Vec::new(),
            tres: Tres::default(),
        };
        match make_and_delete(&wanted) {
            Ok(()) => Finding::well(what, format!("{account} may; tested with {}", self.name)),
            // A refused creation leaves nothing behind; after another error the reservation may exist.
            Err(why @ LrmsError::Refused { .. }) => Finding::wrong(what, why, self.advice),
            Err(why) => {
                let advice = format!("check whether {} still exists, and delete it by hand", self.name);
                Finding::wrong(what, why, advice)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Place;
    use bookahead_plan::{Interval, Time};

    fn wanted(unit: Unit, amount: u32) -> Wanted {
        let place = Place { resource: "cpu".into(), unit, partition: None, features: Vec::new() };
        let interval = Interval::new(Time(0), Time(1));
        Wanted {
            name: "r".into(),
            place,
            interval,
            amount,
            account: "ann".into(),
            others: Vec::new(),
            terms: Arc::default(),
            project: None,
            nodes: Vec::new(),
            tres: Tres::default(),
        }
    }

    fn there(cores: &[(&str, u32)]) -> Reserved {
        Reserved {
            handle: Handle("7".into()),
            name: "r".into(),
            interval: Interval::new(Time(0), Time(1)),
            cores: cores.iter().map(|(name, cores)| ((*name).to_owned(), *cores)).collect(),
            spread: true,
            accounts: vec!["bob".into(), "ann".into()],
            maintenance: false,
        }
    }

    fn told(there: &Reserved, wanted: &Wanted) -> String {
        let node = |name: &str, resource: &str| Node {
            name: name.into(),
            cores: 8,
            usable: true,
            resources: vec![resource.into()],
        };
        differs(there, wanted, &[node("a", "cpu"), node("b", "cpu"), node("c", "other")]).unwrap_or_default()
    }

    #[test]
    fn whatever_is_otherwise_than_wanted_is_told() {
        let four = wanted(Unit::Cores, 4);
        assert_eq!(told(&there(&[("a", 3), ("b", 1)]), &four), "");
        assert_eq!(told(&there(&[("a", 3)]), &four), "it has 3 instead of 4");
        assert_eq!(told(&there(&[("a", u32::MAX), ("b", 5)]), &four), "it has 4294967295 instead of 4");
        assert!(told(&there(&[("c", 4)]), &four).starts_with("it is on c,"));
        assert!(told(&there(&[("d", 4)]), &four).starts_with("it is on d,"));
        let whole = wanted(Unit::Nodes, 2);
        assert_eq!(told(&there(&[("a", 8), ("b", 9)]), &whole), "");
        assert_eq!(told(&there(&[("a", 8), ("b", 7)]), &whole), "it has only parts of some nodes");
        assert_eq!(told(&there(&[("a", 8)]), &whole), "it has 1 instead of 2");
        let other = Wanted { account: "eve".into(), ..four.clone() };
        assert_eq!(told(&there(&[("a", 4)]), &other), "it is for bob, ann instead of eve");
        assert_eq!(
            told(&there(&[("a", 4)]), &Wanted { name: "s".into(), ..four }),
            "it is called r instead of s"
        );
    }

    #[test]
    fn what_could_not_be_undone_is_no_refusal() {
        let undone = |deleted| undone("it".into(), &Handle("7".into()), "short", deleted);
        let refusal = undone(Ok(()));
        assert!(refusal.is_refusal() && refusal.to_string().contains("short; it was deleted again"));
        let left = undone(Err(refused("deleting", "no")));
        assert!(!left.is_refusal() && left.to_string().contains("could not be deleted"), "{left}");
        let silent = LrmsError::Silent { what: "x".into(), after: Duration::ZERO, said: None };
        assert!(matches!(undone(Err(silent)), LrmsError::Silent { .. }));
    }

    #[test]
    fn a_plain_word_can_be_taken_for_nothing_else() {
        assert!(["ann", "_a.b-c", "9", "A"].into_iter().all(is_plain));
        let odd = ["", "-x", ".", "a,b", "a b", "@group", "ä", "a\n", "a:b"];
        assert!(!odd.into_iter().any(is_plain));
    }
}
