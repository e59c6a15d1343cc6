//! How a server is reached and on whose behalf: limits in time and size, the token, and TLS with the provider ring. Without
//! authorities of its own it trusts those of the system.

use crate::error::ClientError;
use bookahead_protocol::{Caller, Name};
use rustls::client::WantsClientCert;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fmt};

/// How a server is reached. The default suits people at a terminal.
#[derive(Clone)]
pub struct Options {
    /// The bearer token that says who calls.
    pub token: Option<String>,
    /// Makes a token for each request instead, where there is no `token`.
    pub minter: Option<TokenMinter>,
    /// The authorities that the server's certificate may come from, in a PEM file. Where there is none, those of the system.
    /// Where there is one, only those: whoever runs a grid with an authority of its own trusts no other.
    pub ca: Option<PathBuf>,
    /// A certificate of our own.
    pub identity: Option<Identity>,
    /// How long it may take to connect.
    pub connect_timeout: Duration,
    /// How long one try may take, from its begin to the last byte of the answer.
    pub timeout: Duration,
    /// How long calls that make or change something are tried again when no answer comes, unless the server cannot be reached
    /// at the first try. Zero is once only.
    pub patience: Duration,
    /// How long nothing may be heard of a server that is watched; it speaks up now and then even if nothing happens.
    pub quiet: Duration,
    /// Answers that are longer are refused.
    pub most_bytes: usize,
    /// On whose behalf; the one whom the token names where there is nobody.
    pub user: Option<Name>,
    /// That user's roles.
    pub roles: Vec<Name>,
}

/// Makes the bearer token of a request: for the user on whose behalf it is sent, or for the sender where there is none.
#[derive(Clone)]
pub struct TokenMinter(Arc<MintToken>);

type MintToken = dyn Fn(Option<&Caller>) -> String + Send + Sync;

impl TokenMinter {
    /// With a function that is called for each request that is sent, also for those that are sent again.
    pub fn new(mint: impl Fn(Option<&Caller>) -> String + Send + Sync + 'static) -> TokenMinter {
        TokenMinter(Arc::new(mint))
    }

    pub(crate) fn mint(&self, caller: Option<&Caller>) -> String {
        (self.0)(caller)
    }
}

impl fmt::Debug for TokenMinter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenMinter")
    }
}

/// A certificate with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The chain of certificates, our own first, in a PEM file.
    pub certificate: PathBuf,
    /// The private key, in a PEM file.
    pub key: PathBuf,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            token: None,
            minter: None,
            ca: None,
            identity: None,
            connect_timeout: Duration::from_secs(5),
            // A server answers, or says that it cannot, within 75 seconds: its batch system may take a minute.
            timeout: Duration::from_secs(90),
            patience: Duration::from_secs(120),
            quiet: Duration::from_secs(90),
            most_bytes: 64 * 1024 * 1024,
            user: None,
            roles: Vec::new(),
        }
    }
}

impl fmt::Debug for Options {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("token", &self.token.as_ref().map(|_| "(secret)"))
            .field("minter", &self.minter)
            .field("ca", &self.ca)
            .field("identity", &self.identity)
            .field("connect_timeout", &self.connect_timeout)
            .field("timeout", &self.timeout)
            .field("patience", &self.patience)
            .field("quiet", &self.quiet)
            .field("most_bytes", &self.most_bytes)
            .field("user", &self.user)
            .field("roles", &self.roles)
            .finish()
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_not_told() {
        let options = Options { token: Some("eyJhbGciOi".into()), ..Options::default() };
        assert!(!format!("{options:?}").contains("eyJ"));
    }
}
