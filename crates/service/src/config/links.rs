//! Whom a party calls, and how: brokers that it registers with, peers that a broker asks, and the token and certificates
//! that it shows them.

use super::server::check_url;
use super::wrong::{Wrong, check_name};
use serde::Deserialize;
use std::path::PathBuf;

/// The table `[calls]`: how others are called, unless something else is said of one of them. All files are in PEM but the
/// token's, from the folder of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Calls {
    /// A file with the token that is shown to others. It is read anew when it changes.
    pub token_file: Option<PathBuf>,
    /// The authorities that certificates of others must come from.
    pub ca: Option<PathBuf>,
    /// The certificate that is shown to others.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
}

/// A broker to register with: `[[broker]]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokerLink {
    /// Where it is.
    pub url: String,
    /// A file with the token for it.
    pub token_file: Option<PathBuf>,
}

/// A site or broker to ask: `[[peer]]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerLink {
    /// What it is called here.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// A file with the token for it.
    pub token_file: Option<PathBuf>,
}

impl Calls {
    /// Says what makes no sense.
    pub fn check(&self) -> Result<(), Wrong> {
        match (&self.certificate, &self.key) {
            (Some(_), None) => {
                Err(Wrong::new("certificate", "a certificate needs its key; write key = \"key.pem\""))
            }
            (None, Some(_)) => {
                Err(Wrong::new("key", "a key needs its certificate; write certificate = \"certificate.pem\""))
            }
            _ => Ok(()),
        }
    }
}

/// Says what makes no sense.
pub(super) fn check_brokers(brokers: &[BrokerLink]) -> Result<(), Wrong> {
    let urls = brokers.iter().map(|broker| check_url(&broker.url));
    in_list("broker", urls)
}

/// Says what makes no sense.
pub(super) fn check_peers(peers: &[PeerLink]) -> Result<(), Wrong> {
    let each = peers.iter().enumerate().map(|(at, peer)| {
        check_name("a peer", &peer.name)?;
        if peers[..at].iter().any(|other| other.name == peer.name) {
            let why = format!("two peers are called {}; give each a name of its own", peer.name);
            return Err(Wrong::new("name", why));
        }
        check_url(&peer.url)
    });
    in_list("peer", each)
}

/// The first that is wrong in a list.
pub(super) fn in_list(
    list: &'static str,
    mut each: impl Iterator<Item = Result<(), Wrong>>,
) -> Result<(), Wrong> {
    let mut place = 0;
    each.try_for_each(|one| {
        place += 1;
        one.map_err(|wrong| wrong.within(place - 1).within(list))
    })
}
