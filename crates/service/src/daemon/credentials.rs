//! What a party shows to those whom it calls: a token from a file, which may change while the party runs, and a certificate.

use super::DaemonError;
use crate::config::Calls;
use crate::security::SecurityError;
use crate::security::file::Content;
use bookahead_client::{Client, Identity, Options};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Who is in the same grid answers faster, or not at all.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// What is shown to one whom a party calls.
#[derive(Debug, Clone)]
pub(super) struct Credentials {
    token_file: Option<PathBuf>,
    options: Options,
}

impl Credentials {
    /// As it is configured; `own` is the token for this one alone. The token is read.
    pub(super) fn new(calls: &Calls, own: Option<&PathBuf>, base: &Path) -> Result<Credentials, DaemonError> {
        let below = |path: &PathBuf| base.join(path);
        let identity = calls.certificate.as_ref().zip(calls.key.as_ref());
        let identity =
            identity.map(|(certificate, key)| Identity { certificate: below(certificate), key: below(key) });
        let options = Options {
            ca: calls.ca.as_ref().map(below),
            identity,
            connect_timeout: CONNECT_WITHIN,
            patience: Duration::ZERO,
            ..Options::default()
        };
        let token_file = own.or(calls.token_file.as_ref()).map(below);
        let mut credentials = Credentials { token_file, options };
        credentials.options.token = credentials.token()?;
        Ok(credentials)
    }

    /// How somebody is called.
    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// A client of a server.
    pub(super) fn client(&self, url: &str) -> Result<Client, DaemonError> {
        Ok(Client::new(url, self.options.clone())?)
    }

    /// Reads the token anew; whether it is another. Where it cannot be read, the old one stays in use.
    pub(super) fn renew(&mut self) -> bool {
        match self.token() {
            Ok(token) if token != self.options.token => {
                self.options.token = token;
                true
            }
            Ok(_) => false,
            Err(why) => {
                tracing::warn!("the token of before stays in use: {why}");
                false
            }
        }
    }

    fn token(&self) -> Result<Option<String>, SecurityError> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let content = Content::read("the token file", path)?;
        content.must_be_private()?;
        let token = String::from_utf8_lossy(&content.bytes).trim().to_owned();
        if token.is_empty() {
            let why = format!("the token file {} is empty; put a token into it", path.display());
            return Err(SecurityError::Settings(why));
        }
        Ok(Some(token))
    }
}
