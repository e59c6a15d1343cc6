//! SIGHUP: the configuration of a running service is read again, under load, without losing a connection, a hold or a
//! call; a file that cannot be used changes nothing.

use crate::folder::Folder;
use crate::service::Service;
use bookahead_api as api;
use bookahead_client::{Client, ClientError, Options, Watch, make};
use bookahead_protocol::ReservationId;
use bookahead_tests::polling::{until_some, until_true};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Rounds of new limits and certificates.
const ROUNDS: u32 = 12;
/// Clients that book all the time, each on a connection of its own.
const CLIENTS: usize = 6;

/// Two authorities: a client trusts one of them, and so can only connect while the site has a certificate of that one.
const AUTHORITIES: [&str; 2] = ["first", "second"];

fn config(capacity: u32, certificate: &str, count: u32) -> String {
    format!(
        "name = \"north\"\nlisten = \"127.0.0.1:0\"\n\n[[resource]]\nname = \"cluster\"\nkind = \"processors\"\n\
         capacity = {capacity}\n\n[user_limits.eve]\ncount = {count}\n\n\
         [server]\nrequests_per_second = 0\n\n[security]\nkeys = \"secret.key\"\n\n\
         [security.tls]\ncertificate = \"{certificate}.pem\"\nkey = \"{certificate}.key\"\n"
    )
}

/// Certificates of both authorities, tokens of ada and eve.
fn prepared() -> Folder {
    let folder = Folder::with("north.toml", config(64, "first", 1));
    folder.succeed("token --new-secret secret.key");
    for user in ["ada", "eve"] {
        folder.succeed(&format!("token --keys secret.key --user {user} --out {user}.token"));
    }
    for name in AUTHORITIES {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        folder.write(&format!("{name}-authority.pem"), issuer.pem());
        folder.write(&format!("{name}.pem"), certificate.pem());
        folder.write(&format!("{name}.key"), key.serialize_pem());
        folder.make_private(&format!("{name}.key"));
    }
    folder
}

/// A client with connections of its own, that makes no second attempt.
fn client(folder: &Folder, url: &str, user: &str, authority: &str) -> Client {
    let options = Options {
        token: Some(folder.text(&format!("{user}.token")).trim().to_owned()),
        ca: Some(folder.path(&format!("{authority}-authority.pem"))),
        patience: Duration::ZERO,
        ..Options::default()
    };
    Client::new(url, options).unwrap()
}

fn request(hours: i64) -> api::Reserve {
    let now = jiff::Timestamp::now().as_second();
    let at = |hours: i64| jiff::Timestamp::from_second(now + hours * 3_600).unwrap().to_string();
    let (from, until) = (at(hours), at(hours + 48));
    let part = json!({"capacity": 1, "duration_seconds": 3600, "earliest_start": from, "latest_end": until});
    serde_json::from_value(json!({"request": {"parts": [part]}, "hold_for_seconds": 300})).unwrap()
}

async fn hold(client: &Client) -> Result<api::Reservation, ClientError> {
    client.reserve(&request(1), &make::key().unwrap().to_string()).await
}

/// Holds, commits and cancels until told to stop. Every call must succeed.
async fn keep_booking(client: Client, stop: Arc<AtomicBool>, calls: Arc<AtomicUsize>) {
    while !stop.load(Ordering::Relaxed) {
        let held = hold(&client).await.unwrap();
        let committed = client.commit(held.id, &api::Commit::default()).await.unwrap();
        assert_eq!(committed.state, api::State::Committed);
        assert_eq!(client.cancel(held.id).await.unwrap().state, api::State::Cancelled);
        calls.fetch_add(3, Ordering::Relaxed);
    }
}

/// Number of commits on a stream, up to that of a reservation.
async fn commits_up_to(mut watch: Watch, last: ReservationId) -> usize {
    let mut commits = 0;
    while let Some(event) = watch.next().await.unwrap() {
        commits += usize::from(event.kind == "committed");
        if event.kind == "committed" && event.reservation == Some(last) {
            break;
        }
    }
    commits
}

async fn metric(client: &Client, name: &str) -> f64 {
    let text = client.metrics().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
}

const SUCCEEDED: &str = "bookahead_config_last_reload_successful";

#[test]
fn limits_and_certificates_change_under_load_and_nothing_is_lost() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let folder = prepared();
    let site = Service::start(&folder, "site --config north.toml");
    let url = site.url();
    let made = runtime.block_on(async {
        let ada = client(&folder, &url, "ada", "first");
        let eve = client(&folder, &url, "eve", "first");
        let kept = hold(&ada).await.unwrap();
        let watch = ada.watch(None, None).await.unwrap();
        let seen = tokio::spawn(commits_up_to(watch, kept.id));
        let first_of_eve = hold(&eve).await.unwrap();
        let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let start = |_| {
            let client = client(&folder, &url, "ada", "first");
            tokio::spawn(keep_booking(client, stop.clone(), calls.clone()))
        };
        let load: Vec<_> = (0..CLIENTS).map(start).collect();
        for round in 1..=ROUNDS {
            let authority = AUTHORITIES[round as usize % 2];
            // She has one reservation; in odd rounds she may have two.
            folder.write("north.toml", config(64, authority, 1 + round % 2));
            let before = calls.load(Ordering::Relaxed);
            site.signal("HUP");
            until_some("a new connection gets the new certificate", async || {
                client(&folder, &url, "eve", authority).health().await.ok()
            })
            .await;
            let other = AUTHORITIES[(round as usize + 1) % 2];
            assert!(client(&folder, &url, "eve", other).health().await.is_err(), "the old one is not used");
            match hold(&eve).await {
                Ok(second) => {
                    assert_eq!(round % 2, 1, "her limit was 1");
                    eve.cancel(second.id).await.unwrap();
                }
                Err(why) => {
                    assert_eq!(round % 2, 0, "her limit was 2: {why}");
                    assert_eq!(why.problem().unwrap().code, "limit", "{why}");
                }
            }
            until_some("others book meanwhile", async || {
                (calls.load(Ordering::Relaxed) > before).then_some(())
            })
            .await;
        }
        stop.store(true, Ordering::Relaxed);
        for one in load {
            one.await.unwrap();
        }
        let committed = ada.commit(kept.id, &api::Commit::default()).await.unwrap();
        assert_eq!(committed.state, api::State::Committed, "a hold from before is there");
        assert_eq!(eve.show(first_of_eve.id).await.unwrap().state, api::State::Held);
        let calls = calls.load(Ordering::Relaxed);
        // The stream that was opened before has every event, up to the last.
        assert_eq!(seen.await.unwrap(), calls / 3 + 1, "one for each commit");
        assert_eq!(metric(&ada, SUCCEEDED).await, 1.0);
        calls
    });
    site.signal("TERM");
    let (status, said) = site.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    assert_eq!(said.matches("event=\"config_reloaded\"").count(), ROUNDS as usize, "{said}");
    println!("{made} calls during {ROUNDS} reloads");
}

#[test]
fn a_configuration_that_cannot_be_used_changes_nothing_and_the_log_says_why() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let folder = prepared();
    let site = Service::start(&folder, "site --config north.toml");
    let url = site.url();
    runtime.block_on(async {
        let eve = client(&folder, &url, "eve", "first");
        hold(&eve).await.unwrap();
        let unfit = [
            "this is no TOML".to_owned(),
            config(64, "first", 9).replace("count", "counted"),
            config(64, "missing", 9),
            // The certificate and the key do not belong together.
            config(64, "first", 9).replace("first.key", "second.key"),
            // These need a restart.
            config(32, "first", 9),
            config(64, "first", 9).replace("north", "south"),
            config(64, "first", 9).split("\n[security]").next().unwrap().to_owned(),
        ];
        for text in unfit {
            folder.write("north.toml", &text);
            site.signal("HUP");
            until_some("it is refused", async || (metric(&eve, SUCCEEDED).await == 0.0).then_some(())).await;
            let why = hold(&eve).await.unwrap_err();
            assert_eq!(why.problem().unwrap().code, "limit", "the old limit is in force: {text}");
            assert!(client(&folder, &url, "eve", "first").health().await.is_ok(), "{text}");
            folder.write("north.toml", config(64, "first", 1));
            site.signal("HUP");
            until_some("it is well again", async || (metric(&eve, SUCCEEDED).await == 1.0).then_some(()))
                .await;
        }
    });
    site.signal("TERM");
    let said = site.ended().1;
    let refused: Vec<&str> =
        said.lines().filter(|line| line.contains("event=\"config_not_reloaded\"")).collect();
    assert_eq!(refused.len(), 7, "{said}");
    let reasons =
        ["line 1", "counted", "missing.pem", "first.pem", "resource", "name", "security.tls on or off"];
    for (line, reason) in refused.iter().zip(reasons) {
        assert!(line.contains(reason) && line.contains("nothing changed"), "{reason}: {line}");
    }
    assert!(refused[4].contains("restart"), "{}", refused[4]);
}

#[test]
fn a_broker_takes_over_new_rules_and_tokens_and_keeps_its_peers() {
    let folder = Folder::with("grid.toml", "name = \"grid\"\nlisten = \"127.0.0.1:0\"\n");
    let broker = Service::start(&folder, "broker --config grid.toml");
    let metric = |name: &str| {
        let body = broker.ask("GET", "/metrics", "", "").body;
        let line =
            body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::to_owned);
        line.unwrap_or_else(|| panic!("no {name} in\n{body}"))
    };
    let until = |value: &str| until_true("the reload has ended", || metric(SUCCEEDED) == value);
    folder.write("grid.toml", "name = \"grid\"\nlisten = \"127.0.0.1:0\"\nheartbeat = \"2s\"\n");
    broker.signal("HUP");
    until("0");
    folder.write(
        "grid.toml",
        "name = \"grid\"\nlisten = \"127.0.0.1:0\"\n\n[rules]\nattempts = 3\n[server]\nburst = 7\n",
    );
    broker.signal("HUP");
    until("1");
    broker.signal("TERM");
    let said = broker.ended().1;
    assert!(said.contains("while the service runs: heartbeat;"), "{said}");
    assert!(said.contains("changed=\"rules.attempts, server.burst\""), "{said}");
}
