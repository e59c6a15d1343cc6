//! More than is served at once is turned away, and told so.

use super::{LONG, North, Reply, reserve};
use bookahead_service::http::Limits;
use bookahead_service::security::Role;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_body_may_be_only_so_large() {
    let north = North::with_limits(Limits { most_body: 1_000, ..Limits::default() }).await;
    let ada = north.ada();
    let fits = reserve(1).to_string() + &" ".repeat(1_000 - reserve(1).to_string().len());
    let key = [("idempotency-key", "k")];
    assert_eq!(ada.send("POST", "/v1/reservations", &key, &fits).await.status, 201);
    let large = ada.send("POST", "/v1/reservations", &key, &(fits + " ")).await;
    assert_eq!(large.problem(), (413, "too-large".into()));
    assert!(large.body.contains("1000"), "{}", large.body);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_may_ask_only_so_often_and_others_are_not_held_up() {
    let north = North::with_limits(Limits { requests_per_second: 1, burst: 3, ..Limits::default() }).await;
    let ada = north.ada();
    for _ in 0..3 {
        ada.get("/v1/resources").await.document(200);
    }
    let often = ada.get("/v1/resources").await;
    assert_eq!(often.problem(), (429, "too-many-requests".into()));
    assert_eq!(often.header("retry-after"), Some("1"));
    north.wire("grace", Role::User).get("/v1/resources").await.document(200);
    assert!(ada.get("/metrics").await.body.contains("bookahead_turned_away_total{reason=\"rate\"} 1\n"));
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_requests_are_worked_on_at_the_same_time() {
    let north = North::with_limits(Limits { concurrent: 2, ..Limits::default() }).await;
    let ada = north.ada();
    let held = north.hold_up();
    let body = reserve(1).to_string();
    let mut waiting = Vec::new();
    let crowded = loop {
        // Reads do not wait for the disk. One of them may have had the place of a reservation, which is refused then.
        let key = format!("key-{}", waiting.len());
        waiting.push(ada.begin("POST", "/v1/reservations", &[("idempotency-key", &key)], &body).await);
        let reply = ada.get("/v1/resources").await;
        if reply.status != 200 {
            break reply;
        }
    };
    assert_eq!(crowded.problem(), (503, "unavailable".into()));
    drop(held);
    for stream in waiting {
        let answer = tokio::time::timeout(LONG, Reply::read(stream)).await.unwrap();
        assert!(matches!(answer.status, 201 | 503), "{answer:?}");
    }
    ada.get("/v1/resources").await.document(200);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_has_only_so_many_parts() {
    let north = North::with_limits(Limits { most_parts: 2, ..Limits::default() }).await;
    let mut wanted = reserve(1);
    let part = wanted["request"]["parts"][0].clone();
    wanted["request"]["parts"] = json!([part, part, part]);
    assert_eq!(
        north.ada().post_once("/v1/reservations", "k", &wanted).await.problem(),
        (422, "over-limit".into())
    );
    wanted["request"]["parts"] = json!([part, part]);
    assert_eq!(
        north.ada().post_once("/v1/reservations", "l", &wanted).await.problem(),
        (422, "one-part-only".into())
    );
    north.end().await;
}
