//! Parts that the configurations of sites and brokers share: clock, called services, and checks. Opens no files.

use super::error::{Wrong, check_name};
use super::notify::NotifyConfig;
use crate::clock::Clock;
use crate::history::History;
use crate::http;
use crate::http::listener::{Listen, UNIX};
use crate::journal::{Database, LeaseTerms, Store};
use crate::security::Security;
use bookahead_api::{AttributeValue, Length, Timestamp};
use bookahead_lrms::batch::accounts::Projects;
use bookahead_party::Role;
use bookahead_protocol::{Millis, Moment, Name};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Fastest clock: a real millisecond should be less than a minute of simulated time.
const FASTEST: u32 = 50_000;

/// Configuration of the clock. Services that call each other need the same clock.
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
    /// Checks that speed and origin fit together.
    pub fn check(&self) -> Result<(), Wrong> {
        let why = match self {
            ClockConfig { speed: 1, origin: None } => return Ok(()),
            ClockConfig { speed: 2..=FASTEST, origin: Some(_) } => return Ok(()),
            // Harmless, but an operator who sets an origin expects an accelerated clock.
            ClockConfig { speed: 1, .. } => {
                let why = "origin is for accelerated clocks only; remove it, or set speed above 1";
                return Err(Wrong::new("origin", why).within("clock"));
            }
            ClockConfig { speed: 2..=FASTEST, .. } => {
                "an accelerated clock needs an origin, at which it equals the time of day, the same for all services: \
                 write origin = \"2026-11-16T00:00:00Z\" with a recent date"
                    .to_owned()
            }
            ClockConfig { speed, .. } => {
                format!("speed must be 1 (the time of day) to {FASTEST}, not {speed}")
            }
        };
        Err(Wrong::new("speed", why).within("clock"))
    }

    /// The configured clock.
    pub fn clock(&self) -> Clock {
        match self.origin {
            Some(origin) => Clock::accelerated(Moment::of(origin.time()), self.speed),
            None => Clock::WALL,
        }
    }
}

/// A real duration in terms of a clock with this speed. Used for waits on round trips and people, which take real
/// time on any clock.
pub(super) fn in_its_time(length: Length, speed: u32) -> Millis {
    // The longest length that can be written, times the highest speed, exceeds 64 bits.
    Millis(length.0.0.saturating_mul(i64::from(speed)))
}

/// The table `[calls]`: credentials for calls to other services, unless an entry has its own. Files are PEM, except
/// for tokens; paths are relative to the folder of the configuration.
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

/// A peer: `[[peer]]`.
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
    /// Audience (`aud`) of the tokens minted for this peer.
    pub fn audience(&self) -> &str {
        self.audience.as_deref().unwrap_or(&self.name)
    }
}

impl Calls {
    /// Whether a broker mints tokens for peers without a token file. Default: only without a certificate, because a
    /// peer that knows the certificate would refuse a token with an unknown key.
    pub(crate) fn mints(&self) -> bool {
        self.mint.unwrap_or(self.certificate.is_none())
    }

    /// Checks that certificate and key come together.
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
        // Compared with earlier entries only, so that the error points to the second of two equal names.
        if peers[..at].iter().any(|other| other.name == peer.name) {
            let why = format!("two peers have the name {}; names must be unique", peer.name);
            return Err(Wrong::new("name", why));
        }
        check_urls(&peer.url)
    });
    in_list("peer", each)
}

/// The first error in a list, with its position.
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

/// More than a year, so that a report of the last year is complete when it is written.
pub(super) fn default_history() -> Length {
    Length::of_seconds(400 * 86_400)
}

/// A length of time, or `off`.
pub(super) fn history<'de, D: Deserializer<'de>>(from: D) -> Result<Length, D::Error> {
    let text = String::deserialize(from)?;
    if text == "off" { Ok(Length::default()) } else { text.parse().map_err(de::Error::custom) }
}

pub(super) fn default_heartbeat() -> Length {
    Length::of_seconds(5)
}

pub(super) fn default_lease() -> Length {
    Length::of_seconds(10)
}

/// Name of the journal in the state folder.
pub const JOURNAL: &str = "journal.db";

/// Shortest lease: shorter ones end when the database is busy for a moment.
const SHORTEST_LEASE: Length = Length(Millis(500));

/// Name of the Unix socket in the state folder.
const SOCKET: &str = "socket";

/// Listeners of a service: one address or several.
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
        // An untagged enum would replace the error of the address by "data did not match any variant".
        from.deserialize_any(OneOrMore)
    }
}

impl From<SocketAddr> for Listeners {
    fn from(address: SocketAddr) -> Listeners {
        Listeners(vec![Listen::Tcp(address)])
    }
}

impl Listeners {
    /// TCP addresses. None by default, because the default is a Unix socket.
    pub(super) fn tcp_addresses(said: Option<&Listeners>) -> impl Iterator<Item = SocketAddr> {
        said.into_iter().flat_map(|Listeners(all)| all).filter_map(Listen::tcp)
    }
}

/// Fields that the configurations of a site and of a broker share.
pub(crate) struct Common<'a> {
    pub(crate) role: Role,
    pub(crate) name: &'a str,
    pub(super) listen: Option<&'a Listeners>,
    pub(super) state: Option<&'a Path>,
    pub(super) folder: Option<&'a Path>,
    pub(super) lease: Length,
    pub(crate) url: Option<&'a str>,
    pub(crate) attributes: &'a BTreeMap<Name, AttributeValue>,
    pub(crate) security: &'a Security,
    /// Limits with the time added that the batch system may take.
    pub(crate) limits: http::Limits,
    pub(super) server: &'a http::Limits,
    pub(crate) brokers: &'a [BrokerLink],
    pub(crate) calls: &'a Calls,
    pub(crate) notify: &'a NotifyConfig,
    pub(crate) heartbeat: Length,
    pub(super) retention: Length,
    pub(super) history: Length,
    pub(super) clock: &'a ClockConfig,
}

/// Both configurations have the same fields; only their limits differ.
macro_rules! common_of {
    ($config:ty, $role:expr, $limits:expr) => {
        impl<'a> From<&'a $config> for Common<'a> {
            fn from(config: &'a $config) -> Common<'a> {
                Common {
                    role: $role,
                    name: &config.name,
                    listen: config.listen.as_ref(),
                    state: config.state.as_deref(),
                    folder: config.folder.as_deref(),
                    lease: config.lease,
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
                    history: config.history,
                    clock: &config.clock,
                }
            }
        }
    };
}

pub(super) use common_of;

impl Common<'_> {
    /// Whether it listens on the socket in the state folder.
    pub(crate) fn has_default_socket(&self) -> bool {
        self.listen.is_none()
    }

    /// Where to listen. Default: a Unix socket in the state folder.
    pub(crate) fn listeners(&self, base: &Path) -> Vec<Listen> {
        let said = self.listen.map(|Listeners(all)| all.iter().map(|listen| listen.below(base)).collect());
        said.unwrap_or_else(|| {
            let socket = self.folder(base).join(SOCKET);
            // Absolute, because other services get the path as a URL and have other working directories.
            vec![Listen::Unix(std::path::absolute(&socket).unwrap_or(socket))]
        })
    }

    /// Whether the journal is in a database.
    fn in_database(&self) -> bool {
        self.state.and_then(Path::to_str).is_some_and(Database::is_url)
    }

    /// Folder of local files, and of the journal unless it is in a database.
    pub(crate) fn folder(&self, base: &Path) -> PathBuf {
        let said = if self.in_database() { self.folder } else { self.state };
        said.map_or_else(|| base.join(format!("bookahead-{}", self.name)), |said| base.join(said))
    }

    /// Where the journal is stored. Reads the files that the URL of a database names.
    pub(crate) fn store(&self, base: &Path) -> Result<Store, Wrong> {
        match self.state.filter(|_| self.in_database()) {
            Some(url) => Store::parse(url, base).map_err(|why| Wrong::new("state", why.to_string())),
            None => Ok(Store::File(self.folder(base).join(JOURNAL))),
        }
    }

    /// Length of the lease of a journal in a database. `longest_effect` is the longest timeout of a command or call.
    pub(crate) fn lease_terms(&self, longest_effect: Duration) -> LeaseTerms {
        LeaseTerms { length: self.lease.duration(), longest_effect }
    }

    /// The usage history. `None` if none is kept.
    pub(crate) fn history(&self, state: &Path, projects: Projects) -> Option<Arc<History>> {
        let (keep, retention) = (self.history.seconds(), self.retention.seconds());
        (keep.0 > 0).then(|| Arc::new(History::new(self.name.into(), state, keep, retention, projects)))
    }

    pub(crate) fn tcp_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        Listeners::tcp_addresses(self.listen)
    }

    /// Whether there is a TCP address without authentication: any local user can act as any user there.
    pub(crate) fn is_open_to_local_users(&self) -> bool {
        // On a Unix socket the system names the account of the caller, so only TCP addresses count.
        !self.security.is_guarded() && self.tcp_addresses().next().is_some()
    }

    /// Refuses an unauthenticated address where local users could act as the account of the service, unless the
    /// operator allows it.
    pub(super) fn check_trust(&self, could: &str) -> Result<(), Wrong> {
        let safe = !self.is_open_to_local_users() || self.security.trust_local_users;
        let why = format!(
            "at an address without authentication every user of this machine could {could}; remove listen to use \
             a Unix socket, or set security.keys or security.issuer, or, if you trust all of them, write \
             trust_local_users = true in [security]"
        );
        Wrong::unless(safe, "listen", why)
    }

    /// Checks the shared fields.
    pub(super) fn check(&self) -> Result<(), Wrong> {
        check_name(if self.role == Role::Site { "a site" } else { "a broker" }, self.name)?;
        self.url.map_or(Ok(()), check_url)?;
        self.clock.check()?;
        let empty = self.listen.is_some_and(|Listeners(all)| all.is_empty());
        let why =
            "listen is an empty list; add an address, or remove it to use a Unix socket in the state folder";
        Wrong::unless(!empty, "listen", why)?;
        let why = "heartbeat must be at least 100ms; usually \"5s\"";
        Wrong::unless(self.heartbeat >= Length(Millis(100)), "heartbeat", why)?;
        let why = "a call that is repeated after this time would be executed twice; give \"1m\" or more, usually \"1d\"";
        Wrong::unless(self.retention >= Length::of_seconds(60), "retention", why)?;
        let why = "lease must be 500ms to 1h, usually \"10s\"";
        let range = SHORTEST_LEASE..=Length::of_seconds(3_600);
        Wrong::unless(range.contains(&self.lease), "lease", why)?;
        // Registrations contain the address as URL: with 0.0.0.0 a broker would call its own machine.
        let everywhere = self.tcp_addresses().any(|address| address.ip().is_unspecified());
        let reachable = !everywhere || self.url.is_some() || self.brokers.is_empty();
        let why = "brokers cannot call a wildcard address; \
                   write url = \"https://…\" with the address for others";
        Wrong::unless(reachable, "listen", why)?;
        self.calls.check().map_err(|wrong| wrong.within("calls"))?;
        self.check_minting()?;
        self.notify.check().map_err(|wrong| wrong.within("notify"))?;
        in_list("broker", self.brokers.iter().map(|broker| check_urls(&broker.url)))?;
        // As written in the file. In `limits` a patience of 0 may have been raised, and the mistake hidden.
        self.server.check().map_err(|wrong| wrong.within("server"))
    }
}

/// Resolves the paths of Unix sockets relative to `base`. Other URLs are returned unchanged.
pub(crate) fn url_below(urls: &str, base: &Path) -> String {
    let below = |url: &str| match url.trim().parse() {
        Ok(listen @ Listen::Unix(_)) => listen.below(base).to_string(),
        _ => url.trim().to_owned(),
    };
    urls.split(',').map(below).collect::<Vec<_>>().join(",")
}

/// Checks the addresses of a service, separated by commas.
fn check_urls(urls: &str) -> Result<(), Wrong> {
    urls.split(',').try_for_each(|url| check_url(url.trim()))
}

impl Common<'_> {
    /// Only brokers have a key to sign tokens.
    fn check_minting(&self) -> Result<(), Wrong> {
        if self.role == Role::Broker {
            return Ok(());
        }
        let why = "only brokers make tokens; remove mint";
        Wrong::unless(self.calls.mint.is_none(), "mint", why).map_err(|wrong| wrong.within("calls"))?;
        let why = "only brokers make tokens; remove audience and set token_file";
        in_list(
            "broker",
            self.brokers.iter().map(|broker| Wrong::unless(broker.audience.is_none(), "audience", why)),
        )
    }
}

/// Checks the URL of a service.
pub(super) fn check_url(url: &str) -> Result<(), Wrong> {
    let rest = [UNIX, "http://", "https://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let is_file = url.starts_with(UNIX);
    // Paths are appended to the URL, so it has no query or fragment. It is logged, so it has no user or
    // password before an `@`.
    let sound = rest.is_some_and(|rest| {
        !rest.is_empty()
            && (is_file || !rest.starts_with('/'))
            && !rest
                .chars()
                .any(|letter| letter.is_whitespace() || letter.is_control() || "?#@".contains(letter))
    });
    let why = format!(
        "invalid URL \"{}\"; use a form such as \"http://127.0.0.1:7420\" or \"unix:/run/bookahead/site.sock\"",
        url.escape_debug()
    );
    Wrong::unless(sound, "url", why)
}
