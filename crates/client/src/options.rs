//! Options of a connection: timeouts, limits, credentials, and TLS with ring. The default trust store is that of
//! the system.

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

/// Options of a connection. The defaults suit interactive use.
#[derive(Clone)]
pub struct Options {
    /// Bearer token of the caller.
    pub token: Option<String>,
    /// Makes a token for each request. Ignored if `token` is set.
    pub minter: Option<TokenMinter>,
    /// PEM file with the certificate authorities to trust. Default: those of the system. If set, no others are
    /// trusted, so that a grid can rely on its own authority alone.
    pub ca: Option<PathBuf>,
    /// Client certificate.
    pub identity: Option<Identity>,
    /// Timeout for connecting.
    pub connect_timeout: Duration,
    /// Timeout for one attempt, up to the last byte of the answer.
    pub timeout: Duration,
    /// How long to repeat calls that create or change something while no answer arrives. If the first attempt
    /// cannot connect, the call fails at once. Zero means one attempt.
    pub patience: Duration,
    /// How long an event stream may be silent. Servers send comments while there are no events.
    pub quiet: Duration,
    /// Largest answer that is read, in bytes.
    pub most_bytes: usize,
    /// Refuse addresses of this machine and of private networks, also those that the name of a host resolves to. For
    /// addresses that others choose.
    pub outside_only: bool,
    /// User on whose behalf calls are made. Default: the user of the token.
    pub user: Option<Name>,
    /// Roles of that user.
    pub roles: Vec<Name>,
}

/// Makes the bearer token of a request, for the user on whose behalf it is sent, or else for the sender.
#[derive(Clone)]
pub struct TokenMinter(Arc<MintToken>);

type MintToken = dyn Fn(Option<&Caller>) -> String + Send + Sync;

impl TokenMinter {
    /// `mint` is called for each attempt, including repetitions.
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

/// A certificate with its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// PEM file with the certificate chain, own certificate first.
    pub certificate: PathBuf,
    /// PEM file with the private key.
    pub key: PathBuf,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            token: None,
            minter: None,
            ca: None,
            identity: None,
            // Leaves time for two repetitions of a lost SYN, which TCP sends after one and three seconds.
            connect_timeout: Duration::from_secs(5),
            // A server answers within 75 seconds, even if only to report a timeout: its batch system may take a
            // minute.
            timeout: Duration::from_secs(90),
            // Longer than one timeout, so that a call without an answer is repeated at least once.
            patience: Duration::from_secs(120),
            // Servers send a comment every 15 seconds: several may be late before the stream counts as lost.
            quiet: Duration::from_secs(90),
            // Bounds the memory that a faulty server can make the client use.
            most_bytes: 64 * 1024 * 1024,
            outside_only: false,
            user: None,
            roles: Vec::new(),
        }
    }
}

impl fmt::Debug for Options {
    /// Hides the token.
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
            .field("outside_only", &self.outside_only)
            .field("user", &self.user)
            .field("roles", &self.roles)
            .finish()
    }
}

/// Trust stores of common systems, used unless `SSL_CERT_FILE` is set.
const SYSTEM: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
];

/// TLS configuration for this URL. Files are read for `https` only.
pub(crate) fn config(url: &str, options: &Options) -> Result<ClientConfig, ClientError> {
    let fails = |why: rustls::Error| ClientError::Tls { url: url.into(), why: why.to_string() };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(fails)?;
    let mut config = if url.starts_with("https:") {
        let trusting = builder.with_root_certificates(authorities(url, options.ca.as_deref())?);
        presenting(trusting, options.identity.as_ref())?
    } else {
        // reqwest gets a TLS configuration for any URL. This one trusts no authority.
        builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
    };
    // Must agree with `http1_only` of the HTTP client: the server must not choose HTTP/2.
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
            // Unlike in the store of the system, a bad certificate is an error: the operator chose this file.
            store.add(certificate).map_err(|why| bad(path, &why))?;
        }
        return Ok(store);
    }
    let Some(path) = system_file() else {
        let why = "no certificate authorities found on this system; set ca to a PEM file with those to trust";
        return Err(ClientError::Tls { url: url.into(), why: why.into() });
    };
    // System stores contain certificates that rustls cannot parse. They must not make all others useless.
    store.add_parsable_certificates(certificates(&path)?);
    Ok(store)
}

fn system_file() -> Option<PathBuf> {
    let named = env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    // SSL_CERT_FILE is also read by OpenSSL and curl, so one setting works for all of them.
    named.or_else(|| SYSTEM.iter().map(PathBuf::from).find(|path| path.exists()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let found = CertificateDer::pem_file_iter(path).map_err(|why| bad(path, &why))?;
    let all = found.collect::<Result<Vec<_>, _>>().map_err(|why| bad(path, &why))?;
    if all.is_empty() { Err(bad(path, &"it contains no certificate")) } else { Ok(all) }
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
