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
    Ok(document)
}

/// Each of the alternatives has no other fields.
fn close(schema: &mut Value) {
    let alternatives = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    for alternative in alternatives.into_iter().flatten().filter_map(Value::as_object_mut) {
        alternative.insert("additionalProperties".into(), json!(false));
    }
}
