//! The OpenAPI document in a form from which generators of clients make plain types. Does not describe routes.

use crate::list::EVENT_KINDS;
use crate::problem::Code;
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

const SCHEMAS: &str = "/components/schemas";

/// Serializes the OpenAPI document in a form that generators of clients understand:
/// - each variant of a tagged enum is a schema with a name, and a discriminator leads to it;
/// - optional members of answers are missing, never null;
/// - an optional body is a body that is not required, not one that may be null;
/// - codes of problems and kinds of events are enums.
pub fn complete(described: &OpenApi) -> Result<Value, serde_json::Error> {
    let mut document = serde_json::to_value(described)?;
    if let Some(paths) = document.get_mut("paths") {
        plain_bodies(paths);
    }
    if let Some(schemas) = document.pointer_mut(SCHEMAS).and_then(Value::as_object_mut) {
        // Collected first, because `name_variants` adds schemas to the map.
        let unions: Vec<String> =
            schemas.keys().filter(|name| tag(&schemas[*name]).is_some()).cloned().collect();
        unions.iter().for_each(|name| name_variants(schemas, name));
        // Requests are closed; there, null is accepted for a missing field.
        let answers =
            schemas.values_mut().filter(|schema| schema.get("additionalProperties") != Some(&json!(false)));
        answers.for_each(never_null);
        words(schemas, "Problem", "code", Code::ALL.iter().map(|code| code.word()));
        words(schemas, "Event", "kind", EVENT_KINDS.iter().copied());
    }
    Ok(document)
}

/// Tagged enums in requests. utoipa does not derive `additionalProperties: false` for their variants from
/// `deny_unknown_fields`.
const CLOSED: [&str; 3] = ["Constraint", "Requirement", "Work"];

/// The member that tells the variants of a tagged enum apart.
fn tag(schema: &Value) -> Option<&str> {
    let variants = schema.get("oneOf")?.as_array()?;
    let tags = variants.first()?.get("properties")?.as_object()?.keys();
    tags.into_iter()
        .map(String::as_str)
        .find(|tag| variants.iter().all(|variant| word(variant, tag).is_some()))
}

/// The value of the tag in a variant.
fn word<'a>(variant: &'a Value, tag: &str) -> Option<&'a str> {
    match variant.get("properties")?.get(tag)?.get("enum")?.as_array()?.as_slice() {
        [one] => one.as_str(),
        _ => None,
    }
}

/// Moves the variants of a tagged enum to schemas of their own: `offset` of `Constraint` is `OffsetConstraint`.
fn name_variants(schemas: &mut Map<String, Value>, name: &str) {
    let Some(union) = schemas.get(name) else { return };
    let Some(tag) = tag(union).map(ToOwned::to_owned) else { return };
    let variants = union["oneOf"].as_array().cloned().unwrap_or_default();
    let (mut references, mut mapping) = (Vec::new(), Map::new());
    for mut variant in variants {
        let Some(word) = word(&variant, &tag).map(ToOwned::to_owned) else { continue };
        let own = format!("{}{name}", capitalized(&word));
        let place = format!("#{SCHEMAS}/{own}");
        variant["properties"][&tag] = json!({"type": "string", "const": word, "description": "Kind."});
        variant["title"] = json!(own);
        if CLOSED.contains(&name) {
            variant["additionalProperties"] = json!(false);
        }
        references.push(json!({"$ref": place}));
        mapping.insert(word, json!(place));
        schemas.insert(own, variant);
    }
    let union = &mut schemas[name];
    union["oneOf"] = Value::Array(references);
    union["discriminator"] = json!({"propertyName": tag, "mapping": mapping});
}

/// `ends-before` is `EndsBefore`.
fn capitalized(word: &str) -> String {
    let start = |part: &str| {
        let mut letters = part.chars();
        letters
            .next()
            .map(|first| first.to_uppercase().chain(letters).collect::<String>())
            .unwrap_or_default()
    };
    word.split('-').map(start).collect()
}

fn plain_bodies(paths: &mut Value) {
    let paths = paths.as_object_mut().into_iter().flat_map(Map::values_mut);
    let operations = paths.filter_map(Value::as_object_mut).flat_map(Map::values_mut);
    let bodies = operations.filter_map(|operation| operation.get_mut("requestBody"));
    for body in bodies {
        let documents = body["content"].as_object_mut().into_iter().flat_map(Map::values_mut);
        let optional = documents.filter_map(|document| document.get_mut("schema")).filter_map(without_null);
        if optional.count() > 0 {
            body["required"] = json!(false);
        }
    }
}

/// Removes null from the alternatives of a schema. `None` if it was not among them.
fn without_null(schema: &mut Value) -> Option<()> {
    let null = json!({"type": "null"});
    if let Some(types) = schema.get("type").and_then(Value::as_array)
        && let [one, other] = types.as_slice()
        && *other == json!("null")
    {
        schema["type"] = one.clone();
        return Some(());
    }
    let alternatives = schema.get("oneOf")?.as_array()?;
    let other = match alternatives.as_slice() {
        [one, other] if *one == null => other,
        [other, one] if *one == null => other,
        _ => return None,
    };
    *schema = other.clone();
    Some(())
}

fn never_null(schema: &mut Value) {
    // `None` only means that there was no null to remove.
    let _ = without_null(schema);
    match schema {
        Value::Object(members) => members.values_mut().for_each(never_null),
        Value::Array(members) => members.iter_mut().for_each(never_null),
        _ => {}
    }
}

fn words<'a>(
    schemas: &mut Map<String, Value>,
    schema: &str,
    member: &str,
    words: impl Iterator<Item = &'a str>,
) {
    let enumeration = format!("{schema}{}", capitalized(member));
    let words: Vec<&str> = words.collect();
    let Some(place) =
        schemas.get_mut(schema).and_then(|schema| schema.pointer_mut(&format!("/properties/{member}")))
    else {
        return;
    };
    let about = place["description"].take();
    *place = json!({"$ref": format!("#{SCHEMAS}/{enumeration}"), "description": about});
    let listed = json!({"type": "string", "title": enumeration, "description": about, "enum": words});
    schemas.insert(enumeration, listed);
}
