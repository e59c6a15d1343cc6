//! Sites and brokers with their resources, attributes and health.

use crate::decimal::{FineSeconds, Price};
use crate::description::{NameText, ReservationIdText};
use crate::request::{AttributeValue, tres_from};
use crate::time::{FineTimestamp, Timestamp};
use bookahead_plan::Capacity;
use bookahead_protocol as protocol;
use bookahead_protocol::{Name, ReservationId};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Role of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Owns resources.
    Site,
    /// Books at sites and other brokers. Its API is that of a site.
    Broker,
}

/// Registration of a site or broker at a broker, repeated periodically.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// Name of the sender.
    #[schema(value_type = NameText)]
    pub name: Name,
    /// URL of the sender.
    #[schema(example = "https://north.example.org:7420")]
    pub url: String,
    /// Role of the sender.
    pub role: Role,
    /// Resources of the sender, with at most 64 attributes each.
    #[serde(default)]
    #[schema(max_items = 1024)]
    pub resources: Vec<Resource>,
    /// Further attributes of the sender; at most 64.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, AttributeValue>)]
    pub attributes: BTreeMap<Name, AttributeValue>,
    /// Current load of the resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1024)]
    pub loads: Vec<Load>,
    /// Recent duration of a hold at the sender, in seconds. Most of it is the wait for a batch system.
    #[schema(value_type = Option<f64>, example = 0.85)]
    pub hold_takes_seconds: Option<FineSeconds>,
    /// Whether the batch system of the sender answers, if it has one.
    pub batch: Option<BatchState>,
    /// Recent changes of reservations. A broker queries those that it booked.
    pub changes: Option<Changes>,
    /// Software version of the sender.
    #[schema(example = "0.1.0")]
    pub version: Option<String>,
}

/// Changes of reservations at a site or broker since its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// Start time of the service. Numbers of different epochs cannot be compared.
    pub epoch: FineTimestamp,
    /// Number of the latest change.
    pub number: u64,
    /// The reservations that changed last, newest last; at most 256. If more changed since the previous heartbeat,
    /// any reservation may have changed.
    #[schema(value_type = Vec<ReservationIdText>, max_items = 256)]
    pub recent: Vec<ReservationId>,
}

/// Current load of a resource. Brokers rank sites by it when they place jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Load {
    /// Name of the resource.
    #[schema(value_type = NameText)]
    pub resource: Name,
    /// Number of running jobs.
    pub running_jobs: u32,
    /// Number of waiting jobs.
    pub waiting_jobs: u32,
    /// Total capacity requested by these jobs.
    pub requested: u64,
    /// Longest remaining run time of these jobs, in seconds.
    pub longest_wall_time_seconds: i64,
}

/// A site or broker in the register of the service that answers.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Site {
    /// Name of the site or broker.
    #[schema(value_type = NameText)]
    pub name: Name,
    /// URL of the site or broker.
    #[schema(example = "https://north.example.org:7420")]
    pub url: String,
    /// Role of the site or broker.
    pub role: Role,
    /// Its resources.
    pub resources: Vec<Resource>,
    /// Its further attributes.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, AttributeValue>)]
    pub attributes: BTreeMap<Name, AttributeValue>,
    /// Current load of its resources, if it reports any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<Load>,
    /// Time of the last heartbeat or answer.
    pub last_heard: Option<Timestamp>,
    /// Recent round-trip time of a call, in seconds.
    #[schema(value_type = Option<f64>, example = 0.012)]
    pub round_trip_seconds: Option<FineSeconds>,
    /// Recent duration of a hold, in seconds, if it reports one.
    #[schema(value_type = Option<f64>, example = 0.85)]
    pub hold_takes_seconds: Option<FineSeconds>,
    /// Whether its batch system answers, if it has one.
    pub batch: Option<BatchState>,
    /// Recent changes of reservations. Only present for the service that answers.
    pub changes: Option<Changes>,
    /// Whether it is reachable.
    pub state: Reachability,
    /// Its software version, if it reports one.
    #[schema(example = "0.1.0")]
    pub version: Option<String>,
}

/// Whether a site is reachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reachability {
    /// Heard of recently.
    Up,
    /// Not heard of recently.
    Silent,
}

/// All known sites and brokers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sites {
    /// Sorted by name.
    pub sites: Vec<Site>,
}

/// A resource whose capacity is shared: processors of a cluster, bandwidth of a link, seats, licences.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "name": "cluster", "kind": "processors", "site": "north", "capacity": 512,
    "attributes": {"gpus": 4, "interconnect": "infiniband"}, "price": 0.025
}))]
pub struct Resource {
    /// Name at the service that answers. At a broker it begins with the name of the peer.
    #[schema(value_type = NameText)]
    pub name: Name,
    /// Kind of the resource: "processors", "bandwidth", "seats", "licences", "qpu", or any other word.
    #[schema(value_type = NameText, example = "processors")]
    pub kind: Name,
    /// Site that owns the resource.
    #[schema(value_type = NameText)]
    pub site: Name,
    /// Total capacity in units of the resource.
    pub capacity: u32,
    /// Totals of things beside the capacity, by name, such as GPUs, memory and licences. Requests can ask for some.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, u32>, example = json!({"gres/gpu:a100": 8}))]
    pub tres: BTreeMap<Name, u32>,
    /// Links only: the two sites that it joins.
    #[schema(value_type = Option<[String; 2]>, min_items = 2, max_items = 2)]
    pub joins: Option<[Name; 2]>,
    /// Further attributes, by name.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, AttributeValue>)]
    pub attributes: BTreeMap<Name, AttributeValue>,
    /// Price of one unit for one hour, in the site's currency.
    #[serde(default)]
    #[schema(value_type = f64, minimum = 0)]
    pub price: Price,
    /// In the register: identities of the brokers that lead to the resource, nearest first. A broker omits
    /// resources that lead through itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<NameText>, max_items = 8)]
    pub through: Vec<Name>,
}

/// The resources of a site, or of all peers of a broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resources {
    /// Sorted by name.
    pub resources: Vec<Resource>,
}

impl From<protocol::Resource> for Resource {
    fn from(resource: protocol::Resource) -> Resource {
        Resource {
            name: resource.name,
            kind: resource.kind,
            site: resource.site,
            capacity: resource.capacity.0,
            tres: tres_from(resource.tres),
            joins: resource.joins,
            attributes: attributes_from(resource.attributes),
            price: Price(resource.price),
            // The protocol does not have it. The server of a broker adds it.
            through: Vec::new(),
        }
    }
}

impl From<Resource> for protocol::Resource {
    fn from(resource: Resource) -> protocol::Resource {
        protocol::Resource {
            name: resource.name,
            kind: resource.kind,
            site: resource.site,
            capacity: Capacity(resource.capacity),
            tres: resource.tres.into_iter().collect(),
            joins: resource.joins,
            attributes: attributes_into(resource.attributes),
            price: resource.price.0,
        }
    }
}

/// Converts attributes to their form in a document.
pub fn attributes_from(attributes: BTreeMap<Name, protocol::Value>) -> BTreeMap<Name, AttributeValue> {
    attributes.into_iter().map(|(name, value)| (name, value.into())).collect()
}

/// Converts attributes to their form in the protocol.
pub fn attributes_into(attributes: BTreeMap<Name, AttributeValue>) -> BTreeMap<Name, protocol::Value> {
    attributes.into_iter().map(|(name, value)| (name, value.into())).collect()
}

/// Health of a site or broker.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Whether it takes calls.
    pub status: Status,
    /// Name of the service.
    #[schema(value_type = NameText)]
    pub name: Name,
    /// Role of the service.
    pub role: Role,
    /// Software version of the service.
    #[schema(example = "0.1.0")]
    pub version: String,
    /// Current time of its clock.
    pub now: Timestamp,
    /// Speed of its clock: 1, unless time is accelerated for tests.
    #[schema(example = 1)]
    pub clock_speed: u32,
    /// Number of the last event in the journal.
    pub journal_sequence: u64,
    /// Known problem, such as a clock that was set back.
    pub problem: Option<String>,
    /// Health of the batch system. Missing with the built-in scheduler, and at a broker.
    pub batch: Option<BatchHealth>,
    /// Health of the identity provider. Missing if keys are not fetched from one.
    pub identity_provider: Option<IdentityProviderHealth>,
}

/// Health of an identity provider whose keys are fetched. The service takes calls in any case, but refuses tokens
/// while it has no keys.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"state": "failing", "fetched_seconds_ago": 1260}))]
pub struct IdentityProviderHealth {
    /// Whether its keys can be fetched and used.
    pub state: IdentityProviderState,
    /// Age of the keys in seconds. Missing if there are none.
    pub fetched_seconds_ago: Option<u64>,
}

/// Whether the keys of an identity provider can be fetched and used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdentityProviderState {
    /// The last fetch succeeded.
    Ok,
    /// The last fetch failed; the previous keys are in use.
    Failing,
    /// There are no keys, or they are too old. No token can be verified.
    NoKeys,
}

/// Health of the batch system of a site. The site takes calls in any case.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"state": "slow", "since": "2026-11-16T09:00:00Z", "looked_seconds_ago": 47}))]
pub struct BatchHealth {
    /// Whether it answers.
    pub state: BatchState,
    /// Time since when it is in this state. Missing before its first answer.
    pub since: Option<Timestamp>,
    /// Age in seconds of the last poll of its queue and nodes. Missing before the first poll.
    pub looked_seconds_ago: Option<u64>,
}

/// Whether a batch system answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BatchState {
    /// It answers in time.
    Ok,
    /// It answers slowly.
    Slow,
    /// It does not answer. New requests get `no-batch-system`; waiting requests get `batch-timeout` if this lasts
    /// too long.
    Silent,
}

/// Whether the service takes calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = HealthStatus)]
pub enum Status {
    /// It takes calls.
    Ready,
    /// It finishes calls in progress and takes no new ones.
    Stopping,
    /// It takes no calls: it has ended, cannot write its journal, or makes no progress.
    Failed,
    /// It takes no calls, because another process is active for the same site or broker, and takes over from it.
    Standby,
}
