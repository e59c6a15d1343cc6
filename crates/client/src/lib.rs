//! A typed client of the HTTP API: used by the command line, by brokers towards their peers, and by tests. Relies on `api`
//! for what is said; never decides, and never takes an answer for another than it is.
//!
//! - [`Client`]: one server, and a method for each of its routes
//! - [`Client::call`]: a call of the protocol, for brokers; it is never repeated here
//! - [`Watch`]: what happens there, as it happens
//! - [`ServerClock`]: the clock of the server, as its answers tell it
//! - [`Options`]: how the server is reached, and on whose behalf; [`TokenMinter`]: a token for each request
//! - [`Poster`], [`Getter`]: documents for and from servers that are not ours
//! - [`ClientError`]: why there is no answer, and what to do
//! - [`make`]: identities and keys that nobody else makes

mod client;
mod error;
mod get;
pub mod make;
mod message;
mod options;
mod post;
mod routes;
mod watch;

pub use client::Client;
pub use error::ClientError;
pub use get::{Document, Getter};
pub use message::ServerClock;
pub use options::{Identity, Options, TokenMinter};
pub use post::Poster;
pub use reqwest::Url;
pub use watch::Watch;
