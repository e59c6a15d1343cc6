//! Routes for probes and reservations; each is one call to the party. `If-Match` and `If-None-Match` (RFC 9110)
//! compare the version of the terms, with which an entity tag begins: a reservation that has started meanwhile, or
//! got a job, still has the terms that its owner has seen.

use super::answer::{Refusal, Written};
use super::openapi::{
    NeededKey, OfBody, OfReservation, OfRoom, OfVersion, Refused, ReservationAndKey, ReservationNow,
    SeenVersion,
};
use super::request::{Command, Document, Id, OrNothing, Required};
use super::requester::{Changing, Requester};
use super::{Shared, answer, projects};
use crate::notify::not_allowed;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use axum::response::Response;
use bookahead_api as api;
use bookahead_api::Code;
use bookahead_api::description::ReservationIdText;
use bookahead_plan::Interval;
use bookahead_protocol::{Call, Name, ReservationId};
use std::collections::BTreeSet;
use std::sync::Arc;

type Answered = Result<Response, Refusal>;

/// Reserve
///
/// Holds the requested capacity until a deadline, or books it at once if `book` is true. A repetition with the same
/// Idempotency-Key gets the same answer and creates nothing.
#[utoipa::path(
    post, path = "/v1/reservations", operation_id = "reserve", tag = "reservations",
    params(NeededKey),
    request_body = api::Reserve,
    responses(
        (status = 201, description = "The reservation", body = api::Reservation, headers(
            ("Location" = String, description = "Path of the reservation"),
            ("ETag" = String, description = "Version and digest of the reservation"),
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
    Document(mut reserve): Document<api::Reserve>,
) -> Answered {
    shared.check_webhook(&reserve.request)?;
    // The id follows from the key, so that a repetition without an id in the body means the same reservation.
    let id = reserve.id.unwrap_or_else(|| key.reservation());
    let mut party_key = key.key;
    if !reserve.request.up_to().is_empty() {
        if let Some(made) = shared.made_before(&requester, Call::Show { id }).await {
            return Ok(Written::new(shared.as_seen(&requester, answer::reservation(made)?))?.created());
        }
        shared.settle(&requester, &mut reserve.request).await?;
        party_key = key.with_terms(&reserve.request);
    }
    let request = reserve.request.clone();
    projects::replace(&shared.projects, &requester.caller(), &mut reserve.request)?;
    let answer = shared.command(&requester, party_key, reserve.call(id)).await?;
    let reserved = answer::reservation(answer).map_err(|refusal| refusal.for_request(&request))?;
    Ok(Written::new(shared.as_seen(&requester, reserved))?.created())
}

/// Show one reservation
///
/// Users see their own reservations and those shared with them; operators and readers see all. The answer has the
/// request.
#[utoipa::path(
    get, path = "/v1/reservations/{id}", operation_id = "show_reservation", tag = "reservations",
    params(
        ("id" = ReservationIdText, Path, description = "Id of the reservation"),
        ("If-None-Match" = Option<String>, Header,
            pattern = r#"^(\*|(W/)?"[!#-~]*"( *, *(W/)?"[!#-~]*")*)$"#, example = json!("\"1-9f86d081\""),
            description = "Answer with 304 if the entity tag still matches"),
    ),
    responses(
        (status = 200, description = "The reservation", body = api::Reservation, headers(
            ("ETag" = String, description = "Version and digest of the reservation"),
        )),
        (status = 304, description = "Not modified", headers(("ETag" = String, description = "The same entity tag"))),
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
    let written = Written::new(shared.as_seen(&requester, answer::reservation(answer)?))?;
    let known = has_already(&headers, &written.tag)?;
    Ok(if known { written.not_modified() } else { written.shown() })
}

/// Prolong a hold
///
/// Without a body, one minute is requested. `held_for_seconds` of the answer is the granted time.
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

/// Extend a reservation
///
/// Moves the end to a later time, with the capacity that the reservation has at its end. If there is no room, it
/// stays unchanged. If-Match names the version that the decision was based on.
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

/// Commit a hold
///
/// With or without waiting jobs to run in it. Repeat it later to attach more jobs. If a job is unknown, belongs to
/// another user or does not wait, the call is refused and nothing is committed.
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
/// Moves a waiting job into a committed reservation. To submit a new job to a reservation, post it to /v1/jobs
/// instead.
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

/// Change a reservation
///
/// If the new terms are not available, the old ones stay. Of an active reservation only the end can change, and the
/// capacity to less. If-Match names the version that the decision was based on.
#[utoipa::path(
    put, path = "/v1/reservations/{id}", operation_id = "change_reservation", tag = "reservations",
    params(ReservationAndKey, SeenVersion),
    request_body = api::Change,
    responses(ReservationNow, Refused, OfBody, OfRoom, OfReservation, OfVersion)
)]
pub(super) async fn change(
    command: Command<ReservationId>,
    headers: HeaderMap,
    Document(mut change): Document<api::Change>,
) -> Answered {
    let version = demanded(&headers)?;
    if change.request.webhook.is_some() {
        let why = "the webhook cannot be changed; remove it from the request";
        return Err(Refusal::bad_request(why));
    }
    only_fixed(&change.request)?;
    let request = change.request.clone();
    projects::replace(&command.shared.projects, &command.requester.caller(), &mut change.request)?;
    let call = change.call(command.id, version);
    command.change(call).await.map_err(|refusal| refusal.for_request(&request))
}

/// Prepare a change
///
/// Used by brokers for every part of a co-reservation, so that all parts change or none. Old and new terms are both
/// held until the change is finished or expires; `held_for_seconds` of the answer is the time left. Give either
/// `request` or `end`. If-Match names the version that the decision was based on.
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
    change.request.iter().try_for_each(only_fixed)?;
    let both = || Refusal::new(Code::BadJson, "give exactly one of request and end");
    let call = change.call(command.id, version).ok_or_else(both)?;
    command.change(call).await
}

/// Finish a change
///
/// Accepts the prepared terms, or keeps the old ones. Idempotent.
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

/// Release capacity
///
/// Releases part of the capacity, or all of it, from a point in time on. If the reservation has several parts, name
/// one.
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

/// Cancel a reservation
///
/// A reservation that has not started is cancelled, an active one is terminated. An unknown id is blocked: if the
/// reservation arrives later, it is refused.
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
    /// Executes a change and returns the reservation.
    async fn change(self, call: Call) -> Answered {
        let answer = self.shared.command(&self.requester, self.key, call).await?;
        Ok(Written::new(self.shared.as_seen(&self.requester, answer::reservation(answer)?))?.shown())
    }
}

/// Path of probes. They change nothing, although the method is POST.
pub(super) const PATH: &str = "/v1/probes";

/// Probe
///
/// Returns offers, best first. Nothing is held; reserve one of them. A site answers requests with one part, a
/// broker requests with several.
#[utoipa::path(
    post, path = "/v1/probes", operation_id = "probe", tag = "reservations",
    request_body = api::Probe,
    responses((status = 200, description = "Offers", body = api::Offers), Refused, OfBody, OfRoom)
)]
pub(super) async fn probe(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
    Document(mut probe): Document<api::Probe>,
) -> Result<Response, Refusal> {
    shared.check_webhook(&probe.request)?;
    shared.settle(&requester, &mut probe.request).await?;
    let request = probe.request.clone();
    projects::replace(&shared.projects, &requester.caller(), &mut probe.request)?;
    let (answer, look_age) = shared.probe(&requester, probe.into()).await?;
    let maintenance = shared.maintenance_for(&request).await?;
    answer::offers(answer, look_age, maintenance).map_err(|refusal| refusal.for_request(&request))
}

/// Most maintenance windows in the answer to a probe, to bound its size. The calendar has more.
const MOST_MAINTENANCE: usize = 16;

/// Refuses a change to terms that may grow: the answer would not show whether they did.
fn only_fixed(request: &api::Request) -> Result<(), Refusal> {
    if request.up_to().is_empty() {
        return Ok(());
    }
    Err(Refusal::bad_request("a change has fixed terms; remove up_to, and probe first to see what fits"))
}

impl Shared {
    /// The maintenance of resources of this site that match a request, within its window.
    async fn maintenance_for(&self, request: &api::Request) -> Result<Vec<api::Maintenance>, Refusal> {
        let [part] = request.parts.as_slice() else { return Ok(Vec::new()) };
        let (part, window) =
            (part.clone(), Interval::new(part.earliest_start.time(), part.latest_end.time()));
        let seen = self.read(move |queries, _| {
            let mut seen = queries.maintenance(window);
            if seen.is_empty() {
                return seen;
            }
            let resources = queries.resources().into_iter();
            let is_named = |name: &Name| part.resource.as_ref().is_none_or(|wanted| wanted == name);
            let matching = resources.filter(|one| one.kind == part.kind && is_named(&one.name));
            let names: BTreeSet<Name> = matching.map(|one| one.name).collect();
            seen.retain(|(name, _)| names.contains(name));
            seen
        });
        Ok(answer::maintenance(seen).into_iter().take(MOST_MAINTENANCE).collect())
    }

    /// Refuses a webhook that the configuration does not allow.
    fn check_webhook(&self, request: &api::Request) -> Result<(), Refusal> {
        let Some(webhook) = &request.webhook else { return Ok(()) };
        let refused =
            self.outbox.as_ref().map_or_else(|| Some(not_allowed(webhook)), |outbox| outbox.refuses(webhook));
        refused.map_or(Ok(()), |why| Err(Refusal::bad_request(why)))
    }
}

/// The version in `If-Match`; `None` for `*`. The header is required.
pub(super) fn demanded(headers: &HeaderMap) -> Result<Option<u32>, Refusal> {
    let missing = || {
        let why = "a change needs If-Match: send the entity tag or the version that you have seen, such as If-Match: \"3\", or * \
                   for any version";
        Refusal::new(Code::NoVersion, why)
    };
    let tags = tags(headers, &IF_MATCH)?.ok_or_else(missing)?;
    match tags.as_slice() {
        [one] if one == "*" => Ok(None),
        [one] if one.starts_with("W/") => {
            let why = format!("If-Match is {one}, a weak tag, which never matches; send the tag unchanged");
            Err(Refusal::new(Code::Changed, why))
        }
        [one] => version(one).map(Some).ok_or_else(|| {
            let why =
                format!("If-Match is {one}, which is not a tag of this reservation; get it and send its tag");
            Refusal::new(Code::Changed, why)
        }),
        _ => Err(Refusal::bad_request("If-Match has several tags; send one")),
    }
}

/// The version in a tag. A version alone is accepted, too.
fn version(tag: &str) -> Option<u32> {
    let inside = tag.strip_prefix('"')?.strip_suffix('"')?;
    let version = inside.split_once('-').map_or(inside, |(version, _)| version);
    // `parse` accepts a plus sign.
    version.parse().ok().filter(|_| version.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether the client has the current state.
pub(super) fn has_already(headers: &HeaderMap, tag: &str) -> Result<bool, Refusal> {
    let tags = tags(headers, &IF_NONE_MATCH)?.unwrap_or_default();
    // `If-None-Match` uses the weak comparison (RFC 9110, 13.1.2).
    Ok(tags.iter().any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag))
}

/// The tags in a header, if it is present.
fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Vec<String>>, Refusal> {
    let mut tags = Vec::new();
    let mut there = false;
    for value in headers.get_all(name) {
        there = true;
        let bad = || Refusal::bad_request(format!("{name} is invalid; it should be a tag in quotes, or *"));
        let text = value.to_str().map_err(|_| bad())?;
        split(text, &mut tags).ok_or_else(bad)?;
    }
    Ok(there.then_some(tags))
}

/// Splits a list of tags at commas. A tag may contain commas itself.
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
        #![proptest_config(bookahead_tests::cases::cases(500))]
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
