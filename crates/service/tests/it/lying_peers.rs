//! Peers with invalid answers: names with terminal sequences or invisible characters, and oversized answers. And a peer
//! whose answer is valid, and late.

use crate::daemon::{GRID, broker, client, registered, stop, wanted};
use crate::fake_peer::{FakePeer, sites};
use bookahead_api as api;
use bookahead_client::Client;
use bookahead_service::daemon::{self, Running};
use bookahead_tests::polling::until_some;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A broker with two configured peers: `good` with valid answers, and `liar`.
async fn grid(liar: &FakePeer, good: &FakePeer, folder: &TempDir) -> Running {
    let peer = |name: &str, url: &str| format!("[[peer]]\nname = \"{name}\"\nurl = \"{url}\"\n");
    let text = format!("{GRID}{}{}", peer("liar", &liar.url), peer("good", &good.url));
    daemon::broker(&broker(&text), folder.path()).await.unwrap()
}

/// The answer to a probe: one slot on a resource of this name.
fn offers(resource: &str) -> String {
    let now = jiff::Timestamp::now().as_second();
    let stamp = |hours: i64| api::Timestamp::nearest(bookahead_plan::Time(now + hours * 3_600));
    json!({"offers": [{"slots": [{
        "resource": resource, "site": "north", "begin": stamp(2), "end": stamp(3), "capacity": 16,
        "slack_seconds": 0, "cost": 0
    }]}]})
    .to_string()
}

async fn peer(list: String, offered: String) -> FakePeer {
    FakePeer::start("", move |route| match route {
        "GET /v1/sites" => (200, list.clone()),
        "POST /v1/probes" => (200, offered.clone()),
        _ => (503, String::new()),
    })
    .await
}

async fn known(asked: &Client, name: &str) -> Option<api::Site> {
    let sites = asked.sites().await.unwrap().sites;
    sites.into_iter().find(|site| site.name.as_str() == name && site.state == api::Reachability::Up)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_tells_names_that_are_unfit_is_not_heard() {
    let padding = "x".repeat(20_000_000);
    for list in [
        sites("liar", "a\u{1b}]0;owned\u{7}"),
        sites("liar", "a\u{9b}2J"),
        sites("liar", "a\u{202e}b"),
        sites("liar", "cluster").replace("\"processors\"", "\"proc\u{200b}essors\""),
        sites("liar", "cluster").replace("\"up\"", &format!("\"up\", \"padding\": \"{padding}\"")),
    ] {
        let folder = TempDir::new().unwrap();
        let (liar, good) = (peer(list, offers("cluster")).await, FakePeer::site("good").await);
        let grid = grid(&liar, &good, &folder).await;
        let asked = client(grid.url());
        registered(&asked, "good").await;
        until_some("the liar was asked twice", || async { (liar.received().len() > 1).then_some(()) }).await;
        assert_eq!(known(&asked, "liar").await, None);
        stop(grid).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_with_a_name_that_is_unfit_is_no_offer() {
    for (resource, counts) in [("cluster", true), ("clus\u{202e}ter", false), ("clus\u{1b}[1mter", false)] {
        let folder = TempDir::new().unwrap();
        let liar = peer(sites("liar", "cluster"), offers(resource)).await;
        let good = peer(sites("good", "cluster"), offers("cluster")).await;
        let grid = grid(&liar, &good, &folder).await;
        let asked = client(grid.url());
        registered(&asked, "liar").await;
        registered(&asked, "good").await;
        let probe = api::Probe { request: wanted(), most: None, starts: Vec::new() };
        let offers = asked.probe(&probe).await.unwrap().offers;
        let mut from: Vec<String> =
            offers.iter().flat_map(|offer| &offer.slots).map(|slot| slot.resource.to_string()).collect();
        from.sort();
        let expected: &[&str] = if counts { &["good/cluster", "liar/cluster"] } else { &["good/cluster"] };
        assert_eq!(from, expected, "{resource:?}");
        stop(grid).await;
    }
}

/// A peer that answers probes when the sender of the other side is dropped, and the number of probes that it got.
async fn late_peer(go: Receiver<()>) -> (FakePeer, Arc<AtomicUsize>) {
    let (probes, go) = (Arc::new(AtomicUsize::new(0)), Mutex::new(go));
    let count = probes.clone();
    let late = FakePeer::start("", move |route| match route {
        "GET /v1/sites" => (200, sites("late", "cluster")),
        "POST /v1/probes" => {
            count.fetch_add(1, Ordering::AcqRel);
            let _ = tokio::task::block_in_place(|| go.lock().unwrap().recv());
            (200, offers("cluster"))
        }
        _ => (503, String::new()),
    });
    (late.await, probes)
}

async fn time_at(asked: &Client) -> bookahead_plan::Time {
    asked.health().await.unwrap();
    asked.server_clock().unwrap().now.time()
}

/// A broker repeats calls without an answer, but none that its peer is still answering.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_answers_late_is_asked_once() {
    let (folder, (go, wait)) = (TempDir::new().unwrap(), channel());
    let (late, probes) = late_peer(wait).await;
    // A broker repeats after a second of its time at first, and then less and less often.
    let origin = api::Timestamp::nearest(bookahead_plan::Time(jiff::Timestamp::now().as_second()));
    let text = format!(
        "{GRID}clock = {{ speed = 60, origin = \"{origin}\" }}\n[rules]\nsurvey_time = \"10m\"\n\
         [[peer]]\nname = \"late\"\nurl = \"{}\"\n",
        late.url
    );
    let grid = daemon::broker(&broker(&text), folder.path()).await.unwrap();
    let asked = client(grid.url());
    registered(&asked, "late").await;
    let probing = tokio::spawn({
        let asked = asked.clone();
        let probe = api::Probe { request: wanted(), most: None, starts: Vec::new() };
        async move { asked.probe(&probe).await }
    });
    until_some("it is asked", || async { (probes.load(Ordering::Acquire) > 0).then_some(()) }).await;
    let then = time_at(&asked).await + bookahead_plan::Seconds(30);
    until_some("the broker has repeated it", || async { (time_at(&asked).await >= then).then_some(()) })
        .await;
    drop(go);
    assert_eq!(probing.await.unwrap().unwrap().offers.len(), 1);
    assert_eq!(probes.load(Ordering::Acquire), 1);
    stop(grid).await;
}
