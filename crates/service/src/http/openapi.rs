//! The routes, and the document that describes them: both come from the same attributes beside the handlers, so that
//! there is no route without a description. What all routes of a kind have in common stands beside ([`refusals`],
//! [`parameters`]).

mod numbers;
mod parameters;
mod refusals;

pub(super) use parameters::{NeededKey, SpareKey};
pub(super) use refusals::{OfBody, OfJob, OfReservation, OfRoom, OfVersion, Refused};

use super::{Shared, calendar, health, jobs, looking, probes, reservations, watch};
use bookahead_api as api;
use std::sync::Arc;
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{SchemaType, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{OpenApi, RefOr, Schema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Routes whose handlers need to know who calls.
pub(super) fn guarded_routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(Described::openapi())
        .routes(routes!(probes::probe))
        .routes(routes!(reservations::reserve, looking::list))
        .routes(routes!(reservations::show, reservations::change, reservations::cancel))
        .routes(routes!(reservations::hold))
        .routes(routes!(reservations::extend))
        .routes(routes!(reservations::commit))
        .routes(routes!(reservations::attach))
        .routes(routes!(reservations::release))
        .routes(routes!(watch::one))
        .routes(routes!(watch::everything))
        .routes(routes!(calendar::calendar))
        .routes(routes!(looking::resources))
        .routes(routes!(looking::schedule))
        .routes(routes!(looking::sites, looking::register))
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
    numbers::describe(&mut document);
    let bearer = Http::builder().scheme(HttpAuthScheme::Bearer).bearer_format("JWT");
    let bearer = SecurityScheme::Http(bearer.description(Some(BEARER)).build());
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("bearer", bearer);
    components.responses.extend(refusals::all().into_iter().map(|(name, response)| (name, response.into())));
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

#[cfg(test)]
mod tests;
