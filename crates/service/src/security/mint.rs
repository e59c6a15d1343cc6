//! Making tokens with a secret of our own: for `bookahead token`, where no identity provider is, and for tests.

use super::claims::Claims;
use super::identity::Role;
use super::key::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};

/// A token that says this, signed with HS256.
pub fn mint(secret: &Secret, claims: &Claims) -> String {
    let header = json!({"alg": "HS256", "typ": "JWT"});
    let signed = format!("{}.{}", encoded(header.to_string()), encoded(written(claims).to_string()));
    let signature = encoded(secret.sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

/// A secret that nobody knows yet, as a key file has it; None where the system gives no random numbers.
pub fn new_secret() -> Option<String> {
    let mut bytes = [0; 48];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(format!("base64:{}\n", STANDARD.encode(bytes)))
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
        let secret = Secret::new(&[7; 32]).unwrap();
        let claims = Claims {
            user: "ada".into(),
            roles: BTreeSet::from([Role::User, Role::Reader]),
            expires: 1_800_000_060,
            not_before: Some(1_800_000_000),
            issued: Some(1_800_000_000),
            audience: Some("bookahead".into()),
            issuer: Some("north".into()),
        };
        let token = mint(&secret, &claims);
        let rules = TokenRules { audience: Some("bookahead".into()), issuer: Some("north".into()) };
        let content = signed_content(&token, &Keys::of_secret(secret)).unwrap();
        assert_eq!(Claims::read(&content, &rules, 1_800_000_001).unwrap(), claims);
    }
}
