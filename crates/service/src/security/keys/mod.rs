//! The keys of a service, from one file: a secret, public keys in PEM, or a JWKS document. What is in the file is told from
//! its content, and a file with a secret in it must not be open to everybody.

mod jwks;
mod pem;

use super::error::{KeyFault, SecurityError};
use super::file::Content;
use super::key::{Algorithm, Key, Secret};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use std::path::{Path, PathBuf};

/// A token without a key's name is tried with all of them.
const MOST_KEYS: usize = 64;

/// Before a secret that is written in base64. Without it the bytes of the file are the secret, so that nothing is guessed.
const BASE64: &str = "base64:";

/// What signatures are checked with.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    keys: Vec<Key>,
    source: Option<PathBuf>,
}

impl Keys {
    /// No keys: no token is believed.
    pub fn none() -> Keys {
        Keys::default()
    }

    /// One secret.
    pub fn of_secret(secret: Secret) -> Keys {
        Keys { keys: vec![Key::secret(secret)], source: None }
    }

    /// Reads a key file: a JWKS document (or a single JWK), public keys in PEM, or a secret of at least 32 bytes, as it is
    /// or, after `base64:`, in base64. A line break at the end of a secret does not count.
    pub fn read(path: &Path) -> Result<Keys, SecurityError> {
        let content = Content::read("the key file", path)?;
        let keys =
            Keys::parse(&content.bytes).map_err(|fault| SecurityError::Keys { path: path.into(), fault })?;
        if keys.secret().is_some() {
            content.must_be_private()?;
        }
        Ok(Keys { source: Some(path.into()), ..keys })
    }

    /// Reads what is in a key file.
    pub fn parse(content: &[u8]) -> Result<Keys, KeyFault> {
        let keys = match content.trim_ascii_start() {
            [] => return Err(KeyFault::Empty),
            [b'{', ..] => jwks::read(content)?,
            text if text.starts_with(b"-----BEGIN") => pem::read(content)?,
            _ => vec![Key::secret(secret(content)?)],
        };
        if keys.is_empty() {
            return Err(KeyFault::NoUsableKey);
        }
        if keys.len() > MOST_KEYS {
            return Err(KeyFault::TooManyKeys { found: keys.len(), most: MOST_KEYS });
        }
        Ok(Keys { keys, source: None })
    }

    /// Where they were read from.
    pub fn source(&self) -> Option<&Path> {
        self.source.as_deref()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The first secret among them: what tokens of our own are signed with.
    pub fn secret(&self) -> Option<&Secret> {
        self.keys.iter().find_map(Key::as_secret)
    }

    /// Those that a token may have been signed with. A key without a name may be any.
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
    let Some(text) = bytes.strip_prefix(BASE64.as_bytes()) else { return Secret::new(bytes) };
    let decoded = STANDARD.decode(text.trim_ascii()).map_err(|_| KeyFault::NotBase64("the secret".into()))?;
    Secret::new(&decoded)
}

/// Base64 as tokens and JWKS documents have it. One text for one value: no padding, no stray bits.
pub(super) fn base64url(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_its_bytes_or_said_to_be_base64() {
        let raw = Keys::parse(b"correct horse battery staple, and more\r\n").unwrap();
        let tag = |keys: &Keys| keys.secret().unwrap().sign(b"x").as_ref().to_vec();
        let same = STANDARD.encode("correct horse battery staple, and more");
        assert_eq!(tag(&raw), tag(&Keys::parse(format!("base64:{same}\n").as_bytes()).unwrap()));
        assert_ne!(tag(&raw), tag(&Keys::parse(same.as_bytes()).unwrap()));
        assert_eq!(Keys::parse(b"base64:%").unwrap_err(), KeyFault::NotBase64("the secret".into()));
        assert_eq!(Keys::parse(b"hunter2\n").unwrap_err(), KeyFault::ShortSecret { found: 7, least: 32 });
        assert_eq!(Keys::parse(b" \n").unwrap_err(), KeyFault::Empty);
    }

    #[cfg(unix)]
    #[test]
    fn a_secret_that_everybody_may_read_is_refused_with_a_hint() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, [7; 40]).unwrap();
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
