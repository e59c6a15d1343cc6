//! TLS of a listener, by rustls with the provider ring: TLS 1.2 and 1.3, HTTP/2 or HTTP/1.1, and, where an authority is
//! named, certificates of clients. The provider is passed on explicitly: no global choice can change it.

use super::error::SecurityError;
use super::file::Content;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;

/// The chain of certificates with its key, both in PEM. `clients`: the authorities that certificates of clients must come
/// from, in PEM, and whether every client must have one.
pub fn server_config(
    certificate: &Path,
    key: &Path,
    clients: Option<(&Path, bool)>,
) -> Result<Arc<ServerConfig>, SecurityError> {
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
    if all.is_empty() { Err(missing("there is none".into())) } else { Ok(all) }
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
