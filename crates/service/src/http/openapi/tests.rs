//! What the document promises of itself.

use super::*;
use bookahead_api::problem::MEDIA_TYPE;
use serde_json::Map;
use std::collections::BTreeSet;
use std::path::Path;

/// The routes that there are.
const ROUTES: [(&str, &[&str]); 36] = [
    ("/docs", &["get"]),
    ("/metrics", &["get"]),
    ("/openapi.json", &["get"]),
    ("/v1/blocked-users", &["delete", "get", "put"]),
    ("/v1/calendar-address", &["delete", "get", "post"]),
    ("/v1/calendar.ics", &["get"]),
    ("/v1/calendars/{address}", &["get"]),
    ("/v1/events", &["get"]),
    ("/v1/health", &["get"]),
    ("/v1/jobs", &["get", "post"]),
    ("/v1/jobs/{id}", &["delete", "get"]),
    ("/v1/jobs/{id}/events", &["get"]),
    ("/v1/jobs/{id}/go", &["post"]),
    ("/v1/jobs/{id}/output", &["get"]),
    ("/v1/probes", &["post"]),
    ("/v1/reservations", &["get", "post"]),
    ("/v1/reservations/{id}", &["delete", "get", "put"]),
    ("/v1/reservations/{id}/commit", &["post"]),
    ("/v1/reservations/{id}/events", &["get"]),
    ("/v1/reservations/{id}/extend", &["post"]),
    ("/v1/reservations/{id}/finish", &["post"]),
    ("/v1/reservations/{id}/history", &["get"]),
    ("/v1/reservations/{id}/hold", &["post"]),
    ("/v1/reservations/{id}/invitation", &["post"]),
    ("/v1/reservations/{id}/jobs", &["post"]),
    ("/v1/reservations/{id}/prepare", &["post"]),
    ("/v1/reservations/{id}/release", &["post"]),
    ("/v1/resources", &["get"]),
    ("/v1/schedule", &["get"]),
    ("/v1/session", &["delete", "get", "post"]),
    ("/v1/sessions", &["delete"]),
    ("/v1/sites", &["get", "post"]),
    ("/v1/times", &["post"]),
    ("/v1/usage", &["get"]),
    ("/v1/usage/records", &["get"]),
    ("/v1/what-if", &["post"]),
];

fn operations(document: &Value) -> impl Iterator<Item = (String, &Map<String, Value>)> {
    let paths = document["paths"].as_object().unwrap().iter();
    paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (format!("{method} {path}"), operation.as_object().unwrap()))
    })
}

#[test]
fn every_route_is_described_under_a_name_of_its_own() {
    let document = document();
    let described: Vec<String> = operations(&document).map(|(route, _)| route).collect();
    let routes = ROUTES
        .iter()
        .flat_map(|(path, methods)| methods.iter().map(move |method| format!("{method} {path}")));
    let routes: Vec<String> = routes.collect();
    assert_eq!(BTreeSet::from_iter(&described), BTreeSet::from_iter(&routes));
    let names = operations(&document).map(|(_, operation)| operation["operationId"].as_str().unwrap());
    assert_eq!(names.collect::<BTreeSet<_>>().len(), routes.len());
    assert!(
        described.contains(&format!("post {}", reservations::PATH)),
        "the guard knows where probes are posted"
    );
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1."));
    assert!(!text().contains("u-int"), "numbers have formats that others know");
}

#[test]
fn every_route_says_what_it_may_refuse() {
    let document = document();
    for (route, operation) in operations(&document) {
        let open = operation.get("security").is_some();
        let responses = operation["responses"].as_object().unwrap();
        for status in ["400", "401", "403", "429", "503", "504"] {
            assert!(open || responses.contains_key(status), "{route} says nothing of {status}");
        }
        let body = operation.contains_key("requestBody");
        assert_eq!(responses.contains_key("413") && responses.contains_key("415"), body, "{route}");
        for (status, response) in responses.iter().filter(|(status, _)| status.as_str() >= "400") {
            let place = response.get("$ref").and_then(Value::as_str).map(|place| &place[1..]);
            let response = place.map_or(response, |place| document.pointer(place).unwrap());
            let content = response["content"].as_object().unwrap();
            let health = route == "get /v1/health" && status == "503";
            assert!(health || content.contains_key(MEDIA_TYPE), "{route} {status}");
        }
        assert!(
            operation["summary"].is_string() && operation["tags"].as_array().unwrap().len() == 1,
            "{route}"
        );
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn walk<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|member| walk(member, found));
            }
            Value::Array(members) => members.iter().for_each(|member| walk(member, found)),
            _ => {}
        }
    }
    let document = document();
    let mut found = Vec::new();
    walk(&document, &mut found);
    assert!(found.len() > 100, "{}", found.len());
    for reference in found {
        let place = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(place).is_some(), "{reference}");
    }
}

#[test]
fn the_document_that_is_kept_is_the_one_that_is_served() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi/bookahead.json");
    if std::env::var_os("BOOKAHEAD_UPDATE").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(kept.parent().unwrap()).unwrap();
        std::fs::write(&kept, text()).unwrap();
    }
    let same = std::fs::read_to_string(&kept).is_ok_and(|kept| kept == text());
    assert!(
        same,
        "openapi/bookahead.json is not what is served; run this test with BOOKAHEAD_UPDATE=1 to write it"
    );
}
