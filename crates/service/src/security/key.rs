//! A key that verifies signatures. The algorithms that a key accepts are fixed when it is read; a token can only
//! choose among them. Relies on ring for all cryptography.

use super::error::KeyFault;
use ring::agreement::{ECDH_P256, EphemeralPrivateKey};
use ring::error::Unspecified;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use ring::{agreement, hmac};
use std::collections::BTreeSet;
use std::fmt;

/// Shortest secret in bytes: the output length of SHA-256, as RFC 7518 requires.
const LEAST_SECRET: usize = 32;

/// Fewest different bytes of a secret. Of 10 million random ones with 32 hexadecimal digits one has fewer; typed
/// patterns usually have fewer.
const LEAST_DIFFERENT: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Hs256,
    Rs256,
    Rs384,
    Rs512,
    Es256,
    EdDsa,
}

impl Algorithm {
    /// The algorithm with this name. `none` is not supported.
    pub(super) fn of(name: &str) -> Option<Algorithm> {
        Some(match name {
            "HS256" => Algorithm::Hs256,
            "RS256" => Algorithm::Rs256,
            "RS384" => Algorithm::Rs384,
            "RS512" => Algorithm::Rs512,
            "ES256" => Algorithm::Es256,
            // RFC 9864 replaces `EdDSA`, which leaves the curve open, by `Ed25519`.
            "EdDSA" | "Ed25519" => Algorithm::EdDsa,
            _ => return None,
        })
    }
}

/// A secret that signs and verifies tokens. It cannot be printed.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl Secret {
    /// From at least 32 bytes, of which at least 8 are different.
    pub fn new(bytes: &[u8]) -> Result<Secret, KeyFault> {
        if bytes.len() < LEAST_SECRET {
            return Err(KeyFault::ShortSecret { found: bytes.len(), least: LEAST_SECRET });
        }
        let different = bytes.iter().collect::<BTreeSet<_>>().len();
        if different < LEAST_DIFFERENT {
            return Err(KeyFault::WeakSecret { found: different, least: LEAST_DIFFERENT });
        }
        Ok(Secret(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    pub(crate) fn sign(&self, message: &[u8]) -> hmac::Tag {
        hmac::sign(&self.0, message)
    }
}

#[cfg(test)]
impl Secret {
    pub(super) fn bytes_for_test(seed: u8) -> [u8; 32] {
        let mut bytes = [seed; 32];
        bytes[1..9].copy_from_slice(b"01234567");
        bytes
    }

    pub(super) fn for_test(seed: u8) -> Secret {
        Secret::new(&Secret::bytes_for_test(seed)).unwrap()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[derive(Debug, Clone)]
pub(super) struct Key {
    /// Name of the key in tokens (`kid`).
    pub(super) id: Option<String>,
    material: Material,
}

#[derive(Debug, Clone)]
enum Material {
    Secret(Secret),
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
        /// Set if the key is restricted to one algorithm.
        only: Option<Algorithm>,
    },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl Key {
    pub(super) fn secret(secret: Secret) -> Key {
        Key::without_name(Material::Secret(secret))
    }

    /// From big-endian numbers; leading zeros are ignored.
    pub(super) fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Key, KeyFault> {
        let (modulus, exponent) = (significant(modulus), significant(exponent));
        let odd = |number: &[u8]| number.last().is_some_and(|byte| byte % 2 == 1);
        // These are the bounds of ring, which applies them only when a token is verified.
        let sound = (2048..=8192).contains(&bits(modulus)) && (2..=33).contains(&bits(exponent));
        if !sound || !odd(modulus) || !odd(exponent) {
            return Err(KeyFault::BadRsa);
        }
        let (modulus, exponent) = (modulus.to_vec(), exponent.to_vec());
        Ok(Key::without_name(Material::Rsa { modulus, exponent, only: None }))
    }

    pub(super) fn p256(point: Vec<u8>) -> Result<Key, KeyFault> {
        on_curve(&point).map_err(|Unspecified| KeyFault::BadPoint)?;
        Ok(Key::without_name(Material::P256(point)))
    }

    pub(super) fn ed25519(bytes: Vec<u8>) -> Result<Key, KeyFault> {
        if bytes.len() != 32 {
            return Err(KeyFault::BadEd25519);
        }
        Ok(Key::without_name(Material::Ed25519(bytes)))
    }

    fn without_name(material: Material) -> Key {
        Key { id: None, material }
    }

    /// Restricts an RSA key to one algorithm. `None` if the key does not support it.
    pub(super) fn only_for(mut self, algorithm: Algorithm) -> Option<Key> {
        if !self.takes(algorithm) {
            return None;
        }
        if let Material::Rsa { only, .. } = &mut self.material {
            *only = Some(algorithm);
        }
        Some(self)
    }

    pub(super) fn as_secret(&self) -> Option<&Secret> {
        if let Material::Secret(secret) = &self.material { Some(secret) } else { None }
    }

    pub(super) fn as_ed25519(&self) -> Option<&[u8]> {
        if let Material::Ed25519(bytes) = &self.material { Some(bytes) } else { None }
    }

    /// Whether it verifies signatures of this algorithm.
    pub(super) fn takes(&self, algorithm: Algorithm) -> bool {
        use Algorithm::{EdDsa, Es256, Hs256, Rs256, Rs384, Rs512};
        match &self.material {
            Material::Secret(_) => algorithm == Hs256,
            Material::Rsa { only, .. } => {
                matches!(algorithm, Rs256 | Rs384 | Rs512) && only.is_none_or(|only| only == algorithm)
            }
            Material::P256(_) => algorithm == Es256,
            Material::Ed25519(_) => algorithm == EdDsa,
        }
    }

    /// Whether the signature is valid. Always false for an algorithm that the key does not accept.
    pub(super) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.takes(algorithm) {
            return false;
        }
        let verified = match &self.material {
            // In constant time.
            Material::Secret(secret) => hmac::verify(&secret.0, message, signature),
            Material::Rsa { modulus, exponent, .. } => RsaPublicKeyComponents { n: modulus, e: exponent }
                .verify(rsa_parameters(algorithm), message, signature),
            Material::P256(point) => {
                // A JWS has the two numbers side by side (RFC 7518, 3.4), not in ASN.1 as certificates do.
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            Material::Ed25519(bytes) => UnparsedPublicKey::new(&ED25519, bytes).verify(message, signature),
        };
        verified.is_ok()
    }
}

fn rsa_parameters(algorithm: Algorithm) -> &'static RsaParameters {
    match algorithm {
        Algorithm::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
        // RS256: `verifies` has refused algorithms that are not for RSA.
        _ => &RSA_PKCS1_2048_8192_SHA256,
    }
}

/// ring checks a point only when it is used for key agreement. So an invalid key is found when it is read, and not
/// by tokens that fail later.
fn on_curve(point: &[u8]) -> Result<(), Unspecified> {
    let ours = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new())?;
    agreement::agree_ephemeral(ours, &agreement::UnparsedPublicKey::new(&ECDH_P256, point), |_| ())
}

fn significant(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

fn bits(number: &[u8]) -> usize {
    number.first().map_or(0, |first| number.len() * 8 - first.leading_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_long_enough_and_never_shown() {
        assert_eq!(Secret::new(&[7; 31]).unwrap_err(), KeyFault::ShortSecret { found: 31, least: 32 });
        for weak in [&[b'a'; 43][..], &b"abcabd".repeat(8), &b"1234567".repeat(9)] {
            let why = Secret::new(weak).unwrap_err();
            assert!(matches!(why, KeyFault::WeakSecret { found: 1..8, least: 8 }), "{why}");
            assert!(why.to_string().contains("openssl rand"), "{why}");
        }
        let key = Key::secret(Secret::new(b"0123456789abcdef0123456789abcdef").unwrap());
        assert!(!format!("{key:?}").contains("0123"), "{key:?}");
    }

    #[test]
    fn an_rsa_key_is_neither_short_nor_even() {
        let modulus = |bytes: usize, last: u8| [vec![0x80; bytes - 1], vec![last]].concat();
        assert!(Key::rsa(&modulus(256, 1), &[1, 0, 1]).is_ok());
        assert!(Key::rsa(&[vec![0; 5], modulus(256, 1)].concat(), &[0, 3]).is_ok());
        for (wrong, exponent) in [
            (modulus(255, 1), vec![3]),
            (modulus(1025, 1), vec![3]),
            (modulus(256, 2), vec![3]),
            (modulus(256, 1), vec![1]),
            (modulus(256, 1), vec![4]),
            (modulus(256, 1), vec![]),
            (vec![], vec![3]),
        ] {
            assert_eq!(Key::rsa(&wrong, &exponent).unwrap_err(), KeyFault::BadRsa);
        }
    }

    #[test]
    fn a_point_that_is_not_on_the_curve_is_refused_when_it_is_read() {
        for wrong in [vec![], vec![4; 65], vec![0; 65], vec![4; 33]] {
            assert_eq!(Key::p256(wrong).unwrap_err(), KeyFault::BadPoint);
        }
        assert_eq!(Key::ed25519(vec![1; 31]).unwrap_err(), KeyFault::BadEd25519);
    }

    #[test]
    fn a_key_that_says_what_it_is_for_is_for_nothing_else() {
        let rsa = Key::rsa(&[vec![0x80; 255], vec![1]].concat(), &[3]).unwrap();
        assert!(rsa.takes(Algorithm::Rs256) && rsa.takes(Algorithm::Rs512) && !rsa.takes(Algorithm::Hs256));
        let bound = rsa.clone().only_for(Algorithm::Rs512).unwrap();
        assert!(bound.takes(Algorithm::Rs512) && !bound.takes(Algorithm::Rs256));
        assert!(rsa.only_for(Algorithm::Es256).is_none());
    }
}
