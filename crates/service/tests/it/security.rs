//! The authenticator from outside: accepted callers with their identities, and refused ones.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bookahead_api::{Code, Problem};
use bookahead_service::security::{
    Authenticator, Claims, ClientCertificate, Identity, Keys, PeerCertificate, Role, Secret, TokenRules, mint,
};
use bookahead_tests::cases::cases;
use proptest::prelude::*;
use std::collections::BTreeSet;

const NOW: i64 = 1_800_000_000;

fn secret() -> Secret {
    Secret::new(&bytes(7)).unwrap()
}

/// Bytes of a secret.
fn bytes(last: u8) -> Vec<u8> {
    [&b"0123456789abcdef0123456789abcdef"[..], &[last]].concat()
}

fn authenticator() -> Authenticator {
    Authenticator::new(Keys::of_secret(secret()), TokenRules::default())
}

fn claims(user: &str, roles: &[Role]) -> Claims {
    Claims {
        user: user.into(),
        roles: roles.iter().copied().collect(),
        expires: NOW + 600,
        not_before: None,
        issued: Some(NOW),
        audience: None,
        issuer: None,
        id: None,
    }
}

fn bearer(user: &str, roles: &[Role]) -> String {
    format!("Bearer {}", mint(&secret(), &claims(user, roles)))
}

fn headers(all: &[(&str, &str)]) -> HeaderMap {
    let header = |(name, value): &(&str, &str)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
    };
    all.iter().map(header).collect()
}

fn identify(authenticator: &Authenticator, all: &[(&str, &str)]) -> Result<Identity, Problem> {
    authenticator.identify_at(&headers(all), None, NOW)
}

#[track_caller]
fn refused(authenticator: &Authenticator, all: &[(&str, &str)], code: Code) -> String {
    let problem = identify(authenticator, all).unwrap_err();
    assert_eq!((problem.code.as_str(), problem.status), (code.word(), code.status()), "{}", problem.detail);
    problem.detail
}

fn roles(identity: &Identity) -> Vec<Role> {
    identity.roles.iter().copied().collect()
}

#[test]
fn a_token_says_who_calls_and_what_he_may() {
    let ada = identify(&authenticator(), &[("authorization", &bearer("ada", &[Role::User]))]).unwrap();
    assert_eq!((ada.user.as_str(), roles(&ada), ada.through.clone()), ("ada", vec![Role::User], None));
    assert!(ada.may_change() && !ada.may_register() && !ada.viewer().sees_all);
    let lower = bearer("ada", &[Role::User]).replace("Bearer", "bearer");
    assert_eq!(identify(&authenticator(), &[("authorization", &lower)]).unwrap(), ada);
}

#[test]
fn without_a_valid_token_nobody_is_let_in() {
    let authenticator = authenticator();
    let detail = refused(&authenticator, &[], Code::Unauthenticated);
    assert!(detail.contains("Authorization: Bearer"), "{detail}");
    for wrong in ["Basic YWRhOmFkYQ==", "Bearer", "Bearer ", "Bearer x", "", "Digest a, Bearer b"] {
        refused(&authenticator, &[("authorization", wrong)], Code::Unauthenticated);
    }
    let good = bearer("ada", &[Role::User]);
    refused(&authenticator, &[("authorization", &good), ("authorization", &good)], Code::Unauthenticated);
    let endless = format!("Bearer {}", "A".repeat(9000));
    assert!(refused(&authenticator, &[("authorization", &endless)], Code::Unauthenticated).contains("8192"));
    let other = mint(&Secret::new(&bytes(8)).unwrap(), &claims("ada", &[Role::User]));
    refused(&authenticator, &[("authorization", &format!("Bearer {other}"))], Code::Unauthenticated);
}

#[test]
fn a_revoked_token_is_refused_and_others_of_its_user_are_not() {
    let authenticator = authenticator().with_revoked(["t-1".to_owned()]);
    let token = |id: Option<&str>| {
        let claims = Claims { id: id.map(Into::into), ..claims("ada", &[Role::User]) };
        format!("Bearer {}", mint(&secret(), &claims))
    };
    let why = refused(&authenticator, &[("authorization", &token(Some("t-1")))], Code::Unauthenticated);
    assert!(why.contains("revoked"), "{why}");
    for other in [Some("t-2"), Some("t-11"), None] {
        assert!(identify(&authenticator, &[("authorization", &token(other))]).is_ok(), "{other:?}");
    }
}

#[test]
fn the_time_of_day_decides_whether_a_token_holds() {
    let headers = headers(&[("authorization", &bearer("ada", &[Role::User]))]);
    let at =
        |now| authenticator().identify_at(&headers, None, now).map(drop).map_err(|problem| problem.detail);
    assert_eq!(at(NOW + 629), Ok(()));
    assert!(at(NOW + 630).unwrap_err().contains("expired"));
    assert!(at(NOW - 31).unwrap_err().contains("not valid yet"));
}

#[test]
fn without_a_time_the_time_of_day_is_taken() {
    let until = |expires| {
        let claims = Claims { expires, issued: None, ..claims("ada", &[Role::User]) };
        let token = format!("Bearer {}", mint(&secret(), &claims));
        authenticator().identify(&headers(&[("authorization", &token)]), None).map(|identity| identity.user)
    };
    assert_eq!(until(i64::MAX).unwrap().as_str(), "ada");
    assert_eq!(until(1).unwrap_err().status, 401);
}

#[test]
fn a_token_without_a_role_of_ours_lets_nobody_in() {
    let detail = refused(&authenticator(), &[("authorization", &bearer("ada", &[]))], Code::Forbidden);
    assert!(detail.contains("claim roles"), "{detail}");
}

#[test]
fn refusals_do_not_repeat_the_token() {
    let token = mint(&Secret::new(&bytes(8)).unwrap(), &claims("ada", &[Role::User]));
    for wrong in [token.as_str(), &token[..40], "hunter2.hunter2.hunter2", "hunter2"] {
        let problem =
            identify(&authenticator(), &[("authorization", &format!("Bearer {wrong}"))]).unwrap_err();
        let text = serde_json::to_string(&problem).unwrap();
        assert!(!text.contains(wrong) && !text.contains("hunter2"), "{text}");
    }
    assert!(!format!("{:?} {:?}", authenticator(), secret()).contains("7, 7"));
}

#[test]
fn a_broker_calls_for_others_and_the_audit_knows_through_whom() {
    let broker = bearer("grid", &[Role::Broker]);
    let call = |more: &[(&str, &str)]| {
        identify(&authenticator(), &[&[("authorization", broker.as_str())], more].concat()).unwrap()
    };
    let own = call(&[]);
    assert_eq!((own.user.as_str(), roles(&own), own.through), ("grid", vec![Role::Broker], None));
    let ada = call(&[("bookahead-user", "ada"), ("bookahead-roles", "user,reader,wheel")]);
    assert_eq!((ada.user.as_str(), roles(&ada)), ("ada", vec![Role::User, Role::Reader]));
    assert_eq!(ada.through.unwrap().as_str(), "grid");
    assert_eq!(roles(&call(&[("bookahead-user", "ada")])), [Role::User]);
    assert_eq!(roles(&call(&[("bookahead-user", "ada"), ("bookahead-roles", "")])), [Role::User]);
    assert_eq!(call(&[("bookahead-user", "gr%c3%bcn")]).user.as_str(), "grün");
    let stacked = call(&[("bookahead-user", "ada"), ("bookahead-roles", "user,broker")]);
    assert_eq!(roles(&stacked), [Role::User], "the role broker cannot be passed on");
}

#[test]
fn a_site_may_give_those_whom_a_broker_names_the_role_user_only() {
    let authenticator = authenticator().broker_passes_roles(false);
    let broker = bearer("grid", &[Role::Broker]);
    let all =
        [("authorization", broker.as_str()), ("bookahead-user", "ada"), ("bookahead-roles", "operator")];
    assert_eq!(roles(&identify(&authenticator, &all).unwrap()), [Role::User]);
}

#[test]
fn others_may_name_only_themselves_and_only_give_up_roles() {
    let authenticator = authenticator();
    let operator = bearer("root", &[Role::User, Role::Operator]);
    let call = |more: &[(&str, &str)]| {
        identify(&authenticator, &[&[("authorization", operator.as_str())], more].concat())
            .map(|identity| roles(&identity))
    };
    assert_eq!(call(&[("bookahead-user", "root")]).unwrap(), [Role::User, Role::Operator]);
    assert_eq!(call(&[("bookahead-roles", "user,broker")]).unwrap(), [Role::User]);
    let for_ada = [("authorization", operator.as_str()), ("bookahead-user", "ada")];
    assert!(refused(&authenticator, &for_ada, Code::Forbidden).contains("role broker"));
    for wrong in ["a b", "%zz", "%20", "%0a", "", &"a".repeat(256)] {
        let wrong = [("authorization", operator.as_str()), ("bookahead-user", wrong)];
        refused(&authenticator, &wrong, Code::BadRequest);
    }
    let twice = [("authorization", operator.as_str()), ("bookahead-user", "root"), ("bookahead-user", "ada")];
    refused(&authenticator, &twice, Code::BadRequest);
}

#[test]
fn nobody_has_a_name_that_cannot_be_seen() {
    let (guarded, open) = (authenticator(), Authenticator::open());
    let broker = bearer("grid", &[Role::Broker]);
    for (character, encoded) in [
        ('\u{fe0f}', "%ef%b8%8f"),
        ('\u{34f}', "%cd%8f"),
        ('\u{3164}', "%e3%85%a4"),
        ('\u{2800}', "%e2%a0%80"),
    ] {
        for (name, encoded) in [
            (character.to_string(), encoded.to_owned()),
            (format!("ada{character}"), format!("ada{encoded}")),
        ] {
            let token = bearer(&name, &[Role::User]);
            let detail = refused(&guarded, &[("authorization", &token)], Code::Unauthenticated);
            assert!(detail.contains("visible"), "{name:?}: {detail}");
            let named = [("authorization", broker.as_str()), ("bookahead-user", encoded.as_str())];
            assert!(refused(&guarded, &named, Code::BadRequest).contains("visible"), "{name:?}");
            assert!(refused(&open, &named[1..], Code::BadRequest).contains("visible"), "{name:?}");
        }
    }
}

#[test]
fn a_known_certificate_stands_for_a_token_and_not_for_a_wrong_one() {
    let (known, unknown) = (ClientCertificate::of(b"grid"), ClientCertificate::of(b"other"));
    let peer =
        PeerCertificate { name: "grid".into(), fingerprint: known.fingerprint, roles: vec![Role::Broker] };
    let authenticator = authenticator().with_peers([peer]);
    let named = headers(&[("bookahead-user", "ada")]);
    let ada = authenticator.identify_at(&named, Some(&known), NOW).unwrap();
    assert_eq!((ada.user.as_str(), ada.through.unwrap().as_str()), ("ada", "grid"));
    assert_eq!(authenticator.identify_at(&named, Some(&unknown), NOW).unwrap_err().status, 401);
    let wrong = headers(&[("authorization", "Bearer x.y.z")]);
    assert_eq!(authenticator.identify_at(&wrong, Some(&known), NOW).unwrap_err().status, 401);
    let own = headers(&[("authorization", &bearer("eve", &[Role::User]))]);
    assert_eq!(authenticator.identify_at(&own, Some(&known), NOW).unwrap().user.as_str(), "eve");
}

#[test]
fn an_open_gate_takes_everybody_at_his_word_on_this_machine() {
    let authenticator = Authenticator::open();
    assert!(authenticator.is_open());
    let anybody = identify(&authenticator, &[]).unwrap();
    assert_eq!(anybody.user.as_str(), "anonymous");
    assert_eq!(roles(&anybody), [Role::User, Role::Operator, Role::Broker]);
    let ada = [("host", "127.0.0.1:8080"), ("bookahead-user", "ada"), ("bookahead-roles", "user")];
    let ada = identify(&authenticator, &ada).unwrap();
    assert_eq!((ada.user.as_str(), roles(&ada)), ("ada", vec![Role::User]));
    let rebound = refused(&authenticator, &[("host", "evil.example")], Code::Forbidden);
    assert!(rebound.contains("security.keys"), "{rebound}");
}

#[test]
fn keys_are_read_anew_and_a_bad_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let write = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    };
    let secret = |byte: u8| [&b"secret:"[..], &bytes(byte)].concat();
    write(&secret(7));
    let read = |before: &Authenticator| {
        let keys = Keys::read(&path).ok()?;
        Authenticator::new(keys, TokenRules::default()).succeeding(before).ok()
    };
    let authenticator = Authenticator::new(Keys::read(&path).unwrap(), TokenRules::default());
    let old = [("authorization", &*bearer("ada", &[Role::User]))];
    let new = mint(&Secret::new(&bytes(8)).unwrap(), &claims("ada", &[Role::User]));
    let new = [("authorization", &*format!("Bearer {new}"))];
    assert!(identify(&authenticator, &old).is_ok() && identify(&authenticator, &new).is_err());
    let public = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n\
                  -----END PUBLIC KEY-----\n";
    for unfit in ["secret:short", "502 Bad Gateway, and some more text of a proxy", public] {
        write(unfit.as_bytes());
        assert!(read(&authenticator).is_none(), "{unfit}");
    }
    write(&secret(8));
    let authenticator = read(&authenticator).unwrap();
    assert!(identify(&authenticator, &old).is_err() && identify(&authenticator, &new).is_ok());
}

/// Almost valid tokens: pieces of good ones, in any order, with changes.
fn almost_tokens() -> impl Strategy<Value = String> {
    let token = mint(&secret(), &claims("ada", &[Role::User]));
    let pieces: Vec<String> = token.split('.').map(str::to_owned).collect();
    let piece = prop_oneof![
        proptest::sample::select(pieces),
        "[A-Za-z0-9_-]{0,40}",
        Just(String::new()),
        Just("eyJhbGciOiJub25lIn0".to_owned()),
    ];
    let joined = proptest::collection::vec(piece, 0..5).prop_map(|pieces| pieces.join("."));
    (joined, any::<proptest::sample::Index>(), proptest::option::of(any::<char>())).prop_map(
        |(mut token, at, change)| {
            if let Some(character) = change
                && token.is_ascii()
            {
                token.insert(at.index(token.len() + 1), character);
            }
            token
        },
    )
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn no_header_makes_the_gate_fail(
        authorization in proptest::option::of(prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..60),
            almost_tokens().prop_map(|token| format!("Bearer {token}").into_bytes()),
        ]),
        user in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)),
        roles in proptest::option::of("[a-z,% ]{0,20}"),
        now in any::<i64>(),
    ) {
        let mut headers = HeaderMap::new();
        let mut put = |name: &'static str, value: Option<Vec<u8>>| {
            if let Some(value) = value.and_then(|value| HeaderValue::from_bytes(&value).ok()) {
                headers.insert(name, value);
            }
        };
        put("authorization", authorization);
        put("bookahead-user", user);
        put("bookahead-roles", roles.map(String::into_bytes));
        for authenticator in [authenticator(), Authenticator::open()] {
            if let Ok(identity) = authenticator.identify_at(&headers, None, now) {
                let good = mint(&secret(), &claims("ada", &[Role::User]));
                let said = headers.get("authorization").and_then(|value| value.to_str().ok());
                prop_assert!(authenticator.is_open() || said.is_some_and(|said| said.contains(&good)));
                prop_assert!(!identity.user.as_str().is_empty());
            }
        }
    }

    #[test]
    fn no_key_file_makes_reading_fail(
        start in proptest::sample::select(vec!["", "{", "-----BEGIN PUBLIC KEY-----\n", "base64:", "secret:", "{\"keys\":["]),
        rest in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = Keys::parse(&[start.as_bytes(), &rest].concat());
    }

    #[test]
    fn no_der_makes_reading_fail(mut der in proptest::collection::vec(any::<u8>(), 0..80), cut in 0usize..40) {
        use base64::Engine as _;
        let real = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
        der.splice(0..0, real.into_iter().take(cut));
        let text = base64::engine::general_purpose::STANDARD.encode(&der);
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n");
        let keys = Keys::parse(pem.as_bytes());
        prop_assert!(keys.is_err() || der.len() == 44);
    }
}

#[test]
fn roles_have_the_names_that_tokens_and_settings_use() {
    let words: BTreeSet<&str> = Role::ALL.into_iter().map(Role::word).collect();
    assert_eq!(words, BTreeSet::from(["user", "operator", "broker", "reader"]));
    assert!(Role::ALL.into_iter().all(|role| Role::of(role.word()) == Some(role)));
}
