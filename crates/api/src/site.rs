//! The register of sites and brokers: who is there, what each has, and whether it was heard of lately.

use crate::ids::NameText;
use crate::resource::{AttributeValue, Resource};
use crate::time::Timestamp;
use bookahead_protocol::Name;
use serde::{Deserialize, Serialize};
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
    /// What it offers.
    #[serde(default)]
    pub resources: Vec<Resource>,
    /// What else there is to know of it.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, AttributeValue>)]
    pub attributes: BTreeMap<Name, AttributeValue>,
    /// How much is asked of its resources at the moment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<Load>,
    /// How long a hold takes the sender of late, in milliseconds: most of it is the wait for a batch system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 850)]
    pub hold_takes_ms: Option<u64>,
    /// The version of its software.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "0.1.0")]
    pub version: Option<String>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heard: Option<Timestamp>,
    /// How long a call there and back took of late, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ms: Option<u64>,
    /// How long a hold takes it of late, in milliseconds, where it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 850)]
    pub hold_takes_ms: Option<u64>,
    /// Whether it answers.
    pub state: Reachability,
    /// The version of its software, where it told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
