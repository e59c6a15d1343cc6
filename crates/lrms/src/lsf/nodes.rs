//! Hosts and their states (`bhosts -o … -json`), and the hosts of each resource (`bqueues -l` lists the hosts of a
//! queue, `bhosts` those of a host group, `bhosts -R` those with a boolean resource).

use super::{Record, records};
use crate::batch::{Node, Place};
use crate::dialect::{Tools, refused, unreadable};
use crate::error::LrmsError;
use bookahead_plan::Time;
use bookahead_protocol::Name;
use std::collections::{BTreeMap, BTreeSet};

/// How long the hosts of resources are cached, in seconds. They change only with LSF's configuration.
const KNOWN_FOR: i64 = 600;

/// Hosts of each resource.
#[derive(Debug, Clone)]
pub(super) struct Members {
    read: Time,
    hosts: BTreeMap<Name, BTreeSet<String>>,
}

impl Members {
    pub(super) fn resources(&self, host: &str) -> impl Iterator<Item = &Name> {
        self.hosts.iter().filter(move |(_, hosts)| hosts.contains(host)).map(|(name, _)| name)
    }
}

/// The hosts of each resource, from the cache unless it is too old.
pub(super) fn members(
    tools: &Tools,
    places: &[Place],
    known: Option<Members>,
    clock: Time,
) -> Result<Members, LrmsError> {
    // A clock that was set back must not extend the life of the cache.
    let is_fresh = |known: &Members| (0..KNOWN_FOR).contains(&(clock - known.read).0);
    if let Some(known) = known.filter(is_fresh) {
        return Ok(known);
    }
    let of_place = |place: &Place| Ok((place.resource.clone(), hosts_of(tools, place)?));
    Ok(Members { read: clock, hosts: places.iter().map(of_place).collect::<Result<_, LrmsError>>()? })
}

fn hosts_of(tools: &Tools, place: &Place) -> Result<BTreeSet<String>, LrmsError> {
    let mut hosts = match &place.partition {
        None => named(tools, &[], &[])?,
        Some(queue) => hosts_of_queue(tools, queue)?,
    };
    if !place.features.is_empty() {
        let with = named(tools, &["-R".into(), selection(&place.features)?], &[])?;
        hosts.retain(|host| with.contains(host));
    }
    Ok(hosts)
}

/// A resource requirement for all of these boolean resources.
pub(super) fn selection(features: &[String]) -> Result<String, LrmsError> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let odd = features.iter().find(|feature| feature.is_empty() || !feature.bytes().all(legal));
    match odd {
        Some(odd) => Err(refused(
            "the features",
            format!("{odd:?} is not a name of a boolean resource; use one that lsinfo lists"),
        )),
        None => Ok(format!("select[{}]", features.join(" && "))),
    }
}

fn hosts_of_queue(tools: &Tools, queue: &str) -> Result<BTreeSet<String>, LrmsError> {
    let command = tools.command("bqueues").args(["-l", queue]);
    let used = Used::read(&tools.ask(&command)?).map_err(|why| unreadable(&command, why))?;
    let mut hosts = if used.all { named(tools, &[], &[])? } else { BTreeSet::new() };
    if !used.with.is_empty() {
        hosts.extend(named(tools, &[], &used.with)?);
    }
    if !used.without.is_empty() {
        let without = named(tools, &[], &used.without)?;
        hosts.retain(|host| !without.contains(host));
    }
    Ok(hosts)
}

/// The line `HOSTS:` of `bqueues -l`: hosts, groups (followed by `/`), preferences (`+1`), exceptions (`~`).
#[derive(Debug, Default, PartialEq, Eq)]
struct Used {
    all: bool,
    with: Vec<String>,
    without: Vec<String>,
}

impl Used {
    fn read(text: &str) -> Result<Used, String> {
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix("HOSTS:"));
        let line = line.ok_or("there is no line HOSTS:")?;
        let mut used = Used::default();
        if line.trim_start().starts_with("all hosts used by") {
            return Ok(Used { all: true, ..used });
        }
        for word in line.split_whitespace() {
            let plain = |word: &str| {
                let word = word.split_once('+').map_or(word, |(name, _)| name);
                word.trim_end_matches('/').to_owned()
            };
            match word.strip_prefix('~') {
                // No command resolves `others` or hosts of other clusters.
                _ if word.contains('@') || plain(word) == "others" => {
                    return Err(format!(
                        "the queue uses {word}, whose hosts cannot be determined; list them in lsb.queues"
                    ));
                }
                Some(word) => used.without.push(plain(word)),
                None if plain(word) == "all" => used.all = true,
                None if word == "none" => {}
                None => used.with.push(plain(word)),
            }
        }
        Ok(used)
    }
}

/// The names of hosts: those in these hosts and groups, or all.
fn named(tools: &Tools, options: &[String], groups: &[String]) -> Result<BTreeSet<String>, LrmsError> {
    let command = tools.command("bhosts").args(["-X", "-o", "host_name", "-json"]);
    let command = command.args(options.to_vec()).args(groups.to_vec());
    let (records, _) = records(tools, &command, &[])?;
    Ok(records
        .iter()
        .map(|record| record.get("HOST_NAME").to_owned())
        .filter(|name| !name.is_empty())
        .collect())
}

/// All hosts that belong to a resource.
pub(super) fn all(tools: &Tools, members: &Members) -> Result<Vec<Node>, LrmsError> {
    let command = tools.command("bhosts").args(["-X", "-o", "host_name status max njobs", "-json"]);
    let mut nodes = Vec::new();
    for record in records(tools, &command, &[])?.0 {
        let (name, status) = (record.get("HOST_NAME"), record.get("STATUS"));
        // A host that is skipped would count as removed from the cluster.
        if name.is_empty() || status.is_empty() {
            return Err(unreadable(&command, "a host has no HOST_NAME or no STATUS"));
        }
        let resources: Vec<Name> = members.resources(name).cloned().collect();
        if !resources.is_empty() {
            let cores = record.number("MAX").unwrap_or(0);
            nodes.push(Node { name: name.into(), cores, usable: is_usable(status, &record), resources });
        }
    }
    Ok(nodes)
}

/// A full host is also closed, but usable (bhosts, section on the host status).
fn is_usable(status: &str, host: &Record) -> bool {
    let full = || {
        host.number::<u32>("NJOBS").zip(host.number::<u32>("MAX")).is_some_and(|(jobs, most)| jobs >= most)
    };
    match status {
        "ok" | "closed_Full" | "closed_Excl" | "closed_Busy" | "closed_cu_Excl" | "closed_cu_excl" => true,
        "closed" => full(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(line: &str) -> Result<Used, String> {
        Used::read(&format!("QUEUE: normal\n  -- For all jobs\n\nUSERS: all\n{line}\nRES_REQ:  select[x]\n"))
    }

    #[test]
    fn the_hosts_of_a_queue_are_read() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(used("HOSTS:  all").unwrap(), Used { all: true, ..Used::default() });
        assert!(used("HOSTS:  all hosts used by the LSF Batch system").unwrap().all);
        let groups = used("HOSTS:  big/ hostA+2 small/+1").unwrap();
        assert_eq!(groups, Used { all: false, with: words(&["big", "hostA", "small"]), without: Vec::new() });
        let but = used("HOSTS:  all ~hostB ~old/ ").unwrap();
        assert_eq!(but, Used { all: true, with: Vec::new(), without: words(&["hostB", "old"]) });
        assert_eq!(used("HOSTS: none").unwrap(), Used::default());
    }

    #[test]
    fn a_queue_whose_hosts_cannot_be_known_is_an_error() {
        for line in ["", "HOSTS: others+1", "HOSTS: all@east"] {
            assert!(used(line).is_err(), "{line}");
        }
    }

    #[test]
    fn features_are_names_of_boolean_resources_only() {
        assert_eq!(selection(&["ib".into(), "big_mem".into()]).unwrap(), "select[ib && big_mem]");
        assert!(selection(&["ib] rusage[x".into()]).is_err());
    }
}
