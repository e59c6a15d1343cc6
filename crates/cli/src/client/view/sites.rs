//! Sites, brokers and what they offer, for people.

use super::columns::{Columns, NOTHING, or_nothing};
use super::offers::cost;
use crate::client::dates::Dates;
use crate::client::request::requirement::shown;
use crate::numbers::count;
use bookahead_api::{AttributeValue, Load, Reachability, Resource, Role, Site};
use bookahead_protocol::Name;
use std::collections::BTreeMap;
use std::io::{self, Write, stdout};

/// All of them, and the resources by the names that they have at the server, which is the first.
pub(crate) fn print(sites: &[Site], dates: &Dates) -> io::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{}", parties(sites, dates).table())?;
    write!(out, "{}", resources(sites.first()).table())
}

fn parties(sites: &[Site], dates: &Dates) -> Columns {
    let heard = format!("last heard ({})", dates.zone_name());
    let mut table = Columns::new(&[
        "name",
        "is a",
        "state",
        "address",
        &heard,
        "round trip",
        "jobs run",
        "jobs wait",
        "version",
        "attributes",
    ]);
    for site in sites {
        table.row([
            site.name.to_string(),
            match site.role {
                Role::Site => "site".to_owned(),
                Role::Broker => "broker".to_owned(),
            },
            match site.state {
                Reachability::Up => "up".to_owned(),
                Reachability::Silent => "silent".to_owned(),
            },
            site.url.clone(),
            or_nothing(site.last_heard, |at| dates.wall(at)),
            or_nothing(site.round_trip_ms, |millis| format!("{millis} ms")),
            jobs(site, |load| load.running_jobs),
            jobs(site, |load| load.waiting_jobs),
            or_nothing(site.version.as_ref(), Clone::clone),
            attributes(&site.attributes),
        ]);
    }
    table
}

fn resources(server: Option<&Site>) -> Columns {
    let mut table =
        Columns::new(&["resource", "site", "capacity", "kind", "joins", "price per hour", "attributes"]);
    for Resource { name, kind, site, capacity, joins, attributes: more, price_thousandths, through: _ } in
        server.into_iter().flat_map(|site| &site.resources)
    {
        table.row([
            name.to_string(),
            site.to_string(),
            count(u64::from(*capacity)),
            kind.to_string(),
            or_nothing(joins.as_ref(), |[one, other]| format!("{one} and {other}")),
            cost(u64::from(*price_thousandths)),
            attributes(more),
        ]);
    }
    table
}

/// On all resources together, where it tells.
fn jobs(site: &Site, number: impl Fn(&Load) -> u32) -> String {
    let all: u64 = site.loads.iter().map(|load| u64::from(number(load))).sum();
    if site.loads.is_empty() { NOTHING.to_owned() } else { count(all) }
}

fn attributes(all: &BTreeMap<Name, AttributeValue>) -> String {
    let each: Vec<String> = all.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect();
    if each.is_empty() { NOTHING.to_owned() } else { each.join(" ") }
}
