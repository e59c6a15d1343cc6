//! Starts a broker from its configuration. Its unique number is derived from its name and a random secret, which is
//! drawn once and kept in the state folder.

use super::front::{Credentials, Watched, open, start};
use super::own_keys::calls_key;
use super::reload::Current;
use super::{Boxed, DaemonError, Running};
use crate::config::{BrokerConfig, Calls, Common, PeerLink, url_below};
use crate::http::JobOutputs;
use crate::journal::Kind;
use crate::peers::{Heartbeats, PeerCalls, watch_peers};
use crate::replace_file::replace_file;
use crate::thread::{BatchSide, Outlets, PartyOptions};
use bookahead_client::Options;
use bookahead_lrms::batch::accounts::Projects;
use bookahead_party::broker::Broker;
use bookahead_party::{Heartbeat, Party};
use bookahead_protocol::Name;
use ring::digest::{Context, SHA256};
use ring::rand::{SecureRandom, SystemRandom};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Missed heartbeats after which a peer counts as silent: one or two may get lost on a busy network.
const MISSES: u32 = 3;

/// Starts a broker. Paths are relative to `base`.
pub fn broker<'a>(config: &'a BrokerConfig, base: &'a Path) -> Boxed<'a, Result<Running, DaemonError>> {
    Box::pin(start_broker(config, base))
}

async fn start_broker(config: &BrokerConfig, base: &Path) -> Result<Running, DaemonError> {
    config.check()?;
    let unnamed = for_unnamed(config, base)?;
    let peers = peers(config, base)?;
    let state = config.state(base);
    let mut front = Common::from(config).listen(base, &state).await?;
    let maker = maker(&state, &config.name)?;
    let identity = told_as(&config.name, maker);
    front.identity = Some(identity.clone());
    // A token for a peer vouches for the caller, so the broker must have authenticated them.
    let vouches = config.calls.mints() && config.knows_callers();
    let key = if vouches { Some(calls_key(&state, &config.name)?) } else { None };
    key.iter().for_each(|key| front.mint_with(key));
    if let Some(why) = shared_tokens(config) {
        tracing::warn!(event = "token_shared", "{why}");
    }
    let seat = Common::from(config).seat(base, &front.about.url, config.lease.duration())?;
    let kind = Kind::new(Broker::KIND, config.name.clone(), Broker::SCHEMA);
    let whose = (Broker::KIND, config.name.as_str());
    let outbox = config.notify.outbox(whose, base, &state, (&seat.store, &seat.lease))?;
    let clock = config.clock.clock();
    let options = PartyOptions {
        outbox: outbox.clone(),
        history: Common::from(config).history(&state, Projects::default()),
        options: seat.take(kind, &mut front, clock, &state).await?,
        ..PartyOptions::new(config.name.as_str().into(), &seat.store, clock)
    };
    let broker = broker_value(config, front.about.clone(), maker, identity.clone());
    front.epochs = seat.epochs(Broker::KIND, &config.name, &state).await?;
    front.set_user_lists(seat.user_lists(Broker::KIND, &config.name, &state).await?);
    let runtime = Handle::current();
    let configured = peers.clone();
    let (hand_out, calls) = tokio::sync::oneshot::channel();
    let thread = start(open(options, broker).await?, move |party| {
        let calls = PeerCalls::new(runtime, party.clone(), unnamed, identity, key);
        configure(&calls, &configured);
        // The receiver below cannot be gone.
        let _ = hand_out.send(calls.clone());
        Outlets { peers: Box::new(move |call| calls.send(call)), batch: BatchSide::None }
    })
    .await?;
    let calls = calls.await.map_err(|_| DaemonError::Task)?;
    let every = config.heartbeat.duration();
    let mut tasks = JoinSet::new();
    tasks.spawn(watch_peers(calls.clone(), Heartbeats { every, misses: MISSES }));
    let (peers, renewed) = watch::channel(peers);
    tasks.spawn(renew(calls.clone(), renewed, every));
    let watched = Watched { outputs: JobOutputs::AtPeers(calls.clone()), ..Watched::default() };
    let current = Current::Broker { config: Box::new(config.clone()), calls, peers };
    Ok(front.open(thread, tasks, watched, outbox, current))
}

/// A broker without bookings. `maker` is the secret that its ids are derived from.
pub(super) fn broker_value(config: &BrokerConfig, about: Heartbeat, maker: u128, identity: Name) -> Broker {
    let named = config.peers.iter().map(|peer| Name::from(peer.name.as_str())).collect();
    Broker::new(config.rules(maker), config.job_rules(), about, identity, named, config.is_open())
}

pub(super) fn configure(calls: &PeerCalls, peers: &[(PeerLink, Credentials)]) {
    for (peer, credentials) in peers {
        let (name, options) = (peer.name.as_str().into(), credentials.options().clone());
        let named = calls.configure(&name, &peer.url, options, peer.audience());
        if let Err(why) = named {
            let event = "peer_credentials_kept";
            tracing::warn!(
                event,
                peer = peer.name,
                "keeping the old credentials, because the new ones cannot be used: {why}"
            );
        }
    }
}

/// Checks whether a broker could start with this configuration. Reads the files that it names; writes nothing and
/// opens no listener.
pub fn check_broker(config: &BrokerConfig, base: &Path) -> Result<(), DaemonError> {
    config.check()?;
    for_unnamed(config, base)?;
    peers(config, base)?;
    Common::from(config).check_files(base)
}

/// Options for peers that are not in the configuration. They never see a token from a file, because they could use
/// it at other peers. A certificate proves the caller's identity and cannot be reused by them.
pub(super) fn for_unnamed(config: &BrokerConfig, base: &Path) -> Result<Options, DaemonError> {
    let calls = Calls { token_file: None, ..config.calls.clone() };
    let options = Credentials::new(&calls, None, base)?.options().clone();
    Ok(Options { outside_only: !config.is_open_to_private_addresses(), ..options })
}

/// A warning if several peers see the same token, because each could use it at the others.
pub fn shared_tokens(config: &BrokerConfig) -> Option<String> {
    let shared = config.calls.token_file.as_ref();
    let files: Vec<_> = config.peers.iter().filter_map(|peer| peer.token_file.as_ref().or(shared)).collect();
    let twice = files.iter().enumerate().find(|(at, file)| files[..*at].contains(file))?.1;
    Some(format!(
        "several peers see the token in {}, and each could use it at the others; remove token_file, and add the key of this \
         broker to [[security.broker]] of each peer",
        twice.display()
    ))
}

pub(super) fn peers(config: &BrokerConfig, base: &Path) -> Result<Vec<(PeerLink, Credentials)>, DaemonError> {
    let with_credentials = |peer: &PeerLink| {
        let credentials = Credentials::new(&config.calls, peer.token_file.as_ref(), base)?;
        // Fails now instead of at the first call if a certificate cannot be used.
        let peer = PeerLink { url: url_below(&peer.url, base), ..peer.clone() };
        credentials.client(&peer.url)?;
        Ok((peer, credentials))
    };
    config.peers.iter().map(with_credentials).collect()
}

/// Reads token files again while the broker runs, and uses new tokens.
async fn renew(
    calls: PeerCalls,
    mut renewed: watch::Receiver<Vec<(PeerLink, Credentials)>>,
    every: Duration,
) {
    let mut peers = renewed.borrow_and_update().clone();
    loop {
        tokio::time::sleep(every).await;
        if renewed.has_changed().unwrap_or(false) {
            peers = renewed.borrow_and_update().clone();
        }
        for peer in &mut peers {
            if peer.1.renew() {
                configure(&calls, std::slice::from_ref(peer));
            }
        }
    }
}

/// File with the secret of the broker.
pub(super) const IDENTITY: &str = "identity";
/// Length of the secret: 256 bits cannot be guessed.
const BYTES: usize = 32;

/// The number that ids are derived from. The secret is written before first use: with another one after a crash,
/// ids would differ.
pub(super) fn maker(state: &Path, name: &str) -> Result<u128, DaemonError> {
    let path = state.join(IDENTITY);
    let failed = |cause| DaemonError::State { path: path.clone(), cause };
    let drawn = match std::fs::read(&path) {
        Ok(drawn) if drawn.len() == BYTES => drawn,
        Ok(_) => {
            let why = "it is damaged; restore it, or remove it together with the journal";
            return Err(failed(io::Error::new(ErrorKind::InvalidData, why)));
        }
        Err(missing) if missing.kind() == ErrorKind::NotFound => {
            let drawn = new_identity()?;
            replace_file(&path, &drawn).map_err(failed)?;
            drawn
        }
        Err(cause) => return Err(failed(cause)),
    };
    Ok(number(name.as_bytes(), &drawn))
}

/// A new secret.
pub(super) fn new_identity() -> Result<Vec<u8>, DaemonError> {
    let mut drawn = vec![0; BYTES];
    SystemRandom::new().fill(&mut drawn).map_err(|_| DaemonError::NoRandomness)?;
    Ok(drawn)
}

/// Identity of a broker in the `via` list of calls. Brokers with the same name differ in a number, which does not
/// reveal their secret.
pub(super) fn told_as(name: &str, maker: u128) -> Name {
    let told = number(b"identity", &maker.to_be_bytes()) >> 64;
    format!("{name}#{told:016x}").into()
}

fn number(of: &[u8], secret: &[u8]) -> u128 {
    let mut digest = Context::new(&SHA256);
    digest.update(of);
    // Separates the two: no name contains a zero byte, so no other pair gives the same input.
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
        std::fs::write(one.path().join(IDENTITY), "x").unwrap();
        assert!(maker(one.path(), "grid").unwrap_err().to_string().contains("restore it"));
    }
}
