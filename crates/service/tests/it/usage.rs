//! Usage over HTTP: who sees what, sums by user, resource and month, and a history that is behind its journal.

use crate::daemon::{GRID, book, broker, client, north, private, registered, signed, site, stop, with_token};
use bookahead_api as api;
use bookahead_client::{Client, ClientError, Options};
use bookahead_protocol::ReservationId;
use bookahead_service::daemon::{self, OnLostJournal, Running};
use bookahead_service::history::FILE;
use bookahead_service::security::{Keys, Role, new_secret};
use bookahead_tests::polling::until_some;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const FOLDER: &str = "bookahead-north";

async fn started(folder: &Path, more: &str) -> Running {
    daemon::site(&north(None, more), folder, OnLostJournal::Ask).await.unwrap()
}

/// From an hour ago to a day from now, which contains everything that is booked here.
fn around(by: &str) -> api::UsageQuery {
    let now = jiff::Timestamp::now().as_second();
    let at = |second| Some(api::Timestamp::nearest(bookahead_plan::Time(second)));
    let (from, until) = (at(now - 3_600), at(now + 86_400));
    api::UsageQuery { by: Some(by.to_owned()), from, until, ..api::UsageQuery::default() }
}

async fn by_user(client: &Client) -> api::Usage {
    client.usage(&around("user")).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_booked_and_kept_is_added_up() {
    let folder = TempDir::new().unwrap();
    let north = started(folder.path(), "").await;
    let ada = client(north.url());
    assert_eq!(by_user(&ada).await.rows, []);
    book(&ada).await;
    let cancelled = book(&ada).await;
    ada.cancel(cancelled).await.unwrap();
    // The answer contains everything that was answered before.
    let usage = by_user(&ada).await;
    let row = &usage.rows[0];
    assert_eq!((row.user.as_deref(), row.kind.as_str()), (Some("ada"), "processors"));
    assert_eq!((row.reservations, row.cancelled, row.jobs), (2, 1, 0));
    assert_eq!((row.booked_unit_hours, row.kept_unit_hours), (32.0, 16.0));
    assert_eq!(usage.totals, [api::UsageRow { user: None, ..row.clone() }]);
    assert_eq!(usage.complete_since, None, "the service is new");
    let usage = ada.usage(&around("resource,month,site")).await.unwrap();
    assert_eq!(usage.by, ["resource", "month", "site"]);
    let row = &usage.rows[0];
    assert_eq!((row.resource.as_deref(), row.site.as_deref()), (Some("cluster"), Some("north")));
    assert!(row.month.as_ref().is_some_and(|month| month.len() == 7), "{row:?}");
    stop(north).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_questions_are_refused() {
    let folder = TempDir::new().unwrap();
    let north = started(folder.path(), "").await;
    let ada = client(north.url());
    let usual = around("user");
    let zone = |zone: &str| api::UsageQuery { zone: Some(zone.to_owned()), ..around("user") };
    for (query, word) in [
        (around("user,shoe-size"), "shoe-size"),
        (around(""), "group by"),
        (zone("Mars/Olympus"), "Mars/Olympus"),
        (zone("../../etc/passwd"), "unknown time zone"),
        (api::UsageQuery { from: usual.until, until: usual.from, ..usual.clone() }, "until must be after"),
    ] {
        let Err(ClientError::Refused(problem)) = ada.usage(&query).await else { panic!("{query:?}") };
        assert!(problem.detail.contains(word), "{problem:?}");
    }
    stop(north).await;
    let none = TempDir::new().unwrap();
    let text = "name = \"north\"\nlisten = \"127.0.0.1:0\"\nhistory = \"off\"\n\
                [[resource]]\nname = \"cluster\"\nkind = \"processors\"\ncapacity = 64\n";
    let north = daemon::site(&site(text), none.path(), OnLostJournal::Ask).await.unwrap();
    let Err(ClientError::Refused(problem)) = client(north.url()).usage(&usual).await else { panic!() };
    assert!(problem.detail.contains("set history"), "{problem:?}");
    assert!(!none.path().join(FOLDER).join(FILE).exists());
    stop(north).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_see_their_own_usage_and_operators_that_of_all() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("secret"), new_secret().unwrap()).unwrap();
    private(&folder.path().join("secret"));
    let keys = Keys::read(&folder.path().join("secret")).unwrap();
    let north = started(folder.path(), "[security]\nkeys = \"secret\"\n").await;
    let as_user = |user: &str, role| with_token(north.url(), signed(&keys, user, role));
    let (ada, bob) = (as_user("ada", Role::User), as_user("bob", Role::User));
    book(&ada).await;
    book(&bob).await;
    let users =
        |usage: api::Usage| -> Vec<String> { usage.rows.into_iter().filter_map(|row| row.user).collect() };
    assert_eq!(users(by_user(&ada).await), ["ada"]);
    assert_eq!(users(by_user(&as_user("root", Role::Operator)).await), ["ada", "bob"]);
    let reader = as_user("eve", Role::Reader);
    assert_eq!(users(by_user(&reader).await), ["ada", "bob"]);
    let of_bob = api::UsageQuery { owner: Some("bob".into()), ..around("user") };
    assert_eq!(users(reader.usage(&of_bob).await.unwrap()), ["bob"]);
    assert!(matches!(ada.usage(&of_bob).await, Err(ClientError::Refused(_))));
    stop(north).await;
}

/// The files of the history in a state folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    ["", "-wal", "-shm"].map(|end| folder.join(FOLDER).join(format!("{FILE}{end}"))).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_is_behind_catches_up_from_the_journal() {
    let folder = TempDir::new().unwrap();
    let north = started(folder.path(), "").await;
    book(&client(north.url())).await;
    stop(north).await;
    let old = std::fs::read(&files(folder.path())[0]).unwrap();
    let north = started(folder.path(), "").await;
    let ada = client(north.url());
    let cancelled = book(&ada).await;
    ada.cancel(cancelled).await.unwrap();
    let all = by_user(&ada).await;
    assert_eq!((all.rows[0].reservations, all.rows[0].cancelled), (2, 1));
    stop(north).await;

    // As after a crash before the last rows were written.
    files(folder.path()).iter().for_each(|path| drop(std::fs::remove_file(path)));
    std::fs::write(&files(folder.path())[0], &old).unwrap();
    let north = started(folder.path(), "").await;
    // The window of the question may be a second later.
    let caught_up = by_user(&client(north.url())).await;
    assert_eq!(caught_up.rows, all.rows);
    assert!(caught_up.complete_since.is_none());
    stop(north).await;

    // The file is lost: what the site remembers is found again, and the answer tells since when all is known.
    files(folder.path()).iter().for_each(|path| drop(std::fs::remove_file(path)));
    let north = started(folder.path(), "").await;
    let found = by_user(&client(north.url())).await;
    assert_eq!(found.rows, all.rows);
    assert!(found.complete_since.is_some());
    stop(north).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_counts_what_was_booked_through_it_at_each_site() {
    let folder = TempDir::new().unwrap();
    let grid = daemon::broker(&broker(GRID), folder.path()).await.unwrap();
    let north = daemon::site(&north(Some(grid.url()), ""), folder.path(), OnLostJournal::Ask).await.unwrap();
    let ada = client(grid.url());
    registered(&ada, "north").await;
    book(&ada).await;
    let cancelled = book(&ada).await;
    ada.cancel(cancelled).await.unwrap();
    let usage = ada.usage(&around("site,resource")).await.unwrap();
    let row = &usage.rows[0];
    assert_eq!((row.site.as_deref(), row.resource.as_deref()), (Some("north"), Some("north/cluster")));
    assert_eq!((row.reservations, row.cancelled, row.kind.as_str()), (2, 1, "processors"));
    assert_eq!((row.booked_unit_hours, row.kept_unit_hours), (32.0, 16.0));
    let below = client(north.url());
    until_some("the site counts the same", || async {
        let row = by_user(&below).await.rows.into_iter().next()?;
        ((row.reservations, row.cancelled, row.kept_unit_hours) == (2, 1, 16.0)).then_some(())
    })
    .await;
    stop(grid).await;
    stop(north).await;
}

/// What happened to a reservation, and whether that is all.
async fn happened(client: &Client, id: ReservationId) -> (Vec<String>, bool) {
    let history = client.history(id).await.unwrap();
    (history.events.into_iter().map(|event| event.kind).collect(), history.complete)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happened_to_a_reservation_is_known_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let north = started(folder.path(), "").await;
    let ada = client(north.url());
    let id = book(&ada).await;
    let mut watch = ada.watch(Some(id), None).await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().kind, "state");
    let (first, complete) = happened(&ada, id).await;
    assert_eq!(
        (first.first().map(String::as_str), first.last().map(String::as_str), complete),
        (Some("held"), Some("committed"), true)
    );
    stop(north).await;
    let old = std::fs::read(&files(folder.path())[0]).unwrap();

    let north = started(folder.path(), "").await;
    let ada = client(north.url());
    ada.cancel(id).await.unwrap();
    let (all, complete) = happened(&ada, id).await;
    assert!(complete && all.starts_with(&first) && all.last().unwrap() == "cancelled", "{all:?}");
    // A client that has seen nothing gets all events, even those before the restart.
    let mut watch = ada.watch(Some(id), Some(0)).await.unwrap();
    for kind in &all {
        assert_eq!(watch.next().await.unwrap().unwrap().kind, *kind);
    }
    let bob = Client::new(
        north.url(),
        Options { user: Some("bob".into()), roles: vec!["user".into()], ..Options::default() },
    )
    .unwrap();
    let refused = bob.history(id).await.unwrap_err();
    assert_eq!(refused.problem().unwrap().status, 403, "it is not his");
    stop(north).await;

    // As after a crash before the last events were written: they are in the journal.
    files(folder.path()).iter().for_each(|path| drop(std::fs::remove_file(path)));
    std::fs::write(&files(folder.path())[0], &old).unwrap();
    let north = started(folder.path(), "").await;
    assert_eq!(happened(&client(north.url()), id).await, (all, true));
    stop(north).await;
}
