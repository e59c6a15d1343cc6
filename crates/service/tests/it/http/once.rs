//! Repeated calls: the same answer, and one effect.

use super::{North, Reply, request, reserve};
use bookahead_service::http::Limits;
use bookahead_service::security::Role;
use serde_json::json;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_gives_the_same_answer_and_another_body_is_refused() {
    let north = North::start().await;
    let ada = north.ada();
    let book = json!({"request": request(8), "book": true});
    let first = ada.post_once("/v1/reservations", "k", &book).await;
    let again = ada.send("POST", "/v1/reservations", &[("idempotency-key", "k")], &book.to_string()).await;
    assert_eq!((first.status, &first.body), (201, &again.body), "with quotes or without");
    let other = json!({"request": request(7), "book": true});
    assert_eq!(ada.post_once("/v1/reservations", "k", &other).await.problem(), (422, "key-taken".into()));

    let grace = north.wire("grace", Role::User).post_once("/v1/reservations", "k", &book).await;
    assert_ne!(grace.document(201)["id"], first.document(201)["id"], "her key is another");
    let all = north.wire("olga", Role::Operator).get("/v1/reservations").await.document(200);
    assert_eq!(all["reservations"].as_array().unwrap().len(), 2);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_repeated_like_any_other_answer() {
    let north = North::start().await;
    let ada = north.ada();
    let book = json!({"request": request(8), "book": true});
    for hour in 0..10 {
        assert_eq!(ada.post_once("/v1/reservations", &hour.to_string(), &book).await.status, 201);
    }
    let full = ada.post_once("/v1/reservations", "too much", &book).await;
    assert_eq!(full.problem(), (409, "no-room".into()));
    let id = ada.get("/v1/reservations?limit=1").await.document(200)["reservations"][0]["id"].clone();
    ada.send("DELETE", &format!("/v1/reservations/{}", id.as_str().unwrap()), &[], "").await.document(200);
    let again = ada.post_once("/v1/reservations", "too much", &book).await;
    assert_eq!(again.body, full.body, "though there is room now");
    assert_eq!(ada.post_once("/v1/reservations", "anew", &book).await.status, 201);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_under_way_is_not_begun_again_and_outlives_its_client() {
    let north = North::start().await;
    let ada = north.ada();
    let (key, body) = ([("idempotency-key", "k")], reserve(8).to_string());
    let held = north.hold_up();
    let first = ada.begin("POST", "/v1/reservations", &key, &body).await;
    let second = loop {
        // The first may not have been read yet; then this one is the first, waits, and is abandoned.
        let asked = ada.send("POST", "/v1/reservations", &key, &body);
        if let Ok(reply) = tokio::time::timeout(Duration::from_secs(2), asked).await {
            break reply;
        }
    };
    assert_eq!(second.problem(), (409, "key-in-flight".into()));
    drop(first);
    for _ in 0..20 {
        let third = ada.send("POST", "/v1/reservations", &key, &body).await;
        assert_eq!(third.problem(), (409, "key-in-flight".into()), "its client has left, and it goes on");
    }
    drop(held);
    let answer = loop {
        let answer = ada.send("POST", "/v1/reservations", &key, &body).await;
        if answer.status != 409 {
            break answer;
        }
    };
    let id = answer.document(201)["id"].clone();
    let all = ada.get("/v1/reservations").await.document(200);
    assert_eq!(all["reservations"].as_array().unwrap().len(), 1);
    assert_eq!(all["reservations"][0]["id"], id);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gets_no_answer_in_time_learns_it_with_the_same_key() {
    let north =
        North::with_limits(Limits { patience: "50ms".parse().expect("a length"), ..Limits::default() }).await;
    let ada = north.ada();
    let held = north.hold_up();
    let late = ada.post_once("/v1/reservations", "k", &reserve(8)).await;
    assert_eq!(late.problem(), (504, "late".into()));
    assert!(late.body.contains("same key"), "{}", late.body);
    assert_eq!(ada.get("/v1/resources").await.status, 200, "reads do not wait for the disk");
    drop(held);
    let answer = loop {
        let answer = ada.post_once("/v1/reservations", "k", &reserve(8)).await;
        if answer.status != 504 {
            break answer;
        }
    };
    answer.document(201);
    let all: Reply = ada.get("/v1/reservations").await;
    assert_eq!(all.document(200)["reservations"].as_array().unwrap().len(), 1);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_no_epoch() {
    let north = North::start().await;
    let at = |role, epoch| north.client("ada", role).with_epoch(&"grid".into(), epoch);
    assert!(at(Role::User, 9).list(&Default::default()).await.is_ok());
    assert!(at(Role::User, 8).list(&Default::default()).await.is_ok(), "the header has no effect");
    assert!(at(Role::Broker, 5).sites().await.is_ok());
    assert!(at(Role::Broker, 4).sites().await.unwrap_err().to_string().contains("replaced"));
    north.end().await;
}
