//! What the configurations of sites and brokers have in common: the clock, the parties that are called, and checks. It
//! opens no file.

use super::broker::BrokerConfig;
use super::error::{Wrong, check_name};
use super::length::Length;
use super::notify::NotifyConfig;
use super::site::SiteConfig;
use crate::clock::Clock;
use crate::http;
use crate::http::listener::{Listen, UNIX};
use crate::security::Security;
use bookahead_api::{AttributeValue, Timestamp};
use bookahead_party::Role;
use bookahead_protocol::{Millis, Moment, Name};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::collections::BTreeMap;
use std::fmt;
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
    pub mint: Option<bool>,
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
    pub audience: Option<String>,
}

/// A site or broker to ask: `[[peer]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct PeerLink {
    pub name: String,
    pub url: String,
    pub token_file: Option<PathBuf>,
    pub audience: Option<String>,
}

impl PeerLink {
    /// Whom the tokens that are made for it are for (`aud`).
    pub fn audience(&self) -> &str {
        self.audience.as_deref().unwrap_or(&self.name)
    }
}

impl Calls {
    /// Whether a broker makes tokens for peers without a token file. By default it does, unless it shows a certificate: a peer that
    /// knows that would refuse a token of a key that it does not know.
    pub fn mints(&self) -> bool {
        self.mint.unwrap_or(self.certificate.is_none())
    }

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

/// The Unix socket in the folder of its state.
pub const SOCKET: &str = "socket";

/// Where a service listens: one address or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listeners(pub Vec<Listen>);

impl Serialize for Listeners {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &*self.0 {
            [one] => one.serialize(serializer),
            all => all.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Listeners {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Listeners, D::Error> {
        struct OneOrMore;
        impl<'de> de::Visitor<'de> for OneOrMore {
            type Value = Listeners;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address such as \"127.0.0.1:7420\", a Unix socket such as \"unix:site.sock\", or a list of them")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Listeners, E> {
                text.parse().map(|one| Listeners(vec![one])).map_err(E::custom)
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<Listeners, A::Error> {
                Vec::deserialize(de::value::SeqAccessDeserializer::new(list)).map(Listeners)
            }
        }
        from.deserialize_any(OneOrMore)
    }
}

impl From<SocketAddr> for Listeners {
    fn from(address: SocketAddr) -> Listeners {
        Listeners(vec![Listen::Tcp(address)])
    }
}

impl Listeners {
    /// Those of TCP; none where nothing is said, since then it listens at a Unix socket.
    pub(super) fn tcp_addresses(said: Option<&Listeners>) -> impl Iterator<Item = SocketAddr> {
        said.into_iter().flat_map(|Listeners(all)| all).filter_map(Listen::tcp)
    }
}

/// What the configurations of a site and of a broker have in common.
pub(crate) struct Common<'a> {
    pub(crate) role: Role,
    pub(crate) name: &'a str,
    listen: Option<&'a Listeners>,
    state: Option<&'a Path>,
    pub(crate) url: Option<&'a str>,
    pub(crate) attributes: &'a BTreeMap<Name, AttributeValue>,
    pub(crate) security: &'a Security,
    /// With the time that the batch system may take.
    pub(crate) limits: http::Limits,
    server: &'a http::Limits,
    pub(crate) brokers: &'a [BrokerLink],
    pub(crate) calls: &'a Calls,
    pub(crate) notify: &'a NotifyConfig,
    pub(crate) heartbeat: Length,
    retention: Length,
    clock: &'a ClockConfig,
}

/// Both configurations have these fields; only their limits differ.
macro_rules! common_of {
    ($config:ty, $role:expr, $limits:expr) => {
        impl<'a> From<&'a $config> for Common<'a> {
            fn from(config: &'a $config) -> Common<'a> {
                Common {
                    role: $role,
                    name: &config.name,
                    listen: config.listen.as_ref(),
                    state: config.state.as_deref(),
                    url: config.url.as_deref(),
                    attributes: &config.attributes,
                    security: &config.security,
                    limits: $limits(config),
                    server: &config.server,
                    brokers: &config.brokers,
                    calls: &config.calls,
                    notify: &config.notify,
                    heartbeat: config.heartbeat,
                    retention: config.retention,
                    clock: &config.clock,
                }
            }
        }
    };
}

common_of!(SiteConfig, Role::Site, SiteConfig::server_limits);
common_of!(BrokerConfig, Role::Broker, |config: &BrokerConfig| config.server.clone());

impl Common<'_> {
    /// Where it listens: a Unix socket in its state folder unless something else is said.
    pub(crate) fn listeners(&self, base: &Path) -> Vec<Listen> {
        let said = self.listen.map(|Listeners(all)| all.iter().map(|listen| listen.below(base)).collect());
        said.unwrap_or_else(|| {
            let socket = state(self.state, self.name, base).join(SOCKET);
            vec![Listen::Unix(std::path::absolute(&socket).unwrap_or(socket))]
        })
    }

    pub(crate) fn tcp_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        Listeners::tcp_addresses(self.listen)
    }

    /// Whether callers at an address are believed whoever they say they are.
    pub(crate) fn is_open_to_local_users(&self) -> bool {
        !self.security.is_guarded() && self.tcp_addresses().next().is_some()
    }

    /// Refuses to let every local user do what only the account of the service may, unless the operator has said so.
    pub(super) fn check_trust(&self, could: &str) -> Result<(), Wrong> {
        let safe = !self.is_open_to_local_users() || self.security.trust_local_users;
        let why = format!(
            "at an address without authentication every user of this machine could {could}; leave out listen, so that it is \
             a Unix socket, or set security.keys or security.issuer, or, if you trust all of them, write \
             trust_local_users = true in [security]"
        );
        Wrong::unless(safe, "listen", why)
    }

    /// Says what makes no sense.
    pub(super) fn check(&self) -> Result<(), Wrong> {
        check_name(if self.role == Role::Site { "a site" } else { "a broker" }, self.name)?;
        self.url.map_or(Ok(()), check_url)?;
        self.clock.check()?;
        let empty = self.listen.is_some_and(|Listeners(all)| all.is_empty());
        let why = "the list is empty; name an address, or leave it out for a Unix socket in the state folder";
        Wrong::unless(!empty, "listen", why)?;
        let why = "heartbeat must be at least 100ms; usually \"5s\"";
        Wrong::unless(self.heartbeat >= Length(Millis(100)), "heartbeat", why)?;
        let why = "a call that is repeated later than that would be done twice; give \"1m\" or more, usually \"1d\"";
        Wrong::unless(self.retention >= Length::of_seconds(60), "retention", why)?;
        let everywhere = self.tcp_addresses().any(|address| address.ip().is_unspecified());
        let reachable = !everywhere || self.url.is_some() || self.brokers.is_empty();
        let why = "a broker cannot call back to an address that means every interface; \
                   write url = \"https://…\" as others reach it";
        Wrong::unless(reachable, "listen", why)?;
        self.calls.check().map_err(|wrong| wrong.within("calls"))?;
        self.check_minting()?;
        self.notify.check().map_err(|wrong| wrong.within("notify"))?;
        in_list("broker", self.brokers.iter().map(|broker| check_url(&broker.url)))?;
        self.server.check().map_err(|wrong| wrong.within("server"))
    }
}

/// The address of a service; the path of a Unix socket begins at `base`.
pub(crate) fn url_below(url: &str, base: &Path) -> String {
    match url.parse() {
        Ok(listen @ Listen::Unix(_)) => listen.below(base).to_string(),
        _ => url.to_owned(),
    }
}

impl Common<'_> {
    /// Only a broker has a key to sign tokens with.
    fn check_minting(&self) -> Result<(), Wrong> {
        if self.role == Role::Broker {
            return Ok(());
        }
        let why = "only a broker makes tokens; leave mint out";
        Wrong::unless(self.calls.mint.is_none(), "mint", why).map_err(|wrong| wrong.within("calls"))?;
        let why = "only a broker makes tokens; leave audience out and name a token_file";
        in_list(
            "broker",
            self.brokers.iter().map(|broker| Wrong::unless(broker.audience.is_none(), "audience", why)),
        )
    }
}

/// Whether others can be reached there.
pub(super) fn check_url(url: &str) -> Result<(), Wrong> {
    let rest = [UNIX, "http://", "https://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let is_file = url.starts_with(UNIX);
    let sound = rest.is_some_and(|rest| {
        !rest.is_empty()
            && (is_file || !rest.starts_with('/'))
            && !rest
                .chars()
                .any(|letter| letter.is_whitespace() || letter.is_control() || "?#@".contains(letter))
    });
    let why = format!(
        "\"{}\" is no address of a service; write it as \"http://127.0.0.1:7420\" or \"unix:/run/bookahead/site.sock\"",
        url.escape_debug()
    );
    Wrong::unless(sound, "url", why)
}
