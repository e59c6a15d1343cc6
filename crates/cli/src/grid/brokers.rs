//! Brokers from their descriptions. A broker must know what its peers offer, so those below are made first; who would be
//! his own peer, by whatever way round, is told so.

use super::config;
use super::names::{Kind, Names};
use super::sites::{REAL_TIME, REMEMBERED};
use anyhow::{Context, Result, bail, ensure};
use bookahead_protocol::{Name, Resource};
use bookahead_sim::grid::Broker;
use std::collections::BTreeMap;

/// What everybody offers, as far as it is known yet.
pub(crate) type Offers = BTreeMap<String, Vec<Resource>>;

/// All brokers, in the order of the file; `offers` has what sites offer.
pub(crate) fn build(described: &[config::Broker], names: &Names, mut offers: Offers) -> Result<Vec<Broker>> {
    for broker in described {
        let whose = format!("the peers of broker {}", broker.name);
        ensure!(!broker.peers.is_empty(), "{whose}: there are none; give at least one");
        broker.rules().check().with_context(|| format!("broker {}", broker.name))?;
        for peer in &broker.peers {
            names.find(peer, &[Kind::Site, Kind::Broker], &whose)?;
        }
    }
    let mut made: BTreeMap<&str, Broker> = BTreeMap::new();
    while made.len() < described.len() {
        let mut open =
            described.iter().enumerate().filter(|(_, broker)| !made.contains_key(broker.name.as_str()));
        let next = open.find(|(_, broker)| broker.peers.iter().all(|peer| offers.contains_key(peer)));
        let Some((at, broker)) = next else { bail!(circle(described, &offers)) };
        let peers = broker
            .peers
            .iter()
            .filter_map(|peer| Some((Name::from(peer.as_str()), offers.get(peer)?.clone())));
        // Clients have the numbers from 2^32 on.
        let rules = broker.rules().rules(at as u64 + 1, REMEMBERED, REAL_TIME);
        let built = Broker::new(&broker.name.as_str().into(), rules, peers.collect());
        offers.insert(broker.name.clone(), built.resources());
        made.insert(&broker.name, built);
    }
    Ok(described.iter().filter_map(|broker| made.remove(broker.name.as_str())).collect())
}

/// Follows peers that cannot be made until one comes again.
fn circle(described: &[config::Broker], offers: &Offers) -> String {
    let is_open = |name: &String| !offers.contains_key(name);
    let mut way: Vec<&String> = Vec::new();
    let mut next = described.iter().map(|broker| &broker.name).find(|name| is_open(name));
    while let Some(name) = next {
        if let Some(begin) = way.iter().position(|before| *before == name) {
            way.drain(..begin);
            way.push(name);
            break;
        }
        way.push(name);
        let broker = described.iter().find(|broker| broker.name == *name);
        next = broker.and_then(|broker| broker.peers.iter().find(|peer| is_open(peer)));
    }
    let way: Vec<&str> = way.into_iter().map(String::as_str).collect();
    format!("brokers ask each other in a circle: {}; take one of the peers away", way.join(" asks "))
}
