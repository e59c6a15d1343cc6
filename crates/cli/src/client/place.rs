//! Server, credentials and time zone of a client command: options first, then the environment, then a profile, then a
//! server on this machine. The token of a profile is sent only to the server of that profile, unless both are named
//! explicitly.
//!
//! A profile is a named server in a configuration file: `$BOOKAHEAD_CONFIG`, or `bookahead/config.toml` in
//! `$XDG_CONFIG_HOME` or `~/.config`. The file is optional.

use super::refusal::Usage;
use crate::output::say;
use crate::times::length;
use anyhow::{Context, Result};
use bookahead_api::when::zone;
use bookahead_client::{Identity, Options};
use clap::Args;
use jiff::tz::TimeZone;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The default address of a broker on this machine.
const DEFAULT_SERVER: &str = "http://127.0.0.1:7400";

/// Options shared by all client commands.
#[derive(Args)]
pub(crate) struct Place {
    /// URL of the site or broker: http://…, https://…, HOST:PORT for http, or unix:PATH; several, separated by commas, if
    /// it has a stand-by [env: BOOKAHEAD_SERVER] [default: http://127.0.0.1:7400]
    #[arg(long, value_name = "URL", help_heading = "Server")]
    pub(crate) server: Option<String>,

    /// Use server, token and time zone of this profile in ~/.config/bookahead/config.toml [env: BOOKAHEAD_CONFIG]
    #[arg(long, value_name = "NAME", help_heading = "Server")]
    pub(crate) profile: Option<String>,

    /// File with your access token [env: BOOKAHEAD_TOKEN_FILE]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    token_file: Option<PathBuf>,

    /// Your access token; other users of this machine can see it in the process list, so prefer --token-file
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file", help_heading = "Server")]
    token: Option<String>,

    /// CA certificates to verify the server with, in PEM [env: BOOKAHEAD_CA] [default: those of the system]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    ca: Option<PathBuf>,

    /// Client certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate_key", help_heading = "Server")]
    certificate: Option<PathBuf>,

    /// Private key of the client certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate", help_heading = "Server")]
    certificate_key: Option<PathBuf>,

    /// User to act for; accepted only by servers without authentication, or from brokers and the server's own account
    #[arg(long, value_name = "NAME", help_heading = "Server")]
    pub(crate) user: Option<String>,

    /// Timeout of one call
    #[arg(long, value_name = "LENGTH", default_value = "90s", value_parser = length, help_heading = "Server")]
    timeout: bookahead_plan::Seconds,

    /// Time zone for input and output [default: that of the profile, else TZ, else the system]
    #[arg(long, value_name = "ZONE", help_heading = "Output")]
    zone: Option<String>,

    /// Show full ids; by default tables show eight digits. Every command accepts six or more
    #[arg(long, help_heading = "Output")]
    pub(crate) full_ids: bool,

    /// Print the server's answer as JSON
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
        // Before the profile may be dropped below: the zone is the user's, whichever server is named.
        let zone = time_zone(self.zone.as_deref().or(profile.time_zone.as_deref()))?;
        let elsewhere = self.server.clone().or_else(|| named("BOOKAHEAD_SERVER"));
        // A default profile is ignored if another server is named: its token must not be sent there.
        let profile = match (&self.profile, &elsewhere) {
            (None, Some(_)) => Profile::default(),
            _ => profile,
        };
        // Precedence: --server, the server of --profile, BOOKAHEAD_SERVER, then the server of the default profile.
        let by_profile = || self.profile.as_ref().and(profile.server.clone());
        let server = self.server.clone().or_else(by_profile).or(elsewhere).or(profile.server.clone());
        let server = with_scheme(server.as_deref().unwrap_or(DEFAULT_SERVER));
        let by_environment = || named("BOOKAHEAD_TOKEN_FILE").map(PathBuf::from);
        // A token on the command line wins: the files of the profile and the environment are not even read.
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
        // A timeout of zero would fail every call.
        let timeout = Duration::from_secs(self.timeout.0.try_into().unwrap_or(0).max(1));
        let options = Options {
            token,
            ca: self.ca.clone().or(profile.ca.clone()).or_else(|| named("BOOKAHEAD_CA").map(PathBuf::from)),
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

    /// The options to repeat in a suggested follow-up command. Never the token, which would end up in the shell
    /// history.
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

/// `127.0.0.1:7400` is the address of a service without TLS.
fn with_scheme(server: &str) -> String {
    let each = server.split(',').map(str::trim).map(|server| {
        // A name without a port is left as it is: the client refuses it and shows an example.
        let is_plain = server.contains(':') && !server.contains("://") && !server.starts_with("unix:");
        if is_plain { format!("http://{server}") } else { server.to_owned() }
    });
    each.collect::<Vec<_>>().join(",")
}

fn token_in(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the token file {}; check the path", path.display()))?;
    let token = text.trim();
    if token.is_empty() {
        return Err(Usage(format!("the token file {} is empty", path.display())).into());
    }
    warn_of_readers(path);
    Ok(token.to_owned())
}

fn warn_of_readers(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let open = std::fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o077 != 0);
    if open {
        say!(
            "note: other users of this machine can read the token in {0}; fix it with: chmod 600 {0}",
            path.display()
        );
    }
}

fn warn_of_listeners(servers: &str) {
    servers.split(',').for_each(warn_of_listener);
}

fn warn_of_listener(server: &str) {
    let Some(host) = server.strip_prefix("http://") else { return };
    let host = host.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).map_or(host, |(host, _)| host);
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    let loopback = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    if !loopback {
        say!("note: your token is sent to {server} without encryption; use https");
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The profile to use without `--profile`.
    default: Option<String>,
    #[serde(default, rename = "profile")]
    profiles: BTreeMap<String, Profile>,
    #[serde(skip)]
    path: PathBuf,
}

/// One server and its credentials. Paths are relative to the folder of the configuration file.
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
    /// Reads the file. A missing file is an empty configuration, unless `$BOOKAHEAD_CONFIG` names it.
    pub(crate) fn find() -> Result<Config> {
        let named = env::var_os("BOOKAHEAD_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
        let must_exist = named.is_some();
        let Some(path) = named.or_else(usual_path) else { return Ok(Config::default()) };
        match std::fs::read_to_string(&path) {
            Ok(text) => Config::read(path, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => {
                Ok(Config::default())
            }
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    fn read(path: PathBuf, text: &str) -> Result<Config> {
        let wrong = |error: toml::de::Error| {
            Usage(format!("{} is not a valid configuration: {error}", path.display()))
        };
        let config: Config = toml::from_str(text).map_err(wrong)?;
        Ok(Config { path, ..config })
    }

    /// The profile of this name, else the default profile, else an empty one. Its paths are resolved.
    pub(crate) fn profile(&self, name: Option<&str>) -> Result<Profile, Usage> {
        let Some(name) = name.or(self.default.as_deref()) else { return Ok(Profile::default()) };
        let Some(profile) = self.profiles.get(name) else {
            let known: Vec<&str> = self.profiles.keys().map(String::as_str).collect();
            let known = if known.is_empty() {
                "there are none".to_owned()
            } else {
                format!("use one of: {}", known.join(", "))
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

    /// Resolves a path against the home folder (`~`) or the folder of the file.
    fn complete(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), home()) {
            (Ok(rest), Some(home)) => home.join(rest),
            // `join` leaves an absolute path as it is.
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

/// Names of UTC on different systems.
const UTC: [&str; 4] = ["UTC", "Etc/UTC", "Zulu", "Etc/Zulu"];

/// The named zone, or that of the system (`TZ` first). All names of UTC give [`TimeZone::UTC`], so that it can be
/// compared.
pub(crate) fn time_zone(named: Option<&str>) -> Result<TimeZone, Usage> {
    let no_zone = |name| format!("unknown time zone '{name}'; use a name such as Europe/Berlin, or UTC");
    let zone = match named {
        Some(name) => zone(name).ok_or_else(|| Usage(no_zone(name)))?,
        // Minimal systems, such as containers, have no zone configured.
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
