//! Tokens of brokers: for one peer, for one user, for minutes; and attempts to get more from them.

use super::super::claims::TokenRules;
use super::super::key::Secret;
use super::super::{Authenticator, CallsKey};
use super::*;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bookahead_api::Problem;
use serde_json::Value;

const NOW: i64 = 1_800_000_000;

/// The key of a broker, and a folder with its public key.
struct Grid {
    key: Arc<CallsKey>,
    folder: tempfile::TempDir,
}

fn grid() -> Grid {
    let key = CallsKey::parse("grid", CallsKey::generate().unwrap().as_bytes()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("grid.pub"), key.public_pem()).unwrap();
    Grid { key: Arc::new(key), folder }
}

impl Grid {
    /// A service with this name that trusts the broker.
    fn trusted_by(&self, service: &str) -> Authenticator {
        let trusted =
            TrustedBroker { name: "grid".into(), key: "grid.pub".into(), audience: Some(service.to_owned()) };
        let brokers = TrustedBrokers::read(&[trusted], self.folder.path()).unwrap();
        let keys = Keys::of_secret(Secret::for_test(7));
        Authenticator::new(keys, TokenRules::default()).with_brokers(brokers)
    }

    fn token(&self, audience: &str, user: &str, roles: &[&str]) -> String {
        let roles = roles.iter().copied().map(Name::from).collect();
        self.key.mint(audience, Some(&Caller { user: user.into(), roles }), NOW)
    }

    /// A token with any claims, signed by the broker.
    fn signed(&self, header: &Value, claims: &Value) -> String {
        let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encoded(header), encoded(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.key.pair.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }
}

fn identify(
    authenticator: &Authenticator,
    token: &str,
    more: &[(&str, &str)],
    now: i64,
) -> Result<Identity, Problem> {
    let bearer = format!("Bearer {token}");
    let all = [("authorization", bearer.as_str())].into_iter().chain(more.iter().copied());
    let named = |(name, value): (&str, &str)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
    };
    authenticator.identify_at(&all.map(named).collect::<HeaderMap>(), None, now)
}

fn claims_of(token: &str) -> Value {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    serde_json::from_slice(&payload).unwrap()
}

#[test]
fn a_token_is_for_a_user_at_one_peer() {
    let grid = grid();
    let token = grid.token("north", "ada", &["user", "reader", "wheel"]);
    let ada = identify(&grid.trusted_by("north"), &token, &[("bookahead-user", "ada")], NOW).unwrap();
    assert_eq!((ada.user.as_str(), ada.through.as_ref().unwrap().as_str()), ("ada", "grid"));
    assert_eq!(ada.roles, [Role::User, Role::Reader].into());
    assert_eq!(ada.subject().as_str(), "grid");
    let elsewhere = identify(&grid.trusted_by("south"), &token, &[], NOW).unwrap_err();
    assert!(elsewhere.status == 401 && elsewhere.detail.contains("another audience"), "{elsewhere:?}");
    let claims = claims_of(&token);
    assert_eq!((&claims["act"]["sub"], &claims["iss"]), (&json!("grid"), &json!("grid")));
}

#[test]
fn a_token_names_nobody_else_by_header() {
    let grid = grid();
    let north = grid.trusted_by("north");
    let (users, own) = (grid.token("north", "ada", &["user"]), grid.key.mint("north", None, NOW));
    for token in [&users, &own] {
        let refused = identify(&north, token, &[("bookahead-user", "root")], NOW).unwrap_err();
        assert_eq!(refused.status, 403, "{refused:?}");
        let more = identify(&north, token, &[("bookahead-roles", "user,operator")], NOW);
        assert!(more.is_ok_and(|identity| !identity.roles.contains(&Role::Operator)));
    }
    let itself = identify(&north, &own, &[], NOW).unwrap();
    assert_eq!((itself.user.as_str(), itself.through), ("grid", None));
    assert_eq!(itself.roles, [Role::Broker].into());
}

#[test]
fn the_role_broker_is_never_passed_on() {
    let grid = grid();
    let north = grid.trusted_by("north");
    let token = grid.token("north", "ada", &["user", "broker"]);
    assert_eq!(claims_of(&token)["roles"], json!(["user"]));
    assert_eq!(identify(&north, &token, &[], NOW).unwrap().roles, [Role::User].into());
    let namesake = grid.token("north", "grid", &["user", "broker"]);
    assert_eq!(identify(&north, &namesake, &[], NOW).unwrap().roles, [Role::User].into());
    let only_broker = identify(&north, &grid.token("north", "ada", &["broker"]), &[], NOW).unwrap_err();
    assert_eq!(only_broker.status, 403, "{only_broker:?}");
    assert_eq!(
        identify(&north, &grid.token("north", "ada", &[]), &[], NOW).unwrap().roles,
        [Role::User].into()
    );
    let plain = grid.trusted_by("north").broker_passes_roles(false);
    let operator = grid.token("north", "ada", &["operator"]);
    assert_eq!(identify(&plain, &operator, &[], NOW).unwrap().roles, [Role::User].into());
    assert_eq!(identify(&north, &operator, &[], NOW).unwrap().roles, [Role::Operator].into());
}

#[test]
fn a_token_is_valid_for_minutes() {
    let grid = grid();
    let north = grid.trusted_by("north");
    let token = grid.token("north", "ada", &["user"]);
    let at = |now| identify(&north, &token, &[], now).map(drop).map_err(|problem| problem.detail);
    assert_eq!(at(NOW + LIFETIME + LEEWAY - 1), Ok(()));
    assert!(at(NOW + LIFETIME + LEEWAY).unwrap_err().contains("expired"));
    assert!(at(NOW - LEEWAY - 1).unwrap_err().contains("not valid yet"));
    for extreme in [i64::MIN, i64::MAX] {
        assert!(at(extreme).is_err());
    }
}

#[test]
fn claims_that_say_more_than_they_may_are_refused() {
    let grid = grid();
    let north = grid.trusted_by("north");
    let header = json!({"alg": "EdDSA", "kid": grid.key.id()});
    let good = claims_of(&grid.token("north", "ada", &["user"]));
    assert!(identify(&north, &grid.signed(&header, &good), &[], NOW).is_ok());
    for (claim, value) in [
        ("aud", json!(["north"])),
        ("aud", json!(["north", "south"])),
        ("aud", Value::Null),
        ("iss", json!("other")),
        ("exp", json!(NOW + 15 * 60 + LEEWAY + 1)),
        ("exp", json!(i64::MAX)),
        ("exp", Value::Null),
        ("iat", json!(NOW + LEEWAY + 1)),
        ("sub", json!("")),
        ("sub", json!("ada\u{202e}")),
        ("act", json!({"sub": "other"})),
        ("act", Value::Null),
        ("roles", json!("operator")),
    ] {
        let mut claims = good.clone();
        claims[claim] = value.clone();
        let refused = identify(&north, &grid.signed(&header, &claims), &[], NOW);
        assert_eq!(refused.unwrap_err().status, 401, "{claim}: {value}");
    }
}

#[test]
fn a_token_cannot_choose_how_the_key_of_a_broker_is_used() {
    let grid = grid();
    let north = grid.trusted_by("north");
    let token = grid.token("north", "root", &["operator"]);
    let payload = token.split('.').nth(1).unwrap();
    let kid = grid.key.id();
    let none =
        format!("{}.{payload}.", URL_SAFE_NO_PAD.encode(json!({"alg": "none", "kid": kid}).to_string()));
    assert_eq!(identify(&north, &none, &[], NOW).unwrap_err().status, 401);
    // The public key as a secret, in the forms that an attacker could know.
    let public = grid.key.pair.public_key().as_ref().to_vec();
    for material in [public, grid.key.public_pem().into_bytes()] {
        let header = URL_SAFE_NO_PAD.encode(json!({"alg": "HS256", "kid": kid}).to_string());
        let signed = format!("{header}.{payload}");
        let tag = Secret::new(&material).unwrap().sign(signed.as_bytes());
        let forged = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag));
        assert_eq!(identify(&north, &forged, &[], NOW).unwrap_err().status, 401);
    }
    // With the `kid` of the broker, only the broker's key counts; without it, that key is not used.
    let header = URL_SAFE_NO_PAD.encode(json!({"alg": "HS256", "kid": kid}).to_string());
    let signed = format!("{header}.{payload}");
    let tag = Secret::for_test(7).sign(signed.as_bytes());
    let by_our_secret = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag));
    assert_eq!(identify(&north, &by_our_secret, &[], NOW).unwrap_err().status, 401);
    let claims = claims_of(&token);
    let unnamed = grid.signed(&json!({"alg": "EdDSA"}), &claims);
    assert_eq!(identify(&north, &unnamed, &[], NOW).unwrap_err().status, 401);
    let other = self::grid();
    let forged = other.signed(&json!({"alg": "EdDSA", "kid": kid}), &claims);
    assert!(identify(&north, &forged, &[], NOW).unwrap_err().detail.contains("signature"));
}

#[test]
fn keys_of_brokers_are_read_again_and_a_bad_file_is_refused() {
    let (grid, new) = (grid(), grid());
    let north = grid.trusted_by("north");
    let (old_token, new_token) =
        (grid.token("north", "ada", &["user"]), new.token("north", "ada", &["user"]));
    let path = grid.folder.path().join("grid.pub");
    assert!(identify(&north, &old_token, &[], NOW).is_ok());
    std::fs::write(&path, "502 Bad Gateway").unwrap();
    let trusted = TrustedBroker { name: "grid".into(), key: path.clone(), audience: Some("north".into()) };
    assert!(TrustedBrokers::read(&[trusted], grid.folder.path()).is_err());
    std::fs::write(&path, grid.key.public_pem() + &new.key.public_pem()).unwrap();
    let north = grid.trusted_by("north").succeeding(&north).unwrap();
    for token in [&old_token, &new_token] {
        assert!(identify(&north, token, &[], NOW).is_ok(), "both while one replaces the other");
    }
    std::fs::write(&path, new.key.public_pem()).unwrap();
    let north = grid.trusted_by("north").succeeding(&north).unwrap();
    assert!(
        identify(&north, &old_token, &[], NOW).is_err() && identify(&north, &new_token, &[], NOW).is_ok()
    );
}

#[test]
fn settings_that_make_no_sense_are_errors() {
    let grid = grid();
    let trusted = |name: &str, key: &str, audience: Option<&str>| TrustedBroker {
        name: name.into(),
        key: key.into(),
        audience: audience.map(ToOwned::to_owned),
    };
    std::fs::write(grid.folder.path().join("secret"), [&b"secret:"[..], &Secret::bytes_for_test(7)].concat())
        .unwrap();
    let good = trusted("grid", "grid.pub", Some("north"));
    for (brokers, what) in [
        (vec![trusted("grid", "none.pub", Some("north"))], "none.pub"),
        (vec![trusted("g d", "grid.pub", Some("north"))], "visible"),
        (vec![trusted("grid", "grid.pub", Some(""))], "audience is empty"),
        (vec![good.clone(), good.clone()], "same name"),
        (vec![good, trusted("other", "grid.pub", Some("north"))], "same key"),
    ] {
        let fault = TrustedBrokers::read(&brokers, grid.folder.path()).unwrap_err().to_string();
        assert!(fault.contains(what), "{fault}");
    }
    let secret = TrustedBrokers::read(&[trusted("grid", "secret", Some("north"))], grid.folder.path());
    assert!(secret.is_err());
}

#[test]
fn keys_are_named_as_the_rfc_names_them() {
    // RFC 8037, A.3.
    let public = URL_SAFE_NO_PAD.decode("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo").unwrap();
    assert_eq!(thumbprint(&public), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    let key = CallsKey::parse("grid", CallsKey::generate().unwrap().as_bytes()).unwrap();
    assert!(Keys::parse(key.public_pem().as_bytes()).is_ok());
    assert!(!format!("{key:?}").contains("PRIVATE"));
}
