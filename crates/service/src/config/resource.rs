//! Configuration of a resource: what it is, and how requests are placed on it. Real and simulated sites share it;
//! only their local jobs differ, hence the type parameter.

use super::batch::PlaceConfig;
use super::error::{Wrong, check_name};
use super::notice::NoticeConfig;
use bookahead_api::site::attributes_into;
use bookahead_api::{AttributeValue, Length};
use bookahead_plan::placement::{Admission, Method, SlotRules, Weights};
use bookahead_plan::{Policy, Seconds, placement};
use bookahead_protocol::ledger::{Offered, ResourceNotice};
use bookahead_protocol::{Name, Resource as Described, Tres, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::str::FromStr;

/// A resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct Resource<Jobs> {
    pub name: String,
    pub kind: String,
    pub capacity: u32,
    #[serde(default)]
    pub price: u32,
    pub joins: Option<[String; 2]>,
    #[serde(default)]
    pub tres: BTreeMap<Name, u32>,
    #[serde(default)]
    pub attributes: BTreeMap<Name, AttributeValue>,
    #[serde(default)]
    pub machines: Vec<Machines>,
    #[serde(default)]
    pub method: MethodName,
    #[serde(default = "default_policy")]
    pub policy: String,
    #[serde(default = "default_slots")]
    pub slots: usize,
    #[serde(default = "default_gap")]
    pub gap: Length,
    pub makespan_weight: Option<f64>,
    pub admission: Option<AdmissionName>,
    pub max_delayed: Option<u32>,
    pub max_delay: Option<Length>,
    pub notice: Option<NoticeConfig>,
    pub jobs: Option<Jobs>,
    pub batch: Option<PlaceConfig>,
}

/// Machines of a resource with the same speed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machines {
    /// Their capacity together.
    pub capacity: u32,
    /// How fast they are, such as `mhz` and `gflops`. Higher is faster.
    #[serde(flatten)]
    pub ratings: BTreeMap<Name, i64>,
}

fn default_policy() -> String {
    Policy::EASY.to_string()
}

fn default_slots() -> usize {
    SlotRules::default().most
}

fn default_gap() -> Length {
    SlotRules::default().gap.into()
}

/// Methods for rating slots, by the names used in options and configuration files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MethodName {
    /// Plans the queue with and without the slot.
    #[default]
    WhatIf,
    /// Approximate end of the current workload.
    Load,
    /// Gaps around running jobs and the first job in the queue.
    Earliest,
    /// Gaps around all planned jobs, so that no job is delayed.
    LocalJobsPreferred,
}

impl MethodName {
    /// All methods.
    pub const ALL: [MethodName; 4] =
        [MethodName::WhatIf, MethodName::Load, MethodName::Earliest, MethodName::LocalJobsPreferred];

    /// Name in options and configuration files.
    pub fn word(self) -> &'static str {
        match self {
            MethodName::WhatIf => "what-if",
            MethodName::Load => "load",
            MethodName::Earliest => "earliest",
            MethodName::LocalJobsPreferred => "local-jobs-preferred",
        }
    }

    /// One-line description for help texts.
    pub fn about(self) -> &'static str {
        match self {
            MethodName::WhatIf => "Plan the queue with and without the slot",
            MethodName::Load => "Use the approximate end of the current workload",
            MethodName::Earliest => "Use gaps around running jobs and the first job in the queue",
            MethodName::LocalJobsPreferred => "Use gaps around all planned jobs, so that no job is delayed",
        }
    }

    /// The method with these weights, which only what-if uses.
    pub fn method(self, weights: Weights) -> Method {
        match self {
            MethodName::WhatIf => Method::WhatIf(weights),
            MethodName::Load => Method::Load,
            MethodName::Earliest => Method::EarliestStart { local_jobs_preferred: false },
            MethodName::LocalJobsPreferred => Method::EarliestStart { local_jobs_preferred: true },
        }
    }
}

/// Which waiting jobs a reservation may delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdmissionName {
    /// All but the first one in the queue.
    ReservationsFirst,
    /// None.
    LocalJobsPreferred,
}

impl AdmissionName {
    /// As in a configuration.
    pub fn word(self) -> &'static str {
        match self {
            AdmissionName::ReservationsFirst => "reservations-first",
            AdmissionName::LocalJobsPreferred => "local-jobs-preferred",
        }
    }
}

impl<Jobs> Resource<Jobs> {
    /// Converts to the type of the ledger.
    pub fn offered(&self, site: &str) -> Result<Offered, Wrong> {
        check_name("a resource", &self.name)?;
        check_kind(&self.kind)?;
        self.check_tres()?;
        let mut resource = self.resource(site);
        resource
            .attributes
            .extend(self.slowest()?.into_iter().map(|(name, value)| (name, Value::Number(value))));
        Ok(Offered { resource, placement: self.placement()? })
    }

    fn resource(&self, site: &str) -> Described {
        let mut resource = Described::new(site, &self.name, &self.kind, self.capacity);
        resource.joins = self.joins.as_ref().map(|ends| ends.each_ref().map(|end| end.as_str().into()));
        resource.tres = self.tres();
        resource.attributes = attributes_into(self.attributes.clone());
        resource.price = self.price;
        resource
    }

    /// Totals of things beside the capacity.
    pub fn tres(&self) -> Tres {
        self.tres.iter().map(|(name, total)| (name.clone(), *total)).collect()
    }

    fn check_tres(&self) -> Result<(), Wrong> {
        let tres = self.tres();
        tres.check().map_err(|why| Wrong::new("tres", why.to_string()))?;
        // A GPU of a type would have to count in both, and one of any type in one of the others.
        let both = tres.iter().find_map(|(name, _)| {
            let (untyped, _) = name.as_str().split_once(':')?;
            tres.0.contains_key(&Name::from(untyped)).then(|| untyped.to_owned())
        });
        match both {
            Some(name) => Err(Wrong::new(
                "tres",
                format!("offer either {name} or its types, such as {name}:a100, not both"),
            )),
            None => Ok(()),
        }
    }

    /// The ratings of its slowest machines. A batch system may choose any machines for a reservation, so only these
    /// can be promised.
    fn slowest(&self) -> Result<BTreeMap<Name, i64>, Wrong> {
        let Some(first) = self.machines.first() else { return Ok(BTreeMap::new()) };
        let sum: u64 = self.machines.iter().map(|machines| u64::from(machines.capacity)).sum();
        if sum != u64::from(self.capacity) {
            let why =
                format!("the machines have a capacity of {sum} together, the resource of {}", self.capacity);
            return Err(Wrong::new("machines", why));
        }
        let mut slowest = first.ratings.clone();
        for (at, machines) in self.machines.iter().enumerate() {
            let wrong = |why: String| Err(Wrong::new(at, why).within("machines"));
            if !machines.ratings.keys().eq(slowest.keys()) {
                return wrong("give the same ratings for all machines, such as mhz".to_owned());
            }
            for (name, rating) in &machines.ratings {
                if *rating < 1 || self.attributes.contains_key(name) {
                    return wrong(format!(
                        "{name} must be 1 or more, and not an attribute of the resource, too"
                    ));
                }
                slowest.entry(name.clone()).and_modify(|least| *least = (*least).min(*rating));
            }
        }
        Ok(slowest)
    }

    /// Placement rules of the resource.
    pub fn placement(&self) -> Result<placement::Rules, Wrong> {
        Ok(placement::Rules {
            policy: self.queue_policy()?,
            method: self.method.method(self.weights()?),
            slots: SlotRules { most: self.slots, gap: self.gap.seconds().max(Seconds::ZERO), natural: true },
            admission: self.admission()?,
        })
    }

    fn weights(&self) -> Result<Weights, Wrong> {
        let Some(weight) = self.makespan_weight else { return Ok(Weights::EVEN) };
        if self.method != MethodName::WhatIf {
            let why = "only method = \"what-if\" has weights; remove makespan_weight, or change method";
            return Err(Wrong::new("makespan_weight", why));
        }
        let wrong = || format!("makespan_weight must be from 0 to 1, not {weight}");
        Weights::new(weight).ok_or_else(|| Wrong::new("makespan_weight", wrong()))
    }

    fn admission(&self) -> Result<Admission, Wrong> {
        if self.admission.is_some() && (self.max_delayed.is_some() || self.max_delay.is_some()) {
            let why = "admission is short for limits on delays; remove it, or max_delayed and max_delay";
            return Err(Wrong::new("admission", why));
        }
        Ok(match self.admission {
            Some(AdmissionName::LocalJobsPreferred) => Admission::LOCAL_JOBS_PREFERRED,
            Some(AdmissionName::ReservationsFirst) | None => Admission {
                delayed_jobs: self.max_delayed,
                total_delay: None,
                longest_delay: self.max_delay.map(Length::seconds),
            },
        })
    }

    /// The rule for the shortest notice, by the name of the resource.
    pub fn shortest_notice(&self) -> Result<Option<(Name, ResourceNotice)>, Wrong> {
        let Some(notice) = &self.notice else { return Ok(None) };
        let rule = notice.rule().map_err(|wrong| wrong.within("notice"))?;
        Ok(Some((self.name.as_str().into(), rule)))
    }

    /// Queue policy for local jobs.
    pub(crate) fn queue_policy(&self) -> Result<Policy, Wrong> {
        Policy::from_str(&self.policy).map_err(|why| Wrong::new("policy", why.to_string()))
    }
}

fn check_kind(kind: &str) -> Result<(), Wrong> {
    if kind.is_empty() || kind.chars().any(char::is_control) {
        return Err(Wrong::new("kind", "kind must be a word, such as \"processors\""));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::value::{Error, StrDeserializer};

    #[test]
    fn methods_are_read_by_their_names() {
        for method in MethodName::ALL {
            let name: StrDeserializer<'_, Error> = StrDeserializer::new(method.word());
            assert_eq!(MethodName::deserialize(name), Ok(method));
        }
    }
}
