//! Certificates of clients, known by their fingerprints. That a certificate is from an accepted authority and that the
//! client has its key is checked by TLS; who it is stands in the settings, so that no X.509 has to be read here.

use super::identity::Role;
use bookahead_protocol::Name;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The SHA-256 of a certificate, as `openssl x509 -noout -fingerprint -sha256` prints it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint([u8; 32]);

/// A text that is no fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{0:?} is no fingerprint; it should be 64 hexadecimal digits, with colons or without, \
     as openssl x509 -noout -fingerprint -sha256 prints them"
)]
pub struct NotAFingerprint(String);

/// What a client showed when it connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
}

/// Who has a certificate, and what he may: `[[security.peer]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerCertificate {
    /// Who.
    pub name: Name,
    /// Of his certificate.
    pub fingerprint: Fingerprint,
    /// What he may.
    pub roles: Vec<Role>,
}

impl ClientCertificate {
    /// From the certificate in DER, as TLS hands it over.
    pub fn of(der: &[u8]) -> ClientCertificate {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, der).as_ref());
        ClientCertificate { fingerprint: Fingerprint(bytes) }
    }
}

impl FromStr for Fingerprint {
    type Err = NotAFingerprint;

    fn from_str(text: &str) -> Result<Fingerprint, NotAFingerprint> {
        let wrong = || NotAFingerprint(text.chars().take(120).collect());
        let digits: Option<Vec<u8>> = if text.contains(':') {
            text.split(':').map(pair).collect()
        } else {
            text.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).ok().and_then(pair)).collect()
        };
        digits.and_then(|bytes| bytes.try_into().ok()).map(Fingerprint).ok_or_else(wrong)
    }
}

/// Two hexadecimal digits.
fn pair(text: &str) -> Option<u8> {
    let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if digits { u8::from_str_radix(text, 16).ok() } else { None }
}

impl TryFrom<String> for Fingerprint {
    type Error = NotAFingerprint;

    fn try_from(text: String) -> Result<Fingerprint, NotAFingerprint> {
        text.parse()
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> String {
        fingerprint.to_string()
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_with_colons_or_without() {
        let plain = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let colons: Vec<String> = plain
            .as_bytes()
            .chunks(2)
            .map(|two| String::from_utf8(two.to_ascii_uppercase()).unwrap())
            .collect();
        let empty = ClientCertificate::of(b"").fingerprint;
        assert_eq!(plain.parse(), Ok(empty));
        assert_eq!(colons.join(":").parse(), Ok(empty));
        assert_eq!(empty.to_string(), plain);
        for wrong in
            ["", "e3", &plain[2..], &format!("{plain}00"), &plain.replace('e', "é"), &plain.replace('e', "+")]
        {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
    }
}
