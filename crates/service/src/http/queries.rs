//! What can be looked at: lists of reservations, resources, schedules, and the register of sites; and how a site
//! enters that.

use super::answer::{Refusal, out_of_calendar, written};
use super::limits::over_limit;
use super::listener::{PeerAddress, UNIX};
use super::openapi::{OfBody, Refused};
use super::request::{Document, Filters, identity};
use super::requester::{Registering, Requester};
use super::serve::Peer;
use super::{Shared, answer};
use axum::Extension;
use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use axum::response::Response;
use bookahead_api as api;
use bookahead_party::{Filter, Heartbeat};
use bookahead_plan::{Interval, Seconds, Time};
use bookahead_protocol::Moment;
use std::sync::Arc;

/// So many on a page, where nobody says how many.
pub(super) const PAGE: usize = 100;

/// So much of a schedule, where nobody says how much.
const DAY: Seconds = Seconds(86_400);

/// List reservations
///
/// Users see their own; operators and readers see all. In order of their ids, a page at a time.
#[utoipa::path(
    get, path = "/v1/reservations", operation_id = "list_reservations", tag = "reservations",
    params(api::ListQuery),
    responses((status = 200, description = "A page of them", body = api::Reservations), Refused)
)]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
    Filters(query): Filters<api::ListQuery>,
) -> Result<Response, Refusal> {
    let filter = filter(&shared, &requester, query)?;
    let (page, more) = if is_narrow(&filter) {
        shared.read_long(move |queries, now| queries.list(now, &filter)).await?
    } else {
        shared.read(|queries, now| queries.list(now, &filter))
    };
    let next = page.last().filter(|_| more).map(|last| last.id.to_string());
    let reservations = page.into_iter().map(api::Reservation::try_from).collect::<Result<_, _>>();
    written(&api::Reservations { reservations: reservations.map_err(out_of_calendar)?, next })
}

/// Whether the whole book may have to be walked through for one page.
fn is_narrow(filter: &Filter) -> bool {
    let Filter { id, owner, states, resource, from, until, .. } = filter;
    id.is_some()
        || owner.is_some()
        || !states.is_empty()
        || resource.is_some()
        || from.is_some()
        || until.is_some()
}

fn filter(shared: &Shared, requester: &Requester, query: api::ListQuery) -> Result<Filter, Refusal> {
    let limit = query.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(PAGE);
    let after = query.cursor.as_deref().map(identity).transpose();
    let after = after.map_err(|_| Refusal::bad_request("cursor is not the next of any page"))?;
    Ok(Filter {
        id: query.id,
        owner: requester.whose(query.owner)?,
        states: query.state.unwrap_or_default().0.into_iter().map(Into::into).collect(),
        resource: query.resource,
        from: query.from.map(api::Timestamp::time),
        until: query.until.map(api::Timestamp::time),
        after,
        limit: limit.min(shared.limits.most_page),
    })
}

/// List resources
///
/// Of a site its own; of a broker those of all its peers, each with the name of its peer in front.
#[utoipa::path(
    get, path = "/v1/resources", operation_id = "list_resources", tag = "resources",
    responses((status = 200, description = "What there is", body = api::Resources), Refused)
)]
pub(super) async fn resources(State(shared): State<Arc<Shared>>, _: Requester) -> Result<Response, Refusal> {
    let seen = shared.read(|queries, _| queries.resources());
    written(&api::Resources { resources: seen.into_iter().map(Into::into).collect() })
}

/// Show schedules
///
/// What is taken when, for drawing: of the day that begins now, if nothing else is said. Of what belongs to others a
/// user sees only that it is there.
#[utoipa::path(
    get, path = "/v1/schedule", operation_id = "show_schedule", tag = "resources",
    params(api::ScheduleQuery),
    responses(
        (status = 200, description = "What is taken", body = api::Schedule),
        (status = 422, description = "More than is served at once", body = api::Problem,
            content_type = "application/problem+json"),
        Refused
    )
)]
pub(super) async fn schedule(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
    Filters(query): Filters<api::ScheduleQuery>,
) -> Result<Response, Refusal> {
    let (viewer, longest) = (requester.viewer(), shared.limits.longest_window.seconds());
    let api::ScheduleQuery { resource, from, until } = query;
    let seen = shared.read_long(move |queries, now| {
        let window = window(now, from.map(api::Timestamp::time), until.map(api::Timestamp::time), longest)?;
        Ok::<_, Refusal>(queries.schedule(now, &viewer, window, resource.as_ref()))
    });
    written(&answer::schedule(seen.await??))
}

/// What is looked at: from now, and for a day, where nothing is said.
fn window(
    now: Moment,
    from: Option<Time>,
    until: Option<Time>,
    longest: Seconds,
) -> Result<Interval, Refusal> {
    let begin = from.unwrap_or(now.second());
    let window = Interval::new(begin, until.unwrap_or(begin + DAY));
    if window.is_empty() {
        return Err(Refusal::bad_request(
            "until should be after from, which is the present where it is not given",
        ));
    }
    if window.length() > longest {
        let why =
            format!("between from and until lie {} seconds; at most {longest} are shown", window.length());
        return Err(over_limit(why));
    }
    Ok(window)
}

/// List sites
///
/// Whoever answers comes first; then, of a broker, the sites and brokers that it knows.
#[utoipa::path(
    get, path = "/v1/sites", operation_id = "list_sites", tag = "sites",
    responses((status = 200, description = "Who is known", body = api::Sites), Refused)
)]
pub(super) async fn sites(State(shared): State<Arc<Shared>>, _: Requester) -> Result<Response, Refusal> {
    let known = shared.read(|queries, now| queries.sites(now));
    written(&api::Sites { sites: known.into_iter().map(answer::site).collect() })
}

/// Register a site
///
/// A site or broker says to a broker that it is there, and what it offers; it says so again and again.
#[utoipa::path(
    post, path = "/v1/sites", operation_id = "register_site", tag = "sites",
    request_body = api::Heartbeat,
    responses(
        (status = 204, description = "It is known now"),
        (status = 404, description = "A site keeps no register", body = api::Problem,
            content_type = "application/problem+json"),
        Refused, OfBody
    )
)]
pub(super) async fn register(
    State(shared): State<Arc<Shared>>,
    Registering(requester): Registering,
    peer: Option<Extension<ConnectInfo<Peer>>>,
    Document(heartbeat): Document<api::Heartbeat>,
) -> Result<StatusCode, Refusal> {
    // Whoever is elsewhere must not have the broker open files of this machine.
    let is_local =
        peer.is_some_and(|Extension(ConnectInfo(peer))| matches!(peer.address, PeerAddress::Account(_)));
    if heartbeat.url.starts_with(UNIX) && !is_local {
        let why =
            "a Unix socket can only be registered by a caller that comes through one; give url a web address";
        return Err(Refusal::bad_request(why));
    }
    requester.is_about(&heartbeat.name);
    // At an address where nobody is asked who calls, nobody is known; on a socket the account is.
    let is_known = is_local || !shared.authenticator.is_open();
    let registered_by = is_known.then(|| requester.subject().clone());
    let heartbeat = Heartbeat { registered_by, ..answer::heartbeat_from(heartbeat) };
    let heard = shared.party.register(shared.limits.patience.duration(), heartbeat, None).await;
    heard.map_err(|why| shared.unanswered(why))??;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_from_now_is_looked_at_where_nothing_is_said() {
        let window = |from: Option<i64>, until: Option<i64>| {
            let (from, until) = (from.map(Time), until.map(Time));
            window(Moment(5_500), from, until, Seconds(100_000)).map_err(|refusal| refusal.code().to_owned())
        };
        let of = |begin, end| Ok(Interval::new(Time(begin), Time(end)));
        assert_eq!(window(None, None), of(5, 86_405));
        assert_eq!(window(Some(7), None), of(7, 86_407));
        assert_eq!(window(None, Some(9)), of(5, 9));
        assert_eq!(window(None, Some(5)), Err("bad-request".into()));
        assert_eq!(window(Some(9), Some(9)), Err("bad-request".into()));
        assert_eq!(window(Some(0), Some(100_001)), Err("over-limit".into()));
        assert_eq!(window(Some(i64::MIN), Some(i64::MAX)), Err("over-limit".into()));
    }
}
