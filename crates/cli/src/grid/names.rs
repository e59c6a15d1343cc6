//! Who is meant: the names of all parties of a description, each once, and errors that list those there are.

use super::config::Config;
use anyhow::{Result, bail, ensure};
use bookahead_service::config::check_name;
use std::collections::BTreeMap;

/// What a party is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Site,
    Broker,
    Client,
}

/// All parties, with the places that they have in the grid: clients first, then brokers, then sites.
pub(crate) struct Names(BTreeMap<String, (Kind, usize)>);

impl Names {
    pub(crate) fn of(config: &Config) -> Result<Names> {
        let clients = config.clients.iter().map(|client| (&client.name, Kind::Client));
        let brokers = config.brokers.iter().map(|broker| (&broker.name, Kind::Broker));
        let sites = config.sites.iter().map(|site| (&site.name, Kind::Site));
        let mut names = BTreeMap::new();
        for (place, (name, kind)) in clients.chain(brokers).chain(sites).enumerate() {
            check_name("a site, broker or client", name)?;
            ensure!(
                names.insert(name.clone(), (kind, place)).is_none(),
                "two parties are called {name}; give each a name of its own"
            );
        }
        Ok(Names(names))
    }

    /// The place of anybody.
    pub(crate) fn anybody(&self, name: &str, whose: &str) -> Result<usize> {
        Ok(self.find(name, &[Kind::Site, Kind::Broker, Kind::Client], whose)?.1)
    }

    /// The place of a party of one of these kinds.
    pub(crate) fn find(&self, name: &str, kinds: &[Kind], whose: &str) -> Result<(Kind, usize)> {
        match self.0.get(name) {
            Some((kind, place)) if kinds.contains(kind) => Ok((*kind, *place)),
            found => {
                let known = self.0.iter().filter(|(_, (kind, _))| kinds.contains(kind));
                let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
                let what = match found {
                    Some((kind, _)) => format!("{name} is a {}", kind.word()),
                    None => format!("there is no {name}"),
                };
                bail!("{whose}: {what}; take one of: {}", known.join(", "))
            }
        }
    }
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Site => "site",
            Kind::Broker => "broker",
            Kind::Client => "client",
        }
    }
}
