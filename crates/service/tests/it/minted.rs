//! Tokens that a broker shows to its peers: each is for one peer, and useless elsewhere.

use crate::daemon::{GRID, book, broker, north, private, registered, signed, site, stop, wanted, with_token};
use crate::fake_peer::FakePeer;
use bookahead_api as api;
use bookahead_client::{Client, ClientError, Options};
use bookahead_protocol::Name;
use bookahead_service::config::{BrokerConfig, SiteConfig};
use bookahead_service::daemon::{self, OnLostJournal};
use bookahead_service::security::{Keys, Role, new_secret, own_account};
use bookahead_tests::polling::until_some;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use tempfile::TempDir;

/// A folder with the secret of a broker's users.
struct Realm {
    folder: TempDir,
    keys: Keys,
}

impl Realm {
    fn new() -> Realm {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("secret.key");
        write(&path, &new_secret().unwrap());
        let keys = Keys::read(&path).unwrap();
        Realm { folder, keys }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn token(&self, user: &str, role: Role) -> String {
        signed(&self.keys, user, role)
    }
}

/// A broker that accepts registrations with any valid token, and its configured peers.
fn open_broker(peers: &[(&str, &str, &str)]) -> BrokerConfig {
    let peers =
        peers.iter().map(|(name, url, more)| format!("[[peer]]\nname = \"{name}\"\nurl = \"{url}\"\n{more}"));
    broker(&format!("{GRID}open = true\n[security]\nkeys = \"secret.key\"\n{}", peers.collect::<String>()))
}

/// The claims of a token, without verification.
fn claims(token: &str) -> Value {
    use base64::Engine as _;
    let payload = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload).unwrap())
        .unwrap()
}

fn audiences(peer: &FakePeer) -> BTreeSet<String> {
    peer.tokens().iter().map(|token| claims(token)["aud"].as_str().unwrap().to_owned()).collect()
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    private(path);
}

/// A site at this address registers with a broker.
async fn register(broker: &Client, name: &str, url: &str) {
    try_to_register(broker, name, url).await.unwrap();
}

async fn try_to_register(broker: &Client, name: &str, url: &str) -> Result<(), ClientError> {
    let heartbeat = api::Heartbeat {
        name: name.into(),
        url: url.to_owned(),
        role: api::Role::Site,
        resources: Vec::new(),
        attributes: Default::default(),
        loads: Vec::new(),
        hold_takes_seconds: None,
        batch: None,
        changes: None,
        version: None,
    };
    broker.heartbeat(&heartbeat).await
}

/// Waits for a call on behalf of a user, not just a heartbeat.
async fn asked_for(asked: &Client, peer: &FakePeer, user: &str) {
    until_some("a call on behalf of a user", || async {
        let probe = api::Probe { request: wanted(), most: None, starts: Vec::new() };
        let _ = asked.probe(&probe).await;
        peer.received().iter().any(|one| one.user.as_deref() == Some(user)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_party_that_registers_itself_cannot_make_a_broker_call_internal_services() {
    let realm = Realm::new();
    let (named, internal) = (FakePeer::site("north").await, FakePeer::site("internal").await);
    let by_name = internal.url.replace("127.0.0.1", "localhost");
    for may in [false, true] {
        let text = format!(
            "{GRID}open = true\nopen_to_private_addresses = {may}\n[security]\nkeys = \"secret.key\"\n\
             [[peer]]\nname = \"north\"\nurl = \"{}\"\n",
            named.url
        );
        let grid = daemon::broker(&broker(&text), realm.path()).await.unwrap();
        let asked = with_token(grid.url(), realm.token("ada", Role::User));
        let registering = with_token(grid.url(), realm.token("internal", Role::Broker));
        registered(&asked, "north").await;
        if may {
            try_to_register(&registering, "internal", &internal.url).await.unwrap();
            until_some("it is called", || async { internal.received().first().cloned() }).await;
        } else {
            let why = try_to_register(&registering, "internal", &internal.url).await.unwrap_err();
            let detail = &why.problem().unwrap().detail;
            assert!(detail.contains("127.0.0.1") && detail.contains("open_to_private_addresses"), "{detail}");
            // The name is resolved for each connection, and may have had another address before.
            register(&registering, "internal", &by_name).await;
            until_some("its heartbeats were missed", || async {
                let sites = asked.sites().await.unwrap().sites;
                let silent = |site: &api::Site| site.state == api::Reachability::Silent;
                sites.into_iter().find(|site| site.name == Name::from("internal") && silent(site))
            })
            .await;
            assert!(internal.received().is_empty(), "{:?}", internal.received());
        }
        stop(grid).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_of_a_broker_does_not_go_to_peers_that_register_themselves() {
    let realm = Realm::new();
    let own = realm.token("grid", Role::Broker);
    write(&realm.path().join("own.token"), &own);
    let named = FakePeer::site("north").await;
    let text = format!(
        "{GRID}open = true\n[security]\nkeys = \"secret.key\"\n[calls]\ntoken_file = \"own.token\"\n\
         [[peer]]\nname = \"north\"\nurl = \"{}\"\n",
        named.url
    );
    let grid = daemon::broker(&broker(&text), realm.path()).await.unwrap();
    let (mallory, trudy) = (FakePeer::site("mallory").await, FakePeer::site("trudy").await);
    for (name, peer) in [("mallory", &mallory), ("trudy", &trudy)] {
        register(&with_token(grid.url(), realm.token(name, Role::Broker)), name, &peer.url).await;
    }
    let asked = with_token(grid.url(), realm.token("ada", Role::User));
    for (name, peer) in [("north", &named), ("mallory", &mallory), ("trudy", &trudy)] {
        registered(&asked, name).await;
        asked_for(&asked, peer, "ada").await;
    }
    assert!(named.tokens().iter().all(|token| *token == own), "as configured");
    let (seen, elsewhere) = (mallory.tokens(), trudy.tokens());
    assert!(!seen.contains(&own) && !elsewhere.contains(&own), "the broker's own token");
    assert!(seen.iter().all(|token| !elsewhere.contains(token)), "one token for two peers");
    stop(grid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_one_peer_sees_is_of_no_use_at_another() {
    let realm = Realm::new();
    let mallory = FakePeer::site("mallory").await;
    let named = FakePeer::site("east").await;
    let config = open_broker(&[("east", &named.url, "audience = \"east.example.org\"\n")]);
    let grid = daemon::broker(&config, realm.path()).await.unwrap();
    write(&realm.path().join("north.token"), &realm.token("north", Role::Broker));
    let trusting = "[calls]\ntoken_file = \"north.token\"\n[[security.broker]]\nname = \"grid\"\n\
                    key = \"bookahead-grid/calls-key.pub\"\n";
    let below = north(Some(grid.url()), trusting);
    let below = daemon::site(&below, realm.path(), OnLostJournal::Ask).await.unwrap();
    // Under any name, its tokens are for the subject of its own token.
    let its_own = with_token(grid.url(), realm.token("mallory", Role::Broker));
    register(&its_own, "north-2", &mallory.url).await;
    let asked = with_token(grid.url(), realm.token("ada", Role::User));
    for name in ["north", "north-2", "east"] {
        registered(&asked, name).await;
    }
    asked_for(&asked, &mallory, "ada").await;
    asked_for(&asked, &named, "ada").await;
    assert_eq!(audiences(&mallory), ["mallory".to_owned()].into());
    assert_eq!(audiences(&named), ["east.example.org".to_owned()].into());
    for token in mallory.tokens().into_iter().chain(named.tokens()) {
        let replayed = with_token(below.url(), token).list(&api::ListQuery::default()).await.unwrap_err();
        assert_eq!(replayed.problem().map(|problem| problem.status), Some(401), "{replayed}");
    }
    book(&asked).await;
    stop(grid).await;
    stop(below).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_a_token_for_another_by_registering() {
    let realm = Realm::new();
    let (named, mallory) = (FakePeer::site("north").await, FakePeer::site("mallory").await);
    let grid = daemon::broker(&open_broker(&[("north", &named.url, "")]), realm.path()).await.unwrap();
    // A broker may name users, and is still identified by the subject of its token.
    let token = Some(realm.token("mallory", Role::Broker));
    let (user, roles) = (Some("south".into()), vec!["operator".into()]);
    let options = Options { token, user, roles, ..Options::default() };
    register(&Client::new(grid.url(), options).unwrap(), "south", &mallory.url).await;
    let namesake = FakePeer::site("other").await;
    register(&with_token(grid.url(), realm.token("north", Role::Broker)), "other", &namesake.url).await;
    let asked = with_token(grid.url(), realm.token("ada", Role::User));
    for (name, peer) in [("north", &named), ("south", &mallory), ("other", &namesake)] {
        registered(&asked, name).await;
        asked_for(&asked, peer, "ada").await;
    }
    assert_eq!(audiences(&mallory), ["mallory".to_owned()].into());
    assert_eq!(namesake.tokens(), Vec::<String>::new(), "that audience is a configured peer's");
    assert!(claims(&named.tokens()[0])["act"].is_null(), "whether it is there the broker asks for itself");
    stop(grid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_registers_through_a_socket_gets_tokens_for_its_account() {
    let folder = TempDir::new().unwrap();
    let text = "name = \"grid\"\nheartbeat = \"100ms\"\nopen = true\n";
    let grid = daemon::broker(&broker(text), folder.path()).await.unwrap();
    let peer = FakePeer::site("south").await;
    let asked = Client::new(grid.url(), Options::default()).unwrap();
    register(&asked, "south", &peer.url).await;
    until_some("it sees a token", || async { (!peer.tokens().is_empty()).then_some(()) }).await;
    let account = own_account().unwrap().to_string();
    assert_eq!(audiences(&peer), [account].into(), "and not for the name that it gives");
    stop(grid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_peer_sees_the_token_of_its_file_and_each_new_one() {
    let realm = Realm::new();
    let (north, south) = (FakePeer::site("north").await, FakePeer::site("south").await);
    let file = realm.path().join("north.token");
    write(&file, "first.of.north");
    let peers =
        [("north", north.url.as_str(), "token_file = \"north.token\"\n"), ("south", south.url.as_str(), "")];
    let grid = daemon::broker(&open_broker(&peers), realm.path()).await.unwrap();
    for token in ["first.of.north", "second.of.north"] {
        write(&file, token);
        until_some(token, || async { (north.tokens().last()? == token).then_some(()) }).await;
    }
    until_some("the other has one of its own", || async { (!south.tokens().is_empty()).then_some(()) }).await;
    assert_eq!(audiences(&south), ["south".to_owned()].into());
    stop(grid).await;
}

#[test]
fn no_token_file_goes_over_plain_http_to_another_machine() {
    let folder = TempDir::new().unwrap();
    write(&folder.path().join("own.token"), "a.b.c");
    let calls = "[calls]\ntoken_file = \"own.token\"\n";
    let for_peer = |url: &str| {
        let text = format!("name = \"grid\"\n[[peer]]\nname = \"north\"\nurl = \"{url}\"\n{calls}");
        daemon::check_broker(&broker(&text), folder.path()).map_err(|why| why.to_string())
    };
    let for_broker = |url: &str| {
        let text = format!(
            "name = \"north\"\n[[resource]]\nname = \"c\"\nkind = \"processors\"\ncapacity = 1\n\
             [[broker]]\nurl = \"{url}\"\n{calls}"
        );
        daemon::check_site(&site(&text), folder.path()).map_err(|why| why.to_string())
    };
    for refused in [for_peer("http://192.0.2.1:7420"), for_broker("http://grid.example.org")] {
        let why = refused.unwrap_err();
        assert!(why.contains("would be sent unencrypted") && why.contains("use https://"), "{why}");
    }
    for url in ["http://127.0.0.1:7420", "http://localhost:7420"] {
        assert_eq!((for_peer(url), for_broker(url)), (Ok(()), Ok(())));
    }
}

#[test]
fn a_token_for_several_peers_is_warned_of_and_settings_without_effect_are_refused() {
    let text = |more: &str| {
        format!(
            "name = \"grid\"\n[[peer]]\nname = \"north\"\nurl = \"http://127.0.0.1:1\"\n\
             [[peer]]\nname = \"south\"\nurl = \"http://127.0.0.1:2\"\n{more}"
        )
    };
    assert_eq!(daemon::shared_tokens(&broker(&text(""))), None);
    let why = daemon::shared_tokens(&broker(&text("[calls]\ntoken_file = \"own.token\"\n"))).unwrap();
    assert!(why.contains("own.token") && why.contains("[[security.broker]]"), "{why}");
    for (more, what) in [
        ("[calls]\nmint = true\n", "calls.mint"),
        ("[[broker]]\nurl = \"http://a\"\naudience = \"a\"\n", "audience"),
    ] {
        let why = SiteConfig::parse(Path::new("site.toml"), &format!("name = \"n\"\n{more}")).unwrap_err();
        assert!(why.to_string().contains(what), "{why}");
    }
}
