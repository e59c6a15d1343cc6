//! A running service: from a configuration to journal, threads, routes and registration, and back to a clean stop.
//! Several fit into one process. Prints nothing; messages go to `tracing`.
//!
//! - [`site`], [`broker`]: start a service; [`Running`]: a running one
//! - [`check_site`], [`check_broker`]: check a configuration without starting; [`examine_site`]: the same, step by
//!   step
//! - [`exposed_state`], [`shared_tokens`]: warnings for the operator
//! - [`compact_site`], [`compact_broker`]: compact the journal of a stopped service

mod batch;
mod broker;

mod compact;
mod front;
mod own_keys;
mod reload;
mod running;
mod site;
mod standby;

pub use bookahead_party::site::OnLostJournal;
pub use broker::{broker, check_broker, shared_tokens};
pub use compact::{Compacted, compact_broker, compact_site};
pub use front::exposed_state;
pub(crate) use front::numbered;
pub use running::{DaemonError, Running};
pub use site::{check_site, examine_site, site};

pub use crate::config::JOURNAL;

use std::pin::Pin;

/// A future that is compiled once, in this crate. Otherwise every program and test that starts a service would compile
/// most of the service again.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Version that services report.
const VERSION: &str = env!("CARGO_PKG_VERSION");
