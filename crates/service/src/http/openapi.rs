//! The routes, and the document that describes them: both come from the same attributes beside the handlers, so that
//! there is no route without a description. Headers and refusals that several routes have in common are described here
//! once.

use super::{Shared, calendar, health, jobs, queries, reservations, watch};
use bookahead_api as api;
use bookahead_api::problem::MEDIA_TYPE;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{AdditionalProperties, ArrayItems, KnownFormat, SchemaType, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ContentBuilder, Header, Object, ObjectBuilder, OpenApi, Ref, RefOr, Required, Schema, SchemaFormat,
};
use utoipa::{IntoParams, IntoResponses, Number, OpenApi as _};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Routes whose handlers need to know who calls.
pub(super) fn guarded_routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(Described::openapi())
        .routes(routes!(reservations::probe))
        .routes(routes!(reservations::reserve, queries::list))
        .routes(routes!(reservations::show, reservations::change, reservations::cancel))
        .routes(routes!(reservations::hold))
        .routes(routes!(reservations::extend))
        .routes(routes!(reservations::prepare_change))
        .routes(routes!(reservations::finish_change))
        .routes(routes!(reservations::commit))
        .routes(routes!(reservations::attach))
        .routes(routes!(reservations::release))
        .routes(routes!(watch::one))
        .routes(routes!(watch::everything))
        .routes(routes!(calendar::calendar))
        .routes(routes!(queries::resources))
        .routes(routes!(queries::schedule))
        .routes(routes!(queries::sites, queries::register))
        .routes(routes!(jobs::submit, jobs::list))
        .routes(routes!(jobs::show, jobs::cancel))
        .routes(routes!(jobs::go))
}

/// Routes for everybody.
pub(super) fn open_routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(Described::openapi())
        .routes(routes!(health::health))
        .routes(routes!(health::metrics))
        .routes(routes!(health::openapi))
}

/// What all routes take and answer.
pub fn openapi() -> OpenApi {
    let mut document = open_routes().merge(guarded_routes()).into_openapi();
    let operations = document.paths.paths.values_mut().flat_map(operations);
    operations.for_each(without_null);
    describe(&mut document);
    let bearer = Http::builder().scheme(HttpAuthScheme::Bearer).bearer_format("JWT");
    let bearer = SecurityScheme::Http(bearer.description(Some(BEARER)).build());
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("bearer", bearer);
    components.responses.extend(all().into_iter().map(|(name, response)| (name, response.into())));
    let bearer = SecurityRequirement::new::<_, [&str; 0], &str>("bearer", []);
    document.security = Some(vec![bearer, SecurityRequirement::default()]);
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete].into_iter().flatten()
}

/// A header may be missing, but never is it null, as the derived description has it.
fn without_null(operation: &mut Operation) {
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter
            && let Some(RefOr::T(Schema::Object(object))) = &mut parameter.schema
            && let SchemaType::Array(types) = &object.schema_type
            && let [one, Type::Null] = types.as_slice()
        {
            object.schema_type = SchemaType::Type(one.clone());
        }
    }
}

const BEARER: &str = "A token whose subject is the user and whose roles are among user, operator, broker and reader. Whoever has the \
    role broker names the user that it calls for in Bookahead-User, and in Bookahead-Via the brokers that the call came through. \
    A site or broker that only listens on its own machine may be run without authentication, and takes no tokens then.";

/// The document as it is sent and kept.
pub(super) fn text() -> String {
    // What is made of texts and numbers can be written.
    let text = openapi().to_pretty_json().unwrap_or_default();
    text + "\n"
}

/// What is not about one route.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Bookahead",
        description = "Advance reservations for clusters and other shared resources. A site and a broker answer the same routes. \
            Times are RFC 3339 with an offset, in whole seconds; whatever is refused is told as a problem document (RFC 9457). \
            Every answer tells the clock of the server: its present in Bookahead-Now, its speed in Bookahead-Clock-Speed unless that is 1. \
            A request with Bookahead-Clock-Speed is refused by a server whose clock has another speed.",
    ),
    tags(
        (name = "reservations", description = "From a question to a promise, and what becomes of it"),
        (name = "resources", description = "What there is, and when it is taken"),
        (name = "sites", description = "Who is there"),
        (name = "jobs", description = "What is to be run"),
        (name = "events", description = "What happens, as it happens"),
        (name = "operation", description = "For those who run it"),
    ),
    components(schemas(api::Problem, api::Event)),
)]
struct Described;

/// A key that must be there.
pub(in crate::http) struct NeededKey;

/// A key that may be there.
pub(in crate::http) struct SpareKey;

/// Which reservation, and a key that may be there.
pub(in crate::http) struct ReservationAndKey;

/// The version that a change was decided upon.
pub(in crate::http) struct SeenVersion;

/// A reservation after a change.
#[derive(IntoResponses)]
#[response(status = 200, description = "How it is now", headers(
    ("ETag" = String, description = "Its version, and what it looks like")
))]
pub(in crate::http) struct ReservationNow(
    #[allow(dead_code, reason = "only a description")] api::Reservation,
);

impl IntoParams for NeededKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let why = "A text that is new for every new call, and the same when a call is repeated: the same key gives the same answer, \
            and nothing twice";
        vec![key(why).required(Required::True).build()]
    }
}

impl IntoParams for SpareKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![key("So that the call can be repeated, and is done once").required(Required::False).build()]
    }
}

impl IntoParams for ReservationAndKey {
    fn into_params(parameter_in: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let id = ParameterBuilder::new()
            .name("id")
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some("Which"))
            .schema(Some(Ref::from_schema_name("ReservationId")))
            .build();
        let mut all = SpareKey::into_params(parameter_in);
        all.insert(0, id);
        all
    }
}

impl IntoParams for SeenVersion {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let why = "The entity tag or the version that was seen, in quotes, or * for whichever it is";
        let version = header("If-Match", r#"^(\*|"[0-9]{1,10}(-[0-9a-f]+)?")$"#, None, why, "\"1\"");
        vec![version.required(Required::True).build()]
    }
}

fn key(description: &str) -> ParameterBuilder {
    let pattern = r#"^("([ !#-\[\]-~]|\\["\\]){1,255}"|[!#-~]{1,255})$"#;
    header("Idempotency-Key", pattern, Some(512), description, "\"8e03978e-40d5-43e8\"")
}

fn header(name: &str, pattern: &str, longest: Option<usize>, about: &str, example: &str) -> ParameterBuilder {
    let text =
        ObjectBuilder::new().schema_type(Type::String).max_length(longest).pattern(Some(pattern)).build();
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .description(Some(about))
        .schema(Some(text))
        .example(Some(example.into()))
}

/// A problem document with a status, as it is described.
fn problem(status: u16, description: &str) -> Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let mut response = ResponseBuilder::new().description(description).content(MEDIA_TYPE, content);
    if matches!(status, 429 | 503) {
        let mut header = Header::new(ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)));
        header.description = Some("In so many seconds it is worth another try".into());
        response = response.header("Retry-After", header);
    }
    response.build()
}

macro_rules! refusals {
    ($($(#[$about:meta])* $name:ident { $($status:literal: $description:literal),* $(,)? })*) => {
        $(
            $(#[$about])*
            pub(in crate::http) struct $name;

            impl IntoResponses for $name {
                fn responses() -> BTreeMap<String, RefOr<Response>> {
                    let name = |status: u16| format!("{}{status}", stringify!($name));
                    let refer = |status: u16| (status.to_string(), Ref::from_response_name(name(status)).into());
                    BTreeMap::from_iter([$(refer($status)),*])
                }
            }
        )*

        /// All of them, by the names that routes refer to them by.
        fn all() -> Vec<(String, Response)> {
            vec![$($((format!("{}{}", stringify!($name), $status), problem($status, $description))),*),*]
        }
    };
}

refusals! {
    /// What can be refused of every request of somebody.
    Refused {
        400: "Not understood, or without something that it needs",
        401: "It is not known who calls",
        403: "Not allowed to this user",
        409: "The call has come through this broker before",
        412: "Its times are for a clock of another speed",
        429: "Too many requests",
        500: "A failure of the server",
        503: "Too much under way, or shutting down: ask again",
        504: "No answer in time: repeat the call with the same key",
    }
    /// What can be refused of a body.
    OfBody {
        413: "The body is too large",
        415: "The body is not JSON",
        422: "Understood, and impossible",
    }
    /// What can be refused for lack of room.
    OfRoom {
        409: "No room, or not in this state",
        422: "Understood, and impossible",
    }
    /// What can be refused of one reservation.
    OfReservation {
        404: "There is no such reservation",
        409: "Not in this state, or the same call is under way",
        410: "It is gone: it expired, or was cancelled before",
        422: "Understood, and impossible",
    }
    /// What can be refused of a version.
    OfVersion {
        412: "It was changed in the meantime, or the times are for a clock of another speed",
        428: "If-Match is missing",
    }
    /// What can be refused of one job.
    OfJob {
        404: "There is no such job",
        409: "The same call is under way",
    }
}

fn describe(document: &mut OpenApi) {
    let components = document.components.iter_mut();
    components.flat_map(|components| components.schemas.values_mut()).for_each(within);
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        for parameter in operation.parameters.iter_mut().flatten() {
            if let RefOr::T(parameter) = parameter {
                parameter.schema.iter_mut().for_each(within);
            }
        }
    }
}

fn within(schema: &mut RefOr<Schema>) {
    let RefOr::T(schema) = schema else { return };
    match schema {
        Schema::Object(object) => {
            number(object);
            object.properties.values_mut().for_each(within);
            if let Some(AdditionalProperties::RefOr(schema)) = object.additional_properties.as_deref_mut() {
                within(schema);
            }
        }
        Schema::Array(array) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                within(items);
            }
        }
        Schema::OneOf(one) => one.items.iter_mut().for_each(within),
        Schema::AllOf(all) => all.items.iter_mut().for_each(within),
        Schema::AnyOf(any) => any.items.iter_mut().for_each(within),
        _ => {}
    }
}

fn number(object: &mut Object) {
    let (name, most) = match &object.format {
        Some(SchemaFormat::KnownFormat(KnownFormat::UInt16)) => ("uint16", u64::from(u16::MAX)),
        Some(SchemaFormat::KnownFormat(KnownFormat::UInt32)) => ("uint32", u64::from(u32::MAX)),
        Some(SchemaFormat::KnownFormat(KnownFormat::UInt64)) => ("uint64", u64::MAX),
        _ => return,
    };
    object.format = Some(SchemaFormat::Custom(name.into()));
    if let Ok(most) = usize::try_from(most) {
        object.maximum.get_or_insert(Number::UInt(most));
    }
}

#[cfg(test)]
mod tests;
