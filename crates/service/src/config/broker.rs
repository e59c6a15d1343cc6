//! Configuration of a broker.

use super::common::*;
use super::error::{self, ConfigError, Wrong};
use super::notify::NotifyConfig;
use crate::http;
use crate::http::listener::UNIX;
use crate::security::Security;
use bookahead_api::{AttributeValue, Length};
use bookahead_party::Role;
use bookahead_party::broker::JobRules;
use bookahead_plan::Seconds;
use bookahead_protocol::broker::{LeftOut, Rules};
use bookahead_protocol::candidates::Budget;
use bookahead_protocol::deadline::Scheme;
use bookahead_protocol::jobs::Patience;
use bookahead_protocol::jobs::race::Pace;
use bookahead_protocol::{Millis, Name};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Configuration of a broker. Paths are relative to the folder of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct BrokerConfig {
    pub name: String,
    pub listen: Option<Listeners>,
    pub url: Option<String>,
    pub state: Option<PathBuf>,
    /// Folder of local files, if `state` is a database; set by the command line.
    #[serde(skip)]
    pub folder: Option<PathBuf>,
    #[serde(default = "default_lease")]
    pub lease: Length,
    #[serde(default = "default_retention")]
    pub retention: Length,
    #[serde(default = "default_history", deserialize_with = "history")]
    pub history: Length,
    pub open: Option<bool>,
    pub open_to_private_addresses: Option<bool>,
    #[serde(default = "default_heartbeat")]
    pub heartbeat: Length,
    #[serde(default = "default_job_window")]
    pub job_window: Length,
    #[serde(default = "default_job_notice")]
    pub job_notice: Length,
    #[serde(default = "default_job_look")]
    pub job_look: Length,
    #[serde(default)]
    pub clock: ClockConfig,
    #[serde(default)]
    pub attributes: BTreeMap<Name, AttributeValue>,
    #[serde(default)]
    pub rules: BrokerRules,
    #[serde(default, rename = "peer")]
    pub peers: Vec<PeerLink>,
    #[serde(default, rename = "broker")]
    pub brokers: Vec<BrokerLink>,
    #[serde(default)]
    pub calls: Calls,
    #[serde(default)]
    pub notify: NotifyConfig,
    #[serde(default)]
    pub server: http::Limits,
    #[serde(default)]
    pub security: Security,
}

/// How a broker negotiates. Defaults are those of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct BrokerRules {
    pub survey_time: Length,
    pub hold_time: Length,
    pub longest_hold: Length,
    pub holding: Scheme,
    pub attempts: u32,
    pub after_refusal: LeftOut,
    pub retry_time: Length,
    pub watch_every: Length,
    pub heal_after: Length,
    pub probes_at_once: usize,
    pub probe_first: Option<usize>,
    pub enough_slots: Option<usize>,
    pub slots: u32,
    pub search_work: u64,
    pub search_time: Length,
}

impl Default for BrokerRules {
    fn default() -> BrokerRules {
        let usual = Rules::default();
        BrokerRules {
            survey_time: Length(usual.survey_time),
            hold_time: Length(usual.hold_time),
            longest_hold: Length(usual.longest_hold),
            holding: usual.holding,
            attempts: usual.attempts,
            after_refusal: LeftOut::default(),
            retry_time: Length(usual.retry_time),
            watch_every: Length(usual.watch_every.unwrap_or(Millis::ZERO)),
            heal_after: Length(usual.heal_after),
            probes_at_once: usual.probes_at_once,
            probe_first: usual.probe_first,
            enough_slots: usual.enough_slots,
            slots: usual.slots,
            search_work: usual.search.work,
            search_time: Length(usual.search_time),
        }
    }
}

impl BrokerRules {
    /// Converts to the rules of a party whose clock has this speed. `maker` is the secret of the broker; it must be
    /// unique.
    pub fn rules(&self, maker: u128, retention: Seconds, speed: u32) -> Rules {
        Rules {
            maker,
            probes_at_once: self.probes_at_once,
            probe_first: self.probe_first,
            survey_time: in_its_time(self.survey_time, speed),
            enough_slots: self.enough_slots,
            slots: self.slots,
            hold_time: in_its_time(self.hold_time, speed),
            holding: self.holding,
            attempts: self.attempts,
            after_refusal: self.after_refusal,
            retry_time: in_its_time(self.retry_time, speed),
            watch_every: Some(in_its_time(self.watch_every, speed)),
            heal_after: in_its_time(self.heal_after, speed),
            longest_hold: in_its_time(self.longest_hold, speed),
            under_way: Rules::default().under_way,
            retention,
            bounds: Rules::default().bounds,
            search: Budget { work: self.search_work },
            search_time: in_its_time(self.search_time, speed),
        }
    }

    /// Refuses values with which the broker could do nothing.
    pub fn check(&self) -> Result<(), Wrong> {
        let nothing = |field: &'static str, does: &str| {
            Err(Wrong::new(field, format!("{field} must be at least 1; 0 {does}")))
        };
        match self {
            BrokerRules { probes_at_once: 0, .. } => nothing("probes_at_once", "asks no peer"),
            BrokerRules { probe_first: Some(0), .. } => nothing("probe_first", "asks no peer"),
            BrokerRules { slots: 0, .. } => nothing("slots", "asks for no slots"),
            BrokerRules { attempts: 0, .. } => nothing("attempts", "tries no candidate"),
            _ => Ok(()),
        }
    }
}

fn default_job_window() -> Length {
    Length::of_seconds(7 * 86_400)
}

/// Batch systems take a second or two to create a reservation.
fn default_job_notice() -> Length {
    Length::of_seconds(3)
}

fn default_job_look() -> Length {
    Length::of_seconds(1)
}

common_of!(BrokerConfig, Role::Broker, |config: &BrokerConfig| config.server.clone());

impl BrokerConfig {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<BrokerConfig, ConfigError> {
        BrokerConfig::parse(path, &error::read(path, "broker")?)
    }

    /// Parses a text; `path` is used in errors only.
    pub fn parse(path: &Path, text: &str) -> Result<BrokerConfig, ConfigError> {
        error::parse(path, text, BrokerConfig::check)
    }

    /// Checks the fields, without opening other files.
    pub fn check(&self) -> Result<(), Wrong> {
        Common::from(self).check()?;
        let why = "job_look must be at least 100ms; usually \"1s\"";
        Wrong::unless(self.job_look >= Length(Millis(100)), "job_look", why)?;
        self.rules.check().map_err(|wrong| wrong.within("rules"))?;
        check_peers(&self.peers)?;
        // Without credentials there is nothing that other local users could misuse.
        if self.has_credentials() {
            Common::from(self).check_trust("act as any user at the sites that trust this broker")?;
        }
        let why = "there is no [[peer]], and registration is closed, so the broker has no peers; \
                   add a [[peer]], or write open = true";
        Wrong::unless(!self.peers.is_empty() || self.is_open(), "open", why)
    }

    /// Whether unknown sites and brokers may register. By default only if all addresses are local and there is no
    /// authentication.
    pub fn is_open(&self) -> bool {
        let guarded = self.security.is_guarded();
        // Unix sockets are local by nature, so only TCP addresses count.
        let mut tcp = Listeners::tcp_addresses(self.listen.as_ref());
        self.open.unwrap_or(!guarded && tcp.all(|address| address.ip().to_canonical().is_loopback()))
    }

    /// Whether parties may register addresses of this machine or a private network. By default only if no other
    /// machine can call this broker, directly or through a proxy.
    pub fn is_open_to_private_addresses(&self) -> bool {
        let mut tcp = Listeners::tcp_addresses(self.listen.as_ref());
        let is_local = tcp.all(|address| address.ip().to_canonical().is_loopback());
        let has_proxy = self.url.is_some() || !self.server.trusted_proxies.is_empty();
        self.open_to_private_addresses.unwrap_or(is_local && !has_proxy)
    }

    /// Whether callers are authenticated, or the operator trusts all of them. Otherwise the broker must not vouch
    /// for them.
    pub(crate) fn knows_callers(&self) -> bool {
        !Common::from(self).is_open_to_local_users() || self.security.trust_local_users
    }

    /// Whether peers can identify its calls: by a token, a certificate or its account.
    fn has_credentials(&self) -> bool {
        let Calls { token_file, certificate, mint, .. } = &self.calls;
        let local = self.peers.iter().map(|peer| &peer.url).any(|url| url.starts_with(UNIX));
        local
            || token_file.is_some()
            || certificate.is_some()
            || *mint == Some(true)
            || self.peers.iter().any(|peer| peer.token_file.is_some())
    }

    /// Rules of its negotiations.
    pub fn rules(&self, maker: u128) -> Rules {
        self.rules.rules(maker, self.retention.seconds(), self.clock.speed)
    }

    /// Rules for jobs.
    pub fn job_rules(&self) -> JobRules {
        let speed = self.clock.speed;
        let in_its_time = |length| in_its_time(length, speed);
        let hold_time = self.rules.hold_time;
        let usual = Patience::default();
        let patience =
            Patience { first: in_its_time(Length(usual.first)), longest: in_its_time(Length(usual.longest)) };
        JobRules {
            notice: in_its_time(self.job_notice),
            patience,
            look_every: in_its_time(self.heartbeat),
            flood: Pace {
                patience,
                look_every: in_its_time(self.job_look),
                silence: in_its_time(Length(hold_time.0 + hold_time.0 + hold_time.0)),
                doubt: in_its_time(hold_time),
            },
            usual_window: self.job_window.seconds(),
            retention: self.retention.seconds(),
        }
    }

    /// Folder of its journal. `base` is the folder of the configuration file.
    pub fn state(&self, base: &Path) -> PathBuf {
        Common::from(self).folder(base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<BrokerConfig, ConfigError> {
        BrokerConfig::parse(Path::new("broker.toml"), text)
    }

    #[test]
    fn a_name_is_enough_where_everybody_may_register() {
        let broker = read("name = \"grid\"\n").expect("a broker");
        assert!(broker.is_open());
        assert_eq!(broker.rules(7), Rules { maker: 7, ..Rules::default() });
        let guarded = |listen: &str, security: &str| {
            let text =
                format!("name = \"grid\"\nlisten = \"{listen}\"\nopen = true\n[security]\n{security}\n");
            let broker = read(&text).expect("a broker");
            !BrokerConfig { open: None, ..broker }.is_open()
        };
        assert!(guarded("192.0.2.1:7400", "keys = \"k\""));
        assert!(guarded("127.0.0.1:7400", "keys = \"k\""));
        assert!(guarded("127.0.0.1:7400", "issuer = \"https://id.example.org\"\naudience = \"grid\""));
    }

    #[test]
    fn private_addresses_may_register_only_where_no_other_machine_can_call() {
        let may = |text: &str| {
            read(&format!("name = \"grid\"\nopen = true\n{text}")).unwrap().is_open_to_private_addresses()
        };
        assert!(may("") && may("listen = \"127.0.0.1:7400\"") && may("listen = \"unix:grid.sock\""));
        assert!(
            !may("listen = \"0.0.0.0:7400\"") && !may("listen = [\"127.0.0.1:7400\", \"192.0.2.1:7400\"]")
        );
        assert!(!may("url = \"https://grid.example.org\""));
        assert!(!may("[server]\ntrusted_proxies = [\"127.0.0.1\"]"));
        assert!(may("listen = \"0.0.0.0:7400\"\nopen_to_private_addresses = true"));
        assert!(!may("open_to_private_addresses = false"));
    }

    #[test]
    fn its_waits_take_as_long_in_real_time_however_fast_the_clock_is() {
        let clock = "clock = { speed = 100, origin = \"2026-11-16T00:00:00Z\" }\n";
        let rules = read(&format!("name = \"grid\"\n{clock}[rules]\nsurvey_time = \"2s\"\n"))
            .expect("a broker")
            .rules(1);
        assert_eq!(rules.survey_time, Millis::seconds(200));
        assert_eq!(rules.hold_time, Millis::seconds(1_000));
        assert_eq!(rules.longest_hold, Millis::seconds(90_000));
        assert_eq!(rules.retention, Rules::default().retention);
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_line_its_field_and_what_to_write() {
        for (text, words) in [
            ("name = \"g\"\n[rules]\nslots = 0\n", ["line 3", "rules.slots", "at least 1"]),
            ("name = \"g\"\nopen = false\n", ["line 2", "open", "add a [[peer]]"]),
            ("name = \"g\"\njob_look = \"1ms\"\n", ["line 2", "job_look", "100ms"]),
            ("name = \"g\"\n[[peer]]\nname = \"a\"\nurl = \"a\"\n", ["line 4", "peer[1].url", "http://"]),
            (
                "name = \"g\"\n[[peer]]\nname = \"a\"\nurl = \"http://a\"\n[[peer]]\nname = \"a\"\nurl = \"http://b\"\n",
                ["line 6", "peer[2].name", "two peers"],
            ),
            ("name = \"g\"\n[[broker]]\nurl = \"ftp://a\"\n", ["line 3", "broker[1].url", "http://"]),
            ("name = \"g\"\nsurvey_time = \"1s\"\n", ["line 2", "unknown field `survey_time`", "`rules`"]),
        ] {
            let why = read(text).expect_err(text).to_string();
            assert!(words.iter().all(|word| why.contains(word)), "{words:?}: {why}");
        }
    }
}
