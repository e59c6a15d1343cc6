//! What an operator writes: the configuration of a site and of a broker, in TOML. What a site offers, and how it places,
//! holds and tells, is described as in a simulated grid, by the same types. Fields that are not known are errors, and
//! errors name the file, the line, the field, and what to write instead.
//!
//! - [`SiteConfig`], [`BrokerConfig`]: the files; [`print_site`], [`print_broker`]: the same, complete and with comments
//! - [`Resource`], [`Holds`], [`Reveal`], [`Limits`], [`BrokerRules`]: what the files have in common with simulated grids
//! - [`BatchConfig`], [`PlaceConfig`]: the batch system of a site, and what it calls a resource
//! - [`LocalJobs`]: jobs of local users; [`ClockConfig`]: a faster clock, and what it does to waits
//! - [`Calls`], [`BrokerLink`], [`PeerLink`]: whom a party calls; [`Server`]: what is too much for it
//! - [`Wrong`]: a value that makes no sense; [`ConfigError`]: the same, and where it stands
//!
//! It reads a clock nowhere and opens no file but the configuration itself and the logs that it names.

mod batch;
mod broker;
mod broker_rules;
mod clock;
mod error;
mod length;
mod links;
mod local_jobs;
mod page;
mod practice;
mod print;
mod resource;
mod server;
mod site;
mod wrong;

pub use batch::{BatchConfig, PlaceConfig, SshConfig, SystemName, UnitName};
pub use broker::{BROKER_PORT, BrokerConfig};
pub use broker_rules::{BrokerRules, LeftOut};
pub use clock::{ClockConfig, FASTEST, in_its_time};
pub use error::ConfigError;
pub use length::{BadLength, Length, whole_seconds};
pub use links::{BrokerLink, Calls, PeerLink};
pub use local_jobs::{LocalJobs, jobs_of_log};
pub use practice::{Adaptive, Holds, Limits, Reveal};
pub use print::{print_broker, print_site};
pub use resource::{MethodName, Resource};
pub use server::Server;
pub use site::{SITE_PORT, SiteConfig, SubmittedJobs};
pub use wrong::{Step, Wrong, check_name, percentage};
