//! A broker from its configuration.

use super::credentials::Credentials;
use super::front::{Common, start, state_folder};
use super::identity::{maker, told_as};
use super::{DaemonError, JOURNAL, Running};
use crate::broker::{Attention, Broker, Courier, Register, attend};
use crate::config::{BrokerConfig, PeerLink};
use crate::keeper::Keeping;
use bookahead_protocol::Name;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// After so many heartbeats without an answer a peer counts as silent.
const MISSES: u32 = 3;

/// Starts a broker. `base` is the folder that its paths begin at.
pub async fn broker(config: &BrokerConfig, base: &Path) -> Result<Running, DaemonError> {
    config.check()?;
    let everybody = Credentials::new(&config.calls, None, base)?;
    let peers = peers(config, base)?;
    let mut front = Common::from(config).listen(base).await?;
    let state = config.state(base);
    state_folder(&state)?;
    let maker = maker(&state, &config.name)?;
    let (rules, identity) = (config.rules(maker), told_as(&config.name, maker));
    front.identity = Some(identity.clone());
    let keeping = Keeping::new(config.name.as_str().into(), state.join(JOURNAL), config.clock.clock());
    let register = register(config);
    let (runtime, options) = (Handle::current(), everybody.options().clone());
    let (about, job_rules) = (front.about.clone(), config.job_rules());
    let (hand_out, courier) = tokio::sync::oneshot::channel();
    let keeper = start(keeping, move |door| {
        let courier = Courier::new(runtime, door.clone(), options, identity);
        // Whoever waits for it below is still there.
        let _ = hand_out.send(courier.clone());
        Broker::new(rules, job_rules, about, register, courier)
    })
    .await?;
    let courier = courier.await.map_err(|_| DaemonError::Task)?;
    for (peer, credentials) in &peers {
        courier.appoint(&peer.name.as_str().into(), &peer.url, credentials.options().clone())?;
    }
    let every = config.heartbeat.duration();
    let mut tasks = JoinSet::new();
    tasks.spawn(attend(keeper.door().clone(), courier.clone(), Attention { every, misses: MISSES }));
    tasks.spawn(renew(courier, everybody, peers, every));
    Ok(front.open(keeper, tasks, None))
}

/// Whether a broker could start with this configuration: files that it names are read, and nothing is written or opened.
pub fn check_broker(config: &BrokerConfig, base: &Path) -> Result<(), DaemonError> {
    config.check()?;
    Credentials::new(&config.calls, None, base)?;
    for (peer, credentials) in peers(config, base)? {
        credentials.client(&peer.url)?;
    }
    Common::from(config).check(base)
}

pub(super) fn register(config: &BrokerConfig) -> Register {
    let named = config.peers.iter().map(|peer| Name::from(peer.name.as_str()));
    Register::new(named.collect(), config.is_open())
}

fn peers(config: &BrokerConfig, base: &Path) -> Result<Vec<(PeerLink, Credentials)>, DaemonError> {
    let credentials = |peer: &PeerLink| Credentials::new(&config.calls, peer.token_file.as_ref(), base);
    config.peers.iter().map(|peer| Ok((peer.clone(), credentials(peer)?))).collect()
}

/// Shows peers a new token when the file has one, for as long as the broker lives.
async fn renew(
    courier: Courier,
    mut everybody: Credentials,
    mut peers: Vec<(PeerLink, Credentials)>,
    every: Duration,
) {
    loop {
        tokio::time::sleep(every).await;
        if everybody.renew() {
            courier.show(everybody.options());
        }
        for (peer, credentials) in &mut peers {
            if credentials.renew() {
                let appointed =
                    courier.appoint(&peer.name.as_str().into(), &peer.url, credentials.options().clone());
                if let Err(why) = appointed {
                    tracing::warn!(peer = peer.name, "the token of before stays in use: {why}");
                }
            }
        }
    }
}
