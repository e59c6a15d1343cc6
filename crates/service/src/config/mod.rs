//! Configuration of sites and brokers, in TOML. Resources, placement, holds and disclosure use the same types as
//! simulated grids. Unknown fields are errors, and errors name the file, line, field and remedy.
//!
//! - [`SiteConfig`], [`BrokerConfig`]: the files; their `print` methods write them complete and with comments from
//!   `reference`
//! - [`Resource`], [`Holds`], [`Reveal`], [`Limits`], [`BrokerRules`]: parts shared with simulated grids
//! - [`BatchConfig`], [`PlaceConfig`]: the batch system of a site, and its name for a resource
//! - [`LocalJobs`]: simulated local jobs; [`ClockConfig`]: accelerated clocks
//! - [`MaintenanceConfig`]: recurring maintenance windows
//! - [`Calls`], [`BrokerLink`], [`PeerLink`]: calls to other services; [`crate::http::Limits`]: limits on load
//! - [`NotifyConfig`]: receivers of notices
//! - [`Wrong`]: an invalid value; [`ConfigError`]: the same, with file and line
//!
//! Reads no clock, and opens no file except the configuration and the workload logs that it names.

mod batch;
mod broker;
mod changes;
mod common;
mod error;
mod holds;
mod local_jobs;
mod maintenance;
mod notice;
mod notify;
mod print;
mod resource;
mod site;

pub use batch::{BatchConfig, PlaceConfig, SshConfig, SystemName, UnitName};
pub(crate) use bookahead_api::Length;
pub use bookahead_protocol::broker::LeftOut;
pub use bookahead_protocol::deadline::Scheme;
pub use bookahead_protocol::ledger::Reveal;
pub use broker::{BrokerConfig, BrokerRules};
pub(crate) use changes::{Changes, FileDigests};
pub use common::{BrokerLink, Calls, ClockConfig, JOURNAL, Listeners, PeerLink};
pub(crate) use common::{Common, url_below};
pub use error::{ConfigError, Step, Wrong, check_name, percentage};
pub use holds::{Adaptive, Holds};
pub use local_jobs::{LocalJobs, jobs_of_log};
pub use maintenance::MaintenanceConfig;
pub use notice::{NoticeConfig, Predicted, PredictorName};
pub use notify::{NotifyConfig, WebhookConfig};
pub use resource::{AdmissionName, Machines, MethodName, Resource};
pub use site::{Limits, SiteConfig, SubmittedJobs};
