//! OpenAPI schemas: every field has a description, and requests refuse unknown fields.

use bookahead_api as api;
use bookahead_api::openapi::complete;
use serde_json::{Value, json};
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(components(schemas(
    api::Probe,
    api::Offers,
    api::Reserve,
    api::Hold,
    api::Extend,
    api::Commit,
    api::Attach,
    api::Change,
    api::Release,
    api::Reservation,
    api::Reservations,
    api::Problem,
    api::Resources,
    api::Sites,
    api::Heartbeat,
    api::Schedule,
    api::Event,
    api::SubmitJob,
    api::Job,
    api::Jobs,
    api::Health
)))]
struct Documents;

fn schemas() -> serde_json::Map<String, Value> {
    let document = complete(&Documents::openapi()).unwrap();
    document["components"]["schemas"].as_object().unwrap().clone()
}

/// Optional fields have their description in an alternative.
fn has_description(schema: &Value) -> bool {
    let alternatives = schema["oneOf"].as_array();
    schema["description"].is_string()
        || alternatives.is_some_and(|all| all.iter().any(|one| one["description"].is_string()))
}

#[test]
fn every_document_and_every_field_is_described() {
    for (name, schema) in &schemas() {
        assert!(has_description(schema), "{name}");
        let fields = schema["properties"].as_object();
        for (field, schema) in fields.into_iter().flatten() {
            assert!(has_description(schema), "{name}.{field}");
        }
    }
}

#[test]
fn documents_that_come_in_say_that_they_take_no_other_fields() {
    let schemas = schemas();
    let incoming = [
        "Probe",
        "Request",
        "Part",
        "Reserve",
        "Hold",
        "Extend",
        "Commit",
        "Attach",
        "Change",
        "Release",
        "Heartbeat",
        "Resource",
        "SubmitJob",
    ];
    for name in incoming {
        assert_eq!(schemas[name]["additionalProperties"], json!(false), "{name}");
    }
    for name in ["Constraint", "Requirement", "Work"] {
        let union = &schemas[name];
        let variants = union["discriminator"]["mapping"].as_object().unwrap();
        assert!(variants.len() > 2 && union["oneOf"].as_array().unwrap().len() == variants.len(), "{union}");
        for place in variants.values() {
            let variant = &schemas[place.as_str().unwrap().rsplit('/').next().unwrap()];
            assert_eq!(variant["additionalProperties"], json!(false), "{place}");
            assert_eq!(variant["title"].as_str(), place.as_str().unwrap().rsplit('/').next());
        }
    }
}

#[test]
fn types_are_described_as_what_they_are() {
    let schemas = schemas();
    let attribute = &schemas["AttributeValue"]["oneOf"];
    assert_eq!((&attribute[0]["type"], &attribute[1]["type"]), (&json!("string"), &json!("integer")));
    assert_eq!(schemas["Problem"]["properties"]["status"]["maximum"], json!(599));
    assert_eq!(schemas["Resource"]["properties"]["joins"]["minItems"], json!(2));
    assert_eq!(schemas["Timestamp"]["format"], json!("date-time"));
    assert_eq!(schemas["Part"]["required"].as_array().unwrap().len(), 4);
}
