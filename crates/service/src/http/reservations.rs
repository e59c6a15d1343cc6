//! Probes, reservations, and what is done with one: every route is one call to the party. `If-Match` and `If-None-Match`
//! (RFC 9110) compare the version of the terms, with which an entity tag begins: a reservation that has begun meanwhile, or
//! got a job, still has the terms that its owner has seen.

use super::answer::{Refusal, Written};
use super::openapi::{
    NeededKey, OfBody, OfReservation, OfRoom, OfVersion, Refused, ReservationAndKey, ReservationNow,
    SeenVersion,
};
use super::request::{Command, Document, Id, OrNothing, Required};
use super::requester::{Changing, Requester};
use super::{Shared, answer};
use crate::notify::not_allowed;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use axum::response::Response;
use bookahead_api as api;
use bookahead_api::Code;
use bookahead_api::description::ReservationIdText;
use bookahead_protocol::{Call, ReservationId};
use std::sync::Arc;

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
            ("prepare" = (operation_id = "prepare_change", parameters(("id" = "$response.body#/id")))),
            ("finish" = (operation_id = "finish_change", parameters(("id" = "$response.body#/id")))),
            ("release" = (operation_id = "release_capacity", parameters(("id" = "$response.body#/id")))),
            ("cancel" = (operation_id = "cancel_reservation", parameters(("id" = "$response.body#/id")))),
        )),
        Refused, OfBody, OfRoom, OfReservation
    )
)]
pub(super) async fn reserve(
    State(shared): State<Arc<Shared>>,
    Changing(requester): Changing,
    Required(key): Required,
    Document(reserve): Document<api::Reserve>,
) -> Answered {
    shared.check_webhook(&reserve.request)?;
    let call = reserve.call(key.reservation());
    let answer = shared.command(&requester, key.key, call).await?;
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
    requester: Requester,
    Id(id): Id<ReservationId>,
    headers: HeaderMap,
) -> Answered {
    let answer = shared.show(&requester, Call::Show { id }).await?;
    let written = Written::new(answer::reservation(answer)?)?;
    let known = has_already(&headers, &written.tag)?;
    Ok(if known { written.not_modified() } else { written.shown() })
}

/// Hold it longer
///
/// How long is granted the answer says; without a body a minute is asked for.
#[utoipa::path(
    post, path = "/v1/reservations/{id}/hold", operation_id = "hold_reservation", tag = "reservations",
    params(ReservationAndKey),
    request_body(content = Option<api::Hold>, content_type = "application/json"),
    responses(ReservationNow, Refused, OfBody, OfReservation)
)]
pub(super) async fn hold(command: Command<ReservationId>, OrNothing(hold): OrNothing<api::Hold>) -> Answered {
    let call = hold.call(command.id);
    command.change(call).await
}

/// Extend it
///
/// It lasts until a later end, with the capacity that it has at its end now. It stays as it is if that cannot be had. If-Match
/// says what the extension was decided upon.
#[utoipa::path(
    post, path = "/v1/reservations/{id}/extend", operation_id = "extend_reservation", tag = "reservations",
    params(ReservationAndKey, SeenVersion),
    request_body = api::Extend,
    responses(ReservationNow, Refused, OfBody, OfRoom, OfReservation, OfVersion)
)]
pub(super) async fn extend(
    command: Command<ReservationId>,
    headers: HeaderMap,
    Document(extend): Document<api::Extend>,
) -> Answered {
    let version = demanded(&headers)?;
    let call = extend.call(command.id, version);
    command.change(call).await
}

/// Make it final
///
/// Commits a hold, with waiting jobs that are to run in it or without a body; again later to give it more jobs. A job that is
/// unknown, belongs to another user or does not wait is refused, and nothing is committed.
#[utoipa::path(
    post, path = "/v1/reservations/{id}/commit", operation_id = "commit_reservation", tag = "reservations",
    params(ReservationAndKey),
    request_body(content = Option<api::Commit>, content_type = "application/json"),
    responses(ReservationNow, Refused, OfBody, OfReservation)
)]
pub(super) async fn commit(
    command: Command<ReservationId>,
    OrNothing(commit): OrNothing<api::Commit>,
) -> Answered {
    let call = commit.call(command.id);
    command.change(call).await
}

/// Attach a job
///
/// One more waiting job for a committed reservation. To submit one that is to run in a reservation, post it to /v1/jobs instead.
#[utoipa::path(
    post, path = "/v1/reservations/{id}/jobs", operation_id = "attach_job", tag = "reservations",
    params(ReservationAndKey),
    request_body = api::Attach,
    responses(ReservationNow, Refused, OfBody, OfReservation)
)]
pub(super) async fn attach(
    command: Command<ReservationId>,
    Document(attach): Document<api::Attach>,
) -> Answered {
    let call = attach.call(command.id);
    command.change(call).await
}

/// Change its terms
///
/// The old terms stand if the new ones cannot be had. While it is active only its end can change, and its capacity to less.
/// If-Match says what the change was decided upon.
#[utoipa::path(
    put, path = "/v1/reservations/{id}", operation_id = "change_reservation", tag = "reservations",
    params(ReservationAndKey, SeenVersion),
    request_body = api::Change,
    responses(ReservationNow, Refused, OfBody, OfRoom, OfReservation, OfVersion)
)]
pub(super) async fn change(
    command: Command<ReservationId>,
    headers: HeaderMap,
    Document(change): Document<api::Change>,
) -> Answered {
    let version = demanded(&headers)?;
    if change.request.webhook.is_some() {
        let why = "the webhook is that of the first request and cannot change; leave it out";
        return Err(Refusal::bad_request(why));
    }
    let call = change.call(command.id, version);
    command.change(call).await
}

/// Prepare a change
///
/// Brokers do this with every part of a co-reservation, so that all parts change or none does. The old terms and the new ones
/// are both kept until the change is finished or its time is up; how long that is `held_for_ms` of the answer says. Give either
/// `request` or `end`. If-Match says what the change was decided upon.
#[utoipa::path(
    post, path = "/v1/reservations/{id}/prepare", operation_id = "prepare_change", tag = "reservations",
    params(ReservationAndKey, SeenVersion),
    request_body = api::PrepareChange,
    responses(ReservationNow, Refused, OfBody, OfRoom, OfReservation, OfVersion)
)]
pub(super) async fn prepare_change(
    command: Command<ReservationId>,
    headers: HeaderMap,
    Document(change): Document<api::PrepareChange>,
) -> Answered {
    let version = demanded(&headers)?;
    let both = || Refusal::new(Code::BadJson, "give the new terms either as request or as end");
    let call = change.call(command.id, version).ok_or_else(both)?;
    command.change(call).await
}

/// Finish a change
///
/// Takes the terms that were prepared, or keeps the old ones. To say it again changes nothing.
#[utoipa::path(
    post, path = "/v1/reservations/{id}/finish", operation_id = "finish_change", tag = "reservations",
    params(ReservationAndKey),
    request_body = api::FinishChange,
    responses(ReservationNow, Refused, OfBody, OfReservation)
)]
pub(super) async fn finish_change(
    command: Command<ReservationId>,
    Document(finish): Document<api::FinishChange>,
) -> Answered {
    let call = finish.call(command.id);
    command.change(call).await
}

/// Give back early
///
/// Part of its capacity, or all that is left of it, from an instant on. Where it has several parts, one must be named.
#[utoipa::path(
    post, path = "/v1/reservations/{id}/release", operation_id = "release_capacity", tag = "reservations",
    params(ReservationAndKey),
    request_body = api::Release,
    responses(ReservationNow, Refused, OfBody, OfReservation)
)]
pub(super) async fn release(
    command: Command<ReservationId>,
    Document(release): Document<api::Release>,
) -> Answered {
    let call = release.call(command.id);
    command.change(call).await
}

/// Give it up
///
/// Before its begin it is cancelled, while it is active it is terminated. One that never was is taken back for good:
/// should it still arrive, it is refused.
#[utoipa::path(
    delete,
    path = "/v1/reservations/{id}",
    operation_id = "cancel_reservation",
    tag = "reservations",
    params(ReservationAndKey),
    responses(ReservationNow, Refused, OfReservation)
)]
pub(super) async fn cancel(command: Command<ReservationId>) -> Answered {
    let call = Call::Cancel { id: command.id };
    command.change(call).await
}

impl Command<ReservationId> {
    /// Has the reservation changed, and shows it.
    async fn change(self, call: Call) -> Answered {
        let answer = self.shared.command(&self.requester, self.key, call).await?;
        Ok(Written::new(answer::reservation(answer)?)?.shown())
    }
}

/// Where. Though it is posted, it changes nothing.
pub(super) const PATH: &str = "/v1/probes";

/// What could be had?
///
/// Answers with offers, the best first. Nothing is held by it: reserve what suits. A site answers for one part at a
/// time, a broker for several together.
#[utoipa::path(
    post, path = "/v1/probes", operation_id = "probe", tag = "reservations",
    request_body = api::Probe,
    responses((status = 200, description = "What could be had", body = api::Offers), Refused, OfBody, OfRoom)
)]
pub(super) async fn probe(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
    Document(probe): Document<api::Probe>,
) -> Result<Response, Refusal> {
    shared.check_webhook(&probe.request)?;
    let (answer, look_age) = shared.probe(&requester, probe.into()).await?;
    answer::offers(answer, look_age)
}

impl Shared {
    /// Refuses a webhook that this service may not call.
    fn check_webhook(&self, request: &api::Request) -> Result<(), Refusal> {
        let Some(webhook) = &request.webhook else { return Ok(()) };
        let refused =
            self.outbox.as_ref().map_or_else(|| Some(not_allowed(webhook)), |outbox| outbox.refuses(webhook));
        refused.map_or(Ok(()), |why| Err(Refusal::bad_request(why)))
    }
}

/// The version that a change demands, or None where it says that it takes any. It must say one or the other.
pub(super) fn demanded(headers: &HeaderMap) -> Result<Option<u32>, Refusal> {
    let missing = || {
        let why = "a change needs If-Match: send the entity tag or the version that you have seen, such as If-Match: \"3\", or * \
                   for whichever it is";
        Refusal::new(Code::NoVersion, why)
    };
    let tags = tags(headers, &IF_MATCH)?.ok_or_else(missing)?;
    match tags.as_slice() {
        [one] if one == "*" => Ok(None),
        [one] if one.starts_with("W/") => {
            let why =
                format!("If-Match is {one}, a weak tag, which never matches; send the tag as it was given");
            Err(Refusal::new(Code::Changed, why))
        }
        [one] => version(one).map(Some).ok_or_else(|| {
            let why =
                format!("If-Match is {one}, which was never a tag of this; look at it and send its tag");
            Refusal::new(Code::Changed, why)
        }),
        _ => Err(Refusal::bad_request("If-Match has several tags; send the one that you have decided upon")),
    }
}

/// The version in a tag, which may be all of it.
fn version(tag: &str) -> Option<u32> {
    let inside = tag.strip_prefix('"')?.strip_suffix('"')?;
    let version = inside.split_once('-').map_or(inside, |(version, _)| version);
    version.parse().ok().filter(|_| version.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether the client has this state already.
pub(super) fn has_already(headers: &HeaderMap, tag: &str) -> Result<bool, Refusal> {
    let tags = tags(headers, &IF_NONE_MATCH)?.unwrap_or_default();
    Ok(tags.iter().any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag))
}

/// The tags in a header, if it is there.
fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Vec<String>>, Refusal> {
    let mut tags = Vec::new();
    let mut there = false;
    for value in headers.get_all(name) {
        there = true;
        let bad =
            || Refusal::bad_request(format!("{name} cannot be read; it should be a tag in quotes, or *"));
        let text = value.to_str().map_err(|_| bad())?;
        split(text, &mut tags).ok_or_else(bad)?;
    }
    Ok(there.then_some(tags))
}

/// Tags with commas between them; a tag may have a comma inside.
fn split(text: &str, tags: &mut Vec<String>) -> Option<()> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    loop {
        let length = if rest.starts_with('*') {
            1
        } else {
            let open = if rest.starts_with("W/\"") { 3 } else { 1 };
            let inside = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"')?;
            open + inside.find('"')? + 1
        };
        tags.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
        if rest.is_empty() {
            return Some(());
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    fn code(value: &str) -> String {
        demanded(&with(IF_MATCH, value)).unwrap_err().code().to_owned()
    }

    #[test]
    fn a_change_demands_a_version_or_takes_any() {
        let demand = |value: &str| demanded(&with(IF_MATCH, value)).unwrap();
        assert_eq!(demand("*"), None);
        assert_eq!(demand(" \"3\" "), Some(3));
        assert_eq!(demand("\"3-0a1b\""), Some(3));
        assert_eq!(demanded(&HeaderMap::new()).unwrap_err().code(), "no-version");
        for unreadable in ["", "3", "\"3", "\"3\" \"4\"", "\"3\",", "\"3\", \"4\""] {
            assert_eq!(code(unreadable), "bad-request", "{unreadable}");
        }
        for never in ["W/\"3\"", "\"\"", "\"+3\"", "\"x\"", "\"4294967296\""] {
            assert_eq!(code(never), "changed", "{never}");
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig {
            cases: 500,
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(2000),
            ..Default::default()
        })]
        #[test]
        fn no_header_is_too_strange(value in r#"[ -~]{0,12}|(W/|"|\*|,| |1|-){0,12}"#) {
            let headers = [IF_MATCH, IF_NONE_MATCH].map(|name| with(name, &value));
            let _ = demanded(&headers[0]);
            let _ = has_already(&headers[1], "\"1\"");
        }
    }

    #[test]
    fn a_client_that_has_one_of_several_states_has_it() {
        let has = |value: &str| has_already(&with(IF_NONE_MATCH, value), "\"3-0a\"").unwrap();
        assert!(has("*") && has("\"3-0a\"") && has("W/\"3-0a\"") && has("\"x,y\", \"3-0a\""));
        assert!(!has("\"3\"") && !has("\"3-0b\""));
        assert!(!has_already(&HeaderMap::new(), "\"3-0a\"").unwrap());
        assert!(has_already(&with(IF_NONE_MATCH, "3"), "\"3-0a\"").is_err());
    }
}
