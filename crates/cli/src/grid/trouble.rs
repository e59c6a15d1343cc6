//! Lookup of parties by name, with errors that list the known names; and the schedule of faults, with their repairs.

use super::config::{self, Config, CrashPoint as Point, Fault};
use anyhow::{Context, Result, bail, ensure};
use bookahead_api::Length;
use bookahead_plan::Capacity;
use bookahead_protocol::Moment;
use bookahead_service::config::{check_name, percentage};
use bookahead_sim::grid::network::Rules;
use bookahead_sim::grid::{CrashPoint, Grid, Trouble};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Site,
    Broker,
    Client,
}

/// All parties by name, with their index in the grid: clients first, then brokers, then sites.
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
                "two parties are called {name}; use different names"
            );
        }
        Ok(Names(names))
    }

    /// The index of a party of any kind.
    pub(crate) fn anybody(&self, name: &str, whose: &str) -> Result<usize> {
        Ok(self.find(name, &[Kind::Site, Kind::Broker, Kind::Client], whose)?.1)
    }

    /// Kind and index of a party of one of these kinds; `whose` is the place of the name in the file, for the error.
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
                bail!("{whose}: {what}; use one of: {}", known.join(", "))
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

pub(crate) fn network(described: &config::Network) -> Result<Rules> {
    let (fastest, slowest) = (described.fastest.0, described.slowest.0);
    ensure!(fastest <= slowest, "network: fastest is longer than slowest; swap them");
    // The simulator draws per thousand, so percentages may have one decimal.
    let per_thousand = |field: &'static str, number| {
        Ok::<u32, anyhow::Error>((percentage(field, number)? * 10.0).round() as u32)
    };
    Ok(Rules {
        fastest,
        slowest,
        lost: per_thousand("network.lost", described.lost)?,
        twice: per_thousand("network.doubled", described.doubled)?,
        delayed: per_thousand("network.delayed", described.delayed)?,
    })
}

pub(crate) fn arrange(config: &Config, names: &Names, grid: &mut Grid) -> Result<()> {
    for (number, fault) in config.faults.iter().enumerate() {
        let whose = format!("fault {}", number + 1);
        for (at, trouble) in troubles(fault, names, &whose, config).with_context(|| whose.clone())? {
            ensure!(
                at <= config.duration.moment(),
                "{whose}: it ends after the simulation; use a longer duration"
            );
            grid.arrange(at, trouble);
        }
    }
    Ok(())
}

/// A fault and, with `for`, its repair.
fn troubles(fault: &Fault, names: &Names, whose: &str, config: &Config) -> Result<Vec<(Moment, Trouble)>> {
    let lasting = |at: Length, what: Trouble, until: Option<Length>, right: Trouble| {
        let back = until.map(|lasts| (at.moment() + lasts.0, right));
        [(at.moment(), what)].into_iter().chain(back).collect()
    };
    // Clients never crash: the promises that are checked are those that clients remember.
    let fallible =
        |name: &str| Ok::<_, anyhow::Error>(names.find(name, &[Kind::Site, Kind::Broker], whose)?.1);
    Ok(match fault {
        Fault::Crash { at, party, point, r#for } => {
            let party = fallible(party)?;
            lasting(*at, Trouble::Crash(party, self::point(*point)), *r#for, Trouble::Restart(party))
        }
        Fault::Restart { at, party } => vec![(at.moment(), Trouble::Restart(fallible(party)?))],
        Fault::Partition { at, parties, r#for } => {
            let places: Result<Vec<usize>> = parties.iter().map(|name| names.anybody(name, whose)).collect();
            // The repair ends all partitions at that moment, also one that began later.
            lasting(*at, Trouble::CutOff(places?), *r#for, Trouble::Reunite)
        }
        Fault::Heal { at } => vec![(at.moment(), Trouble::Reunite)],
        Fault::Lose { at, party, resource, capacity, r#for } => {
            let place = self::resource(names, whose, config, party, resource)?;
            let (name, capacity) = (resource.as_str().into(), Capacity(*capacity));
            let restored = Trouble::Restore(place, resource.as_str().into(), capacity);
            lasting(*at, Trouble::Lose(place, name, capacity), *r#for, restored)
        }
        Fault::Restore { at, party, resource, capacity } => {
            let place = self::resource(names, whose, config, party, resource)?;
            vec![(at.moment(), Trouble::Restore(place, resource.as_str().into(), Capacity(*capacity)))]
        }
    })
}

fn point(point: Point) -> CrashPoint {
    match point {
        Point::Idle => CrashPoint::Idle,
        Point::BeforeWriting => CrashPoint::BeforeWriting,
        Point::AfterWriting => CrashPoint::AfterWriting,
        Point::WhileSending => CrashPoint::WhileSending,
    }
}

/// The index of the site. Fails if it does not have the resource.
fn resource(names: &Names, whose: &str, config: &Config, site: &str, resource: &str) -> Result<usize> {
    let (_, place) = names.find(site, &[Kind::Site], whose)?;
    let described = config.sites.iter().find(|described| described.name == site);
    let resources = described.map_or(&[][..], |described| &described.resources);
    let known: Vec<&str> = resources.iter().map(|one| one.name.as_str()).collect();
    ensure!(known.contains(&resource), "{site} has no resource {resource}; use one of: {}", known.join(", "));
    Ok(place)
}
