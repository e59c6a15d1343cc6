//! Brokers that name each other, or themselves: each finds every site once, without waiting for a timeout, and names do
//! not grow.

use crate::daemon::{GRID, book, broker, client, registered, site, stop, wanted};
use bookahead_api as api;
use bookahead_client::Client;
use bookahead_protocol::Name;
use bookahead_service::config::SiteConfig;
use bookahead_service::daemon::{self, OnLostJournal, Running};
use bookahead_tests::polling::until_some;
use std::collections::BTreeSet;
use tempfile::TempDir;

/// Heartbeats during which names could grow.
const HEARTBEATS: u64 = 8;

/// Surveys that last longer than clients wait: a broker that waits for the end of one gives no answer.
const RULES: &str = "[rules]\nsurvey_time = \"10m\"\n";

fn site_of(name: &str, broker: &str) -> SiteConfig {
    site(&format!(
        "name = \"{name}\"\nlisten = \"127.0.0.1:0\"\nheartbeat = \"100ms\"\n[[resource]]\nname = \"cluster\"\n\
         kind = \"processors\"\ncapacity = 64\n[[broker]]\nurl = \"{broker}\"\n"
    ))
}

/// A broker with these peers, by name and address, that registers with those brokers.
async fn start(folder: &TempDir, name: &str, peers: &[(&str, &str)], brokers: &[&str]) -> Running {
    let mut text = GRID.replace("grid", name);
    text += RULES;
    for (peer, url) in peers {
        text += &format!("[[peer]]\nname = \"{peer}\"\nurl = \"{url}\"\n");
    }
    for url in brokers {
        text += &format!("[[broker]]\nurl = \"{url}\"\n");
    }
    daemon::broker(&broker(&text), folder.path()).await.unwrap()
}

async fn names(asked: &Client) -> BTreeSet<String> {
    let resources = asked.resources().await.unwrap().resources;
    resources.iter().map(|resource| resource.name.to_string()).collect()
}

/// Waits until exactly these resources are offered, and checks that this lasts while a peer is asked for its heartbeat
/// again and again.
async fn offers(asked: &Client, expected: &[&str], peer: &Running) {
    let expected: BTreeSet<String> = expected.iter().map(ToString::to_string).collect();
    until_some("all are offered", || async { (names(asked).await == expected).then_some(()) }).await;
    let (peer, route) = (client(peer.url()), "route=\"/v1/sites\",method=\"GET\"");
    let before = counted(&peer, "bookahead_http_requests_total", route).await;
    until_some("more heartbeats", || async {
        assert_eq!(names(asked).await, expected, "names grow");
        let heartbeats = counted(&peer, "bookahead_http_requests_total", route).await - before;
        (heartbeats >= HEARTBEATS).then_some(())
    })
    .await;
}

/// Resources with offers for an hour, each once.
async fn probe(asked: &Client) -> Vec<String> {
    let probe = api::Probe { request: wanted(), most: Some(20), starts: Vec::new() };
    let offers = asked.probe(&probe).await.unwrap().offers;
    let mut places: Vec<String> = offers.iter().map(|offer| offer.slots[0].resource.to_string()).collect();
    places.sort();
    places
}

/// Sum of a metric over all series with this label.
async fn counted(asked: &Client, name: &str, label: &str) -> u64 {
    let metrics = asked.metrics().await.unwrap();
    let counts = metrics.lines().filter(|line| line.starts_with(name) && line.contains(label));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).map(|count| count as u64).sum()
}

/// Number of probes that a party received.
async fn probes(asked: &Client) -> u64 {
    counted(asked, "bookahead_calls", "\"probe\"").await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_brokers_that_name_each_other_find_the_sites_of_both_once() {
    let folder = TempDir::new().unwrap();
    let east = start(&folder, "east", &[], &[]).await;
    // The two brokers are peers of each other.
    let west = start(&folder, "west", &[("east", east.url())], &[east.url()]).await;
    let sites = [
        daemon::site(&site_of("x", east.url()), folder.path(), OnLostJournal::Ask).await.unwrap(),
        daemon::site(&site_of("y", west.url()), folder.path(), OnLostJournal::Ask).await.unwrap(),
    ];
    let (at_east, at_west) = (client(east.url()), client(west.url()));
    offers(&at_east, &["west/y/cluster", "x/cluster"], &west).await;
    offers(&at_west, &["east/x/cluster", "y/cluster"], &east).await;
    for (asked, expected) in
        [(&at_east, ["west/y/cluster", "x/cluster"]), (&at_west, ["east/x/cluster", "y/cluster"])]
    {
        assert_eq!(probe(asked).await, expected);
    }
    // Two probes arrived, and each site was asked once for each.
    for site in &sites {
        assert_eq!(probes(&client(site.url())).await, 2);
    }
    assert!(probes(&at_east).await <= 3 && probes(&at_west).await <= 3);
    book(&at_east).await;
    book(&at_west).await;
    for running in [east, west].into_iter().chain(sites) {
        stop(running).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_ring_of_three_every_site_is_found_once() {
    let folder = TempDir::new().unwrap();
    let a = start(&folder, "a", &[], &[]).await;
    let b = start(&folder, "b", &[], &[a.url()]).await;
    // a calls b, b calls c, and c calls a.
    let c = start(&folder, "c", &[("a", a.url())], &[b.url()]).await;
    let mut sites = Vec::new();
    for (name, broker) in [("x", &a), ("y", &b), ("z", &c)] {
        sites.push(
            daemon::site(&site_of(name, broker.url()), folder.path(), OnLostJournal::Ask).await.unwrap(),
        );
    }
    let asked = client(a.url());
    offers(&asked, &["b/c/z/cluster", "b/y/cluster", "x/cluster"], &b).await;
    assert_eq!(probe(&asked).await, ["b/c/z/cluster", "b/y/cluster", "x/cluster"]);
    for running in [a, b, c].into_iter().chain(sites) {
        stop(running).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_names_itself_is_no_peer_of_its_own() {
    let folder = TempDir::new().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let text = format!(
        "name = \"grid\"\nlisten = \"127.0.0.1:{port}\"\nheartbeat = \"100ms\"\n{RULES}\
         [[peer]]\nname = \"mirror\"\nurl = \"{url}\"\n[[broker]]\nurl = \"{url}\"\n"
    );
    let grid = daemon::broker(&broker(&text), folder.path()).await.unwrap();
    let x = daemon::site(&site_of("x", grid.url()), folder.path(), OnLostJournal::Ask).await.unwrap();
    let asked = client(grid.url());
    offers(&asked, &["x/cluster"], &x).await;
    assert_eq!(probe(&asked).await, ["x/cluster"]);
    let known = asked.sites().await.unwrap().sites;
    let mut known = known.iter().map(|site| site.name.as_str()).collect::<Vec<_>>();
    known.sort_unstable();
    assert_eq!(known, ["grid", "x"]);
    // A call with such a header is refused as well, with the reason.
    let heartbeat = api::Heartbeat {
        changes: None,
        name: "mirror".into(),
        url: format!("{url}/"),
        role: api::Role::Broker,
        resources: Vec::new(),
        attributes: Default::default(),
        loads: Vec::new(),
        hold_takes_seconds: None,
        batch: None,
        version: None,
    };
    let refused = asked.heartbeat(&heartbeat).await.unwrap_err();
    let problem = refused.problem().unwrap();
    assert_eq!((problem.code.as_str(), problem.status), ("forbidden", 403), "{problem:?}");
    assert!(problem.detail.contains("this broker itself"), "{problem:?}");
    stop(grid).await;
    stop(x).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn brokers_of_one_name_are_no_circle() {
    let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let top = start(&folder, "grid", &[], &[]).await;
    let under = start(&other, "grid", &[], &[top.url()]).await;
    let x = daemon::site(&site_of("x", under.url()), folder.path(), OnLostJournal::Ask).await.unwrap();
    let asked = client(top.url());
    registered(&asked, "grid").await;
    offers(&asked, &["grid/x/cluster"], &under).await;
    book(&asked).await;
    assert_eq!(client(x.url()).list(&api::ListQuery::default()).await.unwrap().reservations.len(), 1);
    for running in [top, under, x] {
        stop(running).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_says_where_it_has_been_is_answered_by_that() {
    let folder = TempDir::new().unwrap();
    let grid = start(&folder, "grid", &[], &[]).await;
    let x = daemon::site(&site_of("x", grid.url()), folder.path(), OnLostJournal::Ask).await.unwrap();
    let asked = client(grid.url());
    offers(&asked, &["x/cluster"], &x).await;
    let itself = asked.sites().await.unwrap().sites.remove(0);
    let identity: Name = itself.resources[0].through[0].clone();
    let probe = api::Probe { request: wanted(), most: None, starts: Vec::new() };
    let refused = asked.via(&["west#7".into(), identity]).probe(&probe).await.unwrap_err();
    assert_eq!(refused.problem().unwrap().code, "circle");
    assert!(!asked.via(&["west#7".into()]).probe(&probe).await.unwrap().offers.is_empty());
    stop(grid).await;
    stop(x).await;
}
