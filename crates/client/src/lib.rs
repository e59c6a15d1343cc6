//! A typed client of the HTTP API for the command line, for brokers that call peers, and for tests. Relies on `api`
//! for the documents; never decides, and reports an unexpected answer as an error.
//!
//! - [`Client`]: one server, and a method for each of its routes
//! - [`Client::call`]: a protocol call, for brokers; never repeated here
//! - [`Watch`]: the stream of events
//! - [`ServerClock`]: the clock of the server
//! - [`Options`]: timeouts, credentials and TLS; [`TokenMinter`]: a new token for each request
//! - [`Poster`], [`Getter`]: documents to and from other servers
//! - [`is_internal`]: addresses that [`Options::outside_only`] refuses
//! - [`ClientError`]: what failed, and what to do
//! - [`make`]: unique ids and keys

mod client;
mod documents;
mod error;
mod internal;
pub mod make;
mod message;
mod options;
mod routes;
mod watch;

pub use client::Client;
pub use documents::{Document, Getter, Poster, form};
pub use error::ClientError;
pub use internal::{internal_host, is_internal};
pub use message::{JobOutput, ServerClock};
pub use options::{Identity, Options, TokenMinter};
pub use reqwest::Url;
pub use watch::Watch;
