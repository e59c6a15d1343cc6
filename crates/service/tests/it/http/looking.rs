//! Queries: pages, schedules, the calendar, metrics, and the OpenAPI document.

use super::{North, Wire, ahead, request, reserve};
use bookahead_service::security::Role;
use serde_json::{Value, json};
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread")]
async fn lists_come_in_pages_that_leave_nothing_out() {
    let north = North::start().await;
    let ada = north.ada();
    let mut made = Vec::new();
    for key in 0..7 {
        let new = ada.post_once("/v1/reservations", &key.to_string(), &reserve(1)).await;
        let new = new.document(201);
        let begin = new["slots"][0]["begin"].as_str().unwrap().to_owned();
        made.push((begin, new["id"].as_str().unwrap().to_owned()));
    }
    let commit = format!("/v1/reservations/{}/commit", made[3].1);
    assert_eq!(ada.send("POST", &commit, &[], "").await.document(200)["state"], "committed");

    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = ada.get(&format!("/v1/reservations?limit=3{cursor}")).await.document(200);
        assert_eq!(page["total"], 7);
        let page_of = page["reservations"].as_array().unwrap().iter();
        seen.extend(page_of.map(|one| one["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    let mut sorted = made.clone();
    sorted.sort_by_key(|(begin, id)| (begin.clone(), id.len(), id.clone()));
    assert_eq!(seen, sorted.into_iter().map(|(_, id)| id).collect::<Vec<_>>());

    let count = |query: String| {
        let ada = ada.clone();
        async move { ada.get(&query).await.document(200)["reservations"].as_array().unwrap().len() }
    };
    assert_eq!(count("/v1/reservations?state=committed,active".into()).await, 1);
    assert_eq!(count("/v1/reservations?resource=cluster".into()).await, 7);
    assert_eq!(count("/v1/reservations?resource=other".into()).await, 0);
    assert_eq!(count(format!("/v1/reservations?from={}", ahead(86_400))).await, 0);
    assert_eq!(count(format!("/v1/reservations?until={}", ahead(3_000))).await, 0);
    assert_eq!(count(format!("/v1/reservations?from={}&until={}", ahead(0), ahead(86_400))).await, 7);
    north.end().await;
}

/// A booking with a name, a note, a label, and other users.
fn described(capacity: u32, name: &str, users: &[&str]) -> Value {
    let mut request = request(capacity);
    request["name"] = json!(name);
    request["note"] = json!("first line\nsecond, line");
    request["labels"] = json!({"course": name.to_lowercase()});
    request["shared_with"] = json!(users);
    json!({"request": request, "book": true})
}

#[tokio::test(flavor = "multi_thread")]
async fn reservations_are_found_by_name_and_label_and_shown_with_their_request() {
    let north = North::start().await;
    let ada = north.ada();
    let made =
        ada.post_once("/v1/reservations", "1", &described(2, "MPI Course", &["bob"])).await.document(201);
    ada.post_once("/v1/reservations", "2", &described(2, "Night run", &[])).await.document(201);
    assert_eq!((&made["name"], &made["shared_with"]), (&json!("MPI Course"), &json!(["bob"])));
    let path = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
    let shown = ada.get(&path).await.document(200);
    assert_eq!((&shown["request"]["name"], &shown["request"]["note"]), (&made["name"], &made["note"]));
    assert!(shown["created"].as_str().is_some_and(|created| created.ends_with('Z')), "{shown}");
    for (query, many) in [
        ("name=course", 1),
        ("name=COURSE", 1),
        ("name=none", 0),
        ("label=course=night%20run", 1),
        ("label=course=other", 0),
    ] {
        let found = ada.get(&format!("/v1/reservations?{query}")).await.document(200);
        assert_eq!((&found["total"], found["reservations"].as_array().unwrap().len()), (&json!(many), many));
    }
    // A new name needs no other terms, and is a new version.
    let mut change = shown["request"].clone();
    change["name"] = json!("OpenMP Course");
    let change = json!({"request": change}).to_string();
    let changed = ada.send("PUT", &path, &[("If-Match", "\"1\"")], &change).await.document(200);
    assert_eq!((&changed["name"], &changed["version"]), (&json!("OpenMP Course"), &json!(2)));
    assert_eq!(changed["slots"], shown["slots"]);
    assert_eq!(ada.send("PUT", &path, &[("If-Match", "\"1\"")], &change).await.problem().1, "changed");
    let calendar = ada.get("/v1/calendar.ics").await.body.replace("\r\n ", "");
    assert!(calendar.contains("SUMMARY:OpenMP Course (ada)"), "{calendar}");
    assert!(calendar.contains("DESCRIPTION:first line\\nsecond\\, line\\n\\nrsv_"), "{calendar}");
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_beyond_their_bounds_and_with_hidden_characters_are_refused() {
    let north = North::start().await;
    let ada = north.ada();
    for (field, value) in [
        ("name", json!("")),
        ("name", json!("x".repeat(101))),
        ("name", json!("a\nb")),
        ("name", json!("a\u{202e}b")),
        ("note", json!("x".repeat(1_001))),
        ("note", json!("\u{1b}[31m")),
        ("labels", json!({"a b": "c"})),
        ("labels", json!({"a": "x".repeat(256)})),
        ("labels", (0..17).map(|number| (format!("k{number}"), json!("v"))).collect::<Value>()),
        ("shared_with", json!([""])),
        ("shared_with", json!(vec!["bob"; 65])),
    ] {
        let mut request = request(1);
        request[field] = value.clone();
        let refused = ada.post_once("/v1/reservations", field, &json!({"request": request})).await.problem();
        assert!(matches!(refused.0, 400 | 422), "{field} {value}: {refused:?}");
    }
    assert_eq!(ada.get("/v1/reservations?label=course").await.problem().0, 400);
    assert_eq!(ada.get("/v1/reservations?cursor=rsv_1").await.problem().0, 400);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_users_see_a_shared_reservation_and_cannot_change_it() {
    let north = North::start().await;
    let (ada, bob, eve) = (north.ada(), north.wire("bob", Role::User), north.wire("eve", Role::User));
    let made = ada.post_once("/v1/reservations", "1", &described(2, "Course", &["bob"])).await.document(201);
    let path = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
    assert_eq!(bob.get(&path).await.document(200)["owner"], "ada");
    assert_eq!(eve.get(&path).await.problem().0, 403);
    for (wire, many) in [(&ada, 1), (&bob, 1), (&eve, 0)] {
        assert_eq!(wire.get("/v1/reservations").await.document(200)["total"], many);
        assert_eq!(events(&wire.get("/v1/calendar.ics").await.body).len(), many);
    }
    let own = bob.get("/v1/reservations?owner=bob").await.document(200);
    assert_eq!(own["total"], 0, "only what he owns");
    let blocks = bob.get("/v1/schedule").await.document(200);
    assert_eq!(blocks["resources"][0]["blocks"][0]["owner"], "ada");
    assert_eq!(bob.send("DELETE", &path, &[], "").await.problem().0, 403);
    let job = json!({"reservation": made["id"], "capacity": 1, "limit_seconds": 60, "name": "step 1",
        "labels": {"course": "mpi"}, "work": {"type": "pretended", "run_seconds": 10}});
    let submitted = bob.post_once("/v1/jobs", "j", &job).await.document(201);
    assert_eq!((&submitted["owner"], &submitted["name"]), (&json!("bob"), &json!("step 1")));
    assert_eq!(eve.post_once("/v1/jobs", "e", &job).await.problem().0, 403);
    for (query, many) in [("name=STEP", 1), ("name=other", 0), ("label=course=mpi", 1), ("label=course=x", 0)]
    {
        let found = bob.get(&format!("/v1/jobs?{query}")).await.document(200);
        assert_eq!(found["jobs"].as_array().unwrap().len(), many, "{query}");
    }
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_reservation_is_an_invitation_until_it_is_accepted_and_guests_see_only_users_of_their_projects()
 {
    let north = North::start().await;
    let [ada, bob, eve, kim, zoe] =
        ["ada", "bob", "eve", "kim", "zoe"].map(|user| north.wire(user, Role::User));
    let made = described(2, "Course", &["bob", "eve", "kim"]);
    let made = ada.post_once("/v1/reservations", "1", &made).await.document(201);
    assert_eq!(made["consents"], json!({"kim": "accepted"}), "she is in a project with the owner");
    assert!(made.get("invitation").is_none());
    let path = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
    let shown = bob.get(&path).await.document(200);
    assert_eq!((&shown["invitation"], &shown["shared_with"]), (&json!(true), &json!(["bob"])));
    assert_eq!(shown["request"]["shared_with"], json!(["bob"]), "also in the request");
    let of_kim = kim.get(&path).await.document(200);
    assert_eq!((of_kim.get("invitation"), &of_kim["shared_with"]), (None, &json!(["kim"])));
    let calendar = events(&bob.get("/v1/calendar.ics").await.body);
    for property in
        [("STATUS", "TENTATIVE"), ("SUMMARY", "Invitation: Course (ada)"), ("TRANSP", "TRANSPARENT")]
    {
        assert!(calendar[0].contains(&(property.0.into(), property.1.into())), "{calendar:?}");
    }
    // A key that the owner uses, too, and an answer that is repeated.
    let answer = |answer: &str| json!({"answer": answer});
    let invitation = format!("{path}/invitation");
    for _ in 0..2 {
        let accepted = bob.post_once(&invitation, "1", &answer("accepted")).await.document(200);
        assert_eq!((accepted.get("invitation"), &accepted["version"]), (None, &json!(2)));
    }
    assert!(bob.get("/v1/calendar.ics").await.body.contains("STATUS:CONFIRMED"));
    assert_eq!(
        zoe.post_once(&invitation, "1", &answer("accepted")).await.problem(),
        (403, "not-owner".into())
    );
    assert_eq!(ada.post_once(&invitation, "2", &answer("accepted")).await.problem().0, 400);
    let unknown =
        bob.post_once("/v1/reservations/rsv_77/invitation", "3", &answer("accepted")).await.problem();
    assert_eq!(unknown, (404, "unknown".into()));
    // Answers in a request are those of brokers only.
    let mut forged = described(1, "Other", &["zoe"]);
    forged["request"]["consents"] = json!({"zoe": "accepted"});
    let forged = ada.post_once("/v1/reservations", "forged", &forged).await.document(201);
    assert!(forged.get("consents").is_none(), "{forged}");

    eve.post_once(&invitation, "1", &answer("declined")).await.document(200);
    assert_eq!(
        (eve.get(&path).await.problem().0, eve.get("/v1/reservations").await.document(200)["total"].clone()),
        (403, json!(0))
    );
    // The owner changes the name and sees the answers.
    let mut change = ada.get(&path).await.document(200)["request"].clone();
    change.as_object_mut().unwrap().remove("consents");
    change["name"] = json!("Course 2");
    let change = json!({"request": change}).to_string();
    let changed = ada.send("PUT", &path, &[("If-Match", "*")], &change).await.document(200);
    assert_eq!(changed["consents"], json!({"bob": "accepted", "eve": "declined", "kim": "accepted"}));
    assert_eq!(eve.post_once(&invitation, "2", &answer("accepted")).await.document(200)["name"], "Course 2");
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_guests_answer_at_once_and_no_answer_is_lost() {
    let north = North::start().await;
    let guests: Vec<String> = (0..16).map(|number| format!("guest+{number}")).collect();
    let names: Vec<&str> = guests.iter().map(String::as_str).collect();
    let made =
        north.ada().post_once("/v1/reservations", "1", &described(2, "Course", &names)).await.document(201);
    let path = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
    let mut answers = JoinSet::new();
    for user in &names {
        let (wire, invitation) = (north.wire(user, Role::User), format!("{path}/invitation"));
        answers.spawn(async move {
            wire.post_once(&invitation, "1", &json!({"answer": "accepted"})).await.document(200)
        });
    }
    answers.join_all().await;
    let shown = north.ada().get(&path).await.document(200);
    assert_eq!((shown["consents"].as_object().unwrap().len(), &shown["version"]), (16, &json!(17)));
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invitations_of_a_blocked_user_are_not_shown_until_the_user_is_unblocked() {
    let north = North::start().await;
    let (ada, bob) = (north.wire("ada+x@uni.org", Role::User), north.wire("bob", Role::User));
    let first = ada.post_once("/v1/reservations", "1", &described(1, "First", &["bob"])).await.document(201);
    ada.post_once("/v1/reservations", "2", &described(1, "Second", &["bob"])).await.document(201);
    let invitation = format!("/v1/reservations/{}/invitation", first["id"].as_str().unwrap());
    bob.post_once(&invitation, "1", &json!({"answer": "accepted"})).await.document(200);
    let total = || async { bob.get("/v1/reservations").await.document(200)["total"].clone() };
    assert_eq!(total().await, 2);
    let blocked = "/v1/blocked-users?user=ada%2Bx@uni.org";
    assert_eq!(bob.send("PUT", blocked, &[], "").await.status, 204);
    let listed = bob.get("/v1/blocked-users").await.document(200);
    assert_eq!((listed, total().await), (json!({"users": ["ada+x@uni.org"]}), json!(1)));
    assert_eq!(events(&bob.get("/v1/calendar.ics").await.body).len(), 1, "what was accepted stays");
    let drawn = bob.get("/v1/schedule").await.document(200);
    let owners = drawn["resources"][0]["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|block| block.get("owner").is_some());
    assert_eq!(owners.count(), 1);
    assert_eq!(bob.send("PUT", "/v1/blocked-users", &[], "").await.problem().0, 400);
    assert_eq!(bob.send("DELETE", blocked, &[], "").await.status, 204);
    assert_eq!(total().await, 2);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_sites_and_schedules_are_shown() {
    let north = North::start().await;
    let ada = north.ada();
    ada.post_once("/v1/reservations", "k", &reserve(5)).await.document(201);
    let resources = ada.get("/v1/resources").await.document(200);
    assert_eq!(
        (&resources["resources"][0]["name"], &resources["resources"][0]["capacity"]),
        (&json!("cluster"), &json!(8))
    );
    let sites = ada.get("/v1/sites").await.document(200);
    assert_eq!((&sites["sites"][0]["name"], &sites["sites"][0]["role"]), (&json!("north"), &json!("site")));
    let schedule = ada.get("/v1/schedule?resource=cluster").await.document(200);
    let block = &schedule["resources"][0]["blocks"][0];
    assert_eq!(
        (&block["kind"], &block["capacity"], &block["owner"]),
        (&json!("hold"), &json!(5), &json!("ada"))
    );
    assert_eq!(ada.get("/v1/schedule?resource=other").await.document(200), json!({"resources": []}));
    let head = ada.send("HEAD", "/v1/resources", &[], "").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    north.end().await;
}

/// The properties of the events of a calendar, unfolded.
fn events(calendar: &str) -> Vec<Vec<(String, String)>> {
    assert!(
        calendar.starts_with("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n")
            && calendar.ends_with("\r\nEND:VCALENDAR\r\n")
    );
    assert!(calendar.split("\r\n").all(|line| line.len() <= 75 && !line.contains(['\r', '\n'])));
    let mut events = Vec::new();
    for line in calendar.replace("\r\n ", "").split_terminator("\r\n") {
        let (name, value) = line.split_once(':').unwrap();
        match (name, value) {
            ("BEGIN", "VEVENT") => events.push(Vec::new()),
            _ => events
                .last_mut()
                .into_iter()
                .for_each(|event: &mut Vec<_>| event.push((name.into(), value.into()))),
        }
    }
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn the_calendar_shows_each_what_he_may_see() {
    let north = North::start().await;
    let ada = north.ada();
    let made = ada.post_once("/v1/reservations", "1", &reserve(3)).await.document(201);
    let gone = ada.post_once("/v1/reservations", "2", &reserve(2)).await;
    ada.send("DELETE", gone.header("location").unwrap(), &[], "").await.document(200);
    let calendar = ada.get("/v1/calendar.ics").await;
    assert_eq!(calendar.header("content-type"), Some("text/calendar; charset=utf-8"));
    let events_of = events(&calendar.body);
    let property = |event: &[(String, String)], name: &str| {
        event.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()).unwrap()
    };
    let uid = format!("{}@north", made["id"].as_str().unwrap());
    let own = events_of.iter().find(|event| property(event, "UID") == uid).unwrap();
    assert_eq!(property(own, "STATUS"), "TENTATIVE");
    assert_eq!(property(own, "SUMMARY"), "3 of cluster (ada)");
    let begin = made["slots"][0]["begin"].as_str().unwrap();
    assert_eq!(property(own, "DTSTART"), begin.replace(['-', ':'], ""));
    assert_eq!(events_of.len(), 1, "what was cancelled is not shown: {events_of:?}");
    assert_eq!(events(&north.wire("grace", Role::User).get("/v1/calendar.ics").await.body).len(), 0);
    let rita = north.wire("rita", Role::Reader);
    assert_eq!(events(&rita.get("/v1/calendar.ics").await.body).len(), 1);
    assert_eq!(events(&rita.get("/v1/calendar.ics?owner=rita").await.body).len(), 0);
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_calls_and_reservations_are_counted() {
    let north = North::start().await;
    let ada = north.ada();
    ada.post_once("/v1/reservations", "1", &json!({"request": request(8), "book": true})).await.document(201);
    ada.post_once("/v1/reservations", "2", &json!({"request": request(9)})).await.problem();
    ada.get("/v1/nothing").await.problem();
    let metrics = ada.get("/metrics").await;
    assert_eq!(
        metrics.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    for line in [
        "bookahead_http_requests_total{route=\"/v1/reservations\",method=\"POST\",status=\"201\"} 1",
        "bookahead_http_requests_total{route=\"none\",method=\"GET\",status=\"404\"} 1",
        "bookahead_http_request_duration_seconds_count{route=\"/v1/reservations\",method=\"POST\"} 2",
        "bookahead_calls_total{call=\"book\",outcome=\"committed\"} 1",
        "bookahead_calls_total{call=\"reserve\",outcome=\"no-such-resource\"} 1",
        "bookahead_reservations{state=\"committed\"} 1",
        "bookahead_reservations{state=\"active\"} 0",
        "# EOF",
    ] {
        assert!(metrics.body.lines().any(|known| known == line), "{line} in\n{}", metrics.body);
    }
    let durable =
        metrics.body.lines().find_map(|line| line.strip_prefix("bookahead_journal_sequence ")).unwrap();
    assert_eq!(durable.parse::<u64>().unwrap(), north.party().durable());
    assert!(!metrics.body.contains("ada"), "no user is named");
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_and_the_health_are_there_for_everybody() {
    let north = North::start().await;
    let document: Value = north.ada().get("/openapi.json").await.document(200);
    assert_eq!(document, bookahead_service::http::openapi());
    let health = north.ada().get("/v1/health").await.document(200);
    assert_eq!(
        (&health["name"], &health["role"], &health["clock_speed"]),
        (&json!("north"), &json!("site"), &json!(1))
    );
    north.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_tells_the_clock() {
    let north = North::start().await;
    let nobody = Wire::new(north.address, None);
    for (asking, path, status) in [
        (north.ada(), "/v1/reservations", 200),
        (north.ada(), "/v1/reservations/rsv_1", 404),
        (north.ada(), "/nothing", 404),
        (nobody.clone(), "/v1/reservations", 401),
        (nobody, "/v1/health", 200),
    ] {
        let reply = asking.get(path).await;
        assert_eq!(reply.status, status, "{path}");
        let now: bookahead_api::Timestamp = reply.header("bookahead-now").unwrap().parse().unwrap();
        let passed = north.party().clock().now().second() - now.time();
        assert!((0..60).contains(&passed.0), "{path}: {reply:?}");
        assert_eq!(reply.header("bookahead-clock-speed"), None, "it is that of every clock");
    }
    north.end().await;
}
