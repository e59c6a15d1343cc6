//! Making reservations, and what is done with one: every route is one call to the party.

use super::Shared;
use super::answer::{self, Written};
use super::asking::{Asking, Changing};
use super::body::{Document, OrNothing};
use super::conditions;
use super::key::{Optional, Required};
use super::openapi::{NeededKey, OfBody, OfReservation, OfRoom, OfVersion, Refused, SpareKey};
use super::problem::Refusal;
use super::query::Id;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bookahead_api as api;
use bookahead_api::ids::ReservationIdText;
use bookahead_protocol::{Call, Key, ReservationId};
use std::sync::Arc;

/// What every route here answers with.
type Answered = Result<Response, Refusal>;

/// Reserve
///
/// Holds what is wanted until its deadline, or books it at once where `book` is true. The same Idempotency-Key gives
/// the same answer again, and nothing twice.
#[utoipa::path(
    post, path = "/v1/reservations", operation_id = "reserve", tag = "reservations",
    params(NeededKey),
    request_body = api::Reserve,
    responses(
        (status = 201, description = "What is reserved", body = api::Reservation, headers(
            ("Location" = String, description = "Where it is to be found"),
            ("ETag" = String, description = "Its version, and what it looks like"),
        ), links(
            ("show" = (operation_id = "show_reservation", parameters(("id" = "$response.body#/id")))),
            ("hold" = (operation_id = "hold_reservation", parameters(("id" = "$response.body#/id")))),
            ("extend" = (operation_id = "extend_reservation", parameters(("id" = "$response.body#/id")))),
            ("commit" = (operation_id = "commit_reservation", parameters(("id" = "$response.body#/id")))),
            ("attach" = (operation_id = "attach_job", parameters(("id" = "$response.body#/id")))),
            ("change" = (operation_id = "change_reservation", parameters(("id" = "$response.body#/id")))),
            ("release" = (operation_id = "release_capacity", parameters(("id" = "$response.body#/id")))),
            ("cancel" = (operation_id = "cancel_reservation", parameters(("id" = "$response.body#/id")))),
        )),
        Refused, OfBody, OfRoom, OfReservation
    )
)]
pub(super) async fn reserve(
    State(shared): State<Arc<Shared>>,
    Changing(asking): Changing,
    Required(key): Required,
    Document(reserve): Document<api::Reserve>,
) -> Answered {
    let call = reserve.call(key.reservation());
    let answer = shared.command(&asking, key.key, call).await?;
    Ok(Written::new(answer::reservation(answer)?)?.created())
}

/// Show one reservation
///
/// Users see their own; operators and readers see all.
#[utoipa::path(
    get, path = "/v1/reservations/{id}", operation_id = "show_reservation", tag = "reservations",
    params(
        ("id" = ReservationIdText, Path, description = "Which"),
        ("If-None-Match" = Option<String>, Header,
            pattern = r#"^(\*|(W/)?"[!#-~]*"( *, *(W/)?"[!#-~]*")*)$"#, example = json!("\"1-9f86d081\""),
            description = "Answer only if it looks different from this entity tag"),
    ),
    responses(
        (status = 200, description = "How it is", body = api::Reservation, headers(
            ("ETag" = String, description = "Its version, and what it looks like"),
        )),
        (status = 304, description = "It is as it was", headers(("ETag" = String, description = "The same as before"))),
        Refused, OfReservation
    )
)]
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    asking: Asking,
    Id(id): Id<ReservationId>,
    headers: HeaderMap,
) -> Answered {
    let answer = shared.show(&asking, Call::Show { id }).await?;
    let written = Written::new(answer::reservation(answer)?)?;
    let known = conditions::has_already(&headers, &written.tag)?;
    Ok(if known { written.not_modified() } else { written.shown() })
}

/// Hold it longer
///
/// How long is granted the answer says; without a body a minute is asked for.
#[utoipa::path(
    post, path = "/v1/reservations/{id}/hold", operation_id = "hold_reservation", tag = "reservations",
    params(
        ("id" = ReservationIdText, Path, description = "Which"),
        SpareKey,
    ),
    request_body(content = Option<api::Hold>, content_type = "application/json"),
    responses(
        (status = 200, description = "How it is now", body = api::Reservation,
            headers(("ETag" = String, description = "Its version, and what it looks like"))),
        Refused, OfBody, OfReservation
    )
)]
pub(super) async fn hold(
    State(shared): State<Arc<Shared>>,
    Changing(asking): Changing,
    Id(id): Id<ReservationId>,
    Optional(key): Optional,
    OrNothing(hold): OrNothing<api::Hold>,
) -> Answered {
    changed(&shared, &asking, key.key, hold.call(id)).await
}

/// Extend it
///
/// It lasts until a later end, with the capacity that it has at its end now. It stays as it is if that cannot be had. If-Match
/// says what the extension was decided upon.
#[utoipa::path(
    post, path = "/v1/reservations/{id}/extend", operation_id = "extend_reservation", tag = "reservations",
    params(
        ("id" = ReservationIdText, Path, description = "Which"),
        ("If-Match" = String, Header, pattern = r#"^(\*|"[0-9]{1,10}(-[0-9a-f]+)?")$"#, example = json!("\"1\""),
            description = "The entity tag or the version that was seen, in quotes, or * for whichever it is"),
        SpareKey,
    ),
    request_body = api::Extend,
    responses(
        (status = 200, description = "How it is now", body = api::Reservation,
            headers(("ETag" = String, description = "Its version, and what it looks like"))),
        Refused, OfBody, OfRoom, OfReservation, OfVersion
    )
)]
pub(super) async fn extend(
    State(shared): State<Arc<Shared>>,
    Changing(asking): Changing,
    Id(id): Id<ReservationId>,
    Optional(key): Optional,
    headers: HeaderMap,
    Document(extend): Document<api::Extend>,
) -> Answered {
    let version = conditions::demanded(&headers)?;
    changed(&shared, &asking, key.key, extend.call(id, version)).await
}

/// Make it final
///
/// Commits a hold, with jobs that are to run in it or without a body; again later to attach more jobs.
#[utoipa::path(
    post, path = "/v1/reservations/{id}/commit", operation_id = "commit_reservation", tag = "reservations",
    params(
        ("id" = ReservationIdText, Path, description = "Which"),
        SpareKey,
    ),
    request_body(content = Option<api::Commit>, content_type = "application/json"),
    responses(
        (status = 200, description = "How it is now", body = api::Reservation,
            headers(("ETag" = String, description = "Its version, and what it looks like"))),
        Refused, OfBody, OfReservation
    )
)]
pub(super) async fn commit(
    State(shared): State<Arc<Shared>>,
    Changing(asking): Changing,
    Id(id): Id<ReservationId>,
    Optional(key): Optional,
    OrNothing(commit): OrNothing<api::Commit>,
) -> Answered {
    changed(&shared, &asking, key.key, commit.call(id)).await
}

/// Attach a job
///
/// One more job for a committed reservation. To submit one that is to run in a reservation, post it to /v1/jobs instead.
#[utoipa::path(
    post, path = "/v1/reservations/{id}/jobs", operation_id = "attach_job", tag = "reservations",
    params(
        ("id" = ReservationIdText, Path, description = "Which"),
        SpareKey,
    ),
    request_body = api::Attach,
    responses(
        (status = 200, description = "How it is now", body = api::Reservation,
            headers(("ETag" = String, description = "Its version, and what it looks like"))),
        Refused, OfBody, OfReservation
    )
)]
pub(super) async fn attach(
    State(shared): State<Arc<Shared>>,
    Changing(asking): Changing,
    Id(id): Id<ReservationId>,
    Optional(key): Optional,
    Document(attach): Document<api::Attach>,
) -> Answered {
    changed(&shared, &asking, key.key, attach.call(id)).await
}

/// Change its terms
///
/// The old terms stand if the new ones cannot be had. If-Match says what the change was decided upon.
#[utoipa::path(
    put, path = "/v1/reservations/{id}", operation_id = "change_reservation", tag = "reservations",
    params(
        ("id" = ReservationIdText, Path, description = "Which"),
        ("If-Match" = String, Header, pattern = r#"^(\*|"[0-9]{1,10}(-[0-9a-f]+)?")$"#, example = json!("\"1\""),
            description = "The entity tag or the version that was seen, in quotes, or * for whichever it is"),
        SpareKey,
    ),
    request_body = api::Change,
    responses(
        (status = 200, description = "How it is now", body = api::Reservation,
            headers(("ETag" = String, description = "Its version, and what it looks like"))),
        Refused, OfBody, OfRoom, OfReservation, OfVersion
    )
)]
pub(super) async fn change(
    State(shared): State<Arc<Shared>>,
    Changing(asking): Changing,
    Id(id): Id<ReservationId>,
    Optional(key): Optional,
    headers: HeaderMap,
    Document(change): Document<api::Change>,
) -> Answered {
    let version = conditions::demanded(&headers)?;
    changed(&shared, &asking, key.key, change.call(id, version)).await
}

/// Give back early
///
/// Part of its capacity, or all that is left of it, from an instant on.
#[utoipa::path(
    post, path = "/v1/reservations/{id}/release", operation_id = "release_capacity", tag = "reservations",
    params(
        ("id" = ReservationIdText, Path, description = "Which"),
        SpareKey,
    ),
    request_body = api::Release,
    responses(
        (status = 200, description = "How it is now", body = api::Reservation,
            headers(("ETag" = String, description = "Its version, and what it looks like"))),
        Refused, OfBody, OfReservation
    )
)]
pub(super) async fn release(
    State(shared): State<Arc<Shared>>,
    Changing(asking): Changing,
    Id(id): Id<ReservationId>,
    Optional(key): Optional,
    Document(release): Document<api::Release>,
) -> Answered {
    changed(&shared, &asking, key.key, release.call(id)).await
}

/// Give it up
///
/// Before its begin it is cancelled, while it is active it is terminated. One that never was is taken back for good:
/// should it still arrive, it is refused.
#[utoipa::path(
    delete, path = "/v1/reservations/{id}", operation_id = "cancel_reservation", tag = "reservations",
    params(
        ("id" = ReservationIdText, Path, description = "Which"),
        SpareKey,
    ),
    responses(
        (status = 200, description = "How it is now", body = api::Reservation,
            headers(("ETag" = String, description = "Its version, and what it looks like"))),
        Refused, OfReservation
    )
)]
pub(super) async fn cancel(
    State(shared): State<Arc<Shared>>,
    Changing(asking): Changing,
    Id(id): Id<ReservationId>,
    Optional(key): Optional,
) -> Answered {
    changed(&shared, &asking, key.key, Call::Cancel { id }).await
}

/// Has a reservation changed, and shows it.
async fn changed(shared: &Arc<Shared>, asking: &Asking, key: Key, call: Call) -> Answered {
    let answer = shared.command(asking, key, call).await?;
    Ok(Written::new(answer::reservation(answer)?)?.shown())
}
