//! Where a command asks, and as whom: options first, then what the environment names, then a profile, then a server on this
//! machine. A token of a profile goes to the profile's server only, unless both are named.

use super::failure::Usage;
use super::profile::{Config, Profile, time_zone};
use crate::talk::say;
use crate::times::length;
use anyhow::{Context, Result};
use bookahead_client::{Identity, Options};
use clap::Args;
use jiff::tz::TimeZone;
use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A broker on this machine.
const DEFAULT_SERVER: &str = "http://127.0.0.1:7400";

/// Where, as whom, and in which zone; the same for all commands that ask a server.
#[derive(Args)]
pub(crate) struct Place {
    /// The site or broker to ask [env: BOOKAHEAD_SERVER] [default: http://127.0.0.1:7400]
    #[arg(long, value_name = "URL", help_heading = "Server")]
    pub(crate) server: Option<String>,

    /// Take server, token and zone from a profile of ~/.config/bookahead/config.toml [env: BOOKAHEAD_CONFIG]
    #[arg(long, value_name = "NAME", help_heading = "Server")]
    pub(crate) profile: Option<String>,

    /// A file with the token that says who you are [env: BOOKAHEAD_TOKEN_FILE]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    token_file: Option<PathBuf>,

    /// The token itself; others on this machine can see it among the running programs, so prefer a file
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file", help_heading = "Server")]
    token: Option<String>,

    /// The authorities that the server's certificate may come from, as PEM [default: the system's]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    ca: Option<PathBuf>,

    /// A certificate to show to the server, as PEM
    #[arg(long, value_name = "FILE", requires = "certificate_key", help_heading = "Server")]
    certificate: Option<PathBuf>,

    /// Its private key, as PEM
    #[arg(long, value_name = "FILE", requires = "certificate", help_heading = "Server")]
    certificate_key: Option<PathBuf>,

    /// On whose behalf; believed by servers without authentication, or from brokers
    #[arg(long, value_name = "NAME", help_heading = "Server")]
    pub(crate) user: Option<String>,

    /// How long one call may take
    #[arg(long, value_name = "LENGTH", default_value = "90s", value_parser = length, help_heading = "Server")]
    timeout: bookahead_plan::Seconds,

    /// The zone in which times are read and shown [default: the profile's, TZ, the system's]
    #[arg(long, value_name = "ZONE", help_heading = "Output")]
    zone: Option<String>,

    /// Print the document of the server as JSON
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// All of that, decided.
pub(crate) struct Decided {
    pub(crate) server: String,
    pub(crate) options: Options,
    pub(crate) zone: TimeZone,
}

impl Place {
    pub(crate) fn decide(&self) -> Result<Decided> {
        let named = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let config = Config::find()?;
        let profile = config.profile(self.profile.as_deref())?;
        let zone = time_zone(self.zone.as_deref().or(profile.time_zone.as_deref()))?;
        let elsewhere = self.server.clone().or_else(|| named("BOOKAHEAD_SERVER"));
        // What is meant for one server is not told to another.
        let profile = match (&self.profile, &elsewhere) {
            (None, Some(_)) => Profile::default(),
            _ => profile,
        };
        let by_profile = || self.profile.as_ref().and(profile.server.clone());
        let server = self.server.clone().or_else(by_profile).or(elsewhere).or(profile.server.clone());
        let server = server.unwrap_or_else(|| DEFAULT_SERVER.to_owned());
        let by_environment = || named("BOOKAHEAD_TOKEN_FILE").map(PathBuf::from);
        let token_file = match &self.token {
            Some(_) => None,
            None => self.token_file.clone().or(profile.token_file.clone()).or_else(by_environment),
        };
        let token = match token_file {
            Some(path) => Some(token_in(&path)?),
            None => self.token.clone(),
        };
        if token.is_some() {
            warn_of_listeners(&server);
        }
        let timeout = Duration::from_secs(self.timeout.0.try_into().unwrap_or(0).max(1));
        let options = Options {
            token,
            ca: self.ca.clone().or(profile.ca.clone()),
            identity: self.identity(&profile),
            timeout,
            user: self.user.clone().or(profile.user).map(Into::into),
            ..Options::default()
        };
        Ok(Decided { server, options, zone })
    }

    fn identity(&self, profile: &Profile) -> Option<Identity> {
        let own = self.certificate.clone().zip(self.certificate_key.clone());
        let pair = own.or_else(|| profile.certificate.clone().zip(profile.certificate_key.clone()));
        pair.map(|(certificate, key)| Identity { certificate, key })
    }

    /// The options to say again in a command that continues this one. The token is never among them.
    pub(crate) fn again(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut add = |option: &str, value: Option<String>| {
            words.extend(value.into_iter().flat_map(|value| [option.to_owned(), value]));
        };
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        add("--server", self.server.clone());
        add("--profile", self.profile.clone());
        add("--token-file", path(&self.token_file));
        add("--ca", path(&self.ca));
        add("--certificate", path(&self.certificate));
        add("--certificate-key", path(&self.certificate_key));
        add("--user", self.user.clone());
        words
    }
}

fn token_in(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("the token in {} cannot be read; check the path", path.display()))?;
    let token = text.trim();
    if token.is_empty() {
        return Err(Usage(format!("there is no token in {}", path.display())).into());
    }
    warn_of_readers(path);
    Ok(token.to_owned())
}

/// A token that others can read is theirs as well.
#[cfg(unix)]
fn warn_of_readers(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let open = std::fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o077 != 0);
    if open {
        say!(
            "note: others on this machine can read the token in {0}; close it with: chmod 600 {0}",
            path.display()
        );
    }
}

#[cfg(not(unix))]
fn warn_of_readers(_path: &Path) {}

/// Without TLS everybody on the way can read a token.
fn warn_of_listeners(server: &str) {
    let Some(host) = server.strip_prefix("http://") else { return };
    let loopback = ["127.", "localhost", "[::1]"].iter().any(|name| host.starts_with(name));
    if !loopback {
        say!("note: everybody on the way to {server} can read your token; use https");
    }
}
