//! Event streams: each client gets the events that it may see, in order and once, and resumes after a lost
//! connection.

use super::{LONG, North, reserve};
use bookahead_api as api;
use bookahead_client::Watch;
use bookahead_protocol::ReservationId;
use bookahead_service::http::Limits;
use bookahead_service::security::Role;
use serde_json::json;
use tokio::time::timeout;

async fn next(watch: &mut Watch) -> api::Event {
    timeout(LONG, watch.next()).await.unwrap().unwrap().unwrap()
}

/// Holds a reservation for a user and returns its id.
async fn hold(north: &North, user: &str, key: &str) -> ReservationId {
    let new = north.wire(user, Role::User).post_once("/v1/reservations", key, &reserve(1)).await;
    new.document(201)["id"].as_str().unwrap().parse().unwrap()
}

async fn cancel(north: &North, user: &str, id: ReservationId) {
    let place = format!("/v1/reservations/{id}");
    north.wire(user, Role::User).send("DELETE", &place, &[], "").await.document(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_is_told_what_happens_to_what_he_may_see() {
    let north = North::start().await;
    let mut own = north.client("ada", Role::User).watch(None, None).await.unwrap();
    let mut all = north.client("rita", Role::Reader).watch(None, None).await.unwrap();
    let (hers, his) = (hold(&north, "ada", "k").await, hold(&north, "charles", "k").await);
    cancel(&north, "charles", his).await;
    cancel(&north, "ada", hers).await;
    let (first, second) = (next(&mut own).await, next(&mut own).await);
    assert_eq!(
        (first.kind.as_str(), first.reservation, first.state),
        ("held", Some(hers), Some(api::State::Held))
    );
    assert_eq!((second.kind.as_str(), second.reservation), ("cancelled", Some(hers)));
    let mut told = Vec::new();
    for _ in 0..4 {
        told.push(next(&mut all).await);
    }
    let owners: Vec<_> = told.iter().map(|event| event.owner.as_ref().unwrap().as_str()).collect();
    assert_eq!(owners, ["ada", "charles", "charles", "ada"]);
    assert!(told.is_sorted_by_key(|event| event.sequence));
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_an_invitation_are_marked_for_the_guest_until_it_is_accepted() {
    let north = North::start().await;
    let guest = north.client("bob", Role::User);
    let mut own = north.client("ada", Role::User).watch(None, None).await.unwrap();
    let mut invited = guest.watch(None, None).await.unwrap();
    let mut reserve = reserve(1);
    reserve["request"]["shared_with"] = json!(["ada", "bob"]);
    reserve["book"] = json!(true);
    let made = north.ada().post_once("/v1/reservations", "1", &reserve).await.document(201);
    let id = made["id"].as_str().unwrap().parse().unwrap();
    guest.answer_invitation(id, api::Consent::Accepted).await.unwrap();
    let mut last = next(&mut invited).await;
    assert!(last.invitation && last.reservation == Some(id));
    while last.invitation {
        last = next(&mut invited).await;
    }
    assert_eq!((last.kind.as_str(), last.version), ("request-changed", Some(2)));
    assert!(!next(&mut own).await.invitation, "an owner is not invited");
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_back_goes_on_where_he_was() {
    let north = North::start().await;
    let client = north.client("ada", Role::User);
    let mut watch = client.watch(None, None).await.unwrap();
    let one = hold(&north, "ada", "1").await;
    let seen = next(&mut watch).await;
    drop(watch);
    cancel(&north, "ada", one).await;
    let two = hold(&north, "ada", "2").await;
    let mut back = client.watch(None, Some(seen.sequence)).await.unwrap();
    let missed = (next(&mut back).await, next(&mut back).await);
    assert_eq!((missed.0.kind.as_str(), missed.0.reservation), ("cancelled", Some(one)));
    assert_eq!((missed.1.kind.as_str(), missed.1.reservation), ("held", Some(two)));
    let mut strange = client.watch(None, Some(1_000_000)).await.unwrap();
    assert_eq!(next(&mut strange).await.kind, "reset", "that has never happened here");
    cancel(&north, "ada", two).await;
    assert_eq!(next(&mut strange).await.kind, "cancelled", "and it goes on");
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_watches_one_is_first_told_how_it_is() {
    let north = North::start().await;
    let (id, other) = (hold(&north, "ada", "1").await, hold(&north, "ada", "2").await);
    let client = north.client("ada", Role::User);
    let mut watch = client.watch(Some(id), None).await.unwrap();
    let state = next(&mut watch).await;
    assert_eq!(
        (state.kind.as_str(), state.state, state.reservation),
        ("state", Some(api::State::Held), Some(id))
    );
    cancel(&north, "ada", other).await;
    client.commit(id, &api::Commit::default()).await.unwrap();
    let committed = next(&mut watch).await;
    assert_eq!((committed.kind.as_str(), committed.reservation), ("committed", Some(id)));
    cancel(&north, "ada", id).await;
    let mut back = client.watch(Some(id), Some(committed.sequence)).await.unwrap();
    assert_eq!(next(&mut back).await.kind, "cancelled", "what was missed says how it is");
    let hers = format!("/v1/reservations/{id}/events");
    assert_eq!(north.wire("grace", Role::User).get(&hers).await.problem(), (403, "not-owner".into()));
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_note_is_told_and_the_stream_goes_on() {
    let north = North::start().await;
    let id = hold(&north, "ada", "1").await;
    let client = north.client("ada", Role::User);
    client.commit(id, &api::Commit::default()).await.unwrap();
    let mut watch = client.watch(Some(id), None).await.unwrap();
    assert_eq!(next(&mut watch).await.kind, "state");
    let mut request = client.show(id).await.unwrap().request.unwrap();
    request.note = Some("bring the samples".into());
    client.change(id, None, &serde_json::from_value(json!({ "request": request })).unwrap()).await.unwrap();
    assert_eq!(next(&mut watch).await.kind, "request-changed");
    cancel(&north, "ada", id).await;
    assert_eq!(next(&mut watch).await.kind, "cancelled");
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_watch_and_all_are_let_go_at_the_end() {
    let north = North::with_limits(Limits { watchers: 2, ..Limits::default() }).await;
    let client = north.client("ada", Role::User);
    let mut one = client.watch(None, None).await.unwrap();
    let two = north.client("grace", Role::User).watch(None, None).await.unwrap();
    let bob = north.client("bob", Role::User);
    assert_eq!(north.wire("bob", Role::User).get("/v1/events").await.problem(), (503, "unavailable".into()));
    drop(two);
    let mut third = loop {
        // The slot is free as soon as the server notices that the second client has left.
        match bob.watch(None, None).await {
            Ok(watch) => break watch,
            Err(refused) => assert!(refused.to_string().contains("2 event streams"), "{refused}"),
        }
    };
    let ended = tokio::spawn(async move {
        (
            timeout(LONG, one.next()).await.unwrap().unwrap(),
            timeout(LONG, third.next()).await.unwrap().unwrap(),
        )
    });
    north.end().await;
    assert_eq!(ended.await.unwrap(), (None, None));
}
