//! The description of a simulated grid in TOML: sites, brokers, clients, a network, and faults. These are the plain
//! values of the file; the modules that build the grid check them against each other. The settings of a site have the
//! same format as for a real site, by the types of `bookahead_service::config`.

use crate::client::request::described::Constraint;
use crate::client::request::values::Required;
use bookahead_api::{Length, Objective, OnLoss};
use bookahead_service::config::{BrokerRules, Holds, Limits, Resource, Reveal};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Random seed of the network and of generated jobs.
    #[serde(default)]
    pub(crate) seed: u64,
    /// Length of the simulation. Outstanding calls are completed after it.
    pub(crate) duration: Length,
    #[serde(default)]
    pub(crate) network: Network,
    #[serde(default, rename = "site")]
    pub(crate) sites: Vec<Site>,
    #[serde(default, rename = "broker")]
    pub(crate) brokers: Vec<Broker>,
    #[serde(default, rename = "client")]
    pub(crate) clients: Vec<Client>,
    #[serde(default, rename = "fault")]
    pub(crate) faults: Vec<Fault>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Network {
    pub(crate) fastest: Length,
    pub(crate) slowest: Length,
    /// This and the next two are percentages of messages.
    pub(crate) lost: f64,
    pub(crate) doubled: f64,
    pub(crate) delayed: f64,
}

impl Default for Network {
    fn default() -> Network {
        let length = |millis| Length(bookahead_protocol::Millis(millis));
        Network { fastest: length(5), slowest: length(50), lost: 0.0, doubled: 0.0, delayed: 0.0 }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Site {
    pub(crate) name: String,
    #[serde(default, rename = "resource")]
    pub(crate) resources: Vec<Resource<Jobs>>,
    #[serde(default)]
    pub(crate) holds: Holds,
    #[serde(default)]
    pub(crate) reveal: Reveal,
    /// Default limits of users that are not in `user_limits`.
    #[serde(default)]
    pub(crate) limits: Limits,
    #[serde(default)]
    pub(crate) user_limits: BTreeMap<String, Limits>,
}

/// Local jobs, from a trace or generated.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Jobs {
    /// Trace in Standard Workload Format; the path is relative to the description.
    pub(crate) swf: Option<PathBuf>,
    /// Skip jobs submitted earlier than this after the first job of the trace.
    pub(crate) from: Option<Length>,
    /// Maximum number of jobs from the trace.
    pub(crate) first: Option<usize>,
    /// Mean number of generated jobs per hour.
    pub(crate) per_hour: Option<f64>,
    /// Smallest and largest size of generated jobs.
    pub(crate) size: Option<[u32; 2]>,
    /// Shortest and longest run time of generated jobs.
    pub(crate) run: Option<[Length; 2]>,
    /// Model of requested times: exact, popular, or factor:F.
    pub(crate) estimates: Option<String>,
    pub(crate) seed: Option<u64>,
}

/// A broker. Its rules are in the same table as its name, and have the defaults of a real broker.
#[derive(Debug, Deserialize)]
#[serde(try_from = "BrokerTable")]
pub(crate) struct Broker {
    pub(crate) name: String,
    /// Names of sites and brokers.
    pub(crate) peers: Vec<String>,
    pub(crate) rules: BrokerRules,
}

/// Serde cannot refuse unknown fields of a flattened struct, so the rules are read from what is left of the table.
#[derive(Deserialize)]
struct BrokerTable {
    name: String,
    peers: Vec<String>,
    #[serde(flatten)]
    rules: toml::Table,
}

impl TryFrom<BrokerTable> for Broker {
    type Error = toml::de::Error;

    fn try_from(table: BrokerTable) -> Result<Broker, toml::de::Error> {
        let BrokerTable { name, peers, rules } = table;
        Ok(Broker { name, peers, rules: rules.try_into()? })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Client {
    pub(crate) name: String,
    /// Name of a broker or site.
    pub(crate) asks: String,
    #[serde(default, rename = "request")]
    pub(crate) requests: Vec<Request>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    pub(crate) at: Length,
    pub(crate) hold_for: Option<Length>,
    pub(crate) intent: Intent,
    /// Delay from the answer to the next step of the intent.
    pub(crate) after: Option<Length>,
    /// Delay from the commit to the cancel, for `commit-and-cancel` only.
    pub(crate) cancel_after: Option<Length>,
    #[serde(default)]
    pub(crate) objective: Objective,
    #[serde(default)]
    pub(crate) on_loss: OnLoss,
    #[serde(default, rename = "part")]
    pub(crate) parts: Vec<Part>,
    #[serde(default, rename = "constraint")]
    pub(crate) constraints: Vec<Constraint>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Intent {
    Book,
    Commit,
    ExtendAndCommit,
    Cancel,
    CommitAndCancel,
    Forget,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    /// Used in constraints. Default: `1`, `2` and so on, in the order of the parts.
    pub(crate) name: Option<String>,
    pub(crate) kind: String,
    pub(crate) capacity: u32,
    pub(crate) duration: Length,
    /// Earliest start. Default: the time of the request.
    pub(crate) earliest: Option<Length>,
    /// Latest end. Default: the earliest start plus the duration.
    pub(crate) latest: Option<Length>,
    #[serde(default)]
    pub(crate) require: Vec<Required>,
}

/// A fault, or its repair. With `for` it is repaired automatically after that time.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Fault {
    Crash {
        at: Length,
        party: String,
        #[serde(default)]
        point: CrashPoint,
        r#for: Option<Length>,
    },
    Restart {
        at: Length,
        party: String,
    },
    Partition {
        at: Length,
        parties: Vec<String>,
        r#for: Option<Length>,
    },
    Heal {
        at: Length,
    },
    Lose {
        at: Length,
        party: String,
        resource: String,
        capacity: u32,
        r#for: Option<Length>,
    },
    Restore {
        at: Length,
        party: String,
        resource: String,
        capacity: u32,
    },
}

/// At which point of handling its next input a party crashes.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CrashPoint {
    #[default]
    Idle,
    BeforeWriting,
    AfterWriting,
    WhileSending,
}
