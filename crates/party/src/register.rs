//! What parties tell of themselves and of each other: what they offer, how busy they are, how long a hold takes them.

use bookahead_plan::Time;
use bookahead_protocol::{Millis, Name, Resource, Value};
use std::collections::BTreeMap;

/// What a party is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// An owner of resources.
    Site,
    /// Books at others, and is asked like a site.
    Broker,
}

/// What a party says of itself, to those who register it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Its name.
    pub name: Name,
    /// Where it can be asked.
    pub url: String,
    /// What it is.
    pub role: Role,
    /// What it offers.
    pub resources: Vec<OfferedResource>,
    /// What else there is to know of it.
    pub attributes: BTreeMap<Name, Value>,
    /// How much is asked of its resources at the moment.
    pub loads: Vec<Load>,
    /// How long a hold takes it of late, where it tells.
    pub hold_takes: Option<Millis>,
    /// The version of its software.
    pub version: Option<String>,
}

/// A resource, and the brokers through which it is reached from whoever tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedResource {
    /// What it is.
    pub resource: Resource,
    /// The identities of those brokers, the nearest first; none of a site's own.
    pub through: Vec<Name>,
}

/// How much is asked of a resource at the moment: what a job broker chooses by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// Which resource.
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

/// A party as another knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// What it says of itself.
    pub said: Heartbeat,
    /// When it was last heard of.
    pub last_heard: Option<Time>,
    /// How long a call there and back took of late.
    pub round_trip: Option<Millis>,
    /// Whether it can be asked.
    pub up: bool,
}
