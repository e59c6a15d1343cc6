//! Every refusal, of any layer, is a problem document.

use super::{North, Wire, ahead, request, reserve};
use bookahead_service::security::Role;
use bookahead_service::thread::Liveness;
use serde_json::{Value, json};

/// A unique key.
const OWN_KEY: &str = "own";

/// A request, and its refusal.
struct Case<'a> {
    method: &'static str,
    path: &'static str,
    headers: Vec<(&'static str, &'a str)>,
    body: String,
    refused: (u16, &'static str),
}

#[allow(clippy::needless_pass_by_value, reason = "bodies are written where they are used")]
fn case(
    method: &'static str,
    path: &'static str,
    body: impl ToString,
    refused: (u16, &'static str),
) -> Case<'static> {
    let body = body.to_string();
    Case { method, path, headers: vec![("idempotency-key", OWN_KEY)], body, refused }
}

fn with(headers: &[(&'static str, &'static str)], case: Case<'static>) -> Case<'static> {
    Case { headers: headers.to_vec(), ..case }
}

fn part(name: &str, value: Value) -> Value {
    let mut reserve = reserve(4);
    reserve["request"]["parts"][0][name] = value;
    reserve
}

fn cases() -> Vec<Case<'static>> {
    let bad = (400, "bad-request");
    let json = (400, "bad-json");
    vec![
        case("GET", "/v1", "", (404, "not-found")),
        case("GET", "/v1/reservations/rsv_1/", "", (404, "not-found")),
        case("PATCH", "/v1/reservations", "", (405, "method-not-allowed")),
        case("POST", "/v1/resources", "{}", (405, "method-not-allowed")),
        case("BREW", "/v1/health", "", (405, "method-not-allowed")),
        with(&[], case("POST", "/v1/reservations", reserve(4), (400, "no-key"))),
        with(&[("idempotency-key", "\"\"")], case("POST", "/v1/reservations", reserve(4), bad)),
        with(
            &[("idempotency-key", "1"), ("idempotency-key", "2")],
            case("POST", "/v1/reservations", reserve(4), bad),
        ),
        with(
            &[("idempotency-key", "1"), ("content-type", "text/plain")],
            case("POST", "/v1/reservations", reserve(4), (415, "unsupported-media-type")),
        ),
        with(&[("bookahead-clock-speed", "60")], case("GET", "/v1/reservations", "", (412, "other-clock"))),
        case("POST", "/v1/reservations", "", (415, "unsupported-media-type")),
        case("POST", "/v1/reservations", "{", json),
        case("POST", "/v1/reservations", "[]", json),
        case("POST", "/v1/reservations", "\u{fffd}", json),
        case("POST", "/v1/reservations", "[".repeat(100_000), json),
        case("POST", "/v1/reservations", json!({"request": request(4), "hold": 1}), json),
        case("POST", "/v1/reservations", part("earliest_start", json!("2026-11-16T09:00:00")), json),
        case("POST", "/v1/reservations", part("capacity", json!(-1)), json),
        case("POST", "/v1/reservations", part("kind", json!("a\u{0}b")), bad),
        case("POST", "/v1/reservations", json!({"request": request(4), "hold_for_seconds": -1}), bad),
        case("POST", "/v1/reservations", json!({"request": {"parts": []}}), (422, "malformed")),
        case("POST", "/v1/reservations", part("capacity", json!(0)), (422, "malformed")),
        case("POST", "/v1/reservations", part("capacity", json!(9)), (422, "no-such-resource")),
        case("POST", "/v1/reservations", part("latest_end", json!(ahead(400 * 86_400))), (422, "over-limit")),
        case("POST", "/v1/probes", part("duration_seconds", json!(0)), (422, "malformed")),
        case("GET", "/v1/reservations/4f", "", bad),
        case("GET", "/v1/reservations/rsv_%2B4f", "", bad),
        case("GET", "/v1/reservations/%ff", "", bad),
        case("GET", "/v1/reservations/rsv_4f", "", (404, "unknown")),
        case("GET", "/v1/reservations/rsv_4f/events", "", (404, "unknown")),
        with(&[("last-event-id", "-1")], case("GET", "/v1/events", "", bad)),
        with(&[("if-none-match", "3")], case("GET", "/v1/reservations/rsv_4f", "", (404, "unknown"))),
        case("POST", "/v1/reservations/rsv_4f/commit", "", (404, "unknown")),
        case("POST", "/v1/reservations/rsv_4f/commit", "null", json),
        case("POST", "/v1/reservations/rsv_4f/hold", "null", json),
        case("POST", "/v1/reservations/rsv_4f/commit", "\n", json),
        case("POST", "/v1/reservations/rsv_4f/commit", "[]", json),
        case("POST", "/v1/reservations/rsv_4f/hold", "{\"hold_for_seconds\": true}", json),
        case("POST", "/v1/reservations/rsv_4f/jobs", "{}", json),
        case("DELETE", "/v1/reservations/rsv_99", "", (410, "cancelled-before")),
        case("GET", "/v1/reservations?limit=0", "", bad),
        case("GET", "/v1/reservations?limit=1001", "", bad),
        case("GET", "/v1/reservations?limit=many", "", bad),
        case("GET", "/v1/reservations?cursor=here", "", bad),
        case("GET", "/v1/reservations?state=waiting", "", bad),
        case("GET", "/v1/reservations?stat=active", "", bad),
        case("GET", "/v1/reservations?from=2026-11-16", "", bad),
        case("GET", "/v1/reservations?from=2026-11-16T09:00:00Z&until=2026-11-16T09:00:00Z", "", bad),
        case("GET", "/v1/reservations?owner=%00", "", bad),
        case("GET", "/v1/schedule?until=2020-01-01T00:00:00Z", "", bad),
        case(
            "GET",
            "/v1/schedule?from=2020-01-01T00:00:00Z&until=2030-01-01T00:00:00Z",
            "",
            (422, "over-limit"),
        ),
        case("POST", "/v1/sites", "{}", (403, "forbidden")),
        case("GET", "/v1/jobs/job_x", "", bad),
    ]
}

fn more_cases() -> Vec<Case<'static>> {
    let json = (400, "bad-json");
    vec![
        case("POST", "/v1/reservations/rsv_4f/extend", json!({"end": ahead(60)}), (428, "no-version")),
        with(&[("if-match", "*")], case("POST", "/v1/reservations/rsv_4f/extend", "{}", json)),
        with(
            &[("if-match", "*")],
            case("POST", "/v1/reservations/rsv_4f/extend", json!({"end": ahead(60)}), (404, "unknown")),
        ),
        case("POST", "/v1/jobs/job_4f/go", "", (404, "unknown-job")),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rejection_is_a_problem_document() {
    let north = North::start().await;
    let ada = north.ada();
    for (at, mut case) in cases().into_iter().chain(more_cases()).enumerate() {
        let key = format!("\"{at}\"");
        let own = case.headers.iter_mut().find(|(_, value)| *value == OWN_KEY);
        own.into_iter().for_each(|(_, value)| *value = key.as_str());
        let reply = ada.send(case.method, case.path, &case.headers, &case.body).await;
        let (status, code) = reply.problem();
        let asked = format!("{} {} {:.200}", case.method, case.path, case.body);
        assert_eq!((status, code.as_str()), case.refused, "{asked}: {}", reply.body);
        assert_eq!(reply.header("allow").is_some(), status == 405, "{asked}");
    }
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_body_is_named() {
    let north = North::start().await;
    let wrong = part("capacity", json!("four"));
    let reply = north.ada().post_once("/v1/reservations", "k", &wrong).await;
    assert!(reply.body.contains("request.parts[0].capacity"), "{}", reply.body);
    let reply = north.ada().get("/v1/reservations?limit=many").await;
    assert!(reply.body.contains("limit"), "{}", reply.body);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_let_in_without_saying_who_he_is() {
    let north = North::start().await;
    for nobody in [Wire::new(north.address, None), Wire::new(north.address, Some("not.a.token".into()))] {
        for path in ["/v1/resources", "/v1/events", "/v1/calendar.ics", "/v1/reservations/rsv_1"] {
            let reply = nobody.get(path).await;
            assert_eq!(reply.problem(), (401, "unauthenticated".into()));
            assert!(reply.header("www-authenticate").unwrap().starts_with("Bearer"), "{reply:?}");
        }
        assert_eq!(nobody.post("/v1/probes", &json!("not even JSON that fits")).await.status, 401);
        for path in ["/v1/health", "/metrics", "/openapi.json"] {
            assert_eq!(nobody.get(path).await.status, 200, "{path}");
        }
        assert_eq!(nobody.get("/v1/nothing").await.status, 404);
    }
    let bert = north.wire("bert", Role::Broker);
    let beat = json!({"name": "south", "url": "http://south", "role": "site"});
    assert_eq!(
        bert.post("/v1/sites", &beat).await.problem(),
        (404, "not-found".into()),
        "a site keeps no register"
    );
    assert_eq!(bert.post("/v1/sites", &json!({"name": "", "url": "x", "role": "site"})).await.status, 400);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_party_that_has_ended_says_so() {
    let north = North::start().await;
    let ada = north.ada();
    assert_eq!(ada.get("/v1/health").await.document(200)["status"], "ready");
    north.party().close();
    while north.party().liveness() != Liveness::Ended {
        tokio::task::yield_now().await;
    }
    assert_eq!(ada.get("/v1/health").await.document(503)["status"], "failed");
    // What is durable can still be read, unless it was in a database, where another process may continue.
    let is_shared = std::env::var_os(bookahead_tests::postgres::JOURNAL).is_some();
    assert_eq!(ada.get("/v1/resources").await.status, if is_shared { 503 } else { 200 });
    assert_eq!(
        ada.post_once("/v1/reservations", "k", &reserve(1)).await.problem(),
        (503, "unavailable".into())
    );
    assert_eq!(ada.get("/metrics").await.status, 200);
    north.end().await;
}
