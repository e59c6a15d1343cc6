//! `bookahead simulate --site`: the configuration of a site, replayed on a log. It says which settings it uses and which
//! it does not.

use crate::client::export::CONVERSION;
use crate::output::{plural, say};
use crate::times::written;
use anyhow::{Context, Result, bail};
use bookahead_plan::placement::Rules;
use bookahead_plan::{Capacity, Cluster, Policy, Profile, Seconds, Time, Waiting};
use bookahead_service::config::{LocalJobs, Resource, SiteConfig};
use bookahead_sim::Placement;
use bookahead_workload::requests::Request;
use bookahead_workload::swf::{Header, Record};
use bookahead_workload::trace::Trace;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Settings of a resource that a simulation uses.
const OF_RESOURCE: [&str; 11] = [
    "name",
    "capacity",
    "policy",
    "method",
    "slots",
    "gap",
    "makespan_weight",
    "admission",
    "max_delayed",
    "max_delay",
    "batch",
];

/// Settings of `[limits]` that it uses.
const OF_LIMITS: [&str; 4] = ["notice", "horizon", "share", "longest_job"];

/// One resource of a site.
pub(crate) struct Twin {
    pub(crate) capacity: u32,
    pub(crate) rules: Rules,
    pub(crate) limits: Limits,
    partition: Option<String>,
    told: Told,
}

/// What is used and what is not, for people and programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Told {
    site: String,
    resource: String,
    used: BTreeMap<String, String>,
    ignored: Vec<String>,
}

/// Default limits of a user that need no more than the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Limits {
    notice: Option<Seconds>,
    horizon: Option<Seconds>,
    most: Option<Capacity>,
    longest_job: Option<Seconds>,
}

impl Twin {
    /// Reads the configuration. Without a name the site must have one resource only.
    pub(crate) fn read(path: &Path, name: Option<&str>) -> Result<Twin> {
        let config = SiteConfig::read(path)?;
        let resource = chosen(&config, name)?;
        let rules = resource.placement().map_err(|wrong| anyhow::anyhow!("{}: {wrong}", path.display()))?;
        let limits = Limits {
            notice: config.limits.notice.map(bookahead_api::Length::seconds),
            horizon: config.limits.horizon.map(bookahead_api::Length::seconds),
            most: config.limits.share.map(|share| share_of(resource.capacity, share)),
            longest_job: config
                .limits
                .longest_job
                .or(config.limits.horizon)
                .map(bookahead_api::Length::seconds),
        };
        // Read once more as a table: which settings the file has.
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let table: toml::Table = toml::from_str(&text).with_context(|| path.display().to_string())?;
        let told = Told {
            site: config.name.clone(),
            resource: resource.name.clone(),
            used: used(resource, &rules, &config),
            ignored: ignored(&table, &resource.name),
        };
        let partition = resource.batch.as_ref().and_then(|place| place.partition.clone());
        Ok(Twin { capacity: resource.capacity, rules, limits, partition, told })
    }

    pub(crate) fn told(&self) -> &Told {
        &self.told
    }

    /// Says what is used and what is not. `policies` are those that are simulated.
    pub(crate) fn say(&self, file: &Path, policies: &[Policy]) {
        let Told { site, resource, used, ignored } = &self.told;
        let used: Vec<String> = used.iter().map(|(key, value)| format!("{key} {value}")).collect();
        say!("{}: {resource} of {site}: uses {}", file.display(), used.join(", "));
        if policies != [self.rules.policy] {
            say!("  except policy: --scheduler or --compare replaces it");
        }
        if !ignored.is_empty() {
            say!("  does not use {}", ignored.join(", "));
        }
    }

    /// Leaves out jobs that never were in the queue of this resource, and those that the site would refuse.
    pub(crate) fn select(&self, trace: &mut Trace) -> Result<()> {
        let partition = self.partition.as_deref().and_then(|name| numbered(&trace.header, "Partition", name));
        let exported = trace.header.get("Conversion").is_some_and(|by| by == CONVERSION);
        let reserved = numbered(&trace.header, "Queue", "reservation").filter(|_| exported);
        let elsewhere = |record: &Record| partition.is_some_and(|own| record.partition != own);
        let in_reservation = |record: &Record| reserved.is_some_and(|queue| record.queue == queue);
        let (mut counts, mut kept) = ([0_u64; 3], Vec::new());
        for (job, record) in trace.jobs.iter().zip(&trace.records) {
            let too_long = self.limits.longest_job.is_some_and(|longest| job.request > longest);
            let why = [elsewhere(record), in_reservation(record), too_long].into_iter().position(|out| out);
            if let Some(why) = why {
                counts[why] += 1;
            }
            kept.push(why.is_none());
        }
        let mut keep = kept.iter();
        trace.jobs.retain(|_| keep.next().is_some_and(|keep| *keep));
        let mut keep = kept.iter();
        trace.records.retain(|_| keep.next().is_some_and(|keep| *keep));
        let reasons = [
            "of other partitions",
            "that ran in reservations, which --reservations replays",
            "above limits.longest_job",
        ];
        for (count, reason) in counts.into_iter().zip(reasons).filter(|(count, _)| *count > 0) {
            say!("  left out {} {reason}", plural(count, "job"));
        }
        if trace.jobs.is_empty() {
            bail!("no job of {} is left; check the log and --resource", self.told.resource);
        }
        Ok(())
    }
}

fn chosen<'a>(config: &'a SiteConfig, name: Option<&str>) -> Result<&'a Resource<LocalJobs>> {
    let names: Vec<&str> = config.resources.iter().map(|resource| resource.name.as_str()).collect();
    match (name, &config.resources[..]) {
        (None, [only]) => Ok(only),
        (None, _) => {
            bail!("{} has several resources; use --resource with one of: {}", config.name, names.join(", "))
        }
        (Some(name), all) => all.iter().find(|resource| resource.name == name).with_context(|| {
            format!("{} has no resource '{name}'; use one of: {}", config.name, names.join(", "))
        }),
    }
}

/// The number of a name in lines such as `; Queue: 2 reservation`.
fn numbered(header: &Header, key: &str, name: &str) -> Option<i64> {
    let values = header.directives().filter(|(found, _)| found.eq_ignore_ascii_case(key));
    let pairs = values.filter_map(|(_, value)| {
        let (number, rest) = value.split_once(' ')?;
        Some((number.parse().ok()?, rest.trim() == name))
    });
    pairs.filter(|(_, same)| *same).map(|(number, _): (i64, bool)| number).next()
}

fn share_of(capacity: u32, percent: u32) -> Capacity {
    Capacity(u32::try_from(u64::from(capacity) * u64::from(percent) / 100).unwrap_or(u32::MAX))
}

fn used(resource: &Resource<LocalJobs>, rules: &Rules, config: &SiteConfig) -> BTreeMap<String, String> {
    let length = |length: bookahead_api::Length| written(length.seconds());
    let limits = &config.limits;
    let all = [
        ("capacity", Some(resource.capacity.to_string())),
        ("policy", Some(rules.policy.to_string())),
        ("method", Some(resource.method.word().to_owned())),
        ("slots", Some(resource.slots.to_string())),
        ("gap", Some(length(resource.gap))),
        ("makespan_weight", resource.makespan_weight.map(|weight| weight.to_string())),
        ("admission", resource.admission.map(|admission| admission.word().to_owned())),
        ("max_delayed", resource.max_delayed.map(|most| most.to_string())),
        ("max_delay", resource.max_delay.map(length)),
        ("batch.partition", resource.batch.as_ref().and_then(|place| place.partition.clone())),
        ("limits.notice", limits.notice.map(length)),
        ("limits.horizon", limits.horizon.map(length)),
        ("limits.share", limits.share.map(|share| format!("{share}%"))),
        ("limits.longest_job", limits.longest_job.map(length)),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// All settings of the file that are not used, as `table.field`; whole tables where none of their fields is.
fn ignored(table: &toml::Table, resource: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (key, value) in table {
        match (key.as_str(), value) {
            ("name", _) => {}
            ("limits", toml::Value::Table(limits)) => {
                let others = limits.keys().filter(|field| !OF_LIMITS.contains(&field.as_str()));
                all.extend(others.map(|field| format!("limits.{field}")));
            }
            ("resource", toml::Value::Array(resources)) => {
                for found in resources.iter().filter_map(toml::Value::as_table) {
                    let name = found.get("name").and_then(toml::Value::as_str).unwrap_or_default();
                    if name == resource {
                        let place = found.get("batch").and_then(toml::Value::as_table);
                        let place = place.into_iter().flat_map(toml::Table::keys);
                        let place = place.filter(|field| *field != "partition");
                        let others = found.keys().filter(|field| !OF_RESOURCE.contains(&field.as_str()));
                        all.extend(others.map(|field| format!("resource.{field}")));
                        all.extend(place.map(|field| format!("resource.batch.{field}")));
                    } else {
                        all.push(format!("resource {name}"));
                    }
                }
            }
            (key, _) => all.push(key.to_owned()),
        }
    }
    all
}

/// Refuses requests beyond the limits of a site, and leaves the rest to `placement`.
pub(crate) struct Limited<P> {
    pub(crate) limits: Limits,
    pub(crate) placement: P,
}

impl<P: Placement> Placement for Limited<P> {
    fn place(&mut self, request: &Request, cluster: &Cluster<'_>, profile: &Profile) -> Option<Time> {
        let Limits { notice, horizon, most, .. } = self.limits;
        let earliest_start =
            notice.map_or(Time::MIN, |notice| cluster.now + notice).max(request.earliest_start);
        let latest_end = horizon.map_or(Time::MAX, |horizon| cluster.now + horizon).min(request.latest_end);
        let too_wide = most.is_some_and(|most| request.processors > most);
        if too_wide || earliest_start + request.duration > latest_end {
            return None;
        }
        self.placement.place(&Request { earliest_start, latest_end, ..*request }, cluster, profile)
    }

    fn job_started(&mut self, job: &Waiting, now: Time) {
        self.placement.job_started(job, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_used_is_named_field_by_field() {
        let text = "name = \"north\"\nretention = \"1d\"\n[limits]\nnotice = \"1h\"\ncount = 3\n[security]\nkeys = \"k\"\n\
            [[resource]]\nname = \"a\"\nkind = \"x\"\ncapacity = 4\npolicy = \"fcfs\"\n\
            batch = { partition = \"main\", unit = \"nodes\" }\n[[resource]]\nname = \"b\"\n";
        let table: toml::Table = toml::from_str(text).unwrap();
        let mut all = ignored(&table, "a");
        all.sort();
        assert_eq!(
            all,
            ["limits.count", "resource b", "resource.batch.unit", "resource.kind", "retention", "security"]
        );
    }

    #[test]
    fn names_of_numbers_are_found_in_the_header() {
        let mut header = Header::default();
        header.push("Queue", "1 queue");
        header.push("Queue", "2 reservation");
        assert_eq!(numbered(&header, "queue", "reservation"), Some(2));
        assert_eq!(numbered(&header, "Partition", "main"), None);
    }
}
