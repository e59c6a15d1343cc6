//! TLS of a listener, with rustls and ring: TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1, and, if an authority is
//! configured, client certificates, which are identified by fingerprint so that X.509 is not parsed here. Files are
//! bounded in size, and refused if all users can read a secret or write to them.

use super::error::SecurityError;
use super::identity::Role;
use ::ring::digest::{SHA256, digest};
use bookahead_protocol::Name;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;

/// TLS with a certificate chain and its key, both PEM files. `clients`: PEM file with the authorities of client
/// certificates, and whether every client must have one.
pub fn server_config(
    certificate: &Path,
    key: &Path,
    clients: Option<(&Path, bool)>,
) -> Result<Arc<ServerConfig>, SecurityError> {
    // Not the default of the process: rustls panics if features of dependencies leave it ambiguous.
    let provider = Arc::new(ring::default_provider());
    let fails = |path: &Path, fault: &dyn ToString| SecurityError::Tls {
        path: path.into(),
        fault: fault.to_string(),
    };
    let versions = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|fault| fails(certificate, &fault))?;
    let authenticated = match clients {
        None => versions.with_no_client_auth(),
        Some((path, required)) => {
            versions.with_client_cert_verifier(client_verifier(path, required, provider)?)
        }
    };
    let mut config = authenticated
        .with_single_cert(certificates("the certificate", certificate)?, private_key(key)?)
        .map_err(|fault| fails(certificate, &fault))?;
    // In order of preference: the server takes the first one that the client offers.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn client_verifier(
    path: &Path,
    required: bool,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, SecurityError> {
    let fails = |fault: &dyn ToString| SecurityError::Tls { path: path.into(), fault: fault.to_string() };
    let mut authorities = RootCertStore::empty();
    for certificate in certificates("the authorities of clients", path)? {
        authorities.add(certificate).map_err(|fault| fails(&fault))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider);
    // Users with tokens have no certificate. One that is sent must be valid in any case.
    let builder = if required { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|fault| fails(&fault))
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, SecurityError> {
    let content = Content::read(what, path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content.bytes).collect();
    let missing = |fault: String| SecurityError::Pem {
        what: "certificate",
        label: "CERTIFICATE",
        path: path.into(),
        fault,
    };
    let all = all.map_err(|fault| missing(fault.to_string()))?;
    if all.is_empty() { Err(missing("none found".into())) } else { Ok(all) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, SecurityError> {
    let content = Content::read("the private key", path)?;
    content.must_be_private()?;
    PrivateKeyDer::from_pem_slice(&content.bytes).map_err(|fault| SecurityError::Pem {
        what: "private key",
        label: "PRIVATE KEY",
        path: path.into(),
        fault: fault.to_string(),
    })
}

/// Largest file: more than any key file, certificate chain or list of authorities has.
const MOST_BYTES: usize = 1 << 20;

pub(crate) struct Content {
    what: &'static str,
    path: PathBuf,
    mode: u32,
    pub(crate) bytes: Vec<u8>,
}

impl Content {
    /// Reads a file. Fails if all users can write to it.
    pub(crate) fn read(what: &'static str, path: &Path) -> Result<Content, SecurityError> {
        let unreadable = |source| SecurityError::Unreadable { what, path: path.into(), source };
        // Opened once: permissions and content are those of the same file, even if the path is replaced meanwhile.
        let file = File::open(path).map_err(unreadable)?;
        let mode = permissions(&file).map_err(unreadable)?;
        if mode & 0o002 != 0 {
            return Err(SecurityError::Writable { what, path: path.into(), mode });
        }
        let mut bytes = Vec::new();
        // One byte more than allowed, to tell a large file from one of exactly this size.
        file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() > MOST_BYTES {
            return Err(SecurityError::TooLarge { what, path: path.into(), most: MOST_BYTES });
        }
        Ok(Content { what, path: path.into(), mode, bytes })
    }

    /// Fails if all users can read it.
    pub(crate) fn must_be_private(&self) -> Result<(), SecurityError> {
        if self.mode & 0o004 == 0 {
            return Ok(());
        }
        Err(SecurityError::Exposed { what: self.what, path: self.path.clone(), mode: self.mode })
    }
}

#[cfg(unix)]
fn permissions(file: &File) -> std::io::Result<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(file.metadata()?.permissions().mode() & 0o7777)
}

/// Other systems have no such permission bits.
#[cfg(not(unix))]
fn permissions(_: &File) -> std::io::Result<u32> {
    Ok(0o600)
}

/// SHA-256 of a certificate, as printed by `openssl x509 -noout -fingerprint -sha256`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint([u8; 32]);

/// A text that is not a fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "invalid fingerprint {0:?}; it must have 64 hexadecimal digits, with or without colons, \
     as openssl x509 -noout -fingerprint -sha256 prints them"
)]
pub struct NotAFingerprint(String);

/// Certificate of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientCertificate {
    /// SHA-256 of the certificate.
    pub fingerprint: Fingerprint,
}

/// A client certificate with its name and roles: `[[security.peer]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct PeerCertificate {
    pub name: Name,
    pub fingerprint: Fingerprint,
    pub roles: Vec<Role>,
}

impl ClientCertificate {
    /// From the certificate in DER, as received by TLS.
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

fn pair(text: &str) -> Option<u8> {
    // `from_str_radix` accepts a plus sign, but `+f` is not a byte.
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
