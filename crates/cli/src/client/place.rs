//! Where a command asks, and as whom: options first, then what the environment names, then a profile, then a server on this
//! machine. A token of a profile goes to the profile's server only, unless both are named.
//!
//! Profiles are servers that a user asks often, by name. Their file is `$BOOKAHEAD_CONFIG`, or `bookahead/config.toml` in
//! `$XDG_CONFIG_HOME` or `~/.config`; there need not be one.

use super::refusal::Usage;
use super::when::zone;
use crate::output::say;
use crate::times::length;
use anyhow::{Context, Result};
use bookahead_client::{Identity, Options};
use clap::Args;
use jiff::tz::TimeZone;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A broker on this machine.
const DEFAULT_SERVER: &str = "http://127.0.0.1:7400";

/// Where, as whom, and in which zone; the same for all commands that ask a server.
#[derive(Args)]
pub(crate) struct Place {
    /// The site or broker to ask, as http://…, https://… or unix:PATH [env: BOOKAHEAD_SERVER] [default: http://127.0.0.1:7400]
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

    /// On whose behalf; believed by servers without authentication, and from brokers and the account of the server
    #[arg(long, value_name = "NAME", help_heading = "Server")]
    pub(crate) user: Option<String>,

    /// How long one call may take
    #[arg(long, value_name = "LENGTH", default_value = "90s", value_parser = length, help_heading = "Server")]
    timeout: bookahead_plan::Seconds,

    /// The zone in which times are read and shown [default: the profile's, TZ, the system's]
    #[arg(long, value_name = "ZONE", help_heading = "Output")]
    zone: Option<String>,

    /// Show ids whole; by default tables show the first digits, which every command takes as well
    #[arg(long, help_heading = "Output")]
    pub(crate) full_ids: bool,

    /// Print the document of the server as JSON
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

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

/// Without TLS everybody on the way can read a token.
fn warn_of_listeners(server: &str) {
    let Some(host) = server.strip_prefix("http://") else { return };
    let loopback = ["127.", "localhost", "[::1]"].iter().any(|name| host.starts_with(name));
    if !loopback {
        say!("note: everybody on the way to {server} can read your token; use https");
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The profile that is meant where none is named.
    default: Option<String>,
    #[serde(default, rename = "profile")]
    profiles: BTreeMap<String, Profile>,
    #[serde(skip)]
    path: PathBuf,
}

/// One server, and how it is asked. Files are relative to the folder of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    pub(crate) server: Option<String>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) certificate_key: Option<PathBuf>,
    pub(crate) user: Option<String>,
    pub(crate) time_zone: Option<String>,
}

impl Config {
    /// Reads the file; an empty one where there is none and none is named.
    pub(crate) fn find() -> Result<Config> {
        let named = env::var_os("BOOKAHEAD_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
        let must_exist = named.is_some();
        let Some(path) = named.or_else(usual_path) else { return Ok(Config::default()) };
        match std::fs::read_to_string(&path) {
            Ok(text) => Config::read(path, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => {
                Ok(Config::default())
            }
            Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
        }
    }

    fn read(path: PathBuf, text: &str) -> Result<Config> {
        let wrong =
            |error: toml::de::Error| Usage(format!("{} is no configuration: {error}", path.display()));
        let config: Config = toml::from_str(text).map_err(wrong)?;
        Ok(Config { path, ..config })
    }

    /// The profile of this name, or the default one, if there is one. Paths are complete.
    pub(crate) fn profile(&self, name: Option<&str>) -> Result<Profile, Usage> {
        let Some(name) = name.or(self.default.as_deref()) else { return Ok(Profile::default()) };
        let Some(profile) = self.profiles.get(name) else {
            let known: Vec<&str> = self.profiles.keys().map(String::as_str).collect();
            let known = if known.is_empty() {
                "there are none".to_owned()
            } else {
                format!("take one of: {}", known.join(", "))
            };
            let place = if self.path.as_os_str().is_empty() {
                "the configuration"
            } else {
                &self.path.display().to_string()
            };
            return Err(Usage(format!("there is no profile {name} in {place}; {known}")));
        };
        let here = |path: &Option<PathBuf>| path.as_deref().map(|path| self.complete(path));
        Ok(Profile {
            token_file: here(&profile.token_file),
            ca: here(&profile.ca),
            certificate: here(&profile.certificate),
            certificate_key: here(&profile.certificate_key),
            ..profile.clone()
        })
    }

    /// From the folder of the file, or from the user's.
    fn complete(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), home()) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => self.path.parent().unwrap_or(Path::new("")).join(path),
        }
    }
}

fn usual_path() -> Option<PathBuf> {
    let folder = env::var_os("XDG_CONFIG_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let folder = folder.or_else(|| home().map(|home| home.join(".config")));
    folder.map(|folder| folder.join("bookahead/config.toml"))
}

fn home() -> Option<PathBuf> {
    env::var_os("HOME").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// What systems call UTC.
const UTC: [&str; 4] = ["UTC", "Etc/UTC", "Zulu", "Etc/Zulu"];

/// The zone in which times are read and shown: the one that is named, or the system's (`TZ` before it).
pub(crate) fn time_zone(named: Option<&str>) -> Result<TimeZone, Usage> {
    let no_zone = |name| format!("'{name}' is no time zone; write a name such as Europe/Berlin, or UTC");
    let zone = match named {
        Some(name) => zone(name).ok_or_else(|| Usage(no_zone(name)))?,
        None => TimeZone::try_system().unwrap_or(TimeZone::UTC),
    };
    let is_utc = zone.iana_name().is_some_and(|name| UTC.contains(&name));
    Ok(if is_utc { TimeZone::UTC } else { zone })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "default = \"work\"\n[profile.work]\nserver = \"https://grid.example.org\"\n\
                        token_file = \"work.token\"\nca = \"/etc/ca.pem\"\n[profile.home]\n";

    #[test]
    fn a_profile_is_found_by_its_name_or_is_the_default() {
        let config = Config::read("/home/ada/.config/bookahead/config.toml".into(), TEXT).unwrap();
        let work = config.profile(None).unwrap();
        assert_eq!(work.server.as_deref(), Some("https://grid.example.org"));
        assert_eq!(work.token_file, Some("/home/ada/.config/bookahead/work.token".into()));
        assert_eq!(work.ca, Some("/etc/ca.pem".into()));
        assert_eq!(config.profile(Some("home")).unwrap(), Profile::default());
        let error = config.profile(Some("wrok")).unwrap_err().to_string();
        assert!(error.contains("no profile wrok") && error.contains("home, work"), "{error}");
    }

    #[test]
    fn utc_is_utc_whatever_it_is_called() {
        for name in ["UTC", "Etc/UTC", "Z", "+00:00"] {
            assert_eq!(time_zone(Some(name)).unwrap(), TimeZone::UTC, "{name}");
        }
        assert!(time_zone(Some("Mars/Olympus")).is_err());
    }

    #[test]
    fn what_is_not_known_in_the_file_is_named_with_its_line() {
        let error =
            Config::read("c.toml".into(), "[profile.a]\nserver = \"x\"\ntokenfile = \"t\"\n").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("c.toml") && text.contains("line 3") && text.contains("token_file"), "{text}");
    }
}
