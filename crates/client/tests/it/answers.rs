//! Answers: documents, problems, and anything else.

use crate::server::{Act, Server};
use crate::{client, options, reservation};
use bookahead_api as api;
use bookahead_client::{Client, ClientError, Options};
use bookahead_protocol::{Caller, ReservationId};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_problem_document_surfaces_with_everything_in_it() {
    let problem = json!({
        "type": "/problems/no-room", "title": "No room in the window", "status": 409,
        "detail": "there is no room", "code": "no-room", "reason": {"NoSlot": "NoRoom"},
        "blockers": [{"kind": "running-job", "end": "2026-11-16T09:00:00Z"}],
        "busy_for_seconds": 300, "counter_offers": [{"change": {"type": "fewer", "by": 2}}],
    });
    let server = Server::start([Act::answer(409, &problem)]).await;
    let error = client(&server).show(ReservationId(7)).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no room");
    let told = error.problem().unwrap();
    assert_eq!(told.busy_for_seconds, Some(300));
    assert_eq!(told.counter_offers[0].change, api::Relaxation::Fewer { by: 2 });
    assert!(told.why().is_some());
}

#[tokio::test]
async fn an_answer_of_something_else_is_shown_by_its_beginning() {
    let page = "<html>".repeat(1_000);
    let not_found = json!({"error": "not found"});
    let acts = [
        Act::raw(200, "text/html", "", &page),
        Act::raw(404, "text/html", "", &page),
        Act::raw(301, "text/html", "location: /elsewhere\r\n", ""),
        Act::answer(404, &not_found),
    ];
    let server = Server::start(acts).await;
    for expected in [200, 404, 301, 404] {
        let error = client(&server).show(ReservationId(7)).await.unwrap_err();
        let ClientError::NotOurKind { status, beginning, .. } = &error else { panic!("{error}") };
        assert!(*status == expected && beginning.len() <= 200, "{error}");
    }
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_not_read() {
    let said = |head: &str| Act::SayAndDrop(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n").into_bytes());
    let chunks = format!(
        "transfer-encoding: chunked\r\n\r\n{}0\r\n",
        "400\r\n".to_owned() + &"x".repeat(1024) + "\r\n"
    );
    let server = Server::start([said("content-length: 1000000000000"), said(&chunks)]).await;
    let client = Client::new(&server.url, Options { most_bytes: 1_000, ..options() }).unwrap();
    for _ in 0..2 {
        let error = client.resources().await.unwrap_err();
        assert!(matches!(error, ClientError::TooLarge { most: 1_000, .. }), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_not_waited_for() {
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec();
    let server = Server::start([Act::Hang, Act::Say(vec![half])]).await;
    let client = Client::new(&server.url, Options { timeout: Duration::from_secs(1), ..options() }).unwrap();
    for _ in 0..2 {
        let error = client.health().await.unwrap_err();
        assert!(matches!(error, ClientError::TimedOut { .. }) && !error.was_not_sent(), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_with_what_to_do() {
    // The port is free again, because the listener was dropped.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let client = Client::new(&format!("http://127.0.0.1:{port}"), options()).unwrap();
    let error = client.health().await.unwrap_err();
    assert!(error.was_not_sent());
    let changing = tokio::time::timeout(Duration::from_secs(10), client.cancel(ReservationId(7)));
    let late = "nothing was sent, so it is not tried again";
    assert!(changing.await.expect(late).unwrap_err().was_not_sent());
    let text = error.to_string();
    assert!(text.contains(&port.to_string()) && text.contains("check that the server runs"), "{text}");
}

#[tokio::test]
async fn filters_and_who_asks_are_sent_along() {
    let page = json!({"reservations": [reservation()], "next": "c1"});
    let mut server = Server::start([Act::answer(200, &page), Act::answer(200, &page)]).await;
    let own = Options { token: Some("t0".into()), user: Some("ada".into()), ..options() };
    let client = Client::new(&format!("{}/", server.url), own).unwrap();
    let query = api::ListQuery {
        state: Some("committed,active".parse().unwrap()),
        from: Some("2026-11-16T10:00:00+01:00".parse().unwrap()),
        limit: Some(10),
        resource: Some("north/gpu & more".into()),
        ..api::ListQuery::default()
    };
    assert_eq!(client.list(&query).await.unwrap().next.as_deref(), Some("c1"));
    let heard = server.heard().await;
    let expected = "GET /v1/reservations?from=2026-11-16T09%3A00%3A00Z&limit=10&resource=north%2Fgpu+%26+more\
        &state=committed%2Cactive";
    assert_eq!(heard.line, expected);
    assert_eq!(heard.headers["authorization"], "Bearer t0");
    assert_eq!(
        (heard.headers["bookahead-user"].as_str(), heard.headers["bookahead-roles"].as_str()),
        ("ada", "")
    );
    let other = Caller { user: "bob".into(), roles: vec!["operator".into(), "grün".into()] };
    client.on_behalf_of(&other).list(&api::ListQuery::default()).await.unwrap();
    let heard = server.heard().await;
    assert_eq!(heard.headers["bookahead-user"], "bob");
    assert_eq!(heard.headers["bookahead-roles"], "operator,gr%c3%bcn");
}

#[tokio::test]
async fn a_broker_tells_through_whom_a_call_came_in_one_header() {
    let mut server =
        Server::start([Act::answer(200, &json!({"sites": []})), Act::answer(200, &json!({"sites": []}))])
            .await;
    let itself = client(&server).via(&["west#7".into()]);
    itself.sites().await.unwrap();
    assert_eq!(server.heard().await.headers["bookahead-via"], "west#7");
    itself.via(&["a,b#1".into(), "west#7".into()]).sites().await.unwrap();
    assert_eq!(server.heard().await.headers["bookahead-via"], "a%2cb#1,west#7", "the last word counts");
}

#[tokio::test]
async fn texts_and_health_are_read_as_they_come() {
    let health = json!({
        "status": "stopping", "name": "north", "role": "site", "version": "0.1.0",
        "now": "2026-11-16T09:00:00Z", "clock_speed": 1, "journal_sequence": 0,
    });
    let acts = [
        Act::raw(200, "text/calendar", "", "BEGIN:VCALENDAR"),
        Act::answer(503, &health),
        Act::raw(204, "", "", ""),
    ];
    let server = Server::start(acts).await;
    let client = client(&server);
    assert_eq!(client.calendar(&api::CalendarQuery::default()).await.unwrap(), "BEGIN:VCALENDAR");
    assert_eq!(client.health().await.unwrap().status, api::Status::Stopping);
    let heartbeat = json!({"name": "north", "url": "http://north", "role": "site"});
    client.heartbeat(&serde_json::from_value(heartbeat).unwrap()).await.unwrap();
}

#[tokio::test]
async fn the_clock_of_the_server_is_read_from_every_answer() {
    let told = |headers: &str| Act::raw(200, "application/json", headers, "{\"sites\": []}");
    let fast = "bookahead-now: 2026-11-16T09:00:00Z\r\nbookahead-clock-speed: 60\r\n";
    let acts = [told(""), told(fast), told("bookahead-now: 2026-11-16T09:00:01Z\r\n")];
    let mut server = Server::start(acts).await;
    let client = client(&server);
    let mut clocks = Vec::new();
    for speed in [1, 60, 60] {
        client.with_clock_speed(speed).sites().await.unwrap();
        assert_eq!(server.heard().await.headers["bookahead-clock-speed"], speed.to_string());
        clocks.push(client.server_clock().map(|clock| (clock.now.to_string(), clock.speed)));
    }
    let expected =
        [None, Some(("2026-11-16T09:00:00Z".to_owned(), 60)), Some(("2026-11-16T09:00:01Z".to_owned(), 1))];
    assert_eq!(clocks, expected);
}
