//! Headers that several routes take.

use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ObjectBuilder, Required};

/// A key that must be there.
pub(in crate::http) struct NeededKey;

/// A key that may be there.
pub(in crate::http) struct SpareKey;

impl IntoParams for NeededKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let why = "A text that is new for every new call, and the same when a call is repeated: the same key gives the same answer, \
            and nothing twice";
        vec![key(Required::True, why)]
    }
}

impl IntoParams for SpareKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![key(Required::False, "So that the call can be repeated, and is done once")]
    }
}

fn key(required: Required, description: &str) -> Parameter {
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .max_length(Some(512))
        .pattern(Some(r#"^("([ !#-\[\]-~]|\\["\\]){1,255}"|[!#-~]{1,255})$"#))
        .build();
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(required)
        .description(Some(description))
        .schema(Some(text))
        .example(Some("\"8e03978e-40d5-43e8\"".into()))
        .build()
}
