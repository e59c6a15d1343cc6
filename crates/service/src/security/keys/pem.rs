//! Public keys in PEM (`-----BEGIN PUBLIC KEY-----`, RFC 5280's SubjectPublicKeyInfo). The DER inside is walked strictly:
//! every length is the shortest that says it, nothing is left over, and only three kinds of keys are known.

use super::super::error::KeyFault;
use super::super::key::Key;
use rustls::pki_types::pem::{PemObject as _, SectionKind};

const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;
const INTEGER: u8 = 0x02;

/// What stands in an AlgorithmIdentifier: rsaEncryption and NULL; id-ecPublicKey and prime256v1; id-Ed25519.
const RSA: &[u8] = &[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];
const P256: &[u8] = &[6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const ED25519: &[u8] = &[6, 3, 0x2b, 0x65, 0x70];

/// Reads all public keys of a text.
pub(super) fn read(text: &[u8]) -> Result<Vec<Key>, KeyFault> {
    let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(text);
    sections
        .map(|section| match section {
            Ok((SectionKind::PublicKey, der)) => public_key(&der),
            Ok(_) => Err(KeyFault::NotPublic),
            Err(fault) => Err(KeyFault::Pem(fault.to_string())),
        })
        .collect()
}

fn public_key(der: &[u8]) -> Result<Key, KeyFault> {
    let (algorithm, bits) = info(der).ok_or(KeyFault::UnknownPublicKey)?;
    match algorithm {
        RSA => {
            let (modulus, exponent) = rsa_numbers(bits).ok_or(KeyFault::UnknownPublicKey)?;
            Key::rsa(modulus, exponent)
        }
        P256 => Key::p256(bits.to_vec()),
        ED25519 => Key::ed25519(bits.to_vec()),
        _ => Err(KeyFault::UnknownPublicKey),
    }
}

/// The algorithm and the key's bits.
fn info(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (algorithm, rest) = element(SEQUENCE, whole(SEQUENCE, der)?)?;
    match whole(BIT_STRING, rest)? {
        [0, bits @ ..] => Some((algorithm, bits)),
        _ => None,
    }
}

fn rsa_numbers(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (modulus, rest) = element(INTEGER, whole(SEQUENCE, der)?)?;
    let exponent = whole(INTEGER, rest)?;
    Some((positive(modulus)?, positive(exponent)?))
}

/// A number above zero in its shortest form.
fn positive(number: &[u8]) -> Option<&[u8]> {
    match number {
        [0, next, ..] if *next < 0x80 => None,
        [] | [0] | [0x80..=0xff, ..] => None,
        _ => Some(number),
    }
}

/// The content of an element that is all there is.
fn whole(tag: u8, der: &[u8]) -> Option<&[u8]> {
    element(tag, der).and_then(|(content, rest)| rest.is_empty().then_some(content))
}

/// The content of the first element, and what comes after it.
fn element(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = der.strip_prefix(&[tag])?;
    let (length, rest) = match *rest {
        [short @ 0..=0x7f, ref rest @ ..] => (usize::from(short), rest),
        [0x81, long @ 0x80..=0xff, ref rest @ ..] => (usize::from(long), rest),
        [0x82, high @ 1..=0xff, low, ref rest @ ..] => (usize::from(high) << 8 | usize::from(low), rest),
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_taken_in_their_shortest_form_only() {
        assert_eq!(element(2, &[2, 1, 9, 7]), Some((&[9][..], &[7][..])));
        for wrong in
            [&[2u8, 0x81, 1, 9][..], &[2, 0x82, 0, 1, 9], &[2, 2, 9], &[2, 0x80, 9], &[3, 1, 9], &[2], &[]]
        {
            assert_eq!(element(2, wrong), None, "{wrong:?}");
        }
        assert_eq!(whole(2, &[2, 1, 9, 7]), None);
        let long = [vec![4, 0x82, 1, 0], vec![5; 256]].concat();
        assert_eq!(whole(4, &long).map(<[u8]>::len), Some(256));
    }

    #[test]
    fn numbers_are_positive_and_in_their_shortest_form() {
        assert_eq!(positive(&[0, 0x80]), Some(&[0, 0x80][..]));
        assert_eq!(positive(&[1, 0, 1]), Some(&[1, 0, 1][..]));
        for wrong in [&[][..], &[0], &[0, 1], &[0x80, 1]] {
            assert_eq!(positive(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn only_public_keys_are_taken() {
        let section = |label: &str| format!("-----BEGIN {label}-----\nMAAA\n-----END {label}-----\n");
        for label in ["PRIVATE KEY", "CERTIFICATE", "RSA PRIVATE KEY"] {
            let fault = read(section(label).as_bytes()).unwrap_err();
            assert!(fault.to_string().contains("openssl pkey -pubout"), "{fault}");
        }
        assert_eq!(read(section("PUBLIC KEY").as_bytes()).unwrap_err(), KeyFault::UnknownPublicKey);
    }
}
