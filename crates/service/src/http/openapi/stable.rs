//! The API of version 1 only grows: what a client could send is still accepted, and what it could rely on in an answer
//! is still there. Compares the document with the one that was promised, `openapi/v1.json`.

use super::document;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// Which way a document goes. A client may send less than it could, and ignore what it does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Request,
    Answer,
}

struct Comparison<'a> {
    old: &'a Value,
    new: &'a Value,
    /// Schemas that were compared, because they may refer to themselves.
    seen: BTreeSet<(String, Way)>,
    broken: Vec<String>,
}

/// What the new document breaks.
fn broken(old: &Value, new: &Value) -> Vec<String> {
    let mut comparison = Comparison { old, new, seen: BTreeSet::new(), broken: Vec::new() };
    for (path, methods) in old["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            comparison.operation(&format!("{method} {path}"), operation, &new["paths"][path][method]);
        }
    }
    comparison.broken
}

fn strings(value: &Value) -> BTreeSet<&str> {
    match value {
        Value::String(one) => BTreeSet::from([one.as_str()]),
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => BTreeSet::new(),
    }
}

fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let place = value["$ref"].as_str().and_then(|place| place.strip_prefix('#'));
    place.map_or(value, |place| document.pointer(place).unwrap())
}

impl Comparison<'_> {
    fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(what());
        }
    }

    fn operation(&mut self, route: &str, old: &Value, new: &Value) {
        self.check(new.is_object(), || format!("{route} is gone"));
        self.check(old["operationId"] == new["operationId"], || format!("{route} has another operationId"));
        let none = Vec::new();
        let (before, after) =
            (old["parameters"].as_array().unwrap_or(&none), new["parameters"].as_array().unwrap_or(&none));
        let same = |one: &Value, other: &Value| one["name"] == other["name"] && one["in"] == other["in"];
        for parameter in before {
            let name = format!("{route} {}", parameter["name"]);
            match after.iter().find(|other| same(parameter, other)) {
                Some(found) => self.schema(&name, &parameter["schema"], &found["schema"], Way::Request),
                None => self.broken.push(format!("{name} is gone")),
            }
        }
        for parameter in after.iter().filter(|parameter| parameter["required"] == true) {
            let was = before.iter().any(|other| same(parameter, other) && other["required"] == true);
            self.check(was, || format!("{route} {} is required now", parameter["name"]));
        }
        let needs = |operation: &Value| operation["requestBody"]["required"] == true;
        self.check(needs(old) || !needs(new), || format!("{route} needs a body now"));
        self.contents(&format!("{route} body"), &old["requestBody"], &new["requestBody"], Way::Request);
        for (status, response) in
            old["responses"].as_object().unwrap().iter().filter(|(status, _)| status.starts_with('2'))
        {
            let (before, after) =
                (resolved(self.old, response), resolved(self.new, &new["responses"][status]));
            self.check(after.is_object(), || format!("{route} no longer answers {status}"));
            self.contents(&format!("{route} {status}"), before, after, Way::Answer);
        }
    }

    fn contents(&mut self, place: &str, old: &Value, new: &Value, way: Way) {
        for (media, content) in old["content"].as_object().into_iter().flatten() {
            let after = &new["content"][media];
            self.check(after.is_object(), || format!("{place}: {media} is gone"));
            self.schema(place, &content["schema"], &after["schema"], way);
        }
    }

    fn schema(&mut self, place: &str, old: &Value, new: &Value, way: Way) {
        if !new.is_object() {
            return self.broken.push(format!("{place} is gone"));
        }
        if let Some(name) = old["$ref"].as_str()
            && !self.seen.insert((name.to_owned(), way))
        {
            return;
        }
        let (old, new) = (resolved(self.old, old), resolved(self.new, new));
        self.types(place, old, new, way);
        self.bounds(place, old, new, way);
        let (before, after) = (strings(&old["required"]), strings(&new["required"]));
        let (must, may) = if way == Way::Request { (&after, &before) } else { (&before, &after) };
        for name in must.difference(may) {
            let change = if way == Way::Request { "is required now" } else { "may be missing now" };
            self.broken.push(format!("{place}.{name} {change}"));
        }
        for (name, member) in old["properties"].as_object().into_iter().flatten() {
            self.schema(&format!("{place}.{name}"), member, &new["properties"][name], way);
        }
        if old["items"].is_object() {
            self.schema(&format!("{place}[]"), &old["items"], &new["items"], way);
        }
        let variants = new["oneOf"].as_array().cloned().unwrap_or_default();
        for variant in old["oneOf"].as_array().into_iter().flatten() {
            let named = |other: &&Value| other["$ref"] == variant["$ref"] && other["type"] == variant["type"];
            match variants.iter().find(named) {
                Some(found) => self.schema(place, variant, found, way),
                None => self.broken.push(format!("{place}: the variant {variant} is gone")),
            }
        }
    }

    fn types(&mut self, place: &str, old: &Value, new: &Value, way: Way) {
        let (before, after) = (strings(&old["type"]), strings(&new["type"]));
        let (narrow, wide) = if way == Way::Request { (&before, &after) } else { (&after, &before) };
        let fits =
            narrow.iter().all(|kind| wide.contains(kind) || (*kind == "integer" && wide.contains("number")));
        self.check(fits, || format!("{place} was {before:?} and is {after:?}"));
        let (before, after) = (strings(&old["enum"]), strings(&new["enum"]));
        // New words may come in answers; clients are told to expect them.
        if way == Way::Request && !after.is_empty() {
            self.check(before.is_subset(&after), || format!("{place} takes fewer words"));
        }
        self.check(old["const"] == new["const"], || format!("{place} has another word"));
    }

    fn bounds(&mut self, place: &str, old: &Value, new: &Value, way: Way) {
        if way == Way::Answer {
            return;
        }
        for (bound, least) in [
            ("minimum", true),
            ("minLength", true),
            ("minItems", true),
            ("maximum", false),
            ("maxLength", false),
            ("maxItems", false),
        ] {
            let (before, after) = (old[bound].as_f64(), new[bound].as_f64());
            let holds = match (before, after) {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some(before), Some(after)) => {
                    if least {
                        after <= before
                    } else {
                        after >= before
                    }
                }
            };
            self.check(holds, || format!("{place}: {bound} was {before:?} and is {after:?}"));
        }
    }
}

#[test]
fn the_api_of_version_1_only_grows() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi/v1.json");
    let promised: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let broken = broken(&promised, &document());
    assert!(broken.is_empty(), "clients of version 1 would fail; keep it, or make a version 2: {broken:#?}");
}

#[test]
fn a_change_that_breaks_clients_is_found_and_one_that_adds_is_not() {
    type Change = fn(&mut Value);
    let breaking: [(&str, Change); 8] = [
        ("is gone", |api| drop(api["paths"]["/v1/probes"].as_object_mut().unwrap().remove("post"))),
        ("is gone", |api| {
            drop(
                api["components"]["schemas"]["Reservation"]["properties"]
                    .as_object_mut()
                    .unwrap()
                    .remove("owner"),
            );
        }),
        ("may be missing", |api| api["components"]["schemas"]["Reservation"]["required"] = json!(["id"])),
        ("is required now", |api| {
            api["components"]["schemas"]["Reserve"]["required"] = json!(["request", "book"]);
        }),
        ("and is", |api| {
            api["components"]["schemas"]["Part"]["properties"]["capacity"]["type"] = json!("string");
        }),
        ("fewer words", |api| api["components"]["schemas"]["Objective"]["enum"] = json!(["earliest-end"])),
        ("maxItems", |api| {
            api["components"]["schemas"]["Request"]["properties"]["parts"]["maxItems"] = json!(8);
        }),
        ("variant", |api| api["components"]["schemas"]["Work"]["oneOf"] = json!([])),
    ];
    let api = document();
    for (word, change) in breaking {
        let mut changed = api.clone();
        change(&mut changed);
        let found = broken(&api, &changed);
        assert!(found.iter().any(|one| one.contains(word)), "{word}: {found:?}");
    }
    let mut more = api.clone();
    more["paths"]["/v1/new"] = json!({"get": {"responses": {}}});
    more["components"]["schemas"]["Reservation"]["properties"]["new"] = json!({"type": "string"});
    more["components"]["schemas"]["Reserve"]["properties"]["new"] = json!({"type": "string"});
    assert_eq!(broken(&api, &more), Vec::<String>::new());
    assert_eq!(broken(&api, &api), Vec::<String>::new());
}
