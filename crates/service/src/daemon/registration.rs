//! Telling a broker again and again that a party is there and what it offers. Who does not answer is told ever less often,
//! and the log says when that changes, not each time.

use super::credentials::Credentials;
use crate::keeper::Door;
use bookahead_api as api;
use bookahead_client::Client;
use bookahead_protocol::Name;
use std::time::Duration;

/// A broker that does not answer is told at least so often.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long a party may take to say what it offers.
const PATIENCE: Duration = Duration::from_secs(10);

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
pub(super) async fn keep_registered(door: Door, mut broker: Registry, every: Duration) {
    let mut client = broker.client();
    let mut standing = Standing::Unknown;
    let mut pause = every;
    loop {
        if broker.credentials.renew() || client.is_none() {
            client = broker.client();
        }
        let told = match (&client, heartbeat(&door).await) {
            (Some(client), Some(heartbeat)) => {
                client.heartbeat(&heartbeat).await.map_err(|why| why.to_string())
            }
            (None, _) => Err("the certificates cannot be used".to_owned()),
            // It has no time for that now.
            (_, None) => {
                tokio::time::sleep(every).await;
                continue;
            }
        };
        pause = if told.is_ok() { every } else { (pause * 2).min(LONGEST_PAUSE.max(every)) };
        standing.note(&door, &broker.url, told);
        tokio::time::sleep(pause).await;
    }
}

/// What the party says of itself.
async fn heartbeat(door: &Door) -> Option<api::Heartbeat> {
    let itself =
        door.look(PATIENCE, |sight, now| sight.sites(now).into_iter().next()).await.ok().flatten()?;
    let api::Site { name, url, role, resources, attributes, loads, version, .. } = itself;
    Some(api::Heartbeat { name, url, role, resources, attributes, loads, version })
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
    fn note(&mut self, door: &Door, broker: &str, told: Result<(), String>) {
        let now = if told.is_ok() { Standing::Registered } else { Standing::Refused };
        if now == *self {
            return;
        }
        *self = now;
        match told {
            Ok(()) => tracing::info!(party = %door.name(), broker, "registered"),
            Err(why) => {
                tracing::warn!(party = %door.name(), broker, "cannot register, and tries again: {why}");
            }
        }
    }
}
