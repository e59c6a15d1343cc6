//! The life cycle of a reservation, and who may see and change it.

use super::{North, request, reserve};
use bookahead_api as api;
use bookahead_client::{ClientError, make};
use bookahead_service::security::Role;
use serde_json::{Value, json};

fn of<T: serde::de::DeserializeOwned>(document: Value) -> T {
    serde_json::from_value(document).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_lives_from_a_probe_to_its_end() {
    let north = North::start().await;
    let ada = north.client("ada", Role::User);
    let offers = ada.probe(&of(json!({"request": request(4)}))).await.unwrap();
    assert_eq!(offers.offers[0].slots[0].capacity, 4);

    let held = ada.reserve(&of(reserve(4)), &make::key().unwrap().to_string()).await.unwrap();
    assert_eq!((held.state, held.owner.as_str()), (api::State::Held, "ada"));
    let longer = ada.hold(held.id, &api::Hold { hold_for_seconds: api::FineSeconds(200_000) }).await.unwrap();
    assert!(longer.held_for_seconds > held.held_for_seconds);

    let committed = ada.commit(held.id, &api::Commit::default()).await.unwrap();
    assert_eq!(committed.state, api::State::Committed);
    let error = ada.attach(held.id, &of(json!({"job": "job_7"}))).await.unwrap_err();
    assert!(matches!(&error, ClientError::Refused(problem) if problem.code == "job-refused"), "{error:?}");
    let changed =
        ada.change(held.id, Some(committed.version), &of(json!({"request": request(6)}))).await.unwrap();
    assert_eq!((changed.slots[0].capacity, changed.version), (6, committed.version + 1));
    let release = api::Release { part: Some(0), from: changed.slots[0].begin, keep: 2, end_jobs: false };
    let released = ada.release(held.id, &release).await.unwrap();
    assert_eq!(released.slots[0].capacity, 2);

    assert_eq!(ada.show(held.id).await.unwrap().state, api::State::Committed);
    assert_eq!(ada.cancel(held.id).await.unwrap().state, api::State::Cancelled);
    let error = ada.commit(held.id, &api::Commit::default()).await.unwrap_err();
    assert!(matches!(&error, ClientError::Refused(problem) if problem.code == "illegal"), "{error:?}");
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_new_says_where_it_is_and_what_was_seen_is_not_sent_again() {
    let north = North::start().await;
    let ada = north.ada();
    let booked = json!({"request": request(4), "book": true});
    let new = ada.post_once("/v1/reservations", "1", &booked).await;
    let id = new.document(201)["id"].as_str().unwrap().to_owned();
    let place = format!("/v1/reservations/{id}");
    assert_eq!(new.header("location"), Some(place.as_str()));

    let shown = ada.get(&place).await;
    let tag = shown.header("etag").unwrap().to_owned();
    assert_eq!(Some(tag.as_str()), new.header("etag"));
    assert!(tag.starts_with("\"0-") || tag.starts_with("\"1-"), "{tag}");
    let again = ada.send("GET", &place, &[("if-none-match", &tag)], "").await;
    assert_eq!((again.status, again.body.as_str(), again.header("etag")), (304, "", Some(tag.as_str())));

    let release = json!({"from": shown.document(200)["slots"][0]["begin"], "keep": 2});
    assert_eq!(ada.post(&format!("{place}/release"), &release).await.status, 200);
    let after = ada.send("GET", &place, &[("if-none-match", &tag)], "").await;
    assert_eq!(after.document(200)["slots"][0]["capacity"], 2);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_says_what_it_was_decided_upon() {
    let north = North::start().await;
    let ada = north.ada();
    let new = ada.post_once("/v1/reservations", "1", &json!({"request": request(4), "book": true})).await;
    let place = new.header("location").unwrap().to_owned();
    let change = |headers: Vec<(&'static str, String)>, capacity: u32| {
        let (ada, place) = (ada.clone(), place.clone());
        async move {
            let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            ada.send("PUT", &place, &headers, &json!({"request": request(capacity)}).to_string()).await
        }
    };
    assert_eq!(change(vec![], 5).await.problem(), (428, "no-version".into()));
    assert_eq!(change(vec![("if-match", "\"9\"".into())], 5).await.problem(), (412, "changed".into()));
    assert_eq!(change(vec![("if-match", "W/\"1\"".into())], 5).await.problem(), (412, "changed".into()));
    assert_eq!(change(vec![("if-match", "1".into())], 5).await.problem(), (400, "bad-request".into()));

    let tag = new.header("etag").unwrap().to_owned();
    let once = vec![("if-match", tag.clone()), ("idempotency-key", "\"change\"".into())];
    let changed = change(once.clone(), 5).await;
    assert_eq!(changed.document(200)["slots"][0]["capacity"], 5);
    assert_eq!(
        change(once, 5).await.body,
        changed.body,
        "the same call has the same answer, though the tag has changed"
    );
    assert_eq!(change(vec![("if-match", tag)], 6).await.problem(), (412, "changed".into()));
    let any = change(vec![("if-match", "*".into())], 6).await.document(200);
    let version = format!("\"{}\"", any["version"]);
    assert_eq!(change(vec![("if-match", version)], 7).await.document(200)["slots"][0]["capacity"], 7);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_somebodys_only_he_changes_and_only_those_who_may_see_it() {
    let north = North::start().await;
    let new = north.ada().post_once("/v1/reservations", "1", &reserve(4)).await;
    let place = new.header("location").unwrap();
    let (grace, rita, olga) = (
        north.wire("grace", Role::User),
        north.wire("rita", Role::Reader),
        north.wire("olga", Role::Operator),
    );
    assert_eq!(grace.get(place).await.problem(), (403, "not-owner".into()));
    assert_eq!(grace.send("DELETE", place, &[], "").await.problem(), (403, "not-owner".into()));
    assert_eq!(rita.get(place).await.document(200)["owner"], "ada");
    assert_eq!(rita.send("DELETE", place, &[], "").await.problem(), (403, "forbidden".into()));
    assert_eq!(rita.post("/v1/probes", &json!({"request": request(1)})).await.status, 200);
    assert_eq!(olga.post(&format!("{place}/commit"), &json!({})).await.document(200)["owner"], "ada");

    let listed = |wire: super::Wire, query: &'static str| async move {
        let page = wire.get(&format!("/v1/reservations{query}")).await;
        page.document(200)["reservations"].as_array().unwrap().len()
    };
    assert_eq!(listed(grace.clone(), "").await, 0);
    assert_eq!(listed(north.ada(), "").await, 1);
    assert_eq!(listed(rita.clone(), "?owner=ada").await, 1);
    assert_eq!(grace.get("/v1/reservations?owner=ada").await.problem(), (403, "forbidden".into()));
    let schedule = grace.get("/v1/schedule").await.document(200);
    let block = &schedule["resources"][0]["blocks"][0];
    assert_eq!(
        (&block["kind"], &block["capacity"], &block["owner"]),
        (&json!("reservation"), &json!(4), &Value::Null)
    );
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_submitted_shown_listed_and_ended() {
    let north = North::start().await;
    let ada = north.ada();
    let job = json!({
        "capacity": 2, "limit_seconds": 600, "work": {"type": "pretended", "run_seconds": 600}
    });
    assert_eq!(ada.post("/v1/jobs", &job).await.problem(), (400, "no-key".into()));
    let new = ada.post_once("/v1/jobs", "1", &job).await;
    let id = new.document(201)["id"].as_str().unwrap().to_owned();
    assert_eq!(ada.post_once("/v1/jobs", "1", &job).await.document(201)["id"], id.as_str());
    let mut other = job.clone();
    other["capacity"] = json!(3);
    assert_eq!(ada.post_once("/v1/jobs", "1", &other).await.problem(), (422, "key-taken".into()));
    other["id"] = json!(id);
    assert_eq!(ada.post_once("/v1/jobs", "3", &other).await.problem(), (409, "job-taken".into()));
    assert_eq!(ada.post_once("/v1/jobs", "2", &job).await.status, 201);

    let place = new.header("location").unwrap();
    assert_eq!(ada.get(place).await.document(200)["state"], "running");
    let page = ada.get("/v1/jobs?limit=1").await.document(200);
    let next = page["next"].as_str().unwrap();
    let rest = ada.get(&format!("/v1/jobs?cursor={next}")).await.document(200);
    assert_eq!((page["jobs"].as_array().unwrap().len(), rest["jobs"].as_array().unwrap().len()), (1, 1));
    assert_eq!(rest.get("next"), None);
    let grace = north.wire("grace", Role::User);
    assert_eq!(grace.get(place).await.problem(), (404, "unknown-job".into()));
    assert_eq!(grace.send("DELETE", place, &[], "").await.status, 403);
    assert_eq!(ada.send("DELETE", place, &[], "").await.document(200)["state"], "cancelled");
    assert_eq!(ada.get("/v1/jobs/job_ffff").await.problem(), (404, "unknown-job".into()));
    assert_eq!(ada.get("/v1/jobs?cursor=job_ffff").await.problem(), (400, "bad-request".into()));
    north.end().await;
}
