//! Requests beyond the limits are refused with the reason.

use super::{LONG, North, Reply, Wire, reserve};
use bookahead_service::http::Limits;
use bookahead_service::security::Role;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

#[tokio::test(flavor = "multi_thread")]
async fn a_body_may_be_only_so_large() {
    let north = North::with_limits(Limits { most_body: 1_000, ..Limits::default() }).await;
    let ada = north.ada();
    let fits = reserve(1).to_string() + &" ".repeat(1_000 - reserve(1).to_string().len());
    let key = [("idempotency-key", "k")];
    assert_eq!(ada.send("POST", "/v1/reservations", &key, &fits).await.status, 201);
    let large = ada.send("POST", "/v1/reservations", &key, &(fits + " ")).await;
    assert_eq!(large.problem(), (413, "too-large".into()));
    assert!(large.body.contains("1000 bytes, the limit server.most_body"), "{}", large.body);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_may_ask_only_so_often_and_others_are_not_held_up() {
    let north = North::with_limits(Limits { requests_per_second: 1, burst: 3, ..Limits::default() }).await;
    let ada = north.ada();
    let mut served = 0;
    let often = loop {
        let reply = ada.get("/v1/resources").await;
        if reply.status != 200 {
            break reply;
        }
        // On a slow machine more are served, as some seconds pass.
        served += 1;
    };
    assert!(served >= 3, "{served}");
    assert_eq!(often.problem(), (429, "too-many-requests".into()));
    assert_eq!(often.header("retry-after"), Some("1"));
    north.wire("grace", Role::User).get("/v1/resources").await.document(200);
    assert!(ada.get("/metrics").await.body.contains("bookahead_turned_away_total{reason=\"rate\"} 1\n"));
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_counts_as_the_user_that_it_calls_for_and_not_for_itself() {
    let usual = Limits::default();
    assert!(usual.requests_per_second > 0 && usual.burst > 0, "there is a limit unless it is turned off");
    let north = North::with_limits(Limits { requests_per_second: 1, burst: 40, ..usual }).await;
    let grid = north.wire("grid", Role::Broker);
    let for_eve = [("bookahead-user", "eve")];
    let mut served = 0;
    let often = loop {
        let reply = grid.send("GET", "/v1/resources", &for_eve, "").await;
        if reply.status != 200 {
            break reply;
        }
        served += 1;
    };
    assert!(served >= 40, "{served}");
    assert_eq!(often.problem(), (429, "too-many-requests".into()));
    assert_eq!(often.header("retry-after"), Some("1"));
    for _ in 0..100 {
        grid.get("/v1/resources").await.document(200);
    }
    let ada = grid.send("GET", "/v1/resources", &[("bookahead-user", "ada")], "").await;
    ada.document(200);
    north.end().await;
}

/// Reservations that wait for the disk, until a query of `reader` is refused. Queries do not wait for the disk; one
/// of them may have taken the slot of a reservation, which is refused then.
async fn crowd(wires: &[Wire], reader: &Wire) -> (Reply, Vec<TcpStream>) {
    let body = reserve(1).to_string();
    let mut waiting = Vec::new();
    for wire in wires.iter().cycle() {
        let key = format!("key-{}", waiting.len());
        waiting.push(wire.begin("POST", "/v1/reservations", &[("idempotency-key", &key)], &body).await);
        let reply = reader.get("/v1/resources").await;
        if reply.status != 200 {
            return (reply, waiting);
        }
    }
    unreachable!("there is always a next one")
}

async fn all_are_answered(waiting: Vec<TcpStream>, refused: u16) {
    for stream in waiting {
        let answer = tokio::time::timeout(LONG, Reply::read(stream)).await.unwrap();
        assert!(answer.status == 201 || answer.status == refused, "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_requests_are_worked_on_at_the_same_time() {
    let north = North::with_limits(Limits { concurrent: 2, ..Limits::default() }).await;
    let users = ["ada", "bob"].map(|user| north.wire(user, Role::User));
    let grace = north.wire("grace", Role::User);
    let held = north.hold_up();
    let (crowded, waiting) = crowd(&users, &grace).await;
    assert_eq!(crowded.problem(), (503, "unavailable".into()));
    drop(held);
    all_are_answered(waiting, 429).await;
    grace.get("/v1/resources").await.document(200);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_user_has_a_quarter_of_the_places_and_leaves_the_rest_to_others() {
    let north = North::with_limits(Limits { concurrent: 8, ..Limits::default() }).await;
    let ada = north.ada();
    let held = north.hold_up();
    let (crowded, waiting) = crowd(std::slice::from_ref(&ada), &ada).await;
    assert_eq!(crowded.problem(), (429, "too-many-requests".into()));
    assert!(crowded.body.contains("ada has 2 requests"), "{crowded:?}");
    north.wire("grace", Role::User).get("/v1/resources").await.document(200);
    drop(held);
    all_are_answered(waiting, 429).await;
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_slow_to_come_take_no_place_from_others() {
    let north = North::with_limits(Limits { concurrent: 8, ..Limits::default() }).await;
    let ada = north.ada();
    let mut slow = tokio::task::JoinSet::new();
    for _ in 0..3 {
        // Announces more than it sends.
        let more = [("idempotency-key", "k"), ("transfer-encoding", "chunked")];
        let mut stream = ada.begin_unfinished("POST", "/v1/reservations", &more, "1\r\n{\r\n").await;
        slow.spawn(async move { stream.read_u8().await.unwrap() });
    }
    // A quarter of the places is two, so that one of them is refused.
    tokio::time::timeout(LONG, slow.join_next()).await.unwrap().unwrap().unwrap();
    // Requests with a complete body, or without one, are served meanwhile.
    let grace = north.wire("grace", Role::User);
    for key in 0..8 {
        grace.post_once("/v1/reservations", &key.to_string(), &reserve(1)).await.document(201);
        ada.get("/v1/resources").await.document(200);
    }
    assert!(slow.try_join_next().is_none(), "the other two wait");
    drop(slow);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_user_watches_only_so_often_and_others_watch_too() {
    let north = North::with_limits(Limits { watchers: 8, ..Limits::default() }).await;
    let mut watching = Vec::new();
    for _ in 0..2 {
        let mut stream = north.ada().begin("GET", "/v1/events", &[], "").await;
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
        watching.push(stream);
    }
    let often = north.ada().get("/v1/events").await;
    assert_eq!(often.problem(), (429, "too-many-requests".into()));
    let mut other = north.wire("grace", Role::User).begin("GET", "/v1/events", &[], "").await;
    let mut status = [0; 12];
    other.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    drop((watching, other));
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

#[tokio::test(flavor = "multi_thread")]
async fn web_pages_of_allowed_origins_may_call_and_others_may_not() {
    const ALLOWED: &str = "access-control-allow-origin";
    let portal = "https://portal.example.org";
    let limits = Limits { browser_origins: vec![portal.into()], ..Limits::default() };
    assert!(limits.check().is_ok());
    let north = North::with_limits(limits).await;
    let preflight = [("origin", portal), ("access-control-request-method", "POST")];
    let ask = async |north: &North| {
        Reply::read(north.ada().begin("OPTIONS", "/v1/reservations", &preflight, "").await).await
    };
    let asked = ask(&north).await;
    assert_eq!((asked.status, asked.header(ALLOWED)), (200, Some(portal)));
    let headers = asked.header("access-control-allow-headers").unwrap();
    assert!(headers.contains("authorization") && headers.contains("idempotency-key"), "{headers}");
    let called = north.ada().send("GET", "/v1/resources", &[("origin", portal)], "").await;
    assert_eq!((called.status, called.header(ALLOWED)), (200, Some(portal)));
    assert!(called.header("access-control-expose-headers").unwrap().contains("etag"));
    let other = north.ada().send("GET", "/v1/resources", &[("origin", "https://evil.example.org")], "").await;
    assert_eq!(other.header(ALLOWED), None);
    north.end().await;
    let north = North::start().await;
    assert_eq!(ask(&north).await.status, 405);
    assert_eq!(north.ada().send("GET", "/v1/resources", &preflight[..1], "").await.header(ALLOWED), None);
    north.end().await;
    for wrong in ["*", "portal.example.org", "https://", "https://portal.example.org/", "https://a b"] {
        let limits = Limits { browser_origins: vec![wrong.into()], ..Limits::default() };
        assert!(limits.check().is_err(), "{wrong}");
    }
}
