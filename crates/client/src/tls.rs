//! TLS towards a server, by rustls with the provider ring, which is passed on explicitly so that no global choice can
//! change it. Trust comes from one file, or, where none is named, from where the system keeps its authorities.

use crate::error::ClientError;
use crate::options::{Identity, Options};
use rustls::client::WantsClientCert;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where systems keep the authorities that they trust, in one file; `SSL_CERT_FILE` comes before them.
const SYSTEM: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
];

/// For a server with this address. Files are read only where TLS will be spoken.
pub(crate) fn config(url: &str, options: &Options) -> Result<ClientConfig, ClientError> {
    let fails = |why: rustls::Error| ClientError::Tls { url: url.into(), why: why.to_string() };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(fails)?;
    let mut config = if url.starts_with("https:") {
        let trusting = builder.with_root_certificates(authorities(url, options.ca.as_deref())?);
        presenting(trusting, options.identity.as_ref())?
    } else {
        builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn presenting(
    trusting: ConfigBuilder<ClientConfig, WantsClientCert>,
    identity: Option<&Identity>,
) -> Result<ClientConfig, ClientError> {
    let Some(Identity { certificate, key }) = identity else { return Ok(trusting.with_no_client_auth()) };
    let private = PrivateKeyDer::from_pem_file(key).map_err(|why| bad(key, &why))?;
    let chain = certificates(certificate)?;
    trusting.with_client_auth_cert(chain, private).map_err(|why| bad(certificate, &why))
}

fn authorities(url: &str, ca: Option<&Path>) -> Result<RootCertStore, ClientError> {
    let mut store = RootCertStore::empty();
    if let Some(path) = ca {
        for certificate in certificates(path)? {
            store.add(certificate).map_err(|why| bad(path, &why))?;
        }
        return Ok(store);
    }
    let Some(path) = system_file() else {
        let why = "no authorities were found on this system; name a PEM file with those to trust as ca";
        return Err(ClientError::Tls { url: url.into(), why: why.into() });
    };
    // Systems carry certificates that rustls does not take; those are no use to anybody here.
    store.add_parsable_certificates(certificates(&path)?);
    Ok(store)
}

fn system_file() -> Option<PathBuf> {
    let named = env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    named.or_else(|| SYSTEM.iter().map(PathBuf::from).find(|path| path.exists()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let found = CertificateDer::pem_file_iter(path).map_err(|why| bad(path, &why))?;
    let all = found.collect::<Result<Vec<_>, _>>().map_err(|why| bad(path, &why))?;
    if all.is_empty() { Err(bad(path, &"there is no certificate in it")) } else { Ok(all) }
}

fn bad(path: &Path, why: &dyn ToString) -> ClientError {
    ClientError::BadFile { path: path.into(), why: why.to_string() }
}
