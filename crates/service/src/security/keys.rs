//! Keys of a service from one file: a secret, public keys in PEM (SubjectPublicKeyInfo, RFC 5280), or a JWKS
//! document (RFC 7517, 7518, 8037). The format is detected from the content, and a file with a secret must be
//! private. Also keys from a JWKS document at a URL, which never contains secrets. DER is parsed strictly. Errors
//! name a key by its id or position and never quote its content.

use super::error::{KeyFault, SecurityError};
use super::key::{Algorithm, Key, Secret};
use super::tls::Content;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rustls::pki_types::pem::{PemObject as _, SectionKind};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::path::{Path, PathBuf};

/// Most keys: a token without `kid` is tried with all of them.
const MOST_KEYS: usize = 64;

/// Prefix of a secret, plain or in base64. A file without it is never taken for a secret: public keys in an unknown
/// format, or the error page of a proxy, would be a secret that is publicly known.
const SECRET: &[u8] = b"secret:";
const BASE64: &[u8] = b"base64:";

/// Keys that verify signatures.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    keys: Vec<Key>,
    source: Option<PathBuf>,
}

impl Keys {
    /// No keys: all tokens are refused.
    pub fn none() -> Keys {
        Keys::default()
    }

    /// A single secret.
    pub fn of_secret(secret: Secret) -> Keys {
        Keys { keys: vec![Key::secret(secret)], source: None }
    }

    /// Reads a key file: a JWKS document (or a single JWK), public keys in PEM, or a secret of at least 32 bytes
    /// after `secret:`, or after `base64:` in base64. A trailing line break is not part of a secret.
    pub fn read(path: &Path) -> Result<Keys, SecurityError> {
        let content = Content::read("the key file", path)?;
        let keys =
            Keys::parse(&content.bytes).map_err(|fault| SecurityError::Keys { path: path.into(), fault })?;
        // Public keys may be readable by all; with a secret, every reader could sign tokens.
        if keys.secret().is_some() {
            content.must_be_private()?;
        }
        Ok(Keys { source: Some(path.into()), ..keys })
    }

    /// Parses the content of a key file.
    pub fn parse(content: &[u8]) -> Result<Keys, KeyFault> {
        let keys = match content.trim_ascii_start() {
            [] => return Err(KeyFault::Empty),
            [b'{', ..] => read_jwks(content)?,
            text if text.starts_with(b"-----BEGIN") => read_pem(content)?,
            text if text.starts_with(SECRET) || text.starts_with(BASE64) => {
                vec![Key::secret(secret(text)?)]
            }
            _ => return Err(KeyFault::Unmarked),
        };
        if keys.is_empty() {
            return Err(KeyFault::NoUsableKey);
        }
        if keys.len() > MOST_KEYS {
            return Err(KeyFault::TooManyKeys { found: keys.len(), most: MOST_KEYS });
        }
        Ok(Keys { keys, source: None })
    }

    /// Parses a JWKS document from a URL. A document with a secret or a private key is refused as a whole, because
    /// its content is public. Other unusable keys are ignored.
    pub(super) fn published(document: &[u8]) -> Result<Keys, KeyFault> {
        let all = parsed::<Set>(document)?.keys;
        if all.len() > MOST_KEYS {
            return Err(KeyFault::TooManyKeys { found: all.len(), most: MOST_KEYS });
        }
        if all.iter().any(|jwk| jwk.kty == "oct" || jwk.k.is_some()) {
            return Err(KeyFault::PublishedSecret);
        }
        if all.iter().any(|jwk| jwk.d.is_some()) {
            return Err(KeyFault::PublishedPrivateKey);
        }
        let usable = all.iter().enumerate().filter_map(|(at, jwk)| key(at, jwk).ok().flatten());
        let keys: Vec<Key> = usable.collect();
        if keys.is_empty() { Err(KeyFault::NoUsableKey) } else { Ok(Keys { keys, source: None }) }
    }

    /// Each key by itself and without a name, with the bytes of its public key. All must be Ed25519.
    pub(super) fn ed25519(self) -> Result<Vec<(Vec<u8>, Keys)>, KeyFault> {
        let each = self.keys.into_iter().map(|mut key| {
            // Tokens of brokers name a key by its thumbprint. A `kid` of the file would exclude the key.
            key.id = None;
            let public = key.as_ed25519().ok_or(KeyFault::NotEd25519)?.to_vec();
            Ok((public, Keys { keys: vec![key], source: None }))
        });
        each.collect()
    }

    /// Names of the keys in tokens (`kid`).
    pub(super) fn ids(&self) -> impl Iterator<Item = Option<&str>> {
        self.keys.iter().map(|key| key.id.as_deref())
    }

    /// Path of the key file, if they were read from one.
    pub fn source(&self) -> Option<&Path> {
        self.source.as_deref()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The first secret, which signs tokens of this service.
    pub fn secret(&self) -> Option<&Secret> {
        self.keys.iter().find_map(Key::as_secret)
    }

    /// Keys that may have signed a token. A key without a name matches any `kid`.
    pub(super) fn candidates(&self, algorithm: Algorithm, id: Option<&str>) -> impl Iterator<Item = &Key> {
        let named = move |key: &&Key| match (id, key.id.as_deref()) {
            (Some(wanted), Some(name)) => wanted == name,
            _ => true,
        };
        self.keys.iter().filter(move |key| key.takes(algorithm)).filter(named)
    }
}

fn secret(content: &[u8]) -> Result<Secret, KeyFault> {
    let trimmed = content.strip_suffix(b"\n").unwrap_or(content);
    let bytes = trimmed.strip_suffix(b"\r").unwrap_or(trimmed);
    if let Some(secret) = bytes.strip_prefix(SECRET) {
        return Secret::new(secret);
    }
    let text = bytes.strip_prefix(BASE64).unwrap_or(bytes);
    let decoded = STANDARD.decode(text.trim_ascii()).map_err(|_| KeyFault::NotBase64("the secret".into()))?;
    Secret::new(&decoded)
}

/// Strict base64url: no padding and no stray bits, so that each value has one encoding.
pub(super) fn base64url(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

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
    /// Private part of a key; must not be present.
    d: Option<IgnoredAny>,
}

/// Distinguishes a set from a single key.
#[derive(Deserialize)]
struct Shape {
    kty: Option<IgnoredAny>,
}

/// The keys of a document that can verify signatures.
pub(super) fn read_jwks(text: &[u8]) -> Result<Vec<Key>, KeyFault> {
    let shape: Shape = parsed(text)?;
    let all = if shape.kty.is_some() { vec![parsed(text)?] } else { parsed::<Set>(text)?.keys };
    if all.len() > MOST_KEYS {
        return Err(KeyFault::TooManyKeys { found: all.len(), most: MOST_KEYS });
    }
    let keys = all.iter().enumerate().filter_map(|(at, jwk)| key(at, jwk).transpose());
    keys.collect()
}

/// Reports the position of an error but not the content, which may be a secret.
fn parsed<'t, T: Deserialize<'t>>(text: &'t [u8]) -> Result<T, KeyFault> {
    serde_json::from_slice(text)
        .map_err(|error| KeyFault::NotJwks { line: error.line(), column: error.column() })
}

/// A key, or `None` if it is for another purpose.
fn key(at: usize, jwk: &Jwk) -> Result<Option<Key>, KeyFault> {
    let wrong = |what: String| KeyFault::Jwk {
        key: jwk.kid.as_ref().map_or_else(|| format!("number {}", at + 1), |id| format!("{id:?}")),
        what,
    };
    if !jwk.checks_signatures() {
        return Ok(None);
    }
    if jwk.d.is_some() {
        return Err(wrong("contains a private key (d); give only the public part".into()));
    }
    let number = |name: &str, field: &Option<String>| {
        let text = field.as_ref().ok_or_else(|| wrong(format!("{name} is missing")))?;
        base64url(text).ok_or_else(|| wrong(format!("{name} is not base64url")))
    };
    let key = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("oct", _) => Secret::new(&number("k", &jwk.k)?).map(Key::secret),
        ("RSA", _) => Key::rsa(&number("n", &jwk.n)?, &number("e", &jwk.e)?),
        // 4 marks an uncompressed point (SEC 1), the only form that ring accepts.
        ("EC", Some("P-256")) => Key::p256([vec![4], number("x", &jwk.x)?, number("y", &jwk.y)?].concat()),
        ("OKP", Some("Ed25519")) => Key::ed25519(number("x", &jwk.x)?),
        _ => return Ok(None),
    };
    let mut key = key.map_err(|fault| wrong(fault.to_string()))?;
    key.id.clone_from(&jwk.kid);
    match jwk.alg.as_deref().map(Algorithm::of) {
        None => Ok(Some(key)),
        // An unknown `alg` makes the key unusable. Ignoring it would lift the restriction of the issuer.
        Some(algorithm) => Ok(algorithm.and_then(|algorithm| key.only_for(algorithm))),
    }
}

impl Jwk {
    fn checks_signatures(&self) -> bool {
        let for_signatures = self.purpose.as_deref().is_none_or(|purpose| purpose == "sig");
        for_signatures && self.key_ops.as_ref().is_none_or(|all| all.iter().any(|one| one == "verify"))
    }
}

const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;
const INTEGER: u8 = 0x02;

/// Contents of AlgorithmIdentifier: rsaEncryption and NULL; id-ecPublicKey and prime256v1; id-Ed25519.
const RSA: &[u8] = &[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];
const P256: &[u8] = &[6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const ED25519: &[u8] = &[6, 3, 0x2b, 0x65, 0x70];

/// All public keys of a PEM text.
pub(super) fn read_pem(text: &[u8]) -> Result<Vec<Key>, KeyFault> {
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

/// The algorithm and the bits of the key.
fn info(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (algorithm, rest) = element(SEQUENCE, whole(SEQUENCE, der)?)?;
    match whole(BIT_STRING, rest)? {
        // The first byte counts unused bits at the end; keys consist of whole bytes.
        [0, bits @ ..] => Some((algorithm, bits)),
        _ => None,
    }
}

fn rsa_numbers(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (modulus, rest) = element(INTEGER, whole(SEQUENCE, der)?)?;
    let exponent = whole(INTEGER, rest)?;
    Some((positive(modulus)?, positive(exponent)?))
}

/// A positive number in its shortest form.
fn positive(number: &[u8]) -> Option<&[u8]> {
    match number {
        // DER has a zero in front only if the number would be negative without it.
        [0, next, ..] if *next < 0x80 => None,
        [] | [0] | [0x80..=0xff, ..] => None,
        _ => Some(number),
    }
}

/// Content of an element without trailing data.
fn whole(tag: u8, der: &[u8]) -> Option<&[u8]> {
    element(tag, der).and_then(|(content, rest)| rest.is_empty().then_some(content))
}

/// Content of the first element, and the rest.
fn element(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = der.strip_prefix(&[tag])?;
    let (length, rest) = match *rest {
        [short @ 0..=0x7f, ref rest @ ..] => (usize::from(short), rest),
        // Longer forms than necessary are refused: DER has one encoding for each length.
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
    fn a_secret_is_marked_as_one() {
        let raw = Keys::parse(b"secret:correct horse battery staple, and more\r\n").unwrap();
        let tag = |keys: &Keys| keys.secret().unwrap().sign(b"x").as_ref().to_vec();
        let same = STANDARD.encode("correct horse battery staple, and more");
        assert_eq!(tag(&raw), tag(&Keys::parse(format!("base64:{same}\n").as_bytes()).unwrap()));
        assert_ne!(tag(&raw), tag(&Keys::parse(format!("secret:{same}").as_bytes()).unwrap()));
        assert_eq!(Keys::parse(b"base64:%").unwrap_err(), KeyFault::NotBase64("the secret".into()));
        assert_eq!(
            Keys::parse(b"secret:hunter2\n").unwrap_err(),
            KeyFault::ShortSecret { found: 7, least: 32 }
        );
        assert_eq!(Keys::parse(b" \n").unwrap_err(), KeyFault::Empty);
    }

    #[test]
    fn a_secret_of_one_letter_is_refused_in_every_form() {
        // The last letter of base64 must have no stray bits.
        let (raw, encoded) = ("a".repeat(43), "a".repeat(42) + "Y");
        let jwk = format!("{{\"kty\":\"oct\",\"k\":\"{encoded}\"}}");
        for text in [format!("secret:{raw}"), format!("base64:{encoded}="), jwk] {
            let why = Keys::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(why.contains("different bytes") && !why.contains("aaa"), "{text}: {why}");
        }
    }

    #[test]
    fn what_is_not_recognised_is_not_a_secret() {
        let pem = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n\
                   -----END PUBLIC KEY-----\n";
        assert!(Keys::parse(pem.as_bytes()).unwrap().secret().is_none());
        for text in [
            format!("# the key of the portal\n{pem}"),
            format!("\u{feff}{pem}"),
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea portal"
                .to_owned(),
            "[{\"kty\":\"oct\",\"k\":\"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ\"}]".to_owned(),
            "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>".to_owned(),
            "correct horse battery staple, and more".to_owned(),
        ] {
            assert_eq!(Keys::parse(text.as_bytes()).unwrap_err(), KeyFault::Unmarked, "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_secret_that_everybody_may_read_is_refused_with_a_hint() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, [SECRET, &Secret::bytes_for_test(7)].concat()).unwrap();
        let with = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Keys::read(&path)
        };
        assert_eq!(with(0o640).unwrap().source(), Some(path.as_path()));
        let exposed = with(0o644).unwrap_err().to_string();
        assert!(exposed.contains("644") && exposed.contains("chmod o-rwx"), "{exposed}");
        assert!(matches!(with(0o602), Err(SecurityError::Writable { .. })));
    }
}

#[cfg(test)]
mod jwks_tests {
    use super::*;
    use serde_json::{Value, json};

    const K: &str = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";

    fn read_value(value: &Value) -> Result<Vec<Key>, KeyFault> {
        read_jwks(value.to_string().as_bytes())
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
    fn published_keys_are_never_secrets_and_unusable_ones_are_ignored() {
        let good = json!({"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
        let published = |more: &[Value]| {
            let all = [std::slice::from_ref(&good), more].concat();
            let all = json!({ "keys": all });
            Keys::published(all.to_string().as_bytes()).map(|keys| keys.len())
        };
        assert_eq!(published(&[]), Ok(1));
        for secret in [
            json!({"kty": "oct", "k": K}),
            json!({"kty": "oct", "k": K, "use": "enc"}),
            json!({"kty": "oct", "k": K, "alg": "A256KW", "key_ops": ["wrapKey"]}),
            json!({"kty": "oct"}),
            json!({"kty": "RSA", "k": K}),
        ] {
            assert_eq!(published(std::slice::from_ref(&secret)), Err(KeyFault::PublishedSecret), "{secret}");
        }
        let mut private = good.clone();
        private["d"] = json!("AA");
        assert_eq!(published(&[private]), Err(KeyFault::PublishedPrivateKey));
        let unusable =
            [json!({"kty": "RSA", "n": "AQAB", "e": "AQAB"}), json!({"kty": "EC", "crv": "P-521"})];
        assert_eq!(published(&unusable), Ok(1));
        assert_eq!(published(&vec![good.clone(); 64]), Err(KeyFault::TooManyKeys { found: 65, most: 64 }));
        assert_eq!(Keys::published(b"{\"keys\": []}").unwrap_err(), KeyFault::NoUsableKey);
        for no_set in [good.to_string().as_str(), "[]", "secret:0123456789abcdef0123456789abcdef", ""] {
            assert!(matches!(Keys::published(no_set.as_bytes()), Err(KeyFault::NotJwks { .. })), "{no_set}");
        }
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

#[cfg(test)]
mod pem_tests {
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
            let fault = read_pem(section(label).as_bytes()).unwrap_err();
            assert!(fault.to_string().contains("openssl pkey -pubout"), "{fault}");
        }
        assert_eq!(read_pem(section("PUBLIC KEY").as_bytes()).unwrap_err(), KeyFault::UnknownPublicKey);
    }
}
