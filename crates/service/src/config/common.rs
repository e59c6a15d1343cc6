//! What the configurations of sites and brokers have in common: the clock, the parties that are called, and checks. It
//! opens no file.

use super::error::{Wrong, check_name};
use super::length::Length;
use crate::clock::Clock;
use bookahead_api::Timestamp;
use bookahead_protocol::{Millis, Moment};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// No clock is faster: a real millisecond should still be less than a minute of plans.
pub const FASTEST: u32 = 50_000;

/// A clock. All parties that talk to each other need the same one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct ClockConfig {
    pub speed: u32,
    pub origin: Option<Timestamp>,
}

impl Default for ClockConfig {
    fn default() -> ClockConfig {
        ClockConfig { speed: 1, origin: None }
    }
}

impl ClockConfig {
    /// Says what makes no sense.
    pub fn check(&self) -> Result<(), Wrong> {
        let why = match self {
            ClockConfig { speed: 1, origin: None } => return Ok(()),
            ClockConfig { speed: 2..=FASTEST, origin: Some(_) } => return Ok(()),
            ClockConfig { speed: 1, .. } => {
                let why = "the time of day has no origin; leave it out, or give a speed above 1";
                return Err(Wrong::new("origin", why).within("clock"));
            }
            ClockConfig { speed: 2..=FASTEST, .. } => {
                "a faster clock needs an origin, where it agrees with the time of day, the same for all parties: \
                 write origin = \"2026-11-16T00:00:00Z\" with a date of these days"
                    .to_owned()
            }
            ClockConfig { speed, .. } => {
                format!("speed = {speed} is no speed; give 1 for the time of day, or up to {FASTEST}")
            }
        };
        Err(Wrong::new("speed", why).within("clock"))
    }

    /// The clock.
    pub fn clock(&self) -> Clock {
        match self.origin {
            Some(origin) => Clock::accelerated(Moment::of(origin.time()), self.speed),
            None => Clock::WALL,
        }
    }
}

/// How long something is by a clock of this speed that waits for round trips and for people: these take real time, however
/// fast the clock is.
pub fn in_its_time(length: Length, speed: u32) -> Millis {
    Millis(length.0.0.saturating_mul(i64::from(speed)))
}

/// The table `[calls]`: how others are called, unless something else is said of one of them. All files are in PEM but the
/// token's, from the folder of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct Calls {
    pub token_file: Option<PathBuf>,
    pub ca: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// A broker to register with: `[[broker]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct BrokerLink {
    pub url: String,
    pub token_file: Option<PathBuf>,
}

/// A site or broker to ask: `[[peer]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct PeerLink {
    pub name: String,
    pub url: String,
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

pub(super) fn check_brokers(brokers: &[BrokerLink]) -> Result<(), Wrong> {
    let urls = brokers.iter().map(|broker| check_url(&broker.url));
    in_list("broker", urls)
}

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

pub(super) fn default_retention() -> Length {
    Length::of_seconds(86_400)
}

pub(super) fn default_heartbeat() -> Length {
    Length::of_seconds(5)
}

pub(super) fn state(said: Option<&Path>, name: &str, base: &Path) -> PathBuf {
    match said {
        Some(said) => base.join(said),
        None => base.join(format!("bookahead-{name}")),
    }
}

pub(super) fn check_heartbeat(heartbeat: Length) -> Result<(), Wrong> {
    if heartbeat < Length(Millis(100)) {
        let why = "a heart that beats so fast does nothing else; give 100ms or more, usually \"5s\"";
        return Err(Wrong::new("heartbeat", why));
    }
    Ok(())
}

pub(super) fn check_retention(retention: Length) -> Result<(), Wrong> {
    if retention < Length::of_seconds(60) {
        let why = "a call that is repeated later than that would be done twice; give \"1m\" or more, usually \"1d\"";
        return Err(Wrong::new("retention", why));
    }
    Ok(())
}

/// Whoever registers says where he can be reached, and everywhere is no such place.
pub(super) fn check_reachable(
    listen: SocketAddr,
    url: Option<&str>,
    brokers: &[BrokerLink],
) -> Result<(), Wrong> {
    if listen.ip().is_unspecified() && url.is_none() && !brokers.is_empty() {
        let why = "a broker cannot call back to an address that means every interface; \
                   write url = \"https://…\" as others reach it";
        return Err(Wrong::new("listen", why));
    }
    Ok(())
}

/// An address with a port; names of machines are not looked up, since they may come to mean another address.
pub(super) fn address<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(|_| {
        let why = "is no address to listen at; write an IP address and a port, such as \"127.0.0.1:7420\"";
        de::Error::custom(format!("\"{}\" {why}", text.escape_debug()))
    })
}

/// Whether others can be reached there.
pub(super) fn check_url(url: &str) -> Result<(), Wrong> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let sound = rest.is_some_and(|rest| {
        !rest.is_empty()
            && !rest.starts_with('/')
            && !rest
                .chars()
                .any(|letter| letter.is_whitespace() || letter.is_control() || "?#@".contains(letter))
    });
    if sound {
        return Ok(());
    }
    let why = format!(
        "\"{}\" is no address of a service; write it as \"http://127.0.0.1:7420\"",
        url.escape_debug()
    );
    Err(Wrong::new("url", why))
}
