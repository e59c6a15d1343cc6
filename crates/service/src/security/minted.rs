//! Tokens that a broker mints for its peers. Each is for one peer (`aud`), for one user or for the broker itself
//! (`sub`), and expires within minutes, so a peer cannot use it elsewhere. A service verifies them with the public
//! keys of the brokers in its configuration (`[[security.broker]]`). The user of such a token is fixed: headers
//! cannot name another.

use super::claims::{LEEWAY, wall_seconds};
use super::error::{KeyFault, SecurityError, TokenFault};
use super::identity::{Identity, Role};
use super::keys::Keys;
use super::name::user_name;
use super::signature::{key_id, signed_content};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bookahead_client::TokenMinter;
use bookahead_protocol::{Caller, Name};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Lifetime of a token in seconds. A call takes at most 90 seconds; the rest allows for clock differences.
const LIFETIME: i64 = 5 * 60;

/// Longest accepted remaining lifetime in seconds, so that a leaked token is useful for a short time only.
const LONGEST_LIFETIME: i64 = 15 * 60;

/// The key with which a broker signs tokens for its peers. It cannot be printed.
pub struct CallsKey {
    broker: Name,
    pair: Ed25519KeyPair,
    id: String,
}

impl CallsKey {
    /// A new private key, PKCS#8 in PEM. `None` if the system provides no random numbers.
    pub fn generate() -> Option<String> {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).ok()?;
        Some(pem("PRIVATE KEY", document.as_ref()))
    }

    /// Parses the key of the broker with this name.
    pub fn parse(broker: &str, pem: &[u8]) -> Result<CallsKey, KeyFault> {
        let document =
            PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|fault| KeyFault::Pem(fault.to_string()))?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(document.secret_pkcs8_der())
            .map_err(|_| KeyFault::NotEd25519)?;
        let id = thumbprint(pair.public_key().as_ref());
        Ok(CallsKey { broker: broker.into(), pair, id })
    }

    /// Name of the key in tokens (`kid`): its thumbprint (RFC 7638).
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The public key, SubjectPublicKeyInfo in PEM.
    pub(crate) fn public_pem(&self) -> String {
        // SEQUENCE { SEQUENCE { id-Ed25519 }, BIT STRING } (RFC 8410).
        let head = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
        pem("PUBLIC KEY", &[&head, self.pair.public_key().as_ref()].concat())
    }

    /// Mints tokens for one peer.
    pub(crate) fn minter(self: &Arc<CallsKey>, audience: &str) -> TokenMinter {
        let (key, audience) = (self.clone(), audience.to_owned());
        TokenMinter::new(move |caller| key.mint(&audience, caller, wall_seconds()))
    }

    /// A token for a user, or without `caller` for the broker itself. `now` is in seconds since 1970.
    fn mint(&self, audience: &str, caller: Option<&Caller>, now: i64) -> String {
        let header = json!({"alg": "EdDSA", "typ": "JWT", "kid": self.id});
        let mut claims =
            json!({"iss": self.broker, "aud": audience, "iat": now, "exp": now.saturating_add(LIFETIME)});
        match caller {
            Some(caller) => {
                claims["sub"] = json!(caller.user);
                claims["roles"] = json!(passed_roles(&caller.roles));
                // `act` names the broker, so that the peer can tell a call for a user from one by the user.
                claims["act"] = json!({"sub": self.broker});
            }
            None => {
                claims["sub"] = json!(self.broker);
                claims["roles"] = json!([Role::Broker.word()]);
            }
        }
        let encoded = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let signed = format!("{}.{}", encoded(&header.to_string()), encoded(&claims.to_string()));
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }
}

impl fmt::Debug for CallsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallsKey({})", self.id)
    }
}

/// A caller without roles has the role user, as with `Bookahead-Roles`. The role broker is never passed on.
fn passed_roles(roles: &[Name]) -> Vec<&str> {
    if roles.is_empty() {
        return vec![Role::User.word()];
    }
    roles.iter().map(Name::as_str).filter(|role| *role != Role::Broker.word()).collect()
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: String = text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line) + "\n").collect();
    format!("-----BEGIN {label}-----\n{lines}-----END {label}-----\n")
}

/// SHA-256 of the key as a JWK with its required members in order (RFC 7638, RFC 8037).
fn thumbprint(public: &[u8]) -> String {
    let jwk = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, URL_SAFE_NO_PAD.encode(public));
    URL_SAFE_NO_PAD.encode(digest(&SHA256, jwk.as_bytes()))
}

/// A broker whose tokens are accepted: `[[security.broker]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct TrustedBroker {
    pub name: Name,
    pub key: PathBuf,
    pub audience: Option<String>,
}

/// All brokers whose tokens are accepted.
#[derive(Debug, Default)]
pub(super) struct TrustedBrokers(Vec<Trusted>);

#[derive(Debug)]
struct Trusted {
    name: Name,
    audience: String,
    /// Keys by `kid`. Several while one replaces another.
    keys: Vec<(String, Keys)>,
}

impl TrustedBrokers {
    /// Reads the keys. Relative paths start at `base`.
    pub(super) fn read(settings: &[TrustedBroker], base: &Path) -> Result<TrustedBrokers, SecurityError> {
        let (mut names, mut ids) = (BTreeSet::new(), BTreeSet::new());
        let mut brokers = Vec::new();
        for TrustedBroker { name: broker, key, audience } in settings {
            let fault =
                |text: &str| Err(SecurityError::Settings(format!("security.broker {broker:?}: {text}")));
            if user_name(broker.as_str()).is_none() {
                return fault("a name must have 1 to 255 visible characters");
            }
            if !names.insert(broker) {
                return fault("another broker has the same name; put both keys into one file");
            }
            let Some(audience) = audience.clone().filter(|audience| !audience.is_empty()) else {
                return fault("audience is empty; remove it to use the name of this service");
            };
            let keys = read_keys(&base.join(key))?;
            // The `kid` of a token alone selects the broker, so a key must belong to one only.
            if !keys.iter().all(|(id, _)| ids.insert(id.clone())) {
                return fault("another broker has the same key; each broker needs its own key");
            }
            brokers.push(Trusted { name: broker.clone(), audience, keys });
        }
        Ok(TrustedBrokers(brokers))
    }

    /// Identifies the caller of a token. `None` if it names no key of a broker. `now` is in seconds since 1970.
    pub(super) fn identify(
        &self,
        token: &str,
        passes_roles: bool,
        now: i64,
    ) -> Option<Result<Identity, TokenFault>> {
        if self.0.is_empty() {
            return None;
        }
        // The `kid` alone selects the key, so a token cannot fall back to the keys of other issuers.
        let id = key_id(token)?;
        self.0.iter().find_map(|broker| {
            let (_, key) = broker.keys.iter().find(|(known, _)| *known == id)?;
            Some(signed_content(token, key).and_then(|content| broker.identity(&content, passes_roles, now)))
        })
    }
}

fn read_keys(path: &Path) -> Result<Vec<(String, Keys)>, SecurityError> {
    let keys = Keys::read(path)?;
    let each = keys.ed25519().map_err(|fault| SecurityError::Keys { path: path.into(), fault })?;
    Ok(each.into_iter().map(|(public, key)| (thumbprint(&public), key)).collect())
}

/// Claims of such a token; all except `act` are required.
#[derive(Deserialize)]
struct Written {
    iss: String,
    sub: String,
    aud: String,
    iat: i64,
    exp: i64,
    roles: Vec<String>,
    /// The party that acts for `sub` (RFC 8693). Missing if the broker calls for itself.
    act: Option<Actor>,
}

#[derive(Deserialize)]
struct Actor {
    sub: String,
}

impl Trusted {
    fn identity(&self, content: &[u8], passes_roles: bool, now: i64) -> Result<Identity, TokenFault> {
        let written: Written = serde_json::from_slice(content)
            .map_err(|_| TokenFault::Claims("iss, sub, aud, iat, exp and roles are required, once each"))?;
        if written.aud != self.audience {
            return Err(TokenFault::Audience);
        }
        if written.iss != self.name.as_str() {
            return Err(TokenFault::Issuer);
        }
        if written.exp <= now.saturating_sub(LEEWAY) {
            return Err(TokenFault::Expired);
        }
        let latest = now.saturating_add(LEEWAY);
        if written.iat > latest {
            return Err(TokenFault::NotYet);
        }
        if written.exp > latest.saturating_add(LONGEST_LIFETIME) {
            return Err(TokenFault::Claims("a token of a broker must expire within 15 minutes"));
        }
        let user =
            user_name(&written.sub).ok_or(TokenFault::Claims("sub must have 1 to 255 visible characters"))?;
        let mut roles: BTreeSet<Role> = written.roles.iter().filter_map(|role| Role::of(role)).collect();
        match written.act {
            None if user == self.name => {
                roles.retain(|role| *role == Role::Broker);
                Ok(Identity { user, roles, through: None })
            }
            Some(actor) if actor.sub == self.name.as_str() => {
                roles.remove(&Role::Broker);
                if !passes_roles {
                    roles = BTreeSet::from([Role::User]);
                }
                Ok(Identity { user, roles, through: Some(self.name.clone()) })
            }
            _ => {
                Err(TokenFault::Claims("act must name the broker, and is required if sub is not the broker"))
            }
        }
    }
}

#[cfg(test)]
#[path = "minted_tests.rs"]
mod tests;
