//! What the derived OpenAPI descriptions lack: how identities and names look (types that are never made), and that some
//! documents refuse fields that they do not know. Never describes routes.

use serde_json::{Value, json};
use utoipa::ToSchema;
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

/// The identity of a reservation: `rsv_` and up to 32 hexadecimal digits. The requester makes it, so that it can ask again
/// for the same.
#[derive(ToSchema)]
#[schema(as = ReservationId, pattern = "^rsv_(0|[1-9a-f][0-9a-f]{0,31})$", example = "rsv_4f3c2b1a")]
pub struct ReservationIdText(#[allow(dead_code, reason = "only a description")] String);

/// The identity of a change that is prepared: `chg_` and up to 32 hexadecimal digits. The requester makes it.
#[derive(ToSchema)]
#[schema(as = ChangeId, pattern = "^chg_(0|[1-9a-f][0-9a-f]{0,31})$", example = "chg_4f3c2b1a")]
pub struct ChangeIdText(#[allow(dead_code, reason = "only a description")] String);

/// The identity of a job: `job_` and up to 32 hexadecimal digits.
#[derive(ToSchema)]
#[schema(as = JobId, pattern = "^job_(0|[1-9a-f][0-9a-f]{0,31})$", example = "job_9d8e7f")]
pub struct JobIdText(#[allow(dead_code, reason = "only a description")] String);

/// The name of a site, a resource, a kind of resource, a user or an attribute: characters that can be seen, and spaces. Characters without
/// a glyph and those that turn the direction of text are refused.
#[derive(ToSchema)]
#[schema(
    as = Name, min_length = 1, max_length = 255,
    pattern = r"^[^\u0000-\u001F\u007F-\u00A0\u00AD\u200B-\u200F\u2028-\u202E\u2060-\u206F\uFEFF]*$", example = "north"
)]
pub struct NameText(#[allow(dead_code, reason = "only a description")] String);
