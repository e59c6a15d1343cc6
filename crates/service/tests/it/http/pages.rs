//! The web pages: their files, the data of the first view, sessions, and what pages ask.

use super::{North, Wire, ahead, reserve, token};
use bookahead_service::security::Role;
use serde_json::{Value, json};

pub(super) const OF_PAGE: (&str, &str) = ("x-bookahead-page", "1");

/// Signs a browser in; returns the cookie that it sends from then on.
pub(super) async fn signed_in(browser: &Wire, user: &str, role: Role) -> String {
    let with = json!({ "token": token(user, role) }).to_string();
    let reply = browser.send("POST", "/v1/session", &[OF_PAGE], &with).await;
    assert_eq!(reply.document(200)["user"]["name"], user);
    let set = reply.header("set-cookie").unwrap();
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Lax"), "{set}");
    set.split(';').next().unwrap().to_owned()
}

/// The data of the first view.
fn first_data(page: &str) -> Value {
    let data = page.split_once("id=\"first-data\">").unwrap().1.split_once("</script>").unwrap().0;
    serde_json::from_str(data).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_has_its_first_data_for_its_user_only() {
    let north = North::start().await;
    let nobody = Wire::new(north.address, None);
    let page = nobody.get("/").await;
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let data = first_data(&page.body);
    assert_eq!((&data["user"], &data["schedule"]), (&Value::Null, &Value::Null));
    assert_eq!(data["sign_in"], json!({ "token": true, "oidc": false, "choose_user": false }));

    let cookie = signed_in(&nobody, "ada", Role::User).await;
    let page = nobody.send("GET", "/", &[("cookie", &cookie)], "").await;
    let data = first_data(&page.body);
    assert_eq!(data["user"], json!({ "name": "ada", "operator": false }));
    assert_eq!(data["schedule"]["resources"][0]["free"][0]["capacity"], 8);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_the_page_are_served_once() {
    let north = North::start().await;
    let nobody = Wire::new(north.address, None);
    let file = nobody.get("/dashboard/main.js").await;
    assert_eq!((file.status, file.header("content-type")), (200, Some("text/javascript; charset=utf-8")));
    let tag = file.header("etag").unwrap();
    let same = nobody.send("GET", "/dashboard/main.js", &[("if-none-match", tag)], "").await;
    assert_eq!((same.status, same.header("cache-control")), (304, Some("no-cache")));
    for nothing in ["/dashboard/other.js", "/dashboard/..%2f..%2fCargo.toml", "/dashboard/"] {
        assert_eq!(nobody.get(nothing).await.status, 404, "{nothing}");
    }
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_is_as_good_as_a_token_but_not_for_other_pages() {
    let north = North::start().await;
    let browser = Wire::new(north.address, None);
    let cookie = signed_in(&browser, "ada", Role::User).await;
    let body = reserve(1).to_string();
    let key = ("idempotency-key", "\"1\"");
    let own = [("cookie", cookie.as_str()), key, OF_PAGE];
    assert_eq!(browser.send("POST", "/v1/reservations", &own, &body).await.document(201)["owner"], "ada");
    // A form of another page would send the cookie, but not the header.
    let others = browser.send("POST", "/v1/reservations", &own[..2], &body).await;
    assert_eq!(others.problem(), (403, "forbidden".into()));
    let list = browser.send("GET", "/v1/reservations", &own[..1], "").await.document(200);
    assert_eq!(list["total"], 1);
    // A token of the request counts more than the cookie.
    let grace = north.wire("grace", Role::User);
    let list = grace.send("GET", "/v1/reservations", &own[..1], "").await.document(200);
    assert_eq!(list["total"], 0);

    let out = browser.send("DELETE", "/v1/session", &own, "").await;
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(out.document(200)["user"], Value::Null);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_to_a_user_is_left_in_a_cache() {
    let north = North::start().await;
    let browser = Wire::new(north.address, None);
    let cookie = signed_in(&browser, "ada", Role::User).await;
    let with_cookie = [("cookie", cookie.as_str())];
    for path in [
        "/",
        "/v1/session",
        "/v1/reservations",
        "/v1/reservations/rsv_1",
        "/v1/calendar.ics",
        "/v1/usage",
        "/v1/nothing",
    ] {
        for (caller, headers) in [(&browser, &with_cookie[..]), (&north.ada(), &[])] {
            let reply = caller.send("GET", path, headers, "").await;
            assert_eq!(reply.header("cache-control"), Some("no-store"), "{path}");
        }
    }
    let reply = browser.send("GET", "/v1/reservations", &[("cookie", "bookahead-session=wrong")], "").await;
    assert_eq!((reply.status, reply.header("cache-control")), (401, Some("no-store")));
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_signs_in_needs_a_token_that_is_valid() {
    let north = North::start().await;
    let browser = Wire::new(north.address, None);
    for (with, refused) in [
        (json!({ "token": "not.a.token" }), (401, "unauthenticated")),
        (json!({ "token": "a;b" }), (400, "bad-request")),
        (json!({ "user": "ada" }), (400, "bad-request")),
        (json!({}), (400, "bad-request")),
    ] {
        let reply = browser.send("POST", "/v1/session", &[OF_PAGE], &with.to_string()).await;
        assert_eq!(reply.problem(), (refused.0, refused.1.to_owned()), "{with}");
        assert_eq!(reply.header("set-cookie"), None);
    }
    assert_eq!(browser.get("/v1/session").await.document(200)["user"], Value::Null);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn times_are_read_as_on_the_command_line() {
    let north = North::start().await;
    let nobody = Wire::new(north.address, None);
    let read = async |kind: &str, text: &str| {
        nobody.post("/v1/times", &json!({ "text": text, "zone": "Europe/Zurich", "kind": kind })).await
    };
    assert_eq!(read("length", "2h30m").await.document(200), json!({ "seconds": 9_000 }));
    let noon = read("time", "2026-11-16 12:00").await.document(200);
    assert_eq!(noon, json!({ "time": "2026-11-16T11:00:00Z" }));
    assert_eq!(read("time", "tomorow 9am").await.problem(), (422, "malformed".into()));
    assert_eq!(read("time", &"9".repeat(101)).await.problem(), (400, "bad-request".into()));
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_is_tried_without_being_booked() {
    let north = North::start().await;
    let ada = north.ada();
    let slot = |resource: &str, capacity: u32| json!({ "resource": resource, "begin": ahead(3_600), "end": ahead(7_200), "capacity": capacity });
    let tried = ada.post("/v1/what-if", &slot("cluster", 4)).await.document(200);
    assert_eq!(tried, json!({ "resource": "cluster", "jobs": [] }));
    assert_eq!(ada.post("/v1/what-if", &slot("other", 4)).await.problem(), (404, "not-found".into()));
    assert_eq!(ada.post("/v1/what-if", &slot("cluster", 0)).await.problem(), (400, "bad-request".into()));
    assert_eq!(ada.get("/v1/reservations").await.document(200)["total"], 0);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_are_not_known_send_small_documents_only() {
    let north = North::start().await;
    let nobody = Wire::new(north.address, None);
    let large = json!({ "token": "x".repeat(20_000) });
    for route in ["/v1/session", "/v1/times"] {
        let refused = nobody.post(route, &large).await;
        assert_eq!(refused.problem(), (413, "too-large".into()));
        assert!(
            refused.body.contains("16384 bytes"),
            "not another limit than that applied: {}",
            refused.body
        );
    }
    north.end().await;
}
