//! What surrounds the heads of a site and a broker: it keeps what they decide, and lets out what they answer. The heads
//! themselves live in `bookahead-protocol`; nothing here decides anything they should decide.
//!
//! - [`journal`]: events on disk before an answer leaves
//! - [`party`]: what a site and a broker have in common; [`site`], [`broker`]: what they have not
//! - [`keeper`]: the threads that drive a party, and the door to it
//! - [`http`]: one set of routes for both; [`security`]: who may do what, and TLS
//! - [`config`]: what an operator writes; [`daemon`]: a configured party at work
//! - [`clock`]: the time of day, or a faster one

pub mod broker;
pub mod clock;
pub mod config;
pub mod daemon;
pub mod http;
pub mod journal;
pub mod keeper;
pub mod party;
pub mod security;
pub mod site;
