//! What can be refused, once for all routes of a kind. A route names those that apply, and so says every status that
//! it may answer with.

use bookahead_api::problem::MEDIA_TYPE;
use std::collections::BTreeMap;
use utoipa::IntoResponses;
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ContentBuilder, Header, ObjectBuilder, Ref, RefOr};

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
        pub(super) fn all() -> Vec<(String, Response)> {
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
