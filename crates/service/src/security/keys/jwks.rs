//! JSON Web Keys (RFC 7517, 7518, 8037). Keys that are for something else are passed over, as the RFC wants; keys that
//! should do and are damaged are an error. Errors name a key by its id or place and never repeat its content.

use super::super::error::KeyFault;
use super::super::key::{Algorithm, Key, Secret};
use super::{MOST_KEYS, base64url};
use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Deserialize)]
struct Set {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    k: Option<String>,
    /// The private half, which has no business here.
    d: Option<IgnoredAny>,
}

/// Only what tells a set from a single key.
#[derive(Deserialize)]
struct Shape {
    kty: Option<IgnoredAny>,
}

/// Reads the keys of a document that can check signatures.
pub(super) fn read(text: &[u8]) -> Result<Vec<Key>, KeyFault> {
    let shape: Shape = parsed(text)?;
    let all = if shape.kty.is_some() { vec![parsed(text)?] } else { parsed::<Set>(text)?.keys };
    if all.len() > MOST_KEYS {
        return Err(KeyFault::TooManyKeys { found: all.len(), most: MOST_KEYS });
    }
    let keys = all.iter().enumerate().filter_map(|(at, jwk)| key(at, jwk).transpose());
    keys.collect()
}

/// Says where it goes wrong and not what is there: that may be a secret.
fn parsed<'t, T: Deserialize<'t>>(text: &'t [u8]) -> Result<T, KeyFault> {
    serde_json::from_slice(text)
        .map_err(|error| KeyFault::NotJwks { line: error.line(), column: error.column() })
}

/// A key; None where it is for something else.
fn key(at: usize, jwk: &Jwk) -> Result<Option<Key>, KeyFault> {
    let wrong = |what: String| KeyFault::Jwk {
        key: jwk.kid.as_ref().map_or_else(|| format!("number {}", at + 1), |id| format!("{id:?}")),
        what,
    };
    if !jwk.checks_signatures() {
        return Ok(None);
    }
    if jwk.d.is_some() {
        return Err(wrong("holds a private key (d); give only the public part".into()));
    }
    let number = |name: &str, field: &Option<String>| {
        let text = field.as_ref().ok_or_else(|| wrong(format!("{name} is missing")))?;
        base64url(text).ok_or_else(|| wrong(format!("{name} is not base64url")))
    };
    let key = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("oct", _) => Secret::new(&number("k", &jwk.k)?).map(Key::secret),
        ("RSA", _) => Key::rsa(&number("n", &jwk.n)?, &number("e", &jwk.e)?),
        ("EC", Some("P-256")) => Key::p256([vec![4], number("x", &jwk.x)?, number("y", &jwk.y)?].concat()),
        ("OKP", Some("Ed25519")) => Key::ed25519(number("x", &jwk.x)?),
        _ => return Ok(None),
    };
    let mut key = key.map_err(|fault| wrong(fault.to_string()))?;
    key.id.clone_from(&jwk.kid);
    match jwk.alg.as_deref().map(Algorithm::of) {
        None => Ok(Some(key)),
        Some(algorithm) => Ok(algorithm.and_then(|algorithm| key.only_for(algorithm))),
    }
}

impl Jwk {
    fn checks_signatures(&self) -> bool {
        let for_signatures = self.purpose.as_deref().is_none_or(|purpose| purpose == "sig");
        for_signatures && self.key_ops.as_ref().is_none_or(|all| all.iter().any(|one| one == "verify"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const K: &str = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";

    fn read_value(value: &Value) -> Result<Vec<Key>, KeyFault> {
        read(value.to_string().as_bytes())
    }

    #[test]
    fn keys_for_something_else_are_passed_over() {
        let others = json!({"keys": [
            {"kty": "oct", "k": K, "use": "enc"},
            {"kty": "oct", "k": K, "key_ops": ["sign"]},
            {"kty": "oct", "k": K, "alg": "HS512"},
            {"kty": "oct", "k": K, "alg": "RS256"},
            {"kty": "EC", "crv": "P-384", "x": "AA", "y": "AA"},
            {"kty": "OKP", "crv": "X25519", "x": "AA"},
            {"kty": "AKP", "alg": "ML-DSA-44"},
            {"kty": "oct", "k": K, "use": "sig", "key_ops": ["sign", "verify"], "alg": "HS256", "kid": "ours"},
        ]});
        let keys = read_value(&others).unwrap();
        assert_eq!(keys.iter().map(|key| key.id.as_deref()).collect::<Vec<_>>(), [Some("ours")]);
        assert_eq!(read_value(&json!({"kty": "oct", "k": K})).unwrap().len(), 1);
    }

    #[test]
    fn damaged_keys_are_named_and_their_content_is_not_repeated() {
        for (jwk, what) in [
            (json!({"kty": "oct", "k": "c2hvcnQ"}), "at least 32"),
            (json!({"kty": "oct", "k": "not base64!"}), "k is not base64url"),
            (json!({"kty": "oct"}), "k is missing"),
            (json!({"kty": "RSA", "n": "AQAB", "e": "AQAB"}), "2048"),
            (json!({"kty": "RSA", "n": "AQAB", "e": "AQAB", "d": "AQAB"}), "private"),
            (json!({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}), "point on P-256"),
            (json!({"kty": "OKP", "crv": "Ed25519", "x": "AA"}), "32 bytes"),
        ] {
            let fault = read_value(&json!({"keys": [jwk]})).unwrap_err().to_string();
            assert!(fault.contains("number 1") && fault.contains(what), "{fault}");
            assert!(!fault.contains("c2hvcnQ") && !fault.contains("not base64!"), "{fault}");
        }
        let fault = read_value(&json!({"keys": [{"kty": "oct", "k": ["hunter2hunter2"]}]})).unwrap_err();
        assert!(
            matches!(fault, KeyFault::NotJwks { .. }) && !fault.to_string().contains("hunter2"),
            "{fault}"
        );
    }

    #[test]
    fn more_keys_than_anybody_has_are_refused() {
        let many = json!({"keys": vec![json!({"kty": "oct", "k": K}); MOST_KEYS + 1]});
        assert!(matches!(read_value(&many), Err(KeyFault::TooManyKeys { found: 65, most: 64 })));
    }
}
