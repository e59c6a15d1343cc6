//! A configured party at work: journal, threads, routes, registration and all, from a configuration to a value that can be
//! stopped. Several of them fit into one process. It prints nothing; what there is to tell goes to `tracing`.
//!
//! - [`site`], [`broker`]: start one; [`Running`]: one at work
//! - [`check_site`], [`check_broker`]: whether one could start, without starting it; [`examine_site`]: the same, step by step
//! - [`exposed_state`], [`shared_tokens`]: what an operator should be warned of
//! - [`compact_site`], [`compact_broker`]: shorten the journal of one that does not run

mod batch;
mod broker;
mod calls_key;
mod front;
mod running;
mod site;

pub use bookahead_party::site::OnLostJournal;
pub use broker::{broker, check_broker, shared_tokens};
pub use front::exposed_state;
pub use running::{Compacted, DaemonError, Running, compact_broker, compact_site};
pub use site::{check_site, examine_site, site};

/// The file in a state folder that holds a party's journal.
pub const JOURNAL: &str = "journal.db";

/// The version that parties say of themselves.
const VERSION: &str = env!("CARGO_PKG_VERSION");
