//! Whether what a batch system granted is what was wanted, and what follows where it is not. Times are compared by each
//! dialect, since they differ in how exactly they can keep them.

use super::ends::{refused, start};
use crate::batch::{Handle, Node, Reserved, Unit, Wanted};
use crate::error::LrmsError;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// So long it is waited for the jobs of a deleted reservation to end. Killing takes a few seconds; on a host that does not
/// answer it takes for ever, and nobody can do anything about it.
const GONE_WITHIN: Duration = Duration::from_secs(10);
const GONE_POLL: Duration = Duration::from_millis(200);

/// Whether a word has letters, digits, `_`, `-` and `.` only, and can be no option: then no list and no command line can
/// take it for something else.
pub(crate) fn is_plain(word: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let begins = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    word.bytes().all(legal) && word.bytes().next().is_some_and(begins)
}

/// What of a reservation is otherwise than wanted, but for its times; None where all is as it should be. `nodes` are those
/// on which it may be; of them only those count that belong to the wanted resource.
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
    let has = amount(there, wanted.place.unit);
    if there.name != wanted.name {
        Some(format!("it is called {} instead of {}", there.name, wanted.name))
    } else if !there.accounts.contains(&wanted.account) {
        Some(format!("it is for {} instead of {}", there.accounts.join(", "), wanted.account))
    } else if let Some(name) = elsewhere {
        Some(format!("it is on {name}, which is not usable, or not of {resource}"))
    } else if wanted.place.unit == Unit::Nodes && there.cores.iter().any(is_part) {
        Some("it has nodes in part only".into())
    } else if has != wanted.amount {
        Some(format!("it has {has} instead of {}", wanted.amount))
    } else {
        None
    }
}

/// How much a reservation has.
pub(crate) fn amount(reserved: &Reserved, unit: Unit) -> u32 {
    match unit {
        Unit::Cores => reserved.cores.values().fold(0, |sum: u32, cores| sum.saturating_add(*cores)),
        Unit::Nodes => u32::try_from(reserved.cores.len()).unwrap_or(u32::MAX),
    }
}

/// What is told of a reservation that is not as it was wanted, when it was to be deleted again.
pub(crate) fn undone(what: String, handle: &Handle, why: &str, deleted: Result<(), LrmsError>) -> LrmsError {
    let why = start(why);
    match deleted {
        Ok(()) => refused(what, format!("{why}; it was deleted again")),
        Err(silent @ (LrmsError::Silent { .. } | LrmsError::Unreachable { .. })) => silent,
        Err(also) => {
            let said = format!("it is not as wanted ({why}) and could not be deleted: {also}");
            LrmsError::Failed { command: format!("making {handle}"), code: None, said }
        }
    }
}

/// Waits until something that was deleted is gone, for some seconds.
pub(crate) fn wait_until_gone(mut is_gone: impl FnMut() -> Result<bool, LrmsError>) -> Result<(), LrmsError> {
    let began = Instant::now();
    while !is_gone()? && began.elapsed() < GONE_WITHIN {
        std::thread::sleep(GONE_POLL);
    }
    Ok(())
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
            project: None,
            nodes: Vec::new(),
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
        assert_eq!(told(&there(&[("a", 8), ("b", 7)]), &whole), "it has nodes in part only");
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
        let silent = LrmsError::Silent { what: "x".into(), after: Duration::ZERO };
        assert!(matches!(undone(Err(silent)), LrmsError::Silent { .. }));
    }

    #[test]
    fn a_plain_word_can_be_taken_for_nothing_else() {
        assert!(["ann", "_a.b-c", "9", "A"].into_iter().all(is_plain));
        let odd = ["", "-x", ".", "a,b", "a b", "@group", "ä", "a\n", "a:b"];
        assert!(!odd.into_iter().any(is_plain));
    }
}
