//! A broker from its configuration, and its number, which no other party has: from its name and chance, drawn once and kept
//! in its state folder.

use super::calls_key::calls_key;
use super::front::{Credentials, Watched, start};
use super::{DaemonError, JOURNAL, Running};
use crate::config::{BrokerConfig, Calls, Common, PeerLink, url_below};
use crate::peers::{Heartbeats, PeerCalls, watch_peers};
use crate::replace_file::replace_file;
use crate::thread::{BatchSide, Outlets, PartyOptions};
use bookahead_client::Options;
use bookahead_party::Heartbeat;
use bookahead_party::broker::Broker;
use bookahead_protocol::Name;
use ring::digest::{Context, SHA256};
use ring::rand::{SecureRandom, SystemRandom};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// After this many heartbeats in a row without an answer a peer counts as silent: one or two may be lost on a busy network.
const MISSES: u32 = 3;

/// Starts a broker. `base` is the folder that its paths begin at.
pub async fn broker(config: &BrokerConfig, base: &Path) -> Result<Running, DaemonError> {
    config.check()?;
    let unnamed = for_unnamed(config, base)?;
    let peers = peers(config, base)?;
    let state = config.state(base);
    let mut front = Common::from(config).listen(base, &state).await?;
    let maker = maker(&state, &config.name)?;
    let identity = told_as(&config.name, maker);
    front.identity = Some(identity.clone());
    let vouches = config.calls.mints() && config.knows_callers();
    let key = if vouches { Some(calls_key(&state, &config.name)?) } else { None };
    key.iter().for_each(|key| front.mint_with(key));
    if let Some(why) = shared_tokens(config) {
        tracing::warn!(event = "token_shared", "{why}");
    }
    let outbox = config.notify.outbox(&config.name, base, &state)?;
    let options = PartyOptions {
        outbox: outbox.clone(),
        ..PartyOptions::new(config.name.as_str().into(), state.join(JOURNAL), config.clock.clock())
    };
    let broker = broker_value(config, front.about.clone(), maker, identity.clone());
    let runtime = Handle::current();
    let configured = peers.clone();
    let (hand_out, calls) = tokio::sync::oneshot::channel();
    let thread = start(options, broker, move |party| {
        let calls = PeerCalls::new(runtime, party.clone(), unnamed, identity, key);
        configure(&calls, &configured);
        // Whoever waits for it below is still there.
        let _ = hand_out.send(calls.clone());
        Outlets { peers: Box::new(move |call| calls.send(call)), batch: BatchSide::None }
    })
    .await?;
    let calls = calls.await.map_err(|_| DaemonError::Task)?;
    let every = config.heartbeat.duration();
    let mut tasks = JoinSet::new();
    tasks.spawn(watch_peers(calls.clone(), Heartbeats { every, misses: MISSES }));
    tasks.spawn(renew(calls, peers, every));
    Ok(front.open(thread, tasks, Watched::default(), outbox))
}

/// A broker that has booked nothing. `maker` is the secret that its identities are made from.
pub(super) fn broker_value(config: &BrokerConfig, about: Heartbeat, maker: u128, identity: Name) -> Broker {
    let named = config.peers.iter().map(|peer| Name::from(peer.name.as_str())).collect();
    Broker::new(config.rules(maker), config.job_rules(), about, identity, named, config.is_open())
}

fn configure(calls: &PeerCalls, peers: &[(PeerLink, Credentials)]) {
    for (peer, credentials) in peers {
        let (name, options) = (peer.name.as_str().into(), credentials.options().clone());
        let named = calls.configure(&name, &peer.url, options, peer.audience());
        if let Err(why) = named {
            let event = "peer_credentials_kept";
            tracing::warn!(event, peer = peer.name, "cannot be called with its new credentials: {why}");
        }
    }
}

/// Whether a broker could start with this configuration: files that it names are read, and nothing is written or opened.
pub fn check_broker(config: &BrokerConfig, base: &Path) -> Result<(), DaemonError> {
    config.check()?;
    for_unnamed(config, base)?;
    peers(config, base)?;
    Common::from(config).check_files(base)
}

/// How peers are called that the configuration does not name. They never see a token from a file: it is valid at others, too. A
/// certificate proves who calls and cannot be used by them.
fn for_unnamed(config: &BrokerConfig, base: &Path) -> Result<Options, DaemonError> {
    let calls = Calls { token_file: None, ..config.calls.clone() };
    Ok(Credentials::new(&calls, None, base)?.options().clone())
}

/// What to do about a token that several peers see: each could use it at the others.
pub fn shared_tokens(config: &BrokerConfig) -> Option<String> {
    let shared = config.calls.token_file.as_ref();
    let files: Vec<_> = config.peers.iter().filter_map(|peer| peer.token_file.as_ref().or(shared)).collect();
    let twice = files.iter().enumerate().find(|(at, file)| files[..*at].contains(file))?.1;
    Some(format!(
        "several peers see the token in {}, and each could use it at the others; leave token_file out, and name the key of this \
         broker in [[security.broker]] of each peer",
        twice.display()
    ))
}

fn peers(config: &BrokerConfig, base: &Path) -> Result<Vec<(PeerLink, Credentials)>, DaemonError> {
    let with_credentials = |peer: &PeerLink| {
        let credentials = Credentials::new(&config.calls, peer.token_file.as_ref(), base)?;
        // Certificates that cannot be used are better found now.
        let peer = PeerLink { url: url_below(&peer.url, base), ..peer.clone() };
        credentials.client(&peer.url)?;
        Ok((peer, credentials))
    };
    config.peers.iter().map(with_credentials).collect()
}

/// Shows peers a new token when the file has one, for as long as the broker lives.
async fn renew(calls: PeerCalls, mut peers: Vec<(PeerLink, Credentials)>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        for peer in &mut peers {
            if peer.1.renew() {
                configure(&calls, std::slice::from_ref(peer));
            }
        }
    }
}

/// The file with what was drawn.
const FILE: &str = "identity";
/// So much is drawn.
const BYTES: usize = 32;

/// The secret. The first time it is drawn, and written before anything is made from it.
pub(super) fn maker(state: &Path, name: &str) -> Result<u128, DaemonError> {
    let path = state.join(FILE);
    let failed = |cause| DaemonError::State { path: path.clone(), cause };
    let drawn = match std::fs::read(&path) {
        Ok(drawn) if drawn.len() == BYTES => drawn,
        Ok(_) => {
            let why = "it is not what was written there; restore it, or remove it together with the journal";
            return Err(failed(io::Error::new(ErrorKind::InvalidData, why)));
        }
        Err(missing) if missing.kind() == ErrorKind::NotFound => {
            let mut drawn = vec![0; BYTES];
            SystemRandom::new().fill(&mut drawn).map_err(|_| DaemonError::NoRandomness)?;
            replace_file(&path, &drawn).map_err(failed)?;
            drawn
        }
        Err(cause) => return Err(failed(cause)),
    };
    Ok(number(name.as_bytes(), &drawn))
}

/// The name by which a broker knows a call that has come through it before. Brokers of the same name are told apart by a number that
/// does not tell their secret.
pub(super) fn told_as(name: &str, maker: u128) -> Name {
    let told = number(b"identity", &maker.to_be_bytes()) >> 64;
    format!("{name}#{told:016x}").into()
}

fn number(of: &[u8], secret: &[u8]) -> u128 {
    let mut digest = Context::new(&SHA256);
    digest.update(of);
    digest.update(&[0]);
    digest.update(secret);
    let mut first = [0; 16];
    first.copy_from_slice(&digest.finish().as_ref()[..16]);
    u128::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_has_one_secret_that_no_other_has_and_that_its_name_does_not_tell() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let number = maker(one.path(), "grid").unwrap();
        assert_eq!(maker(one.path(), "grid").unwrap(), number);
        assert_ne!(maker(one.path(), "other").unwrap(), number);
        assert_ne!(maker(other.path(), "grid").unwrap(), number);
        let told = told_as("grid", number);
        assert_eq!(told, told_as("grid", number));
        assert!(!told.as_str().contains(&format!("{:016x}", number >> 64)), "{told}");
        std::fs::write(one.path().join(FILE), "x").unwrap();
        assert!(maker(one.path(), "grid").unwrap_err().to_string().contains("restore it"));
    }
}
