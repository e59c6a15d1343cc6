//! Integration tests of the client over real sockets, one binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
mod calls;
mod repeating;
mod server;
mod trusting;
mod watching;

use bookahead_client::{Client, Options};
use server::Server;
use std::time::Duration;

/// A client with short timeouts.
fn options() -> Options {
    Options { timeout: Duration::from_secs(20), patience: Duration::from_secs(20), ..Options::default() }
}

fn client(server: &Server) -> Client {
    Client::new(&server.url, options()).unwrap()
}

/// A reservation as a server sends it.
fn reservation() -> serde_json::Value {
    serde_json::json!({
        "id": "rsv_7", "owner": "ada", "state": "held", "held_for_seconds": 60, "version": 1,
        "slots": [{
            "resource": "cluster", "site": "north", "capacity": 4,
            "begin": "2026-11-16T09:00:00Z", "end": "2026-11-16T11:00:00Z",
        }],
    })
}
