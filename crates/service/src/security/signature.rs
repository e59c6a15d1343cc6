//! Signed tokens in compact form (RFC 7515): three base64url texts separated by dots. Returns the payload only if
//! the signature is valid. Does not interpret the payload.

use super::error::TokenFault;
use super::key::Algorithm;
use super::keys::{Keys, base64url};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

/// Longest token: more than one with a user and a few roles needs, and short enough to parse without cost.
pub(super) const LONGEST_TOKEN: usize = 8192;

/// Header of a token. Keys in the header are ignored.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    /// Whether there are critical extensions (RFC 7515, 4.1.11). None is supported, so any value is refused, even
    /// null.
    #[serde(default, deserialize_with = "is_there")]
    crit: bool,
}

fn is_there<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(from).map(|IgnoredAny| true)
}

/// The payload, if one of the keys verifies the signature.
pub(super) fn signed_content(token: &str, keys: &Keys) -> Result<Vec<u8>, TokenFault> {
    if token.len() > LONGEST_TOKEN {
        return Err(TokenFault::TooLong { most: LONGEST_TOKEN });
    }
    // Split from both ends: the dots of an encrypted token, which has five parts, end up in the payload,
    // which is then not base64url.
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenFault::Malformed("it has no dots"))?;
    let (header, payload) = signed.split_once('.').ok_or(TokenFault::Malformed("it has one dot only"))?;
    let decoded = |text| base64url(text).ok_or(TokenFault::Malformed("a part of it is not base64url"));
    let (header, payload, signature) = (decoded(header)?, decoded(payload)?, decoded(signature)?);
    let (algorithm, id) = read_header(&header)?;
    let mut candidates = keys.candidates(algorithm, id.as_deref()).peekable();
    // Distinguished from a wrong signature, because an identity provider may have published the key meanwhile.
    candidates.peek().ok_or(TokenFault::UnknownKey)?;
    let genuine = candidates.any(|key| key.verifies(algorithm, signed.as_bytes(), &signature));
    if genuine { Ok(payload) } else { Err(TokenFault::Signature) }
}

/// The `kid` of a token, before anything of it is verified.
pub(super) fn key_id(token: &str) -> Option<String> {
    let header = token.split('.').next().filter(|_| token.len() <= LONGEST_TOKEN)?;
    serde_json::from_slice::<Header>(&base64url(header)?).ok()?.kid
}

/// The algorithm and the `kid`.
fn read_header(json: &[u8]) -> Result<(Algorithm, Option<String>), TokenFault> {
    let header: Header =
        serde_json::from_slice(json).map_err(|_| TokenFault::Malformed("its header is invalid"))?;
    if header.crit {
        return Err(TokenFault::Malformed("it needs an unsupported extension (crit)"));
    }
    if header.typ.as_deref().is_some_and(|kind| !is_access_token(kind)) {
        return Err(TokenFault::Malformed("it is a token for another purpose (typ)"));
    }
    let algorithm = Algorithm::of(&header.alg).ok_or(TokenFault::Algorithm)?;
    Ok((algorithm, header.kid))
}

/// Issuers sign other documents with the same keys, such as logout tokens.
fn is_access_token(kind: &str) -> bool {
    ["jwt", "at+jwt", "application/at+jwt"].iter().any(|known| kind.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::super::key::Secret;
    use super::super::rfc_examples_for_tests::{PEM, SAID, ed25519, es256, hs256, rs256};
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::{Value, json};

    fn keys(all: &[Value]) -> Keys {
        Keys::parse(json!({"keys": all}).to_string().as_bytes()).unwrap()
    }

    fn encoded(text: impl AsRef<[u8]>) -> String {
        URL_SAFE_NO_PAD.encode(text)
    }

    #[test]
    fn the_examples_of_the_rfcs_are_believed() {
        for (key, token) in [hs256(), rs256(), es256()] {
            assert_eq!(signed_content(&token, &keys(&[key])).unwrap(), SAID.as_bytes());
        }
        let (key, token) = ed25519();
        assert_eq!(signed_content(&token, &keys(&[key])).unwrap(), b"Example of Ed25519 signing");
    }

    #[test]
    fn the_same_keys_in_pem_believe_the_same() {
        let keys = Keys::parse(PEM.as_bytes()).unwrap();
        assert_eq!(keys.len(), 3);
        for (_, token) in [rs256(), es256(), ed25519()] {
            assert!(signed_content(&token, &keys).is_ok(), "{token}");
        }
    }

    #[test]
    fn a_bit_that_is_changed_anywhere_is_noticed() {
        for (key, token) in [hs256(), rs256(), es256(), ed25519()] {
            let keys = keys(&[key]);
            let parts: Vec<Vec<u8>> = token.split('.').map(|part| base64url(part).unwrap()).collect();
            for (part, bytes) in parts.iter().enumerate() {
                for at in 0..bytes.len() {
                    let mut forged = parts.clone();
                    forged[part][at] ^= 1 << (at % 8);
                    let forged = forged.iter().map(encoded).collect::<Vec<_>>().join(".");
                    assert!(signed_content(&forged, &keys).is_err(), "{part} {at}");
                }
            }
        }
    }

    #[test]
    fn a_signature_that_is_cut_or_missing_is_wrong() {
        for (key, token) in [hs256(), rs256(), es256(), ed25519()] {
            let keys = keys(&[key]);
            let (signed, signature) = token.rsplit_once('.').unwrap();
            let signature = base64url(signature).unwrap();
            for length in 0..signature.len() {
                let cut = format!("{signed}.{}", encoded(&signature[..length]));
                assert_eq!(signed_content(&cut, &keys), Err(TokenFault::Signature), "{length}");
            }
        }
    }

    #[test]
    fn a_token_cannot_choose_an_algorithm_that_the_key_is_not_for() {
        let (rsa, token) = rs256();
        let public = keys(std::slice::from_ref(&rsa));
        let payload = token.split('.').nth(1).unwrap();
        for header in [r#"{"alg":"none"}"#, r#"{"alg":"None"}"#, r#"{"alg":""}"#, r#"{"alg":"HS512"}"#] {
            let unsigned = format!("{}.{payload}.", encoded(header));
            assert_eq!(signed_content(&unsigned, &public), Err(TokenFault::Algorithm), "{header}");
        }
        // The public key as if it were a secret, in the forms in which it could be known to a forger.
        for material in [rsa["n"].as_str().unwrap().to_owned(), rsa.to_string()] {
            let signed = format!("{}.{payload}", encoded(r#"{"alg":"HS256"}"#));
            let tag = Secret::new(material.as_bytes()).unwrap().sign(signed.as_bytes());
            let forged = format!("{signed}.{}", encoded(tag));
            assert_eq!(signed_content(&forged, &public), Err(TokenFault::UnknownKey));
        }
        let mut bound = rsa;
        bound["alg"] = json!("RS512");
        assert_eq!(signed_content(&token, &keys(&[bound])), Err(TokenFault::UnknownKey));
    }

    #[test]
    fn a_key_is_chosen_by_its_name() {
        let secret =
            |id: &str, byte: u8| json!({"kty": "oct", "kid": id, "k": encoded(Secret::bytes_for_test(byte))});
        let keys = keys(&[secret("old", 1), secret("new", 2)]);
        let token = |header: &str, byte: u8| {
            let signed = format!("{}.e30", encoded(header));
            let tag = Secret::for_test(byte).sign(signed.as_bytes());
            format!("{signed}.{}", encoded(tag))
        };
        let named = r#"{"alg":"HS256","kid":"new"}"#;
        assert_eq!(signed_content(&token(named, 2), &keys).unwrap(), b"{}");
        assert_eq!(signed_content(&token(named, 1), &keys), Err(TokenFault::Signature));
        let foreign = r#"{"alg":"HS256","kid":"foreign"}"#;
        assert_eq!(signed_content(&token(foreign, 1), &keys), Err(TokenFault::UnknownKey));
        let unnamed = r#"{"alg":"HS256"}"#;
        assert!(signed_content(&token(unnamed, 1), &keys).is_ok());
        assert!(signed_content(&token(unnamed, 2), &keys).is_ok());
        assert_eq!(signed_content(&token(unnamed, 3), &keys), Err(TokenFault::Signature));
        for refused in [
            r#"{"alg":"HS256","crit":["exp"],"exp":1}"#,
            r#"{"alg":"HS256","typ":"logout+jwt"}"#,
            r#"{"alg":"HS256","alg":"HS256"}"#,
            r#"{"typ":"JWT"}"#,
            "[]",
        ] {
            let fault = signed_content(&token(refused, 1), &keys).unwrap_err();
            assert!(matches!(fault, TokenFault::Malformed(_)), "{refused}: {fault}");
        }
    }

    #[test]
    fn an_extension_that_must_be_understood_is_refused_whatever_it_is() {
        let key = json!({"kty": "oct", "k": encoded(Secret::bytes_for_test(1))});
        for critical in [
            "null",
            "[]",
            "[\"b64\"]",
            "[\"exp\"]",
            "[null]",
            "{}",
            "\"exp\"",
            "\"\"",
            "false",
            "true",
            "0",
            "1",
        ] {
            let header = format!("{{\"alg\":\"HS256\",\"exp\":1,\"b64\":true,\"crit\":{critical}}}");
            let signed = format!("{}.e30", encoded(header));
            let tag = Secret::for_test(1).sign(signed.as_bytes());
            let fault =
                signed_content(&format!("{signed}.{}", encoded(tag)), &keys(std::slice::from_ref(&key)));
            let expected = TokenFault::Malformed("it needs an unsupported extension (crit)");
            assert_eq!(fault, Err(expected), "{critical}");
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let (key, token) = hs256();
        let keys = keys(&[key]);
        for junk in [
            "",
            ".",
            "..",
            "...",
            "a.b.c",
            "e30.e30",
            &format!("{token}."),
            &format!("{token}="),
            &format!(" {token}"),
        ] {
            assert!(matches!(signed_content(junk, &keys), Err(TokenFault::Malformed(_))), "{junk}");
        }
        let endless = "A".repeat(LONGEST_TOKEN + 1);
        assert_eq!(signed_content(&endless, &keys), Err(TokenFault::TooLong { most: LONGEST_TOKEN }));
        assert_eq!(signed_content(&token, &Keys::none()), Err(TokenFault::UnknownKey));
    }
}
