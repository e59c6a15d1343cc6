//! The fields in which a new configuration differs from that of a running service, and which of them a running service
//! can take over. All others need a restart, because threads, files or stored state depend on them.

use super::common::Common;
use bookahead_party::Role;
use ring::digest::{SHA256, digest};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

const OF_BOTH: [&str; 16] = [
    "server",
    "calls.token_file",
    "calls.ca",
    "calls.certificate",
    "calls.key",
    "security.keys",
    "security.audience",
    "security.tls",
    "security.peer",
    "security.broker",
    "security.broker_passes_roles",
    "security.revoked_tokens",
    "security.insecure_plain_http",
    "security.socket_operators",
    "security.socket_brokers",
    "security.projects",
];
const OF_SITES: [&str; 7] =
    ["most_answers", "holds", "reveal", "limits", "role_limits", "user_limits", "priorities"];
const OF_BROKERS: [&str; 1] = ["rules"];

/// Fields that differ, by their names in the file, such as `limits.count`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Changes {
    /// Fields that a running service takes over.
    pub(crate) changed: Vec<String>,
    /// Fields that cannot change while it runs.
    pub(crate) fixed: Vec<String>,
}

impl Changes {
    /// Compares two configurations. Fails if one cannot be written, because a path is not UTF-8.
    pub(crate) fn between<C: Serialize>(role: Role, old: &C, new: &C) -> Result<Changes, toml::ser::Error> {
        let (old, new) = (Table::try_from(old)?, Table::try_from(new)?);
        let own: &[&str] = if role == Role::Site { &OF_SITES } else { &OF_BROKERS };
        let can_change = |field: &str| {
            let within = |allowed: &str| {
                field.strip_prefix(allowed).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            OF_BOTH.iter().chain(own).any(|allowed| within(allowed))
        };
        let (changed, fixed) = differences(&old, &new).into_iter().partition(|field| can_change(field));
        Ok(Changes { changed, fixed })
    }
}

/// Digests of the files that a reload reads again, by the fields that name them. Token files are not among them: they
/// are read again whenever they change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FileDigests(BTreeMap<String, Vec<u8>>);

impl FileDigests {
    /// A file that cannot be read has none; who uses it reports the error.
    pub(crate) fn of(config: &Common<'_>, base: &Path) -> FileDigests {
        let files = named_files(config).into_iter();
        let read = files.filter_map(|(field, path)| Some((field, std::fs::read(base.join(path)).ok()?)));
        FileDigests(read.map(|(field, bytes)| (field, digest(&SHA256, &bytes).as_ref().to_vec())).collect())
    }

    /// Files with another content than before, as entries of [`Changes::changed`].
    pub(crate) fn changed_since(&self, old: &FileDigests) -> impl Iterator<Item = String> {
        let differs =
            |(field, digest): &(&String, &Vec<u8>)| old.0.get(*field).is_some_and(|old| old != *digest);
        self.0.iter().filter(differs).map(|(field, _)| format!("content of {field}"))
    }
}

fn named_files(config: &Common<'_>) -> Vec<(String, PathBuf)> {
    let (security, calls) = (config.security, config.calls);
    let tls = security.tls.as_ref();
    let single = [
        ("security.keys", security.keys.as_ref()),
        ("security.tls.certificate", tls.map(|tls| &tls.certificate)),
        ("security.tls.key", tls.map(|tls| &tls.key)),
        ("security.tls.client_ca", tls.and_then(|tls| tls.client_ca.as_ref())),
        ("calls.ca", calls.ca.as_ref()),
        ("calls.certificate", calls.certificate.as_ref()),
        ("calls.key", calls.key.as_ref()),
    ];
    let single = single.into_iter().filter_map(|(field, path)| Some((field.to_owned(), path?.clone())));
    let brokers = security.brokers.iter().map(|broker| {
        let field = format!("security.broker {}", broker.name);
        (field, broker.key.clone())
    });
    single.chain(brokers).collect()
}

/// Fields that differ. Those of tables at the top are named one by one.
fn differences(old: &Table, new: &Table) -> Vec<String> {
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut all = Vec::new();
    for key in keys.into_iter().filter(|key| old.get(*key) != new.get(*key)) {
        match (old.get(key), new.get(key)) {
            (Some(Value::Table(old)), Some(Value::Table(new))) => {
                let inner: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
                let inner = inner.into_iter().filter(|inner| old.get(*inner) != new.get(*inner));
                all.extend(inner.map(|inner| format!("{key}.{inner}")));
            }
            _ => all.push(key.clone()),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SiteConfig;
    use std::path::Path;

    const SITE: &str = "name = \"north\"\nattributes = { country = \"no\" }\n\n\
        [[resource]]\nname = \"cluster\"\nkind = \"processors\"\ncapacity = 64\n";

    fn changes(text: &str) -> (Vec<String>, Vec<String>) {
        let read = |text: &str| SiteConfig::parse(Path::new("site.toml"), text).unwrap();
        let Changes { changed, fixed } = Changes::between(Role::Site, &read(SITE), &read(text)).unwrap();
        (changed, fixed)
    }

    #[test]
    fn changed_fields_are_named_and_those_that_need_a_restart_apart() {
        assert_eq!(changes(SITE), (vec![], vec![]));
        let text = format!("{SITE}[limits]\ncount = 3\n[user_limits.ada]\ncount = 4\n[server]\nburst = 5\n");
        let changed = ["limits.count", "server.burst", "user_limits.ada"].map(String::from);
        assert_eq!(changes(&text), (changed.to_vec(), vec![]));
        let text = SITE.replace("64", "32").replace("north", "south").replace("\"no\"", "\"ch\"");
        let fixed = ["attributes.country", "name", "resource"].map(String::from);
        assert_eq!(changes(&text), (vec![], fixed.to_vec()));
    }
}
