//! The table `[security]` of a configuration. Settings that contradict each other, or have no effect, are errors,
//! because the operator relies on them.

use super::authenticator::Authenticator;
use super::claims::TokenRules;
use super::error::SecurityError;
use super::keys::Keys;
use super::minted::{TrustedBroker, TrustedBrokers};
use super::name::user_name;
use super::provider::{Provider, Timing};
use super::sign_in::SignInSettings;
use super::tls::{PeerCertificate, server_config};
use crate::config::Length;
use crate::http::Projects;
use bookahead_protocol::Name;
use bookahead_protocol::request::MOST_SHARED;
use rustls::ServerConfig;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Shortest refresh interval. More frequent fetches would be a load on the provider.
const LEAST_REFRESH: Length = Length::of_seconds(1);

/// Most revoked tokens. They are looked up with each call.
const MOST_REVOKED: usize = 10_000;

/// The table `[security]`. Without it there is no authentication, and the service listens on loopback only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct Security {
    pub keys: Option<PathBuf>,
    pub audience: Option<String>,
    pub issuer: Option<String>,
    pub issuer_ca: Option<PathBuf>,
    pub issuer_refresh: Length,
    pub issuer_keep: Length,
    pub sign_in: Option<SignInSettings>,
    pub tls: Option<Tls>,
    #[serde(rename = "peer")]
    pub peers: Vec<PeerCertificate>,
    #[serde(rename = "broker")]
    pub brokers: Vec<TrustedBroker>,
    pub insecure_plain_http: bool,
    pub broker_passes_roles: bool,
    pub revoked_tokens: Vec<String>,
    pub trust_local_users: bool,
    pub socket_operators: Vec<String>,
    pub socket_brokers: Vec<String>,
    pub projects: Projects,
}

/// The table `[security.tls]`. All files are PEM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct Tls {
    pub certificate: PathBuf,
    pub key: PathBuf,
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
    #[serde(default)]
    pub client_required: bool,
}

impl Default for Security {
    fn default() -> Security {
        Security {
            keys: None,
            audience: None,
            issuer: None,
            issuer_ca: None,
            // A token with an unknown key causes a fetch anyway: this only bounds the use of a removed key.
            issuer_refresh: Length::of_seconds(10 * 60),
            // Long enough that an outage of the provider overnight does not stop the service.
            issuer_keep: Length::of_seconds(24 * 60 * 60),
            sign_in: None,
            tls: None,
            peers: Vec::new(),
            brokers: Vec::new(),
            insecure_plain_http: false,
            broker_passes_roles: true,
            revoked_tokens: Vec::new(),
            trust_local_users: false,
            socket_operators: Vec::new(),
            socket_brokers: Vec::new(),
            projects: Projects::new(),
        }
    }
}

impl Security {
    /// Whether callers are authenticated.
    pub(crate) fn is_guarded(&self) -> bool {
        self.keys.is_some() || self.issuer.is_some() || !self.peers.is_empty() || !self.brokers.is_empty()
    }

    /// The same for a service with this name, which is the default audience of tokens from brokers.
    #[must_use]
    pub(crate) fn for_service(&self, name: &str) -> Security {
        let mut security = self.clone();
        security.brokers.iter_mut().for_each(|broker| {
            broker.audience.get_or_insert_with(|| name.to_owned());
        });
        security
    }

    /// The authenticator. Relative paths start at `base`. Without keys, issuer, peers and brokers there is no
    /// authentication.
    pub fn authenticator(&self, base: &Path) -> Result<Authenticator, SecurityError> {
        self.check()?;
        let authenticator = match (&self.keys, &self.issuer) {
            (Some(path), _) => self.by_keys(Keys::read(&base.join(path))?),
            (None, Some(issuer)) => self.by_provider(issuer, base)?,
            (None, None) if !self.is_guarded() => return Ok(Authenticator::open()),
            // Peers or brokers are configured, so the service is not open: all other tokens must be refused.
            (None, None) => self.by_keys(Keys::none()),
        };
        let brokers = TrustedBrokers::read(&self.brokers, base)?;
        let authenticator = authenticator.with_peers(self.peers.clone()).with_brokers(brokers);
        let authenticator = authenticator.with_revoked(self.revoked_tokens.clone());
        Ok(authenticator.broker_passes_roles(self.broker_passes_roles))
    }

    fn by_keys(&self, keys: Keys) -> Authenticator {
        let rules = TokenRules { audience: self.audience.clone(), issuer: self.issuer.clone() };
        Authenticator::new(keys, rules)
    }

    fn by_provider(&self, issuer: &str, base: &Path) -> Result<Authenticator, SecurityError> {
        let Some(audience) = self.audience.clone().filter(|audience| !audience.is_empty()) else {
            let text = "security.issuer without security.keys needs security.audience: otherwise tokens that the issuer \
                        made for other services would be accepted; set it to the name of this service at the issuer";
            return Err(SecurityError::Settings(text.into()));
        };
        let (refresh, keep) = (self.issuer_refresh.duration(), self.issuer_keep.duration());
        let timing = Timing { refresh, keep, ..Timing::default() };
        let ca = self.issuer_ca.as_ref().map(|path| base.join(path));
        let provider = Provider::new(issuer, ca, timing)?;
        let provider = Arc::new(provider);
        let authenticator = Authenticator::by_provider(provider.clone(), audience);
        let sign_in = self.sign_in.as_ref().map(|settings| settings.read(provider, base)).transpose()?;
        Ok(match sign_in {
            Some(sign_in) => authenticator.with_sign_in(sign_in),
            None => authenticator,
        })
    }

    /// TLS of the listener, if configured. Relative paths start at `base`.
    pub fn server(&self, base: &Path) -> Result<Option<Arc<ServerConfig>>, SecurityError> {
        self.check()?;
        let Some(tls) = &self.tls else { return Ok(None) };
        let authorities = tls.client_ca.as_ref().map(|path| base.join(path));
        let clients = authorities.as_deref().map(|path| (path, tls.client_required));
        server_config(&base.join(&tls.certificate), &base.join(&tls.key), clients).map(Some)
    }

    /// Whether the service may listen on this address. The error says what to change.
    pub fn may_listen(
        &self,
        address: SocketAddr,
        authenticator: &Authenticator,
    ) -> Result<(), SecurityError> {
        let protected = self.tls.is_some() || self.insecure_plain_http;
        may_listen(address, authenticator, protected).map_err(SecurityError::Settings)
    }

    fn check(&self) -> Result<(), SecurityError> {
        let fault = |text: String| Err(SecurityError::Settings(text));
        let authorities = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        if self.keys.is_none() && self.issuer.is_none() && self.audience.is_some() {
            return fault(
                "security.audience applies to tokens; set security.keys or security.issuer as well".into(),
            );
        }
        self.check_fetching()?;
        if self.tls.as_ref().is_some_and(|tls| tls.client_required) && !authorities {
            return fault("security.tls.client_required needs security.tls.client_ca".into());
        }
        if !self.peers.is_empty() && !authorities {
            return fault(
                "security.peer needs security.tls.client_ca: without it clients send no certificate".into(),
            );
        }
        self.check_revoked()?;
        self.check_projects()?;
        self.check_peers()
    }

    fn check_revoked(&self) -> Result<(), SecurityError> {
        let fault = |text: String| Err(SecurityError::Settings(format!("security.revoked_tokens {text}")));
        let ids = &self.revoked_tokens;
        if !ids.is_empty() && self.keys.is_none() && self.issuer.is_none() {
            return fault("applies to tokens; set security.keys or security.issuer as well".into());
        }
        if ids.len() > MOST_REVOKED {
            let found = ids.len();
            return fault(format!(
                "has {found} ids; at most {MOST_REVOKED} are allowed: remove those that have expired"
            ));
        }
        if ids.iter().any(String::is_empty) {
            return fault("has an empty id; write the claim jti of a token".into());
        }
        Ok(())
    }

    fn check_projects(&self) -> Result<(), SecurityError> {
        let named = |text: &Name| user_name(text.as_str()).is_some();
        for (project, users) in &self.projects {
            if !named(project) || !users.iter().all(named) {
                let why =
                    format!("security.projects {project:?}: a name must have 1 to 255 visible characters");
                return Err(SecurityError::Settings(why));
            }
            if users.is_empty() || users.len() > MOST_SHARED {
                let why =
                    format!("security.projects {project} has {} users; give 1 to {MOST_SHARED}", users.len());
                return Err(SecurityError::Settings(why));
            }
        }
        Ok(())
    }

    fn check_fetching(&self) -> Result<(), SecurityError> {
        let fault = |text: &str| Err(SecurityError::Settings(text.into()));
        let default = Security::default();
        let fetches = self.keys.is_none() && self.issuer.is_some();
        // A default that was written out cannot be told from one that was left out, and is harmless.
        let said = self.issuer_ca.is_some()
            || self.issuer_refresh != default.issuer_refresh
            || self.issuer_keep != default.issuer_keep;
        if said && !fetches {
            return fault(
                "security.issuer_ca, issuer_refresh and issuer_keep apply to fetched keys; \
                 set security.issuer and remove security.keys",
            );
        }
        if self.sign_in.is_some() && !fetches {
            return fault(
                "security.sign_in needs an identity provider; set security.issuer and remove security.keys",
            );
        }
        let is_plain = self.issuer.as_ref().is_some_and(|issuer| issuer.starts_with("http:"));
        // The operator would believe that the certificate of the issuer is verified.
        if is_plain && self.issuer_ca.is_some() {
            return fault("security.issuer_ca has no effect with an issuer over http; remove it");
        }
        if self.issuer_refresh < LEAST_REFRESH {
            return fault("security.issuer_refresh must be at least 1s; usually \"10m\"");
        }
        // Otherwise the keys would become too old between two fetches, and valid tokens would be refused.
        if self.issuer_keep < self.issuer_refresh {
            return fault("security.issuer_keep must be at least security.issuer_refresh; usually \"1d\"");
        }
        Ok(())
    }

    fn check_peers(&self) -> Result<(), SecurityError> {
        let mut seen = BTreeSet::new();
        for peer in &self.peers {
            let name = &peer.name;
            let fault = |text: String| Err(SecurityError::Settings(text));
            if user_name(name.as_str()).is_none() {
                return fault(format!(
                    "security.peer {name:?}: a name must have 1 to 255 visible characters"
                ));
            }
            if peer.roles.is_empty() {
                return fault(format!(
                    "security.peer {name}: roles is empty; a broker has roles = [\"broker\"]"
                ));
            }
            // Name and roles of the certificate would depend on the order of the entries.
            if !seen.insert(peer.fingerprint) {
                return fault(format!("security.peer {name}: another peer has the same fingerprint"));
            }
        }
        Ok(())
    }
}

/// Whether a service may listen on this address. `protected`: by TLS, or, according to the operator
/// (`insecure_plain_http`), by a proxy in front of it. The error says what to change.
pub fn may_listen(address: SocketAddr, authenticator: &Authenticator, protected: bool) -> Result<(), String> {
    // An IPv6 socket can be bound to `::ffff:127.0.0.1`, which is loopback only in its canonical form.
    if address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    // Before the test for TLS: encryption does not help if every caller is accepted.
    if authenticator.is_open() {
        return Err(format!(
            "refusing to listen on {address} without authentication: anyone could book and cancel; \
             set security.keys to a key file or security.issuer to an identity provider, or listen on 127.0.0.1"
        ));
    }
    if !protected {
        return Err(format!(
            "refusing to listen on {address} without TLS: tokens would be sent unencrypted; set security.tls, or, \
             behind a proxy that provides TLS, security.insecure_plain_http = true, or listen on 127.0.0.1"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Role;
    use super::*;

    fn security(text: &str) -> Security {
        toml::from_str(text).unwrap()
    }

    const PEER: &str = "[[peer]]\nname = \"broker\"\nroles = [\"broker\"]\nfingerprint = \
        \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"\n";
    const TLS: &str = "[tls]\ncertificate = \"c.pem\"\nkey = \"k.pem\"\n";

    #[test]
    fn without_settings_the_gate_is_open_and_there_is_no_tls() {
        let nothing = security("");
        assert_eq!(nothing, Security::default());
        assert!(nothing.authenticator(Path::new(".")).unwrap().is_open());
        assert!(nothing.server(Path::new(".")).unwrap().is_none());
        let refused = nothing.may_listen(([0, 0, 0, 0], 80).into(), &Authenticator::open()).unwrap_err();
        assert!(refused.to_string().contains("security.keys"), "{refused}");
    }

    #[test]
    fn a_peer_alone_closes_the_gate() {
        let peer = security(&format!("{TLS}client_ca = \"ca.pem\"\n{PEER}"));
        assert_eq!(peer.peers[0].roles, [Role::Broker]);
        assert!(!peer.authenticator(Path::new(".")).unwrap().is_open());
    }

    #[test]
    fn settings_that_would_have_no_effect_are_errors() {
        for (text, what) in [
            ("audience = \"a\"".into(), "security.keys"),
            ("revoked_tokens = [\"t-1\"]".into(), "security.keys"),
            ("keys = \"k\"\nrevoked_tokens = [\"\"]".into(), "jti"),
            ("issuer_keep = \"2d\"".into(), "remove security.keys"),
            ("[sign_in]\nclient = \"a\"\nurl = \"http://localhost\"".into(), "remove security.keys"),
            (
                "keys = \"k\"\nissuer = \"http://localhost\"\nissuer_ca = \"ca.pem\"".into(),
                "remove security.keys",
            ),
            ("audience = \"a\"\nissuer = \"http://localhost\"\nissuer_ca = \"ca.pem\"".into(), "over http"),
            (
                "audience = \"a\"\nissuer = \"http://localhost\"\nissuer_refresh = \"0s\"".into(),
                "at least 1s",
            ),
            (
                "audience = \"a\"\nissuer = \"http://localhost\"\nissuer_keep = \"1m\"".into(),
                "issuer_refresh",
            ),
            (PEER.into(), "client_ca"),
            (format!("{TLS}client_required = true"), "client_ca"),
            (format!("{TLS}client_ca = \"ca.pem\"\n{PEER}{PEER}"), "same fingerprint"),
            (
                format!("{TLS}client_ca = \"ca.pem\"\n{}", PEER.replace("[\"broker\"]", "[]")),
                "roles is empty",
            ),
            (format!("{TLS}client_ca = \"ca.pem\"\n{}", PEER.replace("\"broker\"\n", "\" \"\n")), "visible"),
            (
                format!(
                    "{TLS}client_ca = \"ca.pem\"\n{}",
                    PEER.replace("\"broker\"\n", "\"broker\u{fe0f}\"\n")
                ),
                "visible",
            ),
        ] {
            let fault = security(&text).authenticator(Path::new(".")).unwrap_err().to_string();
            assert!(fault.contains(what), "{text}: {fault}");
        }
        for unknown in
            ["key = \"k\"", "[tls]\ncertificate = \"c\"", "[[peer]]\nname = \"a\"\nroles = [\"root\"]"]
        {
            assert!(toml::from_str::<Security>(unknown).is_err(), "{unknown}");
        }
    }

    #[test]
    fn keys_are_fetched_from_an_issuer_only_for_an_audience() {
        let by_url = security("issuer = \"http://localhost\"\naudience = \"north\"");
        let authenticator = by_url.authenticator(Path::new(".")).unwrap();
        assert!(by_url.is_guarded() && !authenticator.is_open());
        assert_eq!(authenticator.provider().unwrap().issuer(), "http://localhost");
        for (text, what) in [
            ("issuer = \"http://localhost\"", "needs security.audience"),
            ("issuer = \"http://localhost\"\naudience = \"\"", "needs security.audience"),
            ("issuer = \"portal\"\naudience = \"north\"", "is not a URL"),
            ("issuer = \"http://id.example.org\"\naudience = \"north\"", "must be https"),
            ("issuer = \"https://id.example.org\"\naudience = \"a\"\nissuer_ca = \"no.pem\"", "no.pem"),
        ] {
            let fault = security(text).authenticator(Path::new(".")).unwrap_err().to_string();
            assert!(fault.contains(what), "{text}: {fault}");
        }
        let by_file = security("issuer = \"portal\"\nkeys = \"keys.json\"");
        let fault = by_file.authenticator(Path::new("/nowhere")).unwrap_err().to_string();
        assert!(fault.contains("/nowhere/keys.json"), "{fault}");
    }

    #[test]
    fn a_missing_key_file_is_named() {
        let settings = security("keys = \"keys.json\"");
        let fault = settings.authenticator(Path::new("/nowhere")).unwrap_err().to_string();
        assert!(fault.contains("/nowhere/keys.json"), "{fault}");
    }
}

#[cfg(test)]
mod listening_tests {
    use super::super::{Keys, TokenRules};
    use super::*;

    #[test]
    fn beyond_loopback_both_authentication_and_tls_are_wanted() {
        let (open, guarded) =
            (Authenticator::open(), Authenticator::new(Keys::none(), TokenRules::default()));
        for local in ["127.0.0.1:80", "127.9.9.9:80", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
            for authenticator in [&open, &guarded] {
                assert_eq!(may_listen(local.parse().unwrap(), authenticator, false), Ok(()), "{local}");
            }
        }
        for public in ["0.0.0.0:80", "[::]:80", "192.0.2.1:80", "[::ffff:10.0.0.1]:80"] {
            let may =
                |authenticator, protected| may_listen(public.parse().unwrap(), authenticator, protected);
            assert!(may(&open, true).unwrap_err().contains("security.keys"), "{public}");
            assert!(may(&guarded, false).unwrap_err().contains("security.tls"), "{public}");
            assert_eq!(may(&guarded, true), Ok(()), "{public}");
        }
    }
}
