//! Access that users give and end: secret addresses of calendars, and signing out everywhere.

use super::pages::{OF_PAGE, signed_in};
use super::{North, Wire, reserve};
use bookahead_service::security::Role;
use serde_json::json;

/// Books a reservation with this name.
async fn book(user: &Wire, name: &str) {
    let mut wanted = reserve(1);
    wanted["request"]["name"] = json!(name);
    wanted["book"] = json!(true);
    user.post_once("/v1/reservations", name, &wanted).await.document(201);
}

/// Makes an address for a calendar; returns its path.
async fn address(user: &Wire) -> String {
    let made = user.send("POST", "/v1/calendar-address", &[], "").await.document(200);
    made["path"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_calendar_is_read_at_its_address_until_that_is_withdrawn() {
    let north = North::start().await;
    let (ada, eve, olga) = (north.ada(), north.wire("eve", Role::User), north.wire("olga", Role::Operator));
    let nobody = Wire::new(north.address, None);
    book(&ada, "lecture").await;
    book(&eve, "secret").await;
    assert_eq!(ada.get("/v1/calendar-address").await.document(200), json!({}));
    let path = address(&ada).await;
    assert!(ada.get("/v1/calendar-address").await.document(200)["made"].is_string());
    let read = nobody.get(&path).await;
    assert_eq!((read.status, read.header("cache-control")), (200, Some("no-store")));
    assert!(read.body.contains("SUMMARY:lecture") && !read.body.contains("secret"), "{}", read.body);
    // Of an operator too, it is the own calendar only.
    let of_olga = nobody.get(&address(&olga).await).await;
    assert!(of_olga.status == 200 && !of_olga.body.contains("SUMMARY"), "{}", of_olga.body);

    let second = address(&ada).await;
    assert_eq!(nobody.get(&path).await.problem(), (404, "not-found".into()), "it was replaced");
    assert_eq!(nobody.get(&second).await.status, 200);
    assert_eq!(eve.send("DELETE", "/v1/calendar-address", &[], "").await.status, 204);
    let others = eve.send("DELETE", "/v1/calendar-address?user=ada", &[], "").await;
    assert_eq!(others.problem(), (403, "forbidden".into()));
    assert_eq!(nobody.get(&second).await.status, 200);
    assert_eq!(olga.send("DELETE", "/v1/calendar-address?user=ada", &[], "").await.status, 204);
    assert_eq!(nobody.get(&second).await.problem(), (404, "not-found".into()));
    assert_eq!(ada.get("/v1/calendar-address").await.document(200), json!({}));
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_of_a_calendar_is_of_no_use_for_anything_else() {
    let north = North::start().await;
    let ada = north.ada();
    book(&ada, "lecture").await;
    let path = address(&ada).await;
    let secret = path.rsplit('/').next().unwrap().trim_end_matches(".ics").to_owned();
    assert!(secret.len() >= 43, "256 bits");
    let nobody = Wire::new(north.address, None);
    let thief = Wire::new(north.address, Some(secret.clone()));
    for known in ["/v1/reservations", "/v1/calendar.ics", "/v1/calendar-address"] {
        assert_eq!(thief.get(known).await.status, 401, "{known}");
        assert_eq!(nobody.get(&format!("{known}?address={secret}")).await.status, 401, "{known}");
    }
    assert_eq!(nobody.send("DELETE", &path, &[], "").await.status, 405);
    for wrong in ["/v1/calendars/", "/v1/calendars/.ics", "/v1/calendars/x.ics", &path[..path.len() - 5]] {
        assert_eq!(nobody.get(wrong).await.status, 404, "{wrong}");
    }
    // A broker that may act for ada cannot take her calendar along.
    let broker = north.wire("grid", Role::Broker);
    let acting = broker.send("POST", "/v1/calendar-address", &[("bookahead-user", "ada")], "").await;
    assert_eq!(acting.problem(), (403, "forbidden".into()));
    assert_eq!(nobody.get(&path).await.status, 200);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_signs_out_everywhere_has_no_sessions_and_tokens_left() {
    let north = North::start().await;
    let browser = Wire::new(north.address, None);
    let lost = signed_in(&browser, "ada", Role::User).await;
    let cookie = signed_in(&browser, "ada", Role::User).await;
    let (ada, eve, olga) = (north.ada(), north.wire("eve", Role::User), north.wire("olga", Role::Operator));
    // A page of another origin sends the cookie, but not the header.
    let others = browser.send("DELETE", "/v1/sessions", &[("cookie", &cookie)], "").await;
    assert_eq!(others.problem(), (403, "forbidden".into()));
    assert_eq!(eve.send("DELETE", "/v1/sessions?user=ada", &[], "").await.problem().0, 403);
    assert_eq!(ada.get("/v1/reservations").await.status, 200);
    let out = browser.send("DELETE", "/v1/sessions", &[("cookie", &cookie), OF_PAGE], "").await;
    assert_eq!(out.status, 204);
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    for cookie in [&lost, &cookie] {
        let reply = browser.send("GET", "/v1/reservations", &[("cookie", cookie)], "").await;
        assert_eq!(reply.problem(), (401, "unauthenticated".into()));
        assert!(reply.body.contains("signed out everywhere"), "{}", reply.body);
    }
    assert_eq!(ada.get("/v1/reservations").await.status, 401);
    assert_eq!(eve.get("/v1/reservations").await.status, 200);
    let by_operator = olga.send("DELETE", "/v1/sessions?user=eve", &[], "").await;
    assert_eq!((by_operator.status, by_operator.header("set-cookie")), (204, None));
    assert_eq!(eve.get("/v1/reservations").await.status, 401);
    assert_eq!(olga.get("/v1/reservations").await.status, 200);
    north.end().await;
}
