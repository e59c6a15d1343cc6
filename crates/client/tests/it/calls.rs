//! Protocol calls, as brokers make them.

use crate::server::{Act, Server};
use crate::{client, reservation};
use bookahead_api as api;
use bookahead_api::Code;
use bookahead_client::ClientError;
use bookahead_plan::placement::Reason;
use bookahead_plan::{Capacity, Seconds, Time, placement};
use bookahead_protocol::{
    Answer, Call, Caller, Envelope, JobId, Key, Millis, Part, Problem, Request, ReservationId, State, Why,
};
use serde_json::json;

fn envelope(call: Call) -> Envelope {
    Envelope { key: Key(0x4f), caller: Caller { user: "ada".into(), roles: vec!["user".into()] }, call }
}

fn request() -> Request {
    let wanted = placement::Request {
        earliest_start: Time(1_794_819_600),
        latest_end: Time(1_794_830_000),
        duration: Seconds(60),
        capacity: Capacity(4),
    };
    Request::single(Part::new(wanted, "processors"))
}

#[tokio::test]
async fn a_call_is_made_on_behalf_of_its_caller_with_its_key_and_trace() {
    let mut server = Server::start([Act::answer(201, &reservation())]).await;
    let id = ReservationId(7);
    let call = Call::Reserve { id, request: request(), hold_for: Millis(60_000), book: false };
    let answer = client(&server).call(&envelope(call.clone()), Some("00-1-2-01")).await.unwrap();
    let Answer::Reservation(made) = answer else { panic!("{answer:?}") };
    assert_eq!((made.id, made.state, made.held_for), (id, State::Held, Some(Millis(60_000))));
    let heard = server.heard().await;
    assert_eq!(heard.line, "POST /v1/reservations");
    for (header, value) in [
        ("idempotency-key", "\"key_4f\""),
        ("bookahead-user", "ada"),
        ("bookahead-roles", "user"),
        ("traceparent", "00-1-2-01"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(heard.headers[header], value, "{header}");
    }
    let document: api::Reserve = serde_json::from_str(&heard.body).unwrap();
    assert_eq!(document.call(ReservationId(0)), call);
}

#[tokio::test]
async fn changes_and_extensions_name_the_version_that_was_seen() {
    let mut server = Server::start([(); 4].map(|()| Act::answer(200, &reservation()))).await;
    let id = ReservationId(7);
    for (version, told) in [(Some(3), "\"3\""), (None, "*")] {
        let change = Call::Change { id, version, request: request() };
        let extend = Call::Extend { id, version, end: Time(1_794_830_000) };
        for (call, line) in
            [(change, "PUT /v1/reservations/rsv_7"), (extend, "POST /v1/reservations/rsv_7/extend")]
        {
            client(&server).call(&envelope(call), None).await.unwrap();
            let heard = server.heard().await;
            assert_eq!((heard.line.as_str(), heard.headers["if-match"].as_str()), (line, told));
        }
    }
}

#[tokio::test]
async fn a_longer_hold_a_longer_reservation_and_a_go_have_routes_of_their_own() {
    let job = json!({
        "id": "job_9", "owner": "ada", "capacity": 4, "limit_seconds": 60, "state": "running",
        "submitted": "2026-11-16T09:00:00Z",
    });
    let acts = [Act::answer(200, &reservation()), Act::answer(200, &reservation()), Act::answer(200, &job)];
    let mut server = Server::start(acts).await;
    let (client, id) = (client(&server), ReservationId(7));
    client.hold(id, &api::Hold { hold_for_seconds: api::FineSeconds(5_000) }).await.unwrap();
    let heard = server.heard().await;
    assert_eq!(heard.line, "POST /v1/reservations/rsv_7/hold");
    assert_eq!(heard.body, r#"{"hold_for_seconds":5}"#);
    let end = "2026-11-16T13:00:00Z".parse().unwrap();
    client.extend(id, Some(2), &api::Extend { end }).await.unwrap();
    let heard = server.heard().await;
    assert_eq!(heard.line, "POST /v1/reservations/rsv_7/extend");
    assert_eq!(heard.headers["if-match"], "\"2\"");
    assert_eq!(heard.body, r#"{"end":"2026-11-16T13:00:00Z"}"#);
    assert_eq!(client.go(JobId(9)).await.unwrap().state, api::JobState::Running);
    let heard = server.heard().await;
    assert!(heard.line == "POST /v1/jobs/job_9/go" && heard.headers.contains_key("idempotency-key"));
}

#[tokio::test]
async fn offers_come_back_as_they_were_made() {
    let offers = json!({"offers": [{"slots": reservation()["slots"]}]});
    let mut server = Server::start([Act::answer(200, &offers)]).await;
    let call = Call::Probe { request: request(), most: 3, starts: vec![] };
    let answer = client(&server).call(&envelope(call), None).await.unwrap();
    let Answer::Offers(found) = answer else { panic!("{answer:?}") };
    assert_eq!(found[0].slots[0].interval.begin, Time(1_794_819_600));
    let heard = server.heard().await;
    assert!(heard.line == "POST /v1/probes" && !heard.headers.contains_key("idempotency-key"));
}

#[tokio::test]
async fn a_refusal_in_words_of_the_protocol_is_an_answer() {
    let refusal = Problem { busy_for: Some(Seconds(300)), ..Problem::new(Why::NoSlot(Reason::NoRoom)) };
    let document = serde_json::to_value(api::Problem::from(refusal.clone())).unwrap();
    let server = Server::start([Act::answer(409, &document)]).await;
    let call = Call::Cancel { id: ReservationId(7) };
    let answer = client(&server).call(&envelope(call), None).await.unwrap();
    assert_eq!(answer, refusal.into());
}

#[tokio::test]
async fn a_refusal_of_the_http_layer_is_an_error_and_nothing_is_repeated() {
    let acts = [
        Act::problem(Code::KeyInFlight),
        Act::problem(Code::Unauthenticated),
        Act::problem(Code::Unavailable),
    ];
    let mut server = Server::start(acts).await;
    let call = || envelope(Call::Cancel { id: ReservationId(7) });
    let error = client(&server).call(&call(), None).await.unwrap_err();
    assert!(matches!(error, ClientError::KeyInFlight(_)), "{error}");
    for code in ["unauthenticated", "unavailable"] {
        let error = client(&server).call(&call(), None).await.unwrap_err();
        assert!(matches!(&error, ClientError::Refused(problem) if problem.code == code), "{error}");
    }
    for _ in 0..3 {
        server.heard().await;
    }
    assert!(server.heard_nothing_more());
}

#[tokio::test]
async fn what_has_no_date_is_not_sent() {
    let mut server = Server::start([]).await;
    let call = Call::Probe { request: request(), most: 3, starts: vec![Time::MAX] };
    let error = client(&server).call(&envelope(call), None).await.unwrap_err();
    assert!(error.was_not_sent() && server.heard_nothing_more(), "{error}");
}
