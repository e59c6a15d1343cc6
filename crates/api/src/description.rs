//! The OpenAPI document, completed: what the documents refuse, and the derived description does not say. Relies on the
//! names of the components; never describes routes, which is for whoever serves them.

use serde_json::{Value, json};
use utoipa::openapi::OpenApi;

/// Documents that come in, are one of several, and refuse fields that they do not know.
const CLOSED: [&str; 3] = ["Constraint", "Requirement", "Work"];

/// The document as JSON, with nothing left out.
pub fn complete(described: &OpenApi) -> Result<Value, serde_json::Error> {
    let mut document = serde_json::to_value(described)?;
    let schemas = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut);
    let closed = schemas.into_iter().flatten().filter(|(name, _)| CLOSED.contains(&name.as_str()));
    closed.for_each(|(_, schema)| close(schema));
    widen(&mut document);
    Ok(document)
}

/// Each of the alternatives has no other fields.
fn close(schema: &mut Value) {
    let alternatives = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    for alternative in alternatives.into_iter().flatten().filter_map(Value::as_object_mut) {
        alternative.insert("additionalProperties".into(), json!(false));
    }
}

/// A number of 32 bits without a sign gets its true bounds, which its format alone does not give it.
fn widen(schema: &mut Value) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(widen),
        Value::Object(members) => {
            let is_short = members.get("format").is_some_and(|format| format == "uint32");
            if is_short && !members.contains_key("maximum") {
                members.insert("maximum".into(), json!(u32::MAX));
            }
            members.values_mut().for_each(widen);
        }
        _ => {}
    }
}
