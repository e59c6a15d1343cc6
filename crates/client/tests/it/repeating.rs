//! Calls that create or change something are repeated with the same key; queries are not.

use crate::server::{Act, Heard, Server};
use crate::{client, options, reservation};
use bookahead_api as api;
use bookahead_api::Code;
use bookahead_client::{Client, ClientError, Options, make};
use bookahead_protocol::ReservationId;
use serde_json::Value;
use std::time::Duration;

fn reserve() -> api::Reserve {
    serde_json::from_value(serde_json::json!({"request": {"parts": [{
        "capacity": 4, "duration_seconds": 60,
        "earliest_start": "2026-11-16T09:00:00Z", "latest_end": "2026-11-16T18:00:00Z",
    }]}}))
    .unwrap()
}

fn id_of(heard: &Heard) -> String {
    let document: Value = serde_json::from_str(&heard.body).unwrap();
    document["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_reservation_is_repeated_with_the_same_key_and_id_after_a_dropped_connection() {
    let cut = b"HTTP/1.1 201 Created\r\ncontent-length: 500\r\n\r\n{\"id\":".to_vec();
    let acts = [Act::Drop, Act::SayAndDrop(cut), Act::answer(201, &reservation())];
    let mut server = Server::start(acts).await;
    let key = make::key().unwrap().to_string();
    let made = client(&server).reserve(&reserve(), &key).await.unwrap();
    assert_eq!(made.id, ReservationId(7));
    let (first, second, third) = (server.heard().await, server.heard().await, server.heard().await);
    assert_eq!(first.line, "POST /v1/reservations");
    assert_eq!(first.headers["idempotency-key"], format!("\"{key}\""));
    assert!(id_of(&first).parse::<ReservationId>().is_ok());
    for again in [second, third] {
        assert_eq!(again.headers["idempotency-key"], first.headers["idempotency-key"]);
        assert_eq!(again.body, first.body, "the id was made once");
    }
}

#[tokio::test]
async fn a_change_gets_a_key_of_its_own_and_is_repeated_while_the_server_is_busy() {
    let acts = [Act::problem(Code::Busy), Act::problem(Code::KeyInFlight), Act::answer(200, &reservation())];
    let mut server = Server::start(acts).await;
    client(&server).commit(ReservationId(7), &api::Commit::default()).await.unwrap();
    let first = server.heard().await;
    assert_eq!((first.line.as_str(), first.body.as_str()), ("POST /v1/reservations/rsv_7/commit", "{}"));
    assert!(first.headers["idempotency-key"].starts_with("\"key_"));
    for _ in 0..2 {
        assert_eq!(server.heard().await.headers["idempotency-key"], first.headers["idempotency-key"]);
    }
}

#[tokio::test]
async fn two_changes_have_two_keys_and_share_a_connection() {
    let mut server =
        Server::start([Act::answer(200, &reservation()), Act::answer(200, &reservation())]).await;
    let client = client(&server);
    client.cancel(ReservationId(7)).await.unwrap();
    client.cancel(ReservationId(7)).await.unwrap();
    let (first, second) = (server.heard().await, server.heard().await);
    assert_eq!(first.line, "DELETE /v1/reservations/rsv_7");
    assert_ne!(first.headers["idempotency-key"], second.headers["idempotency-key"]);
    assert_eq!(first.connection, second.connection);
}

#[tokio::test]
async fn a_refusal_is_not_repeated() {
    let mut server = Server::start([Act::problem(Code::NoRoom)]).await;
    let error = client(&server).reserve(&reserve(), "key_1").await.unwrap_err();
    assert!(matches!(&error, ClientError::Refused(problem) if problem.code == "no-room"), "{error}");
    server.heard().await;
    assert!(server.heard_nothing_more());
}

#[tokio::test]
async fn patience_ends() {
    let server = Server::start(vec![Act::problem(Code::Unavailable); 100]).await;
    let options = Options { patience: Duration::from_millis(400), ..options() };
    let client = Client::new(&server.url, options).unwrap();
    let error = client.cancel(ReservationId(7)).await.unwrap_err();
    assert_eq!(error.problem().unwrap().code, "unavailable");
}

#[tokio::test]
async fn a_server_that_asks_for_more_time_than_there_is_gets_no_second_try() {
    let problem = api::Problem::new(Code::TooManyRequests, "slowly");
    let body = serde_json::to_string(&problem).unwrap();
    let mut server = Server::start([Act::raw(429, "application/json", "retry-after: 3600\r\n", &body)]).await;
    let error = client(&server).cancel(ReservationId(7)).await.unwrap_err();
    assert_eq!(error.problem().unwrap().status, 429);
    server.heard().await;
    assert!(server.heard_nothing_more());
}

#[tokio::test]
async fn a_question_is_asked_once() {
    let mut server = Server::start([Act::Drop, Act::answer(200, &reservation())]).await;
    let error = client(&server).show(ReservationId(7)).await.unwrap_err();
    assert!(matches!(error, ClientError::Broken { .. }), "{error}");
    assert!(!server.heard().await.headers.contains_key("idempotency-key"));
    assert!(server.heard_nothing_more());
}

#[tokio::test]
async fn a_key_that_no_header_can_carry_is_refused_before_anything_is_sent() {
    let mut server = Server::start([]).await;
    for key in ["", "a\"b", "a\nb", "é"] {
        let error = client(&server).reserve(&reserve(), key).await.unwrap_err();
        assert!(matches!(error, ClientError::BadHeader { .. }) && error.was_not_sent(), "{error}");
    }
    assert!(server.heard_nothing_more());
}

#[tokio::test]
async fn a_server_with_several_addresses_is_found_at_the_active_one_and_stays_there() {
    let stand_by = Act::raw(503, "application/problem+json", "bookahead-active: unknown\r\n", "{}");
    let mut standing_by = Server::start([stand_by]).await;
    let active = [Act::answer(201, &reservation()), Act::answer(200, &reservation()), Act::Drop];
    let mut active = Server::start(active).await;
    let mut next = Server::start([Act::answer(200, &reservation())]).await;
    // Nothing listens at the first one.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let all = format!("http://{gone}, {},{},{}", standing_by.url, active.url, next.url);
    let client = Client::new(&all, crate::options()).unwrap();
    let key = make::key().unwrap().to_string();
    client.reserve(&reserve(), &key).await.unwrap();
    let (refused, made) = (standing_by.heard().await, active.heard().await);
    assert_eq!(refused.headers["idempotency-key"], made.headers["idempotency-key"]);
    client.show(ReservationId(7)).await.unwrap();
    assert_eq!(active.heard().await.line, "GET /v1/reservations/rsv_7");
    assert!(standing_by.heard_nothing_more());
    // It may have carried out the call, which is repeated with its key at the next one.
    client.commit(ReservationId(7), &api::Commit::default()).await.unwrap();
    let (lost, answered) = (active.heard().await, next.heard().await);
    assert_eq!(lost.headers["idempotency-key"], answered.headers["idempotency-key"]);
}
