//! Telling a broker again and again that a party is there and what it offers. Who does not answer is told ever less often,
//! and the log says when that changes, not each time.

use super::credentials::Credentials;
use crate::http::documents;
use crate::thread::{PartyHandle, ReadKind};
use bookahead_api as api;
use bookahead_client::Client;
use bookahead_protocol::Name;
use std::time::Duration;

/// A broker that does not answer is told at least so often.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A broker to register with.
pub(super) struct Registry {
    /// Where it is.
    pub(super) url: String,
    /// What it is shown.
    pub(super) credentials: Credentials,
    /// Who registers, where that is itself a broker: nobody becomes a peer of itself.
    pub(super) identity: Option<Name>,
}

impl Registry {
    fn client(&self) -> Option<Client> {
        let client = self.credentials.client(&self.url).ok()?;
        Some(self.identity.iter().fold(client, |client, identity| client.via(std::slice::from_ref(identity))))
    }
}

/// Tells a broker for as long as the party lives.
pub(super) async fn keep_registered(party: PartyHandle, mut broker: Registry, every: Duration) {
    let mut client = broker.client();
    let mut standing = Standing::Unknown;
    let mut pause = every;
    loop {
        if broker.credentials.renew() || client.is_none() {
            client = broker.client();
        }
        let told = match (&client, heartbeat(&party)) {
            (Some(client), Some(heartbeat)) => {
                client.heartbeat(&heartbeat).await.map_err(|why| why.to_string())
            }
            _ => Err("the certificates cannot be used".to_owned()),
        };
        pause = if told.is_ok() { every } else { (pause * 2).min(LONGEST_PAUSE.max(every)) };
        standing.note(party.name(), &broker.url, told);
        tokio::time::sleep(pause).await;
    }
}

/// What the party says of itself.
fn heartbeat(party: &PartyHandle) -> Option<api::Heartbeat> {
    let known = party.read(ReadKind::Short, |queries, now| queries.sites(now));
    // It comes first in its own list.
    known.into_iter().next().map(|itself| documents::heartbeat(itself.said))
}

/// How the party stands with a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Unknown,
    Registered,
    Refused,
}

impl Standing {
    /// Says in the log what has changed.
    fn note(&mut self, party: &Name, broker: &str, told: Result<(), String>) {
        let now = if told.is_ok() { Standing::Registered } else { Standing::Refused };
        if now == *self {
            return;
        }
        *self = now;
        match told {
            Ok(()) => tracing::info!(event = "registered", %party, broker, "registered"),
            Err(why) => {
                let event = "registration_failed";
                tracing::warn!(event, %party, broker, "cannot register, and tries again: {why}");
            }
        }
    }
}
