//! How a server is reached, and on whose behalf.

use bookahead_protocol::Name;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How a server is reached. The default suits people at a terminal.
#[derive(Clone)]
pub struct Options {
    /// The bearer token that says who calls.
    pub token: Option<String>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_not_told() {
        let options = Options { token: Some("eyJhbGciOi".into()), ..Options::default() };
        assert!(!format!("{options:?}").contains("eyJ"));
    }
}
