//! Configured sites and brokers, started and stopped in this process on sockets: reservations survive a restart,
//! services find each other, and mistakes are refused.

use crate::http::Wire;
use bookahead_api as api;
use bookahead_client::{Client, Options, make};
use bookahead_protocol::{Name, ReservationId};
use bookahead_service::config::{BrokerConfig, SiteConfig};
use bookahead_service::daemon::{self, OnLostJournal, Running};
use bookahead_service::journal;
use bookahead_service::security::{Claims, Keys, Role, mint, new_secret};
use bookahead_tests::polling::{PATIENCE, until_some};
use bookahead_tests::postgres::Server;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) fn site(text: &str) -> SiteConfig {
    SiteConfig::parse(Path::new("site.toml"), text).unwrap()
}

pub(crate) fn broker(text: &str) -> BrokerConfig {
    BrokerConfig::parse(Path::new("broker.toml"), text).unwrap()
}

/// A site with 64 processors that registers with a broker, if given.
pub(crate) fn north(broker: Option<&str>, more: &str) -> SiteConfig {
    let register = broker.map_or_else(String::new, |url| format!("[[broker]]\nurl = \"{url}\"\n"));
    site(&format!(
        "name = \"north\"\nlisten = \"127.0.0.1:0\"\nheartbeat = \"100ms\"\n\
         [[resource]]\nname = \"cluster\"\nkind = \"processors\"\ncapacity = 64\n{register}{more}"
    ))
}

pub(crate) const GRID: &str = "name = \"grid\"\nlisten = \"127.0.0.1:0\"\nheartbeat = \"100ms\"\n";

pub(crate) fn client(url: &str) -> Client {
    let user = Some(Name::from("ada"));
    Client::new(url, Options { user, ..Options::default() }).unwrap()
}

pub(crate) fn with_token(url: &str, token: String) -> Client {
    Client::new(url, Options { token: Some(token), patience: Duration::ZERO, ..Options::default() }).unwrap()
}

/// 16 processors for an hour, between one and ten hours from now.
pub(crate) fn wanted() -> api::Request {
    let in_hours = |hours: i64| {
        let now = jiff::Timestamp::now().as_second();
        api::Timestamp::nearest(bookahead_plan::Time(now + hours * 3_600))
    };
    let part = api::Part {
        kind: "processors".into(),
        capacity: 16,
        duration_seconds: 3_600,
        earliest_start: in_hours(1),
        latest_end: in_hours(10),
        requirements: Vec::new(),
        resource: None,
        replaces: None,
        changes: None,
        up_to: None,
        measured_on: None,
        tres: Default::default(),
    };
    api::Request::new(vec![part], Vec::new())
}

pub(crate) async fn book(client: &Client) -> ReservationId {
    let id = make::reservation_id().unwrap();
    let reserve = api::Reserve {
        id: Some(id),
        request: wanted(),
        hold_for_seconds: api::FineSeconds(60_000),
        book: true,
    };
    let made = client.reserve(&reserve, &make::key().unwrap().to_string()).await.unwrap();
    assert_eq!(made.state, api::State::Committed);
    id
}

/// Waits until a broker offers resources of peers.
pub(crate) async fn registered(broker: &Client, name: &str) {
    let name = Name::from(name);
    until_some("a peer is up", || async {
        let sites = broker.sites().await.unwrap().sites;
        sites.into_iter().find(|site| site.name == name && site.state == api::Reachability::Up)
    })
    .await;
}

pub(crate) async fn stop(running: Running) {
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_booked_through_a_broker_is_there_after_both_were_stopped_and_started() {
    let folder = TempDir::new().unwrap();
    let grid = daemon::broker(&broker(GRID), folder.path()).await.unwrap();
    let site = daemon::site(&north(Some(grid.url()), ""), folder.path(), OnLostJournal::Ask).await.unwrap();
    let (asked, below) = (client(grid.url()), client(site.url()));
    registered(&asked, "north").await;
    let offers =
        asked.probe(&api::Probe { request: wanted(), most: None, starts: Vec::new() }).await.unwrap();
    assert!(offers.offers[0].slots[0].site == Name::from("north"), "{offers:?}");
    let id = book(&asked).await;
    assert_eq!(below.list(&api::ListQuery::default()).await.unwrap().reservations.len(), 1);
    stop(site).await;
    stop(grid).await;

    let grid = daemon::broker(&broker(GRID), folder.path()).await.unwrap();
    let site = daemon::site(&north(Some(grid.url()), ""), folder.path(), OnLostJournal::Ask).await.unwrap();
    let (asked, below) = (client(grid.url()), client(site.url()));
    assert_eq!(asked.show(id).await.unwrap().state, api::State::Committed);
    let there = below.list(&api::ListQuery::default()).await.unwrap().reservations;
    assert_eq!(there.len(), 1);
    assert_eq!(there[0].state, api::State::Committed);
    registered(&asked, "north").await;
    asked.cancel(id).await.unwrap();
    until_some("the part is given back", || async {
        let there = below.list(&api::ListQuery::default()).await.unwrap().reservations;
        (there[0].state == api::State::Cancelled).then_some(())
    })
    .await;
    stop(grid).await;
    stop(site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_of_brokers_books_at_the_sites_below() {
    let folder = TempDir::new().unwrap();
    let top = daemon::broker(&broker(&GRID.replace("grid", "top")), folder.path()).await.unwrap();
    let under = format!("{GRID}[[broker]]\nurl = \"{}\"\n", top.url());
    let grid = daemon::broker(&broker(&under), folder.path()).await.unwrap();
    let site = daemon::site(&north(Some(grid.url()), ""), folder.path(), OnLostJournal::Ask).await.unwrap();
    let asked = client(top.url());
    registered(&asked, "grid").await;
    until_some("the resources of the site are known at the top", || async {
        let resources = asked.resources().await.unwrap().resources;
        resources.into_iter().find(|resource| resource.name == Name::from("grid/north/cluster"))
    })
    .await;
    book(&asked).await;
    assert_eq!(client(site.url()).list(&api::ListQuery::default()).await.unwrap().reservations.len(), 1);
    for running in [top, grid, site] {
        stop(running).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_listens_beyond_this_machine_without_asking_who_calls() {
    let folder = TempDir::new().unwrap();
    let public = |more: &str| {
        let everywhere = Some(SocketAddr::from(([0, 0, 0, 0], 0)).into());
        let open = SiteConfig { listen: everywhere, ..north(None, more) };
        let base = folder.path().to_owned();
        async move { daemon::site(&open, &base, OnLostJournal::Ask).await }
    };
    let refused = |result: Result<Running, daemon::DaemonError>| match result {
        Ok(_) => panic!("it listens"),
        Err(why) => why.to_string(),
    };
    assert!(refused(public("").await).contains("security.keys"));
    std::fs::write(folder.path().join("secret.key"), new_secret().unwrap()).unwrap();
    private(&folder.path().join("secret.key"));
    assert!(refused(public("[security]\nkeys = \"secret.key\"\n").await).contains("security.tls"));
    assert!(!folder.path().join("bookahead-north").exists(), "nothing is made where it does not start");
    let behind_a_proxy = "[security]\nkeys = \"secret.key\"\ninsecure_plain_http = true\n";
    let running = public(behind_a_proxy).await.unwrap();
    let anybody = client(&format!("http://127.0.0.1:{}", running.addresses()[0].tcp().unwrap().port()));
    let problem = anybody.resources().await.unwrap_err();
    assert_eq!(problem.problem().map(|problem| problem.status), Some(401), "{problem}");
    stop(running).await;
}

/// A token for an hour, signed with the secret among these keys.
pub(crate) fn signed(keys: &Keys, user: &str, role: Role) -> String {
    signed_as(keys, user, role, None)
}

fn signed_as(keys: &Keys, user: &str, role: Role, id: Option<&str>) -> String {
    let claims = Claims {
        user: user.into(),
        roles: [role].into(),
        expires: jiff::Timestamp::now().as_second() + 3_600,
        not_before: None,
        issued: None,
        audience: None,
        issuer: None,
        id: id.map(Into::into),
    };
    mint(keys.secret().unwrap(), &claims)
}

pub(crate) fn private(path: &Path) {
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_cannot_have_one_journal() {
    let folder = TempDir::new().unwrap();
    let first = daemon::site(&north(None, ""), folder.path(), OnLostJournal::Ask).await.unwrap();
    let Err(why) = daemon::site(&north(None, ""), folder.path(), OnLostJournal::Ask).await else {
        panic!("both run")
    };
    assert!(why.to_string().contains("in use by process"), "{why}");
    let Err(why) = daemon::compact_site(&north(None, ""), folder.path()) else { panic!("it is compacted") };
    assert!(why.to_string().contains("in use by process"), "{why}");
    stop(first).await;
    stop(daemon::site(&north(None, ""), folder.path(), OnLostJournal::Ask).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_ends_by_itself_is_noticed() {
    let folder = TempDir::new().unwrap();
    let mut running = daemon::site(&north(None, ""), folder.path(), OnLostJournal::Ask).await.unwrap();
    client(running.url()).health().await.unwrap();
    assert!(tokio::time::timeout(Duration::ZERO, running.failed()).await.is_err());
    running.handle().close();
    tokio::time::timeout(PATIENCE, running.failed()).await.unwrap();
    stop(running).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compacted_journal_is_one_snapshot_and_means_the_same() {
    let folder = TempDir::new().unwrap();
    let grid = daemon::broker(&broker(GRID), folder.path()).await.unwrap();
    let site = daemon::site(&north(Some(grid.url()), ""), folder.path(), OnLostJournal::Ask).await.unwrap();
    let asked = client(grid.url());
    registered(&asked, "north").await;
    let ids = [book(&asked).await, book(&asked).await];
    stop(grid).await;
    stop(site).await;

    let (grid, base) = (broker(GRID), folder.path().to_owned());
    let compacted = tokio::task::spawn_blocking(move || {
        let site = daemon::compact_site(&north(None, ""), &base).unwrap();
        (site, daemon::compact_broker(&grid, &base).unwrap())
    });
    let (of_site, of_broker) = compacted.await.unwrap();
    for compacted in [of_site, of_broker] {
        assert!(compacted.dropped > 0 && compacted.dropped == compacted.up_to, "{compacted:?}");
        let report = journal::check(&compacted.journal).unwrap();
        assert!(report.is_sound() && report.records == 0 && report.snapshots == 1, "{report}");
    }

    let grid = daemon::broker(&broker(GRID), folder.path()).await.unwrap();
    let site = daemon::site(&north(Some(grid.url()), ""), folder.path(), OnLostJournal::Ask).await.unwrap();
    for id in ids {
        assert_eq!(client(grid.url()).show(id).await.unwrap().state, api::State::Committed);
    }
    assert_eq!(client(site.url()).list(&api::ListQuery::default()).await.unwrap().reservations.len(), 2);
    stop(grid).await;
    stop(site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parties_that_ask_who_calls_know_each_other_by_their_tokens_also_by_new_ones() {
    let folder = TempDir::new().unwrap();
    let in_folder = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        private(&path);
        path
    };
    let keys = Keys::read(&in_folder("secret.key", &new_secret().unwrap())).unwrap();
    let token = |user: &str, role: Role| signed(&keys, user, role);
    let security = "[security]\nkeys = \"secret.key\"\n";
    in_folder("own.token", "not-a-token");
    let calls = format!(
        "[calls]\ntoken_file = \"own.token\"\n{security}\
         [[security.broker]]\nname = \"grid\"\nkey = \"bookahead-grid/calls-key.pub\"\n"
    );
    let open = format!("{GRID}open = true\n{security}");
    let grid = daemon::broker(&broker(&open), folder.path()).await.unwrap();
    let site =
        daemon::site(&north(Some(grid.url()), &calls), folder.path(), OnLostJournal::Ask).await.unwrap();
    let asked = with_token(grid.url(), token("ada", Role::User));
    until_some("the site was turned away", || async {
        let metrics = asked.metrics().await.unwrap();
        let refused = |line: &str| line.contains("\"/v1/sites\"") && line.contains("\"401\"");
        metrics.lines().any(refused).then_some(())
    })
    .await;
    assert_eq!(
        asked.sites().await.unwrap().sites.len(),
        1,
        "a registration without a valid token is refused"
    );

    in_folder("own.token", &token("north", Role::Broker));
    registered(&asked, "north").await;
    until_some("the broker shows a token that the site accepts", || async {
        let probe = api::Probe { request: wanted(), most: None, starts: Vec::new() };
        asked.probe(&probe).await.ok().filter(|offers| !offers.offers.is_empty())
    })
    .await;
    let id = book(&asked).await;
    let owner =
        with_token(site.url(), token("ada", Role::User)).list(&api::ListQuery::default()).await.unwrap();
    assert_eq!(owner.reservations.len(), 1, "at the site it belongs to the user, not to the broker");
    assert_eq!(asked.show(id).await.unwrap().owner, Name::from("ada"));
    stop(grid).await;
    stop(site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_names_the_files_with_a_new_content() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        private(&path);
        Keys::read(&path).unwrap()
    };
    write("secret.key", &new_secret().unwrap());
    let config = north(None, "[limits]\ncount = 1\n[security]\nkeys = \"secret.key\"\n");
    let more = north(None, "[limits]\ncount = 2\n[security]\nkeys = \"secret.key\"\n");
    let mut site = daemon::site(&config, folder.path(), OnLostJournal::Ask).await.unwrap();
    assert_eq!(site.reload_site(&config).unwrap(), Vec::<String>::new());
    let keys = write("secret.key", &new_secret().unwrap());
    assert_eq!(site.reload_site(&more).unwrap(), ["limits.count", "content of security.keys"]);
    let ada = with_token(site.url(), signed(&keys, "ada", Role::User));
    ada.list(&api::ListQuery::default()).await.unwrap();
    assert_eq!(site.reload_site(&more).unwrap(), Vec::<String>::new());
    stop(site).await;
}

/// Signs ada out and gives eve an address for her calendar, at a site that is reloaded, stopped, and started in another
/// folder.
async fn end_and_start_again(state: Option<&str>, folders: [&Path; 2]) {
    let secret = new_secret().unwrap();
    for folder in folders {
        let path = folder.join("secret.key");
        std::fs::write(&path, &secret).unwrap();
        private(&path);
    }
    let keys = Keys::read(&folders[0].join("secret.key")).unwrap();
    let config = |more: &str| SiteConfig {
        state: state.map(Into::into),
        ..north(None, &format!("[security]\nkeys = \"secret.key\"\n{more}"))
    };
    let caller = |site: &Running, user: &str| with_token(site.url(), signed(&keys, user, Role::User));
    let status = async |site: &Running, user: &str| {
        let answer = caller(site, user).list(&api::ListQuery::default()).await;
        answer.map_or_else(|why| why.problem().unwrap().status, |_| 200)
    };
    let mut site = daemon::site(&config(""), folders[0], OnLostJournal::Ask).await.unwrap();
    let address = caller(&site, "eve").make_calendar_address().await.unwrap();
    caller(&site, "ada").sign_out_everywhere(&api::OfUser::default()).await.unwrap();
    assert_eq!((status(&site, "ada").await, status(&site, "eve").await), (401, 200));
    let changed = site.reload_site(&config("revoked_tokens = [\"t-1\"]\n")).unwrap();
    assert_eq!(changed, ["security.revoked_tokens"]);
    assert_eq!((status(&site, "ada").await, status(&site, "eve").await), (401, 200));
    let revoked = with_token(site.url(), signed_as(&keys, "eve", Role::User, Some("t-1")));
    let why = revoked.list(&api::ListQuery::default()).await.unwrap_err();
    assert!(why.to_string().contains("revoked"), "{why}");
    stop(site).await;

    let site = daemon::site(&config(""), folders[1], OnLostJournal::Ask).await.unwrap();
    assert_eq!((status(&site, "ada").await, status(&site, "eve").await), (401, 200));
    let anyone = Wire::new(site.addresses()[0].tcp().unwrap(), None);
    assert_eq!(anyone.get(&address.path).await.status, 200);
    caller(&site, "eve").withdraw_calendar_address(&api::OfUser::default()).await.unwrap();
    assert_eq!(anyone.get(&address.path).await.status, 404);
    stop(site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_tokens_and_addresses_of_calendars_outlive_a_reload_and_a_restart() {
    let folder = TempDir::new().unwrap();
    end_and_start_again(None, [folder.path(); 2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_tokens_and_addresses_of_calendars_are_known_to_the_next_active_process() {
    let server = tokio::task::block_in_place(|| Server::start(&[]));
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let url = tokio::task::block_in_place(|| server.database("site"));
    end_and_start_again(Some(&url), [folders[0].path(), folders[1].path()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_living_workload_in_faster_time_is_there_from_the_beginning() {
    let folder = TempDir::new().unwrap();
    let origin = api::Timestamp::nearest(bookahead_plan::Time(jiff::Timestamp::now().as_second()));
    let busy = site(&format!(
        "name = \"busy\"\nlisten = \"127.0.0.1:0\"\nclock = {{ speed = 60, origin = \"{origin}\" }}\n\
         [[resource]]\nname = \"cluster\"\nkind = \"processors\"\ncapacity = 64\n\
         jobs = {{ load = 0.9, seed = 1, warm_up = \"1d\" }}\n"
    ));
    let running = daemon::site(&busy, folder.path(), OnLostJournal::Ask).await.unwrap();
    let asked = client(running.url());
    let health = asked.health().await.unwrap();
    assert_eq!(health.clock_speed, 60);
    assert_eq!(asked.server_clock().unwrap().speed, 60, "every answer tells it");
    let error = asked.with_clock_speed(1).sites().await.unwrap_err();
    assert_eq!(error.problem().unwrap().code, "other-clock");
    asked.with_clock_speed(60).sites().await.unwrap();
    until_some("jobs run", || async {
        let sites = asked.sites().await.unwrap().sites;
        (sites[0].loads[0].running_jobs > 0).then_some(())
    })
    .await;
    stop(running).await;
}
