//! Claims of a token (RFC 7519), and their validation. The current time is an argument;
//! [`wall_seconds`] reads it.

use super::error::TokenFault;
use super::identity::Role;
use super::key::Secret;
use super::name::user_name;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bookahead_protocol::Name;
use ring::rand::{SecureRandom, SystemRandom};
use serde::Deserialize;
use serde_json::{Number, Value, json};
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

/// Tolerated difference between the clocks of an issuer and of this service, in seconds.
pub(super) const LEEWAY: i64 = 30;

/// The system clock, which tokens are based on, even if the service has an accelerated clock.
pub(crate) fn wall_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// Required claims besides user and expiry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenRules {
    /// Required audience. Without one, tokens with an audience are refused, because they are for another service.
    pub audience: Option<String>,
    /// Required issuer.
    pub issuer: Option<String>,
}

/// Validated claims of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The user (`sub`).
    pub user: Name,
    /// Roles of the user. Unknown words are ignored.
    pub roles: BTreeSet<Role>,
    /// Expiry, in seconds since 1970 (`exp`).
    pub expires: i64,
    /// Start of validity (`nbf`).
    pub not_before: Option<i64>,
    /// Time of issue (`iat`).
    pub issued: Option<i64>,
    /// Audience that matched (`aud`).
    pub audience: Option<String>,
    /// Issuer (`iss`).
    pub issuer: Option<String>,
    /// Id of the token (`jti`), by which it can be revoked.
    pub id: Option<String>,
}

#[derive(Deserialize)]
struct Written {
    sub: Option<String>,
    exp: Option<Number>,
    nbf: Option<Number>,
    iat: Option<Number>,
    iss: Option<String>,
    jti: Option<Value>,
    aud: Option<Words>,
    roles: Option<Words>,
    scope: Option<String>,
}

/// Issuers write one string or a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    One(String),
    Several(Vec<String>),
}

impl Claims {
    /// Validates the payload of a token whose signature is valid. `now` is in seconds since 1970.
    pub(super) fn read(json: &[u8], rules: &TokenRules, now: i64) -> Result<Claims, TokenFault> {
        let written: Written = serde_json::from_slice(json)
            .map_err(|_| TokenFault::Claims("they are not JSON, or one is of a wrong type"))?;
        let user = written.sub.as_deref().ok_or(TokenFault::Claims("sub, the user, is missing"))?;
        let expires = written.exp.as_ref().ok_or(TokenFault::Claims("exp, the expiry, is missing"))?;
        let claims = Claims {
            user: user_name(user).ok_or(TokenFault::Claims("sub must have 1 to 255 visible characters"))?,
            roles: written.roles(),
            expires: seconds(expires),
            not_before: written.nbf.as_ref().map(seconds),
            issued: written.iat.as_ref().map(seconds),
            audience: audience(written.aud.as_ref(), rules.audience.as_deref())?,
            issuer: written.iss,
            // Some issuers write a number.
            id: written.jti.map(|id| id.as_str().map_or_else(|| id.to_string(), ToOwned::to_owned)),
        };
        claims.hold_now(now)?;
        let from_another = rules.issuer.is_some() && claims.issuer != rules.issuer;
        if from_another { Err(TokenFault::Issuer) } else { Ok(claims) }
    }

    fn hold_now(&self, now: i64) -> Result<(), TokenFault> {
        let latest = now.saturating_add(LEEWAY);
        // `<=`, because a token is invalid on or after its expiry (RFC 7519, 4.1.4).
        if self.expires <= now.saturating_sub(LEEWAY) {
            return Err(TokenFault::Expired);
        }
        let ahead = |moment: Option<i64>| moment.is_some_and(|moment| moment > latest);
        // RFC 7519 does not ask for a test of `iat`, but a token from the future means that clocks differ.
        if ahead(self.not_before) || ahead(self.issued) {
            return Err(TokenFault::NotYet);
        }
        Ok(())
    }
}

impl Written {
    /// Ignores words that are not roles of this service.
    fn roles(&self) -> BTreeSet<Role> {
        match (&self.roles, &self.scope) {
            (Some(Words::Several(all)), _) => all.iter().filter_map(|word| Role::of(word)).collect(),
            (Some(Words::One(text)), _) | (None, Some(text)) => {
                text.split_ascii_whitespace().filter_map(Role::of).collect()
            }
            (None, None) => BTreeSet::new(),
        }
    }
}

/// The audience of this service, if the token names it.
fn audience(named: Option<&Words>, ours: Option<&str>) -> Result<Option<String>, TokenFault> {
    let among = |ours: &str| match named {
        None => false,
        Some(Words::One(one)) => one == ours,
        Some(Words::Several(all)) => all.iter().any(|one| one == ours),
    };
    match ours {
        None if named.is_some() => Err(TokenFault::NoAudience),
        None => Ok(None),
        Some(ours) if among(ours) => Ok(Some(ours.into())),
        Some(_) => Err(TokenFault::Audience),
    }
}

/// Issuers may write fractions of a second, which are truncated. Values out of range become the nearest bound.
fn seconds(number: &Number) -> i64 {
    let whole = number.as_i64();
    whole.unwrap_or_else(|| number.as_f64().map_or(i64::MAX, |fraction| fraction.floor() as i64))
}

/// A token with these claims, signed with HS256.
pub fn mint(secret: &Secret, claims: &Claims) -> String {
    let header = json!({"alg": "HS256", "typ": "JWT"});
    let signed = format!("{}.{}", encoded(header.to_string()), encoded(written(claims).to_string()));
    let signature = encoded(secret.sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

/// A new secret in the format of a key file. `None` if the system provides no random numbers.
pub fn new_secret() -> Option<String> {
    // 48 bytes: more than the 32 that HS256 requires, and base64 without padding.
    let mut bytes = [0; 48];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(format!("base64:{}\n", STANDARD.encode(bytes)))
}

/// A random id for a token. `None` if the system provides no random numbers.
pub fn new_token_id() -> Option<String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(encoded(bytes))
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn written(claims: &Claims) -> Value {
    let roles: Vec<&str> = claims.roles.iter().copied().map(Role::word).collect();
    let mut all = json!({"sub": claims.user, "roles": roles, "exp": claims.expires});
    let optional = [
        ("nbf", claims.not_before.map(Value::from)),
        ("iat", claims.issued.map(Value::from)),
        ("aud", claims.audience.clone().map(Value::from)),
        ("iss", claims.issuer.clone().map(Value::from)),
        ("jti", claims.id.clone().map(Value::from)),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            all[name] = value;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NOW: i64 = 1_800_000_000;

    fn read(claims: &Value, rules: &TokenRules) -> Result<Claims, TokenFault> {
        Claims::read(claims.to_string().as_bytes(), rules, NOW)
    }

    fn with(more: &Value) -> Value {
        let mut claims = json!({"sub": "ada", "exp": NOW + 60, "roles": ["user"]});
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        claims
    }

    #[test]
    fn a_token_holds_from_its_begin_to_its_expiry_and_half_a_minute_around() {
        let rules = TokenRules::default();
        for (claims, expected) in [
            (json!({"exp": NOW - 29}), Ok(())),
            (json!({"exp": NOW - 30}), Err(TokenFault::Expired)),
            (json!({"exp": NOW as f64 - 30.5}), Err(TokenFault::Expired)),
            (json!({"exp": i64::MIN}), Err(TokenFault::Expired)),
            (json!({"exp": -1e300}), Err(TokenFault::Expired)),
            (json!({"exp": u64::MAX}), Ok(())),
            (json!({"nbf": NOW + 30}), Ok(())),
            (json!({"nbf": NOW + 31}), Err(TokenFault::NotYet)),
            (json!({"iat": NOW + 31}), Err(TokenFault::NotYet)),
            (json!({"iat": NOW - 1_000_000, "nbf": NOW - 5}), Ok(())),
        ] {
            assert_eq!(read(&with(&claims), &rules).map(drop), expected, "{claims}");
        }
        for extreme in [i64::MIN, i64::MAX] {
            let _ = Claims::read(with(&json!({})).to_string().as_bytes(), &rules, extreme);
        }
    }

    #[test]
    fn a_token_without_user_or_expiry_says_nothing() {
        let rules = TokenRules::default();
        for (claims, what) in [
            (json!({"exp": NOW + 60}), "sub"),
            (json!({"sub": "ada"}), "exp"),
            (with(&json!({"sub": ""})), "255"),
            (with(&json!({"sub": "a".repeat(256)})), "255"),
            (with(&json!({"sub": "ada lovelace"})), "visible"),
            (with(&json!({"sub": "ada\u{202e}"})), "visible"),
            (with(&json!({"sub": "ada\n"})), "visible"),
            (with(&json!({"sub": 7})), "wrong type"),
            (with(&json!({"exp": "soon"})), "wrong type"),
            (json!([]), "not JSON"),
        ] {
            let fault = read(&claims, &rules).unwrap_err().to_string();
            assert!(fault.contains(what), "{claims}: {fault}");
        }
        let twice = format!("{{\"sub\":\"ada\",\"sub\":\"eve\",\"exp\":{}}}", NOW + 60);
        assert!(Claims::read(twice.as_bytes(), &rules, NOW).is_err());
        assert!(read(&with(&json!({"sub": "ü".repeat(255)})), &rules).is_ok());
    }

    #[test]
    fn a_token_for_or_from_somebody_else_is_not_for_us() {
        let ours = TokenRules { audience: Some("bookahead".into()), issuer: Some("https://id".into()) };
        let good = json!({"aud": ["other", "bookahead"], "iss": "https://id"});
        assert!(read(&with(&good), &ours).is_ok());
        assert!(read(&with(&json!({"aud": "bookahead", "iss": "https://id"})), &ours).is_ok());
        for (claims, fault) in [
            (json!({"iss": "https://id"}), TokenFault::Audience),
            (json!({"aud": "other", "iss": "https://id"}), TokenFault::Audience),
            (json!({"aud": [], "iss": "https://id"}), TokenFault::Audience),
            (json!({"aud": "bookahead"}), TokenFault::Issuer),
            (json!({"aud": "bookahead", "iss": "https://evil"}), TokenFault::Issuer),
        ] {
            assert_eq!(read(&with(&claims), &ours), Err(fault), "{claims}");
        }
        let nobody = TokenRules::default();
        assert_eq!(read(&with(&json!({"aud": "other"})), &nobody), Err(TokenFault::NoAudience));
    }

    #[test]
    fn roles_are_a_list_or_words_and_what_is_not_ours_is_passed_over() {
        let roles = |claims: Value| read(&claims, &TokenRules::default()).unwrap().roles;
        let base = json!({"sub": "ada", "exp": NOW + 60});
        let and = |more: Value| {
            let mut claims = base.clone();
            claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            claims
        };
        let both = BTreeSet::from([Role::User, Role::Operator]);
        assert_eq!(roles(and(json!({"roles": ["user", "admin", "operator", "user"]}))), both);
        assert_eq!(roles(and(json!({"roles": "user operator"}))), both);
        assert_eq!(roles(and(json!({"scope": "openid user operator"}))), both);
        assert_eq!(
            roles(and(json!({"roles": ["reader"], "scope": "operator"}))),
            BTreeSet::from([Role::Reader])
        );
        assert_eq!(roles(and(json!({"roles": ["Operator", ""]}))), BTreeSet::new());
        assert_eq!(roles(base.clone()), BTreeSet::new());
    }
}

#[cfg(test)]
mod mint_tests {
    use super::super::claims::TokenRules;
    use super::super::keys::Keys;
    use super::super::signature::signed_content;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_new_secret_is_read_as_a_key_file_and_is_never_the_same() {
        let (one, other) = (new_secret().unwrap(), new_secret().unwrap());
        assert_ne!(one, other);
        assert!(Keys::parse(one.as_bytes()).unwrap().secret().is_some());
    }

    #[test]
    fn a_token_of_our_own_says_what_it_was_made_for() {
        let secret = Secret::for_test(7);
        let claims = Claims {
            user: "ada".into(),
            roles: BTreeSet::from([Role::User, Role::Reader]),
            expires: 1_800_000_060,
            not_before: Some(1_800_000_000),
            issued: Some(1_800_000_000),
            audience: Some("bookahead".into()),
            issuer: Some("north".into()),
            id: Some("t-1".into()),
        };
        let token = mint(&secret, &claims);
        let rules = TokenRules { audience: Some("bookahead".into()), issuer: Some("north".into()) };
        let content = signed_content(&token, &Keys::of_secret(secret)).unwrap();
        assert_eq!(Claims::read(&content, &rules, 1_800_000_001).unwrap(), claims);
    }
}
