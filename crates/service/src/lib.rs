//! Runs a site or a broker as a server: journals its decisions and delivers its answers. The parties themselves are
//! in `bookahead-party`; nothing here decides.
//!
//! - [`journal`]: events on disk before an answer leaves
//! - [`thread`]: the threads that drive a party, the handle to it, and copies of it for readers
//! - [`history`]: who booked and used how much, beyond the memory of the party
//! - [`notify`]: notices to owners, by webhook and by command
//! - [`peers`]: calls of a broker to its peers, and their heartbeats
//! - [`http`]: one set of routes for sites and brokers; [`security`]: authentication, roles, TLS
//! - [`config`]: the configuration files; [`daemon`]: a running service
//! - [`clock`]: the time of day, or an accelerated clock

pub mod clock;
pub mod config;
pub mod daemon;
pub mod history;
pub mod http;
pub mod journal;
mod kernel_clock;
pub mod notify;
mod peer_answers;
mod peer_clock;
pub mod peers;
mod replace_file;
pub mod security;
mod state_file;
pub mod thread;
mod time_of_day;
