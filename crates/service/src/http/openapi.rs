//! The routes and their OpenAPI document: both come from the attributes of the handlers, so that every route is
//! described. Headers and refusals that several routes share are described here.

use super::{
    Shared, calendar, health, invitations, jobs, output, queries, reservations, session, usage, watch,
};
use bookahead_api as api;
use bookahead_api::openapi::complete;
use bookahead_api::problem::MEDIA_TYPE;
use serde_json::Value;
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

/// Routes that require an authenticated caller.
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
        .routes(routes!(invitations::answer_invitation))
        .routes(routes!(invitations::blocked, invitations::block, invitations::unblock))
        .routes(routes!(watch::one))
        .routes(routes!(watch::everything))
        .routes(routes!(watch::job))
        .routes(routes!(calendar::calendar))
        .routes(routes!(calendar::feed))
        .routes(routes!(calendar::show_address, calendar::make_address, calendar::withdraw_address))
        .routes(routes!(session::sign_out_everywhere))
        .routes(routes!(queries::resources))
        .routes(routes!(queries::schedule))
        .routes(routes!(queries::what_if))
        .routes(routes!(queries::sites, queries::register))
        .routes(routes!(jobs::submit, jobs::list))
        .routes(routes!(jobs::show, jobs::cancel))
        .routes(routes!(jobs::go))
        .routes(routes!(output::output))
        .routes(routes!(usage::usage))
        .routes(routes!(usage::records))
        .routes(routes!(usage::history))
}

/// Routes without authentication.
pub(super) fn open_routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(Described::openapi())
        .routes(routes!(health::health))
        .routes(routes!(health::metrics))
        .routes(routes!(health::openapi))
        .routes(routes!(health::docs))
        .routes(routes!(session::show, session::sign_in, session::sign_out))
        .routes(routes!(session::times))
}

fn openapi() -> OpenApi {
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
    // The empty requirement stands for services without authentication and for Unix sockets.
    document.security = Some(vec![bearer, SecurityRequirement::default()]);
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete].into_iter().flatten()
}

/// A header may be missing but is never null, as the derived schema says.
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

const BEARER: &str = "A token whose subject is the user and whose roles are among user, operator, broker and reader. A caller with the \
    role broker sets Bookahead-User to the user that it calls for, and Bookahead-Via to the brokers that forwarded the call. \
    A service that listens on its own machine only may run without authentication, and accepts no tokens then.";

/// The OpenAPI document of all routes, in the form for generators of clients.
pub fn document() -> Value {
    complete(&openapi()).unwrap_or_default()
}

/// The document as it is served and stored in the repository.
pub(super) fn text() -> String {
    // Serialization of these types cannot fail.
    let text = serde_json::to_string_pretty(&document()).unwrap_or_default();
    text + "\n"
}

/// Parts of the document that belong to no route.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Bookahead",
        description = "Advance reservations for clusters and other shared resources. Sites and brokers have the same routes. \
            Times are RFC 3339 with an offset, in whole seconds; refusals are problem documents (RFC 9457). \
            Every answer has the time of the server in Bookahead-Now, and its clock speed in Bookahead-Clock-Speed unless that is 1. \
            A server refuses a request whose Bookahead-Clock-Speed differs from its own.",
    ),
    tags(
        (name = "reservations", description = "Probes and reservations"),
        (name = "resources", description = "Resources and their schedules"),
        (name = "sites", description = "Sites and brokers"),
        (name = "jobs", description = "Jobs"),
        (name = "usage", description = "Booked and used capacity"),
        (name = "events", description = "Event streams"),
        (name = "sessions", description = "Sessions of web pages"),
        (name = "operation", description = "Health, metrics and this document"),
    ),
    components(schemas(api::Problem, api::Event)),
)]
struct Described;

/// Required idempotency key.
pub(in crate::http) struct NeededKey;

/// Optional idempotency key.
pub(in crate::http) struct SpareKey;

/// Id of a reservation, and an optional idempotency key.
pub(in crate::http) struct ReservationAndKey;

/// Version that a change is based on.
pub(in crate::http) struct SeenVersion;

/// A reservation after a change.
#[derive(IntoResponses)]
#[response(status = 200, description = "The reservation after the change", headers(
    ("ETag" = String, description = "Version and digest of the reservation")
))]
pub(in crate::http) struct ReservationNow(
    #[allow(dead_code, reason = "only a description")] api::Reservation,
);

impl IntoParams for NeededKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let why = "A string that is new for every new call, and the same when a call is repeated: the same key gets the same answer, \
            and the call is executed once";
        vec![key(why).required(Required::True).build()]
    }
}

impl IntoParams for SpareKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![key("Makes the call safe to repeat: it is executed once").required(Required::False).build()]
    }
}

impl IntoParams for ReservationAndKey {
    fn into_params(parameter_in: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let id = ParameterBuilder::new()
            .name("id")
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some("Id of the reservation"))
            .schema(Some(Ref::from_schema_name("ReservationId")))
            .build();
        let mut all = SpareKey::into_params(parameter_in);
        all.insert(0, id);
        all
    }
}

impl IntoParams for SeenVersion {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let why = "The entity tag or the version that the client has seen, in quotes, or * for any version";
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

/// A problem response with this status.
fn problem(status: u16, description: &str) -> Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let mut response = ResponseBuilder::new().description(description).content(MEDIA_TYPE, content);
    if matches!(status, 429 | 503) {
        let mut header = Header::new(ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)));
        header.description = Some("Seconds to wait before the next attempt".into());
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

        /// All refusals, by the names that routes refer to.
        fn all() -> Vec<(String, Response)> {
            vec![$($((format!("{}{}", stringify!($name), $status), problem($status, $description))),*),*]
        }
    };
}

refusals! {
    /// Refusals of any authenticated route.
    Refused {
        400: "Invalid request, or something is missing",
        401: "Not authenticated",
        403: "Not allowed for this user",
        409: "The call has come through this broker before",
        412: "Clock speed mismatch",
        429: "Too many requests",
        500: "Internal error",
        503: "Too much in progress, or shutting down: try again",
        504: "No answer in time: repeat the call with the same key",
    }
    /// Refusals of a body.
    OfBody {
        413: "The body is too large",
        415: "The body is not JSON",
        422: "Valid, but impossible",
    }
    /// Refusals for lack of room.
    OfRoom {
        409: "No room, or not in this state",
        422: "Valid, but impossible",
    }
    /// Refusals of calls about a reservation.
    OfReservation {
        404: "There is no such reservation",
        409: "Not in this state, or the same call is in progress",
        410: "The hold expired, or the reservation was cancelled before it arrived",
        422: "Valid, but impossible",
    }
    /// Refusals of a version.
    OfVersion {
        412: "Changed in the meantime, or clock speed mismatch",
        428: "If-Match is missing",
    }
    /// Refusals of calls about a job.
    OfJob {
        404: "There is no such job",
        409: "The same call is in progress",
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
mod stable;
#[cfg(test)]
mod tests;
