//! What an operator writes: the configuration of a site and of a broker, in TOML. What a site offers, and how it places,
//! holds and tells, is described as in a simulated grid, by the same types. Fields that are not known are errors, and
//! errors name the file, the line, the field, and what to write instead.
//!
//! - [`SiteConfig`], [`BrokerConfig`]: the files; their `print` writes them complete and with comments, from `reference`
//! - [`Resource`], [`Holds`], [`Reveal`], [`Limits`], [`BrokerRules`]: what the files have in common with simulated grids
//! - [`BatchConfig`], [`PlaceConfig`]: the batch system of a site, and what it calls a resource
//! - [`LocalJobs`]: jobs of local users; [`ClockConfig`]: a faster clock, and what it does to waits
//! - [`Calls`], [`BrokerLink`], [`PeerLink`]: whom a party calls; [`crate::http::Limits`]: limits on load
//! - [`NotifyConfig`]: who is told what happens to reservations
//! - [`Wrong`]: a value that makes no sense; [`ConfigError`]: the same, and where it stands
//!
//! It reads a clock nowhere and opens no file but the configuration itself and the logs that it names.

mod batch;
mod broker;
mod common;
mod error;
mod length;
mod local_jobs;
mod notify;
mod print;
mod resource;
mod site;

pub use batch::{BatchConfig, PlaceConfig, SshConfig, SystemName, UnitName};
pub use bookahead_protocol::broker::LeftOut;
pub use bookahead_protocol::ledger::Reveal;
pub use broker::{BrokerConfig, BrokerRules};
pub use common::{BrokerLink, Calls, ClockConfig, FASTEST, Listeners, PeerLink, SOCKET, in_its_time};
pub(crate) use common::{Common, url_below};
pub use error::{ConfigError, Step, Wrong, check_name, percentage};
pub use length::{BadLength, Length, whole_seconds};
pub use local_jobs::{LocalJobs, jobs_of_log};
pub use notify::{NotifyConfig, WebhookConfig};
pub use resource::{MethodName, Resource};
pub use site::{Adaptive, Holds, Limits, SiteConfig, SubmittedJobs};
