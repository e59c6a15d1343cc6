//! What there is: sites and brokers with what they say of themselves, their resources, when those are taken, and whether all
//! is well.

use crate::description::{NameText, ReservationIdText};
use crate::reservation::State;
use crate::time::Timestamp;
use bookahead_plan::Capacity;
use bookahead_protocol as protocol;
use bookahead_protocol::{Name, ReservationId};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What a party is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// An owner of resources.
    Site,
    /// Books at others, and is asked like a site.
    Broker,
}

/// "I am here, and this is what I have." Sent again and again by a site or broker to the brokers that it registers with.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// What the sender is called.
    #[schema(value_type = NameText)]
    pub name: Name,
    /// Where it can be asked.
    #[schema(example = "https://north.example.org:7420")]
    pub url: String,
    /// What it is.
    pub role: Role,
    /// What it offers, with at most 64 attributes each.
    #[serde(default)]
    #[schema(max_items = 1024)]
    pub resources: Vec<Resource>,
    /// What else there is to know of it: at most 64 attributes.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, AttributeValue>)]
    pub attributes: BTreeMap<Name, AttributeValue>,
    /// How much is asked of its resources at the moment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1024)]
    pub loads: Vec<Load>,
    /// How long a hold takes the sender of late, in milliseconds: most of it is the wait for a batch system.
    #[schema(example = 850)]
    pub hold_takes_ms: Option<u64>,
    /// What has changed of what it promised: a broker asks about those that it booked.
    pub changes: Option<Changes>,
    /// The version of its software.
    #[schema(example = "0.1.0")]
    pub version: Option<String>,
}

/// What has changed of what a site or broker promised, since it was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// When it was started, in milliseconds since 1970: numbers of another epoch say nothing.
    #[schema(example = 1794819600000_i64)]
    pub epoch_ms: i64,
    /// The number of the last change.
    pub number: u64,
    /// The reservations that were changed last, the newest last; at most 256. Where more have changed since it was last asked,
    /// any may have.
    #[schema(value_type = Vec<ReservationIdText>, max_items = 256)]
    pub recent: Vec<ReservationId>,
}

/// How much is asked of a resource at the moment: what a job broker chooses by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Load {
    /// Which resource.
    #[schema(value_type = NameText)]
    pub resource: Name,
    /// How many jobs run.
    pub running_jobs: u32,
    /// How many jobs wait.
    pub waiting_jobs: u32,
    /// The capacity that all of them have asked for together.
    pub requested: u64,
    /// The longest that any of them may still run, in seconds.
    pub longest_wall_time_seconds: i64,
}

/// A site or broker, as the one who is asked knows it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Site {
    /// What it is called.
    #[schema(value_type = NameText)]
    pub name: Name,
    /// Where it can be asked.
    #[schema(example = "https://north.example.org:7420")]
    pub url: String,
    /// What it is.
    pub role: Role,
    /// What it offers.
    pub resources: Vec<Resource>,
    /// What else there is to know of it.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, AttributeValue>)]
    pub attributes: BTreeMap<Name, AttributeValue>,
    /// How much is asked of its resources, where it tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<Load>,
    /// When it was last heard of.
    pub last_heard: Option<Timestamp>,
    /// How long a call there and back took of late, in milliseconds.
    pub round_trip_ms: Option<u64>,
    /// How long a hold takes it of late, in milliseconds, where it tells.
    #[schema(example = 850)]
    pub hold_takes_ms: Option<u64>,
    /// What has changed of what it promised; only of the one that answers.
    pub changes: Option<Changes>,
    /// Whether it answers.
    pub state: Reachability,
    /// The version of its software, where it told.
    #[schema(example = "0.1.0")]
    pub version: Option<String>,
}

/// Whether a site answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reachability {
    /// It was heard of lately.
    Up,
    /// It was not.
    Silent,
}

/// All sites and brokers that are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sites {
    /// By name.
    pub sites: Vec<Site>,
}

/// Something with a capacity that is shared in space: processors of a cluster, bandwidth of a link, seats, licences.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "name": "cluster", "kind": "processors", "site": "north", "capacity": 512,
    "attributes": {"gpus": 4, "interconnect": "infiniband"}, "price_thousandths": 25
}))]
pub struct Resource {
    /// Its name at whoever answers. At a broker it begins with the name of the peer.
    #[schema(value_type = NameText)]
    pub name: Name,
    /// What kind it is: "processors", "bandwidth", "seats", "licences", "qpu", or any other word.
    #[schema(value_type = NameText, example = "processors")]
    pub kind: Name,
    /// The site it belongs to.
    #[schema(value_type = NameText)]
    pub site: Name,
    /// What there is in all.
    pub capacity: u32,
    /// Of a link: the two sites that it joins.
    #[schema(value_type = Option<[String; 2]>, min_items = 2, max_items = 2)]
    pub joins: Option<[Name; 2]>,
    /// What else there is to know, by name.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, AttributeValue>)]
    pub attributes: BTreeMap<Name, AttributeValue>,
    /// The price of one unit for an hour, in thousandths of whatever is paid with.
    #[serde(default)]
    pub price_thousandths: u32,
    /// In the register: the brokers that it is reached through, by their identities, the nearest first. A broker leaves out what
    /// would be reached through itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<NameText>, max_items = 8)]
    pub through: Vec<Name>,
}

/// What an attribute is: a text or a whole number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "an attribute is a text or a whole number")]
#[schema(example = 4)]
pub enum AttributeValue {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
}

/// The resources of a site, or of all peers of a broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resources {
    /// By name.
    pub resources: Vec<Resource>,
}

impl From<protocol::Resource> for Resource {
    fn from(resource: protocol::Resource) -> Resource {
        Resource {
            name: resource.name,
            kind: resource.kind,
            site: resource.site,
            capacity: resource.capacity.0,
            joins: resource.joins,
            attributes: attributes_from(resource.attributes),
            price_thousandths: resource.price,
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
            joins: resource.joins,
            attributes: attributes_into(resource.attributes),
            price: resource.price_thousandths,
        }
    }
}

/// Attributes as a document says them.
pub fn attributes_from(attributes: BTreeMap<Name, protocol::Value>) -> BTreeMap<Name, AttributeValue> {
    attributes.into_iter().map(|(name, value)| (name, value.into())).collect()
}

/// Attributes as the protocol says them.
pub fn attributes_into(attributes: BTreeMap<Name, AttributeValue>) -> BTreeMap<Name, protocol::Value> {
    attributes.into_iter().map(|(name, value)| (name, value.into())).collect()
}

impl From<protocol::Value> for AttributeValue {
    fn from(value: protocol::Value) -> AttributeValue {
        match value {
            protocol::Value::Text(text) => AttributeValue::Text(text.as_str().into()),
            protocol::Value::Number(number) => AttributeValue::Number(number),
        }
    }
}

impl From<AttributeValue> for protocol::Value {
    fn from(value: AttributeValue) -> protocol::Value {
        match value {
            AttributeValue::Text(text) => protocol::Value::Text(text.into()),
            AttributeValue::Number(number) => protocol::Value::Number(number),
        }
    }
}

/// The schedules of some resources, as far as the site reveals them to the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// By name.
    pub resources: Vec<ResourceSchedule>,
}

/// The schedule of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceSchedule {
    /// Which, by its name at whoever answers.
    #[schema(value_type = NameText)]
    pub resource: Name,
    /// What there is in all.
    pub capacity: u32,
    /// The moment of the answer, by the clock of whoever answers.
    pub now: Timestamp,
    /// How much of the capacity is lost at the moment.
    #[serde(default)]
    pub lost: u32,
    /// What is taken, by begin.
    pub blocks: Vec<Block>,
}

/// So much of a resource, taken from then until then.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "kind": "reservation", "begin": "2026-11-16T09:00:00Z", "end": "2026-11-16T11:00:00Z", "capacity": 64,
    "id": "rsv_4f3c2b1a", "owner": "ada", "state": "committed"
}))]
pub struct Block {
    /// By what.
    pub kind: BlockKind,
    /// From then. Of a waiting job: by the plan of this moment.
    pub begin: Timestamp,
    /// Until just before then. Of a job: by its estimate.
    pub end: Timestamp,
    /// How much.
    pub capacity: u32,
    /// The id of the reservation or job, where the caller may see it.
    #[schema(example = "rsv_4f3c2b1a")]
    pub id: Option<String>,
    /// Whose it is, where the caller may see it.
    #[schema(value_type = Option<NameText>, example = "ada")]
    pub owner: Option<Name>,
    /// Of a reservation: where in its life it is, where the caller may see it.
    pub state: Option<State>,
}

/// What takes capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BlockKind {
    /// A reservation that is committed.
    Reservation,
    /// A reservation that is held and not committed yet.
    Hold,
    /// A running job.
    RunningJob,
    /// A waiting job, where the plan of this moment puts it.
    WaitingJob,
    /// A reservation that was made past this site, in the batch system.
    Foreign,
}

/// How a site or broker is.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Whether it takes calls.
    pub status: Status,
    /// Its name.
    #[schema(value_type = NameText)]
    pub name: Name,
    /// What it is.
    pub role: Role,
    /// The version of its software.
    #[schema(example = "0.1.0")]
    pub version: String,
    /// The time by its clock.
    pub now: Timestamp,
    /// How many seconds pass on its clock in one real second: 1, unless time is accelerated.
    #[schema(example = 1)]
    pub clock_speed: u32,
    /// Number of the last event in its journal.
    pub journal_sequence: u64,
    /// What is wrong with it, where that is known: its clock was set.
    pub problem: Option<String>,
    /// How its batch system is; missing where it has none, or one that is part of it.
    pub batch: Option<BatchHealth>,
    /// How its identity provider is; missing where it fetches no keys from one.
    pub identity_provider: Option<IdentityProviderHealth>,
}

/// How an identity provider is whose keys are fetched. Calls are taken in any case; those with a token are refused while
/// there are no keys.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"state": "failing", "fetched_seconds_ago": 1260}))]
pub struct IdentityProviderHealth {
    /// Whether its keys can be fetched and used.
    pub state: IdentityProviderState,
    /// Age of the keys in seconds; missing where there are none.
    pub fetched_seconds_ago: Option<u64>,
}

/// Whether the keys of an identity provider can be fetched and used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdentityProviderState {
    /// They were fetched at the last try.
    Ok,
    /// The last try failed; the keys of before are in use.
    Failing,
    /// There are none, or they are too old: no token can be checked.
    NoKeys,
}

/// How the batch system of a site is. The site takes calls in any case.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"state": "slow", "since": "2026-11-16T09:00:00Z", "looked_seconds_ago": 47}))]
pub struct BatchHealth {
    /// Whether it answers.
    pub state: BatchState,
    /// Since when it is in this state; missing before its first answer.
    pub since: Option<Timestamp>,
    /// Age in seconds of the last look at its queue and nodes; missing before the first since the site started.
    pub looked_seconds_ago: Option<u64>,
}

/// Whether a batch system answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BatchState {
    /// It answers.
    Ok,
    /// It takes long to answer.
    Slow,
    /// It does not answer. New requests get `no-batch-system`; those that wait get `batch-timeout` if that lasts too long.
    Silent,
}

/// Whether calls are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = HealthStatus)]
pub enum Status {
    /// Yes.
    Ready,
    /// No longer: it finishes what is under way and stops.
    Stopping,
    /// No: it has ended, cannot write its journal, or makes no progress.
    Failed,
}
