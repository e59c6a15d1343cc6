//! Profiles: servers that a user asks often, by name, in a file of his own. The file is
//! `$BOOKAHEAD_CONFIG`, or `bookahead/config.toml` in `$XDG_CONFIG_HOME` or `~/.config`; there need not be one.

use super::failure::Usage;
use super::when::zone;
use anyhow::{Context, Result};
use jiff::tz::TimeZone;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

/// The file.
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
